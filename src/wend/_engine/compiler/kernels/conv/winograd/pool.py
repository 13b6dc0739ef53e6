"""Max pooling of a convolution's result in registers: the greatest element of each 2 x 2.

Where squares or lines of sums are joined to the output (see `winograd.tiles_4x4` and
`winograd.tiles_4x1`), windows of 2 x 2 lie whole in registers. The pooling can then be done before
the convolution's tail (its fused elementwise ops). This requires that only the pooling reads the
convolution's result, or the tail's result, and that the tail keeps the order of numbers. The
greatest sum of each window is taken first, so only a quarter of the elements is handed to the tail
and stored. The result is the same bit by bit, but for the sign of zeros.

The shape of the windows, and the kernel that computes a convolution, depend on run-time sizes. So
the step of the pooling runs in any case. The convolution notes in a word, the flag, whether it has
pooled already, and then the step does nothing.

    void tell_pooled(args, may)                     notes whether the convolution pools, if it may
    void pool_squares(args)                         `tiles_4x4`, of what the windows cover
    void join_squares(args, sums, line, apart, first, count)
    void join_pooled(args, sums, line, apart, first, count)
    void pool_lines(sums, rows, to, apart)
    void hand_pooled(args, tile, apart, rows, first, top, left, columns, image)

`pool`, a word of the convolution's argument block, is null, or points at the words POOL:

    flag                    pointer to the word that says whether the convolution has pooled
    values state            pointer to the result of the pooling, dense; the state of an epilogue
                            whose columns are those of this result
    high wide               the extents of the pooling's result
    kernel_... step_... pad_... dilation_...    of the windows
"""

from __future__ import annotations

from wend._engine.compiler.kernels.conv.winograd.squares import WIDE, halves, parameters
from wend._engine.compiler.kernels.conv.winograd.tiles_4x4 import (
    FILTERS,
    JOINED,
    WIDE_VECTORS,
    SquareTiles,
    cut,
    join_columns,
    panel_runs,
    square_of,
    woven,
)
from wend._engine.compiler.kernels.conv.winograd.transforms import join_line_4
from wend._engine.compiler.kernels.matmul.macrokernel import arguments
from wend._engine.compiler.kernels.matmul.microkernel import TileConfig, call_epilogue
from wend._engine.compiler.kernels.matmul.packing import shuffled
from wend._engine.compiler.llvm_ir.function import Routine

POOL = (
    "flag values state high wide kernel_height kernel_width step_height step_width "
    "pad_height pad_width dilation_height dilation_width"
).split()
_WINDOW = {"kernel": 2, "step": 2, "pad": 0, "dilation": 1}

_EXTENTS = ("out_height", "out_width")
#: The most neighbouring squares whose windows make a tile.
_GROUP = 8
_SIDE = WIDE.side // 2


def pool_functions(shape: TileConfig, names: list[str]) -> list[str]:
    """The texts of these functions, for a processor that has those of `winograd.tiles_4x4`."""
    return [
        _tell_pooled(names),
        _pool_squares(names),
        _hand_pooled(shape, names),
        _join_squares(cut(shape, WIDE_VECTORS), names),
        _join_pooled(cut(shape, WIDE_VECTORS), names),
        _pool_lines(cut(shape, 2)),
    ]


def is_pooled(f: Routine, a: dict[str, str]) -> str:
    """Whether the convolution pools, as noted by `tell_pooled`: an i1."""
    flag = f.let("alloca i64, align 8")
    f.store("i64", "0", flag, 8)
    with f.when(f.is_("ne", a["pool"], "0")):
        f.store("i64", f.load("i64", _words(f, a["pool"])["flag"], 8), flag, 8)
    return f.is_("ne", f.load("i64", flag, 8), "0")


def pooled_size(f: Routine, a: dict[str, str]) -> tuple[str, str]:
    """The extents of the pooled result, down and across."""
    return f.div(a["out_height"], "2"), f.div(a["out_width"], "2")


def _words(f: Routine, pool: str) -> dict[str, str]:
    """Load the words POOL at an address, by name."""
    base = f.let(f"inttoptr i64 {pool} to ptr")
    kinds = {name: "ptr" if name in ("flag", "values", "state") else "i64" for name in POOL}
    return {
        name: f.load(kind, f.at(base, 8 * i), 8) for i, (name, kind) in enumerate(kinds.items())
    }


def _tell_pooled(names: list[str]) -> str:
    f = Routine("tell_pooled", parameters("ptr args, i1 may"), internal=True)
    a = arguments(f, names, "")
    with f.when(f.is_("ne", a["pool"], "0")):
        pool = _words(f, a["pool"])
        condition = "%may"
        for what, number in _WINDOW.items():
            for side in ("height", "width"):
                condition = f.both(condition, f.is_("eq", pool[f"{what}_{side}"], str(number)))
        for name, extent in zip(("high", "wide"), pooled_size(f, a)):
            condition = f.both(condition, f.is_("eq", pool[name], extent))
        f.store("i64", f.let(f"zext i1 {condition} to i64"), pool["flag"], 8)
    return f.text()


def _pool_squares(names: list[str]) -> str:
    """The text of `pool_squares`: it computes squares, without a last odd row or column if pooled.

    A last odd row or column of the output is in no window.
    """
    f = Routine("pool_squares", parameters("ptr args"), internal=True)
    a = arguments(f, names, "")
    even = f.let(f"alloca [{len(names)} x i64], align 8")
    with f.when(is_pooled(f, a)):
        for i, name in enumerate(names):
            word = f.mul(f.div(a[name], "2"), "2") if name in _EXTENTS else a[name]
            f.store("i64", word, f.at(even, 8 * i), 8)
        f.line(f"call void @winograd_wide(ptr {even})")
        f.leave_when("true")
    f.line("call void @winograd_wide(ptr %args)")
    return f.text()


def _hand_pooled(shape: TileConfig, names: list[str]) -> str:
    """The text of `hand_pooled`: it hands two tiles to the epilogue, or stores them.

    The tiles lie `apart` bytes apart, and have `rows` filters from `first` on. The first window is
    at row `top` and column `left` of the pooled image.
    """
    words = "ptr args, ptr tile, i64 apart, i64 rows, i64 first, i64 top, i64 left, i64 columns"
    f = Routine("hand_pooled", parameters(words + ", i64 image"), internal=True)
    a = arguments(f, names, "epilogue")
    pool = _words(f, a["pool"])
    image = f.add("%image", a["origin"])
    handed = f.is_("ne", a["epilogue"], "null", "ptr")
    area = f.mul(pool["high"], pool["wide"])
    row = f.add(f.mul(image, a["filters"]), "%first")
    to = f.at(pool["values"], f.mul(f.mul(row, area), str(shape.size)))
    with f.loop("0", f.minimum(f.sub(pool["high"], "%top"), str(_SIDE))) as down:
        tile = f.at("%tile", f.mul(down, "%apart"))
        column = f.add(f.mul(f.add("%top", down), pool["wide"]), "%left")
        with f.when(handed):
            there = ("%rows", "%columns"), ("%first", column), (image, "0")
            call_epilogue(f, a["epilogue"], tile, *there, pool["state"])
        with f.when(f.let(f"xor i1 {handed}, true")):
            f.line(
                f"call void @store_lines(ptr {tile}, i64 %rows, i64 %columns, "
                f"ptr {f.at(to, f.mul(column, str(shape.size)))}, "
                f"i64 {f.mul(area, str(shape.size))})"
            )
    return f.text()


def _greater(f: Routine, shape: TileConfig, x: str, before: str) -> str:
    """Return the greater element of each lane of two vectors.

    The result is the element of `before` where both are equal, and NaN where either is NaN.
    """
    kind, bits = shape.vector, f"<{shape.lanes} x i1>"
    more = f.let(f"fcmp ogt {kind} {x}, {before}")
    greater = f.let(f"select {bits} {more}, {kind} {x}, {kind} {before}")
    none = f.let(f"fcmp uno {kind} {x}, {x}")
    return f.let(f"select {bits} {none}, {kind} {x}, {kind} {greater}")


def _greater_of_pairs(f: Routine, shape: TileConfig, x: str, y: str) -> str:
    """Return the greater of each two neighbours in two vectors, in a single vector.

    The results of `x` come first, then those of `y`.
    """
    if shape.masks:  # here an instruction picks any lanes from two vectors
        even, odd = halves(f, shape, [x, y])
        return _greater(f, shape, odd, even)
    even = shuffled(f, shape, x, y, [0, 2, 8, 10, 4, 6, 12, 14], shape.lanes)
    odd = shuffled(f, shape, x, y, [1, 3, 9, 11, 5, 7, 13, 15], shape.lanes)
    best = _greater(f, shape, odd, even)
    return shuffled(f, shape, best, "poison", [0, 1, 4, 5, 2, 3, 6, 7], shape.lanes)


def _join_squares(shape: TileConfig, names: list[str]) -> str:
    """The text of `join_squares`: it makes the output of a chunk's squares, pooled or not."""
    f = Routine("join_squares", parameters(JOINED), internal=True)
    pooled = is_pooled(f, arguments(f, names, ""))
    operands = ", ".join(f"{kind} %{name}" for kind, name in parameters(JOINED))
    with f.when(pooled):
        f.line(f"call void @join_pooled({operands})")
        f.leave_when("true")
    with f.loop("0", "%count", str(shape.panel)) as column:
        valid = f.minimum(f.sub("%count", column), str(shape.panel))
        sums = f.at("%sums", f.mul(column, str(shape.size)))
        operands = f"ptr {sums}, i64 %line, i64 %apart, i64 {f.add('%first', column)}, i64 {valid}"
        f.line(f"call void @join_whole(ptr %args, {operands})")
    return f.text()


def _join_pooled(shape: TileConfig, names: list[str]) -> str:
    """The text of `join_pooled`: it makes the pooled output of a chunk's squares, for all filters.

    Each square has two lines of two windows. Each line is stored as a pair.
    """
    f = Routine("join_pooled", parameters(JOINED), internal=True)
    a = arguments(f, names, "")
    unit = shape.size
    room = SquareTiles.of(f, shape, a, WIDE.few, _GROUP, _SIDE)
    places, tiles, tile = room.places, room.tiles, room.tile
    _, across = pooled_size(f, a)
    with f.loop("0", a["filters"], str(FILTERS)) as first:
        rows = f.minimum(f.sub(a["filters"], first), str(FILTERS))
        with room.vectors(f, shape, first, rows) as (here, squares, to):
            best: list[list[str]] = []
            for first_line in (0, 1):
                columns = join_columns(f, shape, here, first_line)
                for part in range(_SIDE):
                    four = join_line_4(f, shape, [column[part] for column in columns])
                    two = [_greater(f, shape, four[k + 1], four[k]) for k in (0, 2)]
                    if first_line:
                        both = zip(two, best[part], strict=True)
                        best[part] = [_greater(f, shape, low, high) for low, high in both]
                    else:
                        best.append(two)
            for down, (one, other) in enumerate(best):
                # Within each four lanes, first the pairs of two squares, then those of the
                # remaining squares.
                for second, order in enumerate(woven(shape)):
                    pairs = shuffled(f, shape, one, other, order, shape.lanes)
                    for k in range(shape.lanes // 2):
                        lanes = [2 * k, 2 * k + 1]
                        windows = shuffled(f, shape, pairs, "poison", lanes, shape.lanes)
                        square = square_of(shape, 4 * (k // 2) + 2 * second + k % 2)
                        offset = f.load("i64", f.at(squares, 8 * square), 8)
                        place = f.at(f.at(to, down * tile), offset)
                        f.store(f"<2 x {shape.element}>", windows, place, unit)
        with panel_runs(f, a, _GROUP) as (image, before, (y, x), count):
            left = f.mul(x, str(_SIDE))
            length = f.minimum(f.mul(count, str(_SIDE)), f.sub(across, left))
            made_ = f.at(tiles, f.load("i64", f.at(places, f.mul(before, "8")), 8))
            f.line(
                f"call void @hand_pooled(ptr %args, ptr {made_}, i64 {tile}, i64 {rows}, "
                f"i64 {first}, i64 {f.mul(y, str(_SIDE))}, i64 {left}, i64 {length}, i64 {image})"
            )
    return f.text()


def _pool_lines(shape: TileConfig) -> str:
    """The text of `pool_lines`: it makes two pooled tiles, half as wide, from six tiles of sums.

    Neighbouring tiles lie `apart` bytes apart.
    """
    f = Routine("pool_lines", parameters("ptr sums, i64 rows, ptr to, i64 apart"), internal=True)
    with f.loop("0", "%rows") as i:
        offset = f.mul(i, str(shape.tile_row))
        here, to = f.at("%sums", offset), f.at("%to", offset)
        halves: list[list[str]] = []
        for w in range(shape.vectors):
            sums = [
                f.load(
                    shape.vector,
                    f.at(f.at(here, w * shape.bytes), f.mul("%apart", str(k))),
                    shape.bytes,
                )
                for k in range(WIDE.seen)
            ]
            four = join_line_4(f, shape, sums)
            halves.append([_greater(f, shape, four[k + 1], four[k]) for k in (0, 2)])
        for down, (low, high) in enumerate(zip(*halves, strict=True)):
            best = _greater_of_pairs(f, shape, low, high)
            f.store(shape.vector, best, f.at(to, f.mul("%apart", str(down))), shape.size)
    return f.text()
