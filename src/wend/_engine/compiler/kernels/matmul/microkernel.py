"""The microkernel of a matrix product: it computes a tile of the result in registers.

A tile is `rows` rows by `width` vectors. A step of depth takes an element of each row of the left
operand. The element is spread over a vector, and multiplied with a row of the right operand's
panel.

    void tile_RxW(a, a_row, a_step, b, b_step, depth, before, before_row, out, out_row, valid,
                  soon, soon_step, soon_halved)

    a + i * a_row + k * a_step     element (i, k) of the left operand
    b + k * b_step                 W vectors, one after another
    before                         null, or the address of sums to add to the result
    valid                          the number of lanes of the last vector in use, 1 to all
    soon + (k >> soon_halved) * soon_step   data for later tiles, prefetched into the second-level
                                   cache

    void packing_R(...)            a tile of a whole panel, which also packs the panel: its rows are
                                   copied to `soon` in order

    void strip_R(a, a_row, a_step, b, b_step, b_apart, depth, panels, before, out, out_row,
                 soon, soon_apart, soon_turns, soon_step, soon_halved)

                                   tiles of the widest panels side by side, with `before` null or
                                   equal to `out`

All strides are in bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from wend._engine.base.records import Record
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.jit import Target
from wend._engine.compiler.llvm_ir.masks import store_counted, store_lanes
from wend._engine.compiler.llvm_ir.text import Text

#: The parameters of an epilogue: see `matmul.matmul`.
EPILOGUE = [
    ("ptr", "tile"),
    *(("i64", word) for word in "rows columns row column batch0 batch1".split()),
    ("ptr", "state"),
]
# The types of parameters of functions that compute a part of a product; the rest are i64.
_KINDS = {"accumulate": "i1"} | dict.fromkeys(
    "left right out epilogue state scratch tile".split(), "ptr"
)
#: The bytes of a cache line.
LINE = 64
# The steps by which a panel's row is prefetched ahead, by the bytes of an element: measured.
_AHEAD = {4: 24, 8: 8}
# Rows that are a multiple of _CROWDED bytes apart, within _NEARLY bytes, evict each other from the
# first-level cache. Such rows are prefetched only _LATE steps ahead.
_CROWDED, _NEARLY, _LATE = 1024, 128, 8
# The steps in a turn of the unrolled loop, where operands lie at known distances.
_TURN = 4
# The most steps of tiles that prefetch the lines to store to: measured.
_SHALLOW = 8


def parameters(names: str) -> list[tuple[str, str]]:
    """The (type, name) pairs of the parameters of a function that computes a part of a product."""
    return [(_KINDS.get(name, "i64"), name) for name in names.split()]


class TileConfig(Record):
    """The sizes of tiles for a processor and a type of accumulators.

    element: LLVM's name of the type
    size: the bytes of an element
    lanes: the elements in a vector
    rows, vectors: the extents of the largest tile
    masks: whether masked stores are cheap
    moves: whether masked stores are slow, but a single instruction permutes a vector's lanes freely
    line: the elements between rows of a tile that is handed on; 0: the columns of a panel
    registers: whether the processor has registers by name; WebAssembly has none
    """

    element: str
    size: int
    lanes: int
    rows: int
    vectors: int
    masks: bool = True
    moves: bool = False
    line: int = 0
    registers: bool = True

    @staticmethod
    def of(target: Target, element: str) -> TileConfig:
        """Return the configuration of a processor. The largest tile fills the registers.

        The registers hold the accumulators, a row of the panel, and the spread elements.
        """
        size = 8 if element == "double" else 4
        rows, vectors = (8, 3) if target.registers >= 32 else (6, 2)
        masks = target.masks
        moves = target.has("avx2") and not masks
        lanes, named = target.vector_bytes // size, not target.is_wasm
        return TileConfig(element, size, lanes, rows, vectors, masks, moves, registers=named)

    @cached_property
    def vector(self) -> str:
        """LLVM's name of the vector type."""
        return f"<{self.lanes} x {self.element}>"

    @property
    def suffix(self) -> str:
        """The suffix of the names of LLVM's functions on these vectors."""
        return f"v{self.lanes}f{self.size * 8}"

    @property
    def bytes(self) -> int:
        """The bytes of a vector."""
        return self.lanes * self.size

    @property
    def fills_lines(self) -> bool:
        """Whether a vector is a cache line."""
        return self.bytes == LINE

    @property
    def panel(self) -> int:
        """The columns of the widest panel."""
        return self.vectors * self.lanes

    @property
    def tile_row(self) -> int:
        """The bytes between rows of a tile that is handed on."""
        return (self.line or self.panel) * self.size

    @property
    def hands_strips(self) -> bool:
        """Whether an epilogue may get several tiles as one: calls are costly for small tiles."""
        return self.rows < 8

    @property
    def reach(self) -> int:
        """The rows addressed from the same base: more rows need registers for odd multiples."""
        return 8 if self.rows == 8 else 3

    def sets(self, rows: int, width: int) -> int:
        """The number of sums for each vector of a tile: steps of depth take turns among them."""
        if self.rows < 8 and (rows, width) == (4, 1):
            return 2  # as with 5 and 6 rows, so that parts of any rows give the same results
        return max(1, min(4, 12 // (rows * width)))

    def tallest(self, width: int) -> int:
        """The rows of the largest tile of `width` vectors, if rows are read in place."""
        if width == self.vectors:
            return self.rows
        return 2 * self.rows if width == 1 else self.rows * self.vectors // width


def tile_name(rows: int, width: int, packing: bool = False) -> str:
    """The name of the function for a tile. packing: whether the function also packs the panel"""
    return f"packing_{rows}" if packing else f"tile_{rows}x{width}"


def tiles(shape: TileConfig) -> str:
    """The texts of the functions for all tiles, up to the largest and the tallest.

    The tables `@tiles`, `@packing` and `@strips` hold the functions' addresses.
    """
    sizes = [(r + 1, w + 1) for r in range(shape.tallest(1)) for w in range(shape.vectors)]
    tile_sizes = [(rows, width) for rows, width in sizes if rows <= shape.tallest(width)]
    table = ", ".join(f"ptr @{tile_name(*x)}" if x in tile_sizes else "ptr null" for x in sizes)
    texts = [_tile(shape, *size) for size in tile_sizes]
    heights = range(1, shape.rows + 1)
    texts += [_tile(shape, rows, shape.vectors, packing=True) for rows in heights]
    texts += [_strip(shape, rows) for rows in heights]
    packing = ", ".join(f"ptr @{tile_name(rows, 0, packing=True)}" for rows in heights)
    strips = ", ".join(f"ptr @strip_{rows}" for rows in heights)
    return (
        f"@tiles = internal constant [{len(sizes)} x ptr] [{table}]\n"
        f"@packing = internal constant [{shape.rows} x ptr] [{packing}]\n"
        f"@strips = internal constant [{shape.rows} x ptr] [{strips}]\n\n" + "\n".join(texts)
    )


def lane_mask(f: Routine, lanes: int, valid: str) -> str:
    """A mask of the first `valid` lanes, or of all lanes if there are fewer."""
    return f.let(f"icmp slt <{lanes} x i32> {counted(lanes)}, {_limited(f, lanes, valid)}")


def lane_range(f: Routine, lanes: int, first: str, last: str) -> str:
    """A mask of the lanes first ... last - 1.

    `first` and `last` may be below 0 or above the number of lanes.
    """
    above = f.let(f"icmp sge <{lanes} x i32> {counted(lanes)}, {_limited(f, lanes, first)}")
    return f.let(f"and <{lanes} x i1> {above}, {lane_mask(f, lanes, last)}")


def lanes_where(f: Routine, lanes: int, condition: str, mask: str) -> str:
    """A mask of the lanes in `mask` where an i1 holds, else of no lanes."""
    kind = f"<{lanes} x i1>"
    return f.let(f"select i1 {condition}, {kind} {mask}, {kind} zeroinitializer")


def counted(lanes: int) -> str:
    """The vector of the lanes' numbers, as i32."""
    return f"<{', '.join(f'i32 {i}' for i in range(lanes))}>"


def spread_integer(f: Routine, lanes: int, number: str) -> str:
    """A vector with the lower half of an i64 in all lanes, as i32."""
    small = f.let(f"trunc i64 {number} to i32")
    first = f.let(f"insertelement <{lanes} x i32> poison, i32 {small}, i64 0")
    return f.let(
        f"shufflevector <{lanes} x i32> {first}, <{lanes} x i32> poison, "
        f"<{lanes} x i32> zeroinitializer"
    )


def _limited(f: Routine, lanes: int, number: str) -> str:
    """A vector with a number in all lanes; a number above `lanes` becomes `lanes`."""
    return spread_integer(f, lanes, f.minimum(number, str(lanes)))


def _tile(shape: TileConfig, rows: int, width: int, packing: bool = False) -> str:
    names = "a a_row a_step b b_step depth before before_row out out_row valid soon soon_step"
    names += " soon_halved"
    pointers = {"a", "b", "before", "out", "soon"}
    parameters = [("ptr" if name in pointers else "i64", name) for name in names.split()]
    f = Routine(tile_name(rows, width, packing), parameters, internal=True)
    _fetch_goal(f, shape, rows, width, "%out")
    sums = _multiply(f, shape, rows, width, packing)
    _store(f, shape, sums, width, "%valid", ("%before", "%before_row"), ("%out", "%out_row"))
    return f.text()


def _strip(shape: TileConfig, rows: int) -> str:
    names = "a a_row a_step b b_step b_apart depth panels before out out_row"
    names += " soon soon_apart soon_turns soon_step soon_halved"
    pointers = {"a", "b", "before", "out", "soon"}
    parameters = [("ptr" if name in pointers else "i64", name) for name in names.split()]
    f = Routine(f"strip_{rows}", parameters, internal=True)
    width = shape.vectors
    fresh = f.is_("eq", "%before", "null", "ptr")
    with f.turns("0", "%panels") as loop:
        b, out = loop.carry("ptr", "%b"), loop.carry("ptr", "%out")
        soon, step = loop.carry("ptr", "%soon"), loop.carry("i64", "%soon_step")
        _fetch_goal(f, shape, rows, width, out)
        sums = _multiply(f, shape, rows, width, False, b, (soon, step))
        before = f.select(fresh, "null", out, "ptr")
        _store(f, shape, sums, width, "", (before, "%out_row"), (out, "%out_row"))
        loop.become(b, f.at(b, "%b_apart"))
        loop.become(out, f.at(out, width * shape.bytes))
        there = f.is_("slt", f.add(loop.index, "1"), "%soon_turns")
        loop.become(soon, f.select(there, f.at(soon, "%soon_apart"), "%soon", "ptr"))
        loop.become(step, f.select(there, "%soon_step", "0"))
    return f.text()


def _fetch_goal(f: Routine, shape: TileConfig, rows: int, width: int, out: str) -> None:
    # With few steps, stores would wait for their cache lines. Vectors as long as a line wait for
    # two lines each where rows do not begin at lines.
    wanted = f.is_("sle", "%depth", str(_SHALLOW))
    split = "false"
    if width > 1 and shape.fills_lines:
        split = f.is_("ne", f.let(f"and i64 %out_row, {LINE - 1}"), "0")
        wanted = f.either(wanted, split)
    lines = [f.at(out, f.mul("%out_row", str(row))) for row in range(rows)]
    with f.when(wanted):
        for line in lines:
            for w in range(width):
                fetch(f, f.at(line, w * shape.bytes), level=1, written=True)
    if split != "false":
        with f.when(split):
            for line in lines:
                fetch(f, f.at(line, width * LINE - shape.size), level=1, written=True)


def _store(
    f: Routine,
    shape: TileConfig,
    sums: list[str],
    width: int,
    valid: str,
    before: tuple[str, str],
    out: tuple[str, str],
) -> None:
    """Store sums, after adding those in memory at `before`.

    before, out: the address of the first row, and the bytes between rows; `before` may be null
    valid: the lanes of the last vector to store; "" for all
    """
    rows = len(sums) // width
    masks = [None] * (width - 1) + [lane_mask(f, shape.lanes, valid) if valid else None]
    nothing = f.is_("eq", before[0], "null", "ptr")
    number = f.fresh()[1:]
    plain = f.block
    f.line(f"br i1 {nothing}, label %last.{number}, label %more.{number}")
    f.label(f"more.{number}")
    more = []
    for row in range(rows):
        line = f.at(before[0], f.mul(before[1], str(row)))
        for w in range(width):
            old = masked_load(f, shape, f.at(line, w * shape.bytes), masks[w])
            more.append(f.let(f"fadd {shape.vector} {sums[row * width + w]}, {old}"))
    f.line(f"br label %last.{number}")
    f.label(f"last.{number}")
    sums = [
        f.let(f"phi {shape.vector} [ {x}, %{plain} ], [ {y}, %more.{number} ]")
        for x, y in zip(sums, more)
    ]
    places = []
    for row in range(rows):
        line = f.at(out[0], f.mul(out[1], str(row)))
        for w in range(width):
            place = f.at(line, w * shape.bytes)
            if masks[w] is None or shape.masks:
                masked_store(f, shape, sums[row * width + w], place, masks[w])
            else:
                places.append(place)
    if places:
        last = sums[width - 1 :: width]
        store_counted(f, shape.element, shape.lanes, last, places, shape.size, valid)


def spread(f: Routine, shape: TileConfig, one: str) -> str:
    """A vector with the same accumulator in all lanes."""
    first = f.let(f"insertelement {shape.vector} poison, {shape.element} {one}, i64 0")
    return f.let(
        f"shufflevector {shape.vector} {first}, {shape.vector} poison, "
        f"<{shape.lanes} x i32> zeroinitializer"
    )


def fused(f: Routine, shape: TileConfig, x: str, y: str, z: str) -> str:
    """x * y + z, of vectors of accumulators."""
    kind = shape.vector
    return f.let(f"call {kind} @llvm.fmuladd.{shape.suffix}({kind} {x}, {kind} {y}, {kind} {z})")


def masked_load(f: Routine, shape: TileConfig, pointer: str, mask: str | None) -> str:
    """Load a vector of accumulators, with zero in the lanes that the mask leaves out."""
    if mask is None:
        return f.load(shape.vector, pointer, shape.size)
    lanes = f"<{shape.lanes} x i1>"
    return f.let(
        f"call {shape.vector} @llvm.masked.load.{shape.suffix}.p0"
        f"(ptr {pointer}, i32 {shape.size}, {lanes} {mask}, {shape.vector} zeroinitializer)"
    )


def masked_store(f: Routine, shape: TileConfig, value: str, pointer: str, mask: str | None) -> None:
    """Store a vector of accumulators, except the lanes that the mask leaves out."""
    if mask is None:
        return f.store(shape.vector, value, pointer, shape.size)
    place = pointer, shape.size
    return store_lanes(f, shape.element, shape.lanes, value, place, mask, shape.masks)


def call_epilogue(
    f: Routine,
    epilogue: str,
    tile: str,
    extents: tuple[str, str],
    place: tuple[str, str],
    batch: tuple[str, str],
    state: str,
) -> None:
    """Write the call that hands a tile to an epilogue, see `matmul.matmul`.

    extents: the rows and the columns of the tile
    place: the tile's first row and column in the product
    batch: the place of the product in the batch
    """
    words = ", ".join(f"i64 {word}" for word in (*extents, *place, *batch))
    f.line(f"call void {epilogue}(ptr {tile}, {words}, ptr {state})")


def masked_add(f: Routine, shape: TileConfig, x: str, place: str, mask: str, added: str) -> None:
    """Store a vector under a mask, or add it to the vector in memory if the i1 `added` holds."""
    old = masked_load(f, shape, place, lanes_where(f, shape.lanes, added, mask))
    masked_store(f, shape, f.let(f"fadd {shape.vector} {x}, {old}"), place, mask)


def masked_update(
    f: Routine, shape: TileConfig, value: str, pointer: str, mask: str | None
) -> None:
    """Store as `masked_store` does, in the call's own memory: other lanes may be rewritten."""
    if mask is None or shape.masks:
        return masked_store(f, shape, value, pointer, mask)
    old = f.load(shape.vector, pointer, shape.size)
    lanes = f"<{shape.lanes} x i1>"
    new = f.let(f"select {lanes} {mask}, {shape.vector} {value}, {shape.vector} {old}")
    return f.store(shape.vector, new, pointer, shape.size)


def _multiply(
    f: Routine,
    shape: TileConfig,
    rows: int,
    width: int,
    packing: bool,
    b: str = "%b",
    soon: tuple[str, str] = ("%soon", "%soon_step"),
) -> list[str]:
    """Return the vectors of sums over the whole depth, row by row."""
    # Few sums would wait for earlier sums, so small tiles take several steps of depth in a turn.
    steps = shape.sets(rows, width)
    row_at = row_places(f, "%a", "%a_row", rows, shape.reach)
    whole = f.mul(f.div("%depth", str(steps)), str(steps)) if steps > 1 else "%depth"
    sums = ["zeroinitializer"] * (rows * width * steps)
    a, soon_b, done = "0", _panel_ahead(f, shape, width), "0"
    if steps == 1 and width == shape.vectors and not packing and shape.rows < 8:
        done, b, sums = _known_steps(f, shape, rows, b, sums, soon)
        a = f.mul(done, "%a_step")
    for start, stop, count in [(done, whole, steps), (whole, "%depth", 1)]:
        if start == stop:
            break
        with f.turns(start, stop, str(count)) as loop:
            a_now, b_now = loop.carry("i64", a), loop.carry("ptr", b)
            now = [loop.carry(shape.vector, x) for x in sums]
            at_a, at_b = a_now, b_now
            if not packing:
                number = f.let(f"lshr i64 {loop.index}, %soon_halved")
                # Tall tiles may prefetch their own rows: see `PrefetchTarget`.
                level = 1 if rows > shape.rows and shape.fills_lines else 2
                fetch(f, f.at(soon[0], f.mul(number, soon[1])), level)
            for step in range(count):
                if packing:
                    place = f.mul(f.add(loop.index, str(step)), str(width * shape.bytes))
                    _copy(f, shape, at_b, f.at("%soon", place), width)
                    if width * shape.bytes <= LINE:
                        # The last line of the next panel's row; its first line may be this row's.
                        fetch(f, f.at(at_b, 2 * width * shape.bytes - shape.size), level=2)
                part = slice(step * rows * width, (step + 1) * rows * width)
                fresh = multiply_step(f, shape, row_at(at_a), at_b, now[part], width, soon_b)
                for name, x in zip(now[part], fresh):
                    loop.become(name, x)
                at_a, at_b = f.add(at_a, "%a_step"), f.at(at_b, "%b_step")
            loop.become(a_now, at_a)
            loop.become(b_now, at_b)
        a, b, sums = a_now, b_now, now
        if count == 1:
            break
    while len(sums) > rows * width:
        half = len(sums) // 2 if len(sums) % (2 * rows * width) == 0 else rows * width
        rest = sums[2 * half :]
        sums = [f.let(f"fadd {shape.vector} {x}, {y}") for x, y in zip(sums[:half], sums[half:])]
        sums += rest
    return sums


def _known_steps(
    f: Routine, shape: TileConfig, rows: int, b: str, sums: list[str], soon: tuple[str, str]
) -> tuple[str, str, list[str]]:
    """Write an unrolled loop over most steps, where operands lie at known distances.

    Few addresses are then computed: a third of the instructions are not multiplications, against
    half with a single step a turn. This hardly matters for a thread alone on a core, but very much
    where another thread shares the core.

    Returns the number of steps done, the address of the panel's next row, and the sums.
    """
    width, done = shape.vectors, "0"
    line = width * shape.bytes
    whole = f.let(f"and i64 %depth, -{_TURN}")
    half = f.mul(f.let(f"lshr i64 {_TURN // 2}, %soon_halved"), soon[1])
    dense = f.is_("eq", "%b_step", str(line))
    # Half a turn prefetches a line. The second loop serves tiles that must prefetch more lines.
    dense = f.both(dense, f.is_("sle", half, str(LINE)))
    along = f.is_("eq", "%a_step", str(shape.size))
    across = f.is_("eq", "%a_step", str(rows * shape.size))
    across = f.both(across, f.is_("eq", "%a_row", str(shape.size)))
    # The left operand lies row after row, or step after step.
    for known, row, step in ((along, "%a_row", 1), (across, str(shape.size), rows)):
        stop = f.select(f.both(known, dense), whole, done)
        reach = rows if step > 1 else shape.reach
        firsts = [f.at("%a", f.mul(row, str(i))) for i in range(0, rows, reach)]
        with f.turns(done, stop, str(_TURN)) as loop:
            heads = [loop.carry("ptr", first) for first in firsts]
            panel = loop.carry("ptr", b)
            now = carried = [loop.carry(shape.vector, x) for x in sums]
            number = f.let(f"lshr i64 {loop.index}, %soon_halved")
            soon_now = f.at(soon[0], f.mul(number, soon[1]))
            for k in range(_TURN):
                if k % (_TURN // 2) == 0:
                    fetch(f, f.at(soon_now, half) if k else soon_now, level=2)
                at_b = f.at(panel, k * line)
                row_b = _panel_row(f, shape, at_b, width, str(_AHEAD[shape.size] * line))
                new_sums: list[str] = []
                for i in range(rows):
                    place = f.at(heads[i // reach], f.mul(row, str(i % reach)))
                    place = f.at(place, k * step * shape.size)
                    part = now[i * width : (i + 1) * width]
                    new_sums += _in_order(f, shape, add_products(f, shape, [place], row_b, part))
                now = new_sums
            for name, x in zip(carried, now, strict=True):
                loop.become(name, x)
            for head in heads:
                loop.become(head, f.at(head, _TURN * step * shape.size))
            loop.become(panel, f.at(panel, _TURN * line))
        done, b, sums = stop, panel, carried
    return done, b, sums


def _in_order(f: Routine, shape: TileConfig, sums: list[str]) -> list[str]:
    """Return the sums, and keep LLVM from moving loads across this place.

    A load moved up would find no free register. The barrier emits no instruction.
    """
    if not shape.registers:
        return sums
    kinds = ", ".join([shape.vector] * len(sums))
    operands = ", ".join(f"{shape.vector} {x}" for x in sums)
    places = ["=x"] * len(sums) + [str(i) for i in range(len(sums))] + ["~{memory}"]
    barrier = f.let(f'call {{{kinds}}} asm sideeffect "", "{",".join(places)}"({operands})')
    return [f.let(f"extractvalue {{{kinds}}} {barrier}, {i}") for i in range(len(sums))]


def _panel_ahead(f: Routine, shape: TileConfig, width: int) -> str:
    """The bytes from a panel's row to the data to prefetch: some steps ahead, or the next panel.

    Where rows lie apart and are few, rows some steps ahead would be beyond the panel.
    """
    line = str(width * shape.bytes)
    apart = f.is_("ne", "%b_step", line)
    few = f.is_("sle", "%depth", str(2 * _AHEAD[shape.size]))
    over = f.let(f"and i64 {f.add('%b_step', str(_NEARLY))}, {_CROWDED - 1}")
    crowded = f.both(apart, f.is_("sle", over, str(2 * _NEARLY)))
    steps = f.select(crowded, str(_LATE), str(_AHEAD[shape.size]))
    return f.select(f.both(few, apart), line, f.mul("%b_step", steps))


def _copy(f: Routine, shape: TileConfig, source: str, to: str, width: int) -> None:
    """Copy a row of a panel. to: the address of the copy"""
    for w in range(width):
        x = f.load(shape.vector, f.at(source, w * shape.bytes), shape.size)
        f.store(shape.vector, x, f.at(to, w * shape.bytes), shape.size)


def row_places(
    f: Routine, base: str, apart: str, rows: int, reach: int = 8
) -> Callable[[str], list[str]]:
    """Return a function from an offset in bytes to the addresses of all rows at that offset.

    Few registers hold odd multiples of `apart`. The addressing modes of loads double these.

    base: the address of the first row
    apart: the bytes between rows
    reach: the rows that are addressed from the same base
    """
    bases = [base] + [f.at(base, f.mul(apart, str(row))) for row in range(reach, rows, reach)]
    odd = {1: apart} | {n: f.mul(apart, str(n)) for n in range(3, min(rows, reach), 2)}

    def places(offset: str) -> list[str]:
        addresses = []
        for row in range(rows):
            if row % reach == 0:
                here = f.at(bases[row // reach], offset)
                addresses.append(here)
                continue
            count, times = row % reach, 1
            while count % 2 == 0:
                count, times = count // 2, times * 2
            addresses.append(
                f.at(here, odd[count] if times == 1 else f.mul(odd[count], str(times)))
            )
        return addresses

    return places


def fetch(f: Text, pointer: str, level: int, written: bool = False) -> None:
    """Prefetch a cache line.

    level: 1 or 2, for the first-level or the second-level cache
    written: whether the line will be written
    """
    kind = f"i32 {int(written)}, i32 {4 - level}, i32 1"
    f.line(f"call void @llvm.prefetch.p0(ptr {pointer}, {kind})")


def multiply_step(
    f: Routine,
    shape: TileConfig,
    places: list[str],
    b: str,
    sums: list[str],
    width: int,
    ahead: str = "",
) -> list[str]:
    """Return the sums after a step of depth.

    places: the addresses of an element of each row of the left operand
    b: the address of the panel's row
    ahead: the bytes from the panel's row to the data to prefetch; "" for the usual distance
    """
    return add_products(f, shape, places, _panel_row(f, shape, b, width, ahead), sums)


def _panel_row(f: Routine, shape: TileConfig, b: str, width: int, ahead: str) -> list[str]:
    """Load the vectors of a panel's row, and prefetch the data `ahead` bytes further on."""
    panel = [f.load(shape.vector, f.at(b, w * shape.bytes), shape.size) for w in range(width)]
    ahead = f.at(b, ahead or f.mul("%b_step", str(_AHEAD[shape.size])))
    for offset in range(0, width * shape.bytes, max(LINE, shape.bytes)):
        fetch(f, f.at(ahead, offset), level=1)
    return panel


def add_products(
    f: Routine, shape: TileConfig, places: list[str], panel: list[str], sums: list[str]
) -> list[str]:
    """Return sums + the elements at `places`, each times the vectors of a panel's row."""
    result = []
    for row, place in enumerate(places):
        factor = spread(f, shape, f.load(shape.element, place, shape.size))
        for w, x in enumerate(panel):
            result.append(
                f.let(
                    f"call {shape.vector} @llvm.fmuladd.{shape.suffix}({shape.vector} {factor}, "
                    f"{shape.vector} {x}, {shape.vector} {sums[row * len(panel) + w]})"
                )
            )
    return result
