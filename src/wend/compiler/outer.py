"""Products of few steps: each row of the result is written once, from one end to the other.

A tile would be set up and stored for as long as it is computed. Here elements of a few rows of the
left operand stay in registers while rows of the right one, which are in the first-level cache, go
by.

    void outer(left, left_row, left_step, right, right_step, depth, first_row, last_row,
               first_column, last_column, out, out_row)

The right operand's columns lie side by side. Strides are in bytes.

    void upright(left, left_step, right, right_step, right_column, depth, columns, first_row,
                 last_row, out, out_row)

The same for few columns, if the left operand's rows lie side by side: a vector has some rows of a
column, which are turned in registers.
"""

from __future__ import annotations

from wend.compiler.masks import store_first
from wend.compiler.packing import transposed
from wend.compiler.routine import Routine
from wend.compiler.tile import Shape, parameters, spread

__all__ = ["outer", "shallow", "thin", "upright"]

#: So many steps are few.
STEPS = 6
#: Bytes of the right operand that stay in the first-level cache.
NEAR = 1 << 14
#: So many columns are few; of more steps their sums would wait for one another.
COLUMNS, DEPTH = 4, 24

_PARAMETERS = (
    "left left_row left_step right right_step depth first_row last_row first_column last_column "
    "out out_row"
)
_UPRIGHT = (
    "left left_step right right_step right_column depth columns first_row last_row out out_row"
)


def shallow(f: Routine, shape: Shape, columns: str, depth: str) -> str:
    """Whether a product of so many columns has few steps (an i1)."""
    few = f.both(f.is_("sge", depth, "1"), f.is_("sle", depth, str(STEPS)))
    return f.both(few, f.is_("sge", columns, str(shape.lanes)))


def thin(f: Routine, shape: Shape, rows: str, columns: str, depth: str) -> str:
    """Whether a product of so many rows has few steps and columns (an i1)."""
    few = f.both(f.is_("sge", depth, "1"), f.is_("sle", depth, str(DEPTH)))
    narrow = f.both(f.is_("sge", columns, "1"), f.is_("sle", columns, str(_square(shape))))
    return f.both(f.both(few, narrow), f.is_("sge", rows, str(shape.lanes)))


def outer(shape: Shape) -> str:
    """The function."""
    f = Routine("outer", parameters(_PARAMETERS), internal=True)
    for depth in range(1, STEPS + 1):
        with f.when(f.is_("eq", "%depth", str(depth))):
            _steps(f, shape, depth)
    return f.text()


def _steps(f: Routine, shape: Shape, depth: int) -> None:
    """All of a product of that depth, by chunks of columns."""
    most = NEAR // (depth * shape.bytes) * shape.lanes
    height = 4 if depth <= 2 else 2
    rows = f.sub("%last_row", "%first_row")
    whole = f.sub("%last_row", f.let(f"urem i64 {rows}, {height}"))
    with f.turns("%first_column", "%last_column") as chunks:
        last = f.add(chunks.index, str(most))
        # None has less than a vector.
        rest = f.is_("slt", f.sub("%last_column", last), str(shape.lanes))
        last = f.select(rest, "%last_column", last)
        columns = chunks.step = f.sub(last, chunks.index)
        first = f.mul(chunks.index, str(shape.size))
        right, out = f.at("%right", first), f.at("%out", first)
        lines = [f.at(right, f.mul("%right_step", str(k))) for k in range(depth)]
        for start, stop, count in (("%first_row", whole, height), (whole, "%last_row", 1)):
            with f.loop(start, stop, str(count)) as row:
                _rows(f, shape, lines, out, row, count, columns)


def _rows(
    f: Routine, shape: Shape, lines: list[str], out: str, row: str, count: int, columns: str
) -> None:
    """Some rows of the result. lines: the right operand's rows"""
    numbers = [f.add(row, str(i)) for i in range(count)]
    lefts = [f.at("%left", f.mul(number, "%left_row")) for number in numbers]
    places = [[f.at(x, f.mul("%left_step", str(k))) for k in range(len(lines))] for x in lefts]
    factors = [
        [spread(f, shape, f.load(shape.element, place, shape.size)) for place in steps]
        for steps in places
    ]
    goals = [f.at(out, f.mul(number, "%out_row")) for number in numbers]
    # The last vector ends where the columns do: some are written twice.
    last = f.sub(columns, str(shape.lanes))
    with f.loop("0", columns, str(shape.lanes)) as j:
        offset = f.mul(f.minimum(j, last), str(shape.size))
        found = [f.load(shape.vector, f.at(line, offset), shape.size) for line in lines]
        for steps, goal in zip(factors, goals, strict=True):
            total = "zeroinitializer"
            for factor, y in zip(steps, found, strict=True):
                total = _more(f, shape, factor, y, total)
            f.store(shape.vector, total, f.at(goal, offset), shape.size)


def _more(f: Routine, shape: Shape, factor: str, y: str, total: str) -> str:
    return f.let(
        f"call {shape.vector} @llvm.fmuladd.{shape.suffix}"
        f"({shape.vector} {factor}, {shape.vector} {y}, {shape.vector} {total})"
    )


def upright(shape: Shape) -> str:
    """The function for few columns."""
    f = Routine("upright", parameters(_UPRIGHT), internal=True)
    # The last rows fill a vector too: some are written twice.
    last = f.sub("%last_row", str(shape.lanes))
    for count in range(1, _square(shape) + 1):
        with (
            f.when(f.is_("eq", "%columns", str(count))),
            f.loop("%first_row", "%last_row", str(shape.lanes)) as row,
        ):
            first = f.minimum(row, last)
            left = f.at("%left", f.mul(first, str(shape.size)))
            with f.turns("0", "%depth") as loop:
                totals = [loop.carry(shape.vector, "zeroinitializer") for _ in range(count)]
                x = f.load(shape.vector, f.at(left, f.mul(loop.index, "%left_step")), shape.size)
                line = f.at("%right", f.mul(loop.index, "%right_step"))
                for j, total in enumerate(totals):
                    place = f.at(line, f.mul("%right_column", str(j)))
                    factor = spread(f, shape, f.load(shape.element, place, shape.size))
                    loop.become(total, _more(f, shape, x, factor, total))
            _put_rows(f, shape, totals, f.at("%out", f.mul(first, "%out_row")))
    return f.text()


def _square(shape: Shape) -> int:
    """Columns whose vectors are turned at once."""
    return min(COLUMNS, shape.lanes)


def _put_rows(f: Routine, shape: Shape, columns: list[str], goal: str) -> None:
    """Store the rows of which these are columns, from an address on."""
    side = _square(shape)
    turned = transposed(f, shape, columns + ["poison"] * (side - len(columns)), shape.lanes)
    # Vector i has rows i, side + i, 2 * side + i, ...
    kind = f"<{side} x {shape.element}>"
    for row in range(shape.lanes):
        lanes = ", ".join(f"i32 {row // side * side + j}" for j in range(side))
        part = f.let(
            f"shufflevector {shape.vector} {turned[row % side]}, {shape.vector} poison, "
            f"<{side} x i32> <{lanes}>"
        )
        place = f.at(goal, f.mul("%out_row", str(row)))
        if len(columns) == side:
            f.store(kind, part, place, shape.size)
        else:
            count = str(len(columns))
            store_first(f, shape.element, side, [part], [place], shape.size, count)
