"""Packing the operands of a matrix product, so that tiles read memory from end to end.

    void pack_right(source, step, column, depth, columns, width, panel)

Packs a panel of the right operand. Row k of the panel is elements (k, 0) ... (k, width - 1);
`width` is a multiple of the lanes. Elements beyond `columns` are undefined (tiles never store
their sums).

    void pack_left(source, row, step, depth, tiles, each, more, tile, apart)

Packs tiles of the left operand: `each` rows in a tile, and one more in the first `more` tiles.
Packed tiles are `apart` bytes apart.

Strides are in bytes. Narrower types, bfloat16 and float16, are widened to float32 on the way.
"""

from __future__ import annotations

from wend._engine.compiler.kernels.matmul.macrokernel import GROUP
from wend._engine.compiler.kernels.matmul.microkernel import (
    LINE,
    TileConfig,
    lane_mask,
    masked_store,
)
from wend._engine.compiler.llvm_ir.function import Routine

# The steps of depth that are packed for all tiles before the next steps.
_PIECE = 32
# The least steps for which the alignment of lines matters when transposing: measured.
_LONG = 64

#: LLVM's name and the bytes of the types that operands may have, by dtype.
SOURCES = {
    "float32": ("float", 4),
    "float64": ("double", 8),
    "bfloat16": ("i16", 2),
    "float16": ("half", 2),
}


# The suffixes of the names of LLVM's functions on vectors.
_SUFFIX = {"i16": "i16", "half": "f16", "float": "f32", "double": "f64"}


class ElementReader:
    """Loads elements of an operand, and converts them to the accumulators' type."""

    def __init__(self, shape: TileConfig, dtype: str) -> None:
        self.shape, self.dtype = shape, dtype
        self.element, self.size = SOURCES[dtype]
        self.same = self.element == shape.element

    def widen(self, f: Routine, value: str, lanes: int) -> str:
        """Convert a value or, for lanes > 0, a vector of values to the accumulators' type."""
        if self.same:
            return value
        old, new = self.element, self.shape.element
        many = (lambda kind: f"<{lanes} x {kind}>") if lanes else (lambda kind: kind)
        if old == "i16":  # bfloat16 is the upper half of a float32
            upper = "i32 16" if not lanes else f"<{', '.join(['i32 16'] * lanes)}>"
            bits = f.let(f"zext {many('i16')} {value} to {many('i32')}")
            upper = "16" if not lanes else upper
            bits = f.let(f"shl {many('i32')} {bits}, {upper}")
            return f.let(f"bitcast {many('i32')} {bits} to {many('float')}")
        return f.let(f"fpext {many(old)} {value} to {many(new)}")

    def one(self, f: Routine, pointer: str) -> str:
        """Load the element at an address."""
        return self.widen(f, f.load(self.element, pointer, self.size), 0)

    def vector(self, f: Routine, pointer: str, mask: str | None = None, lanes: int = 0) -> str:
        """Load a vector of elements from an address on, with zeros where the mask is false."""
        lanes = lanes or self.shape.lanes
        kind = f"<{lanes} x {self.element}>"
        if mask is None:
            return self.widen(f, f.load(kind, pointer, self.size), lanes)
        word = _SUFFIX[self.element]
        loaded = f.let(
            f"call {kind} @llvm.masked.load.v{lanes}{word}.p0(ptr {pointer}, i32 {self.size}, "
            f"<{lanes} x i1> {mask}, {kind} zeroinitializer)"
        )
        return self.widen(f, loaded, lanes)

    def gathered(self, f: Routine, pointer: str, stride: str, mask: str) -> str:
        """Load the elements at an address and each `stride` bytes further on, under a mask."""
        lanes = self.shape.lanes
        kind, word = f"<{lanes} x {self.element}>", _SUFFIX[self.element]
        count = ", ".join(f"i64 {i}" for i in range(lanes))
        first = f.let(f"insertelement <{lanes} x i64> poison, i64 {stride}, i64 0")
        spread = f.let(
            f"shufflevector <{lanes} x i64> {first}, <{lanes} x i64> poison, "
            f"<{lanes} x i32> zeroinitializer"
        )
        offsets = f.let(f"mul <{lanes} x i64> {spread}, <{count}>")
        places = f.let(f"getelementptr i8, ptr {pointer}, <{lanes} x i64> {offsets}")
        loaded = f.let(
            f"call {kind} @llvm.masked.gather.v{lanes}{word}.v{lanes}p0(<{lanes} x ptr> {places}, "
            f"i32 {self.size}, <{lanes} x i1> {mask}, {kind} zeroinitializer)"
        )
        return self.widen(f, loaded, lanes)

    def every_second(self, f: Routine, x: str, y: str) -> str:
        """Return the elements 0, 2, 4, ... of two vectors, as a single vector."""
        lanes = self.shape.lanes
        return shuffled(f, self.shape, x, y, list(range(0, 2 * lanes, 2)), lanes)


def pack_right(shape: TileConfig, dtype: str, apart: int = 0) -> str:
    """The text of `pack_right`, which packs a panel of the right operand.

    apart: the bytes between the rows of a panel, or 0 for rows that lie end to end
    """
    names = "source step column depth columns width panel".split()
    pointers = {"source", "panel"}
    f = Routine(
        "pack_right", [("ptr" if n in pointers else "i64", n) for n in names], internal=True
    )
    source = ElementReader(shape, dtype)
    across = f.is_("eq", "%column", str(source.size))
    with f.when(across):
        _copy_rows(f, source, apart)
        f.leave_when("true")
    down = f.is_("eq", "%step", str(source.size))
    with f.when(down):
        _transpose(f, source, apart)
        f.leave_when("true")
    row = _panel_row(f, shape, apart)
    last = f.sub("%columns", "1")
    with f.loop("0", "%depth") as k:
        line, to = f.at("%source", f.mul(k, "%step")), f.at("%panel", f.mul(k, row))
        with f.loop("0", "%width") as n:
            there = f.minimum(n, last)
            x = source.one(f, f.at(line, f.mul(there, "%column")))
            f.store(shape.element, x, f.at(to, f.mul(n, str(shape.size))), shape.size)
    return f.text()


def _panel_row(f: Routine, shape: TileConfig, apart: int) -> str:
    """The bytes between the rows of a panel."""
    return str(apart) if apart else f.mul("%width", str(shape.size))


def _copy_rows(f: Routine, source: ElementReader, apart: int) -> None:
    """Write the packing for columns that lie side by side: whole vectors are moved."""
    shape = source.shape
    row = _panel_row(f, shape, apart)
    for width in range(1, shape.vectors + 1):
        with f.when(f.is_("eq", "%width", str(width * shape.lanes))):
            valid = f.sub("%columns", str((width - 1) * shape.lanes))
            mask = lane_mask(f, shape.lanes, valid)
            with f.loop("0", "%depth") as k:
                line, to = f.at("%source", f.mul(k, "%step")), f.at("%panel", f.mul(k, row))
                for w in range(width):
                    here = f.at(line, w * shape.lanes * source.size)
                    x = source.vector(f, here, mask if w == width - 1 else None)
                    f.store(shape.vector, x, f.at(to, w * shape.bytes), shape.size)


def _transpose(f: Routine, source: ElementReader, apart: int) -> None:
    """Write the packing for steps that lie side by side.

    Blocks of lanes x lanes are transposed in registers, then smaller blocks.
    """
    shape = source.shape
    lanes, few = shape.lanes, 16 // shape.size
    row = _panel_row(f, shape, apart)
    whole = f.mul(f.div("%depth", str(lanes)), str(lanes))
    if source.same and shape.fills_lines:
        # Where lines do not begin at cache lines, whole vectors are split, but short pieces seldom.
        split = f.is_("ne", f.let(f"and i64 %column, {LINE - 1}"), "0")
        split = f.both(split, f.is_("sge", "%depth", str(_LONG)))
        whole = f.select(split, "0", whole)
    shallow = f.is_("slt", "%depth", str(few))
    mask = lane_mask(f, few, "%depth")
    with f.loop("0", "%width", str(lanes)) as n:
        lines = _lines(f, lanes, n)
        to = f.at("%panel", f.mul(n, str(shape.size)))

        def put(x: str, step: str, to: str = to) -> None:
            f.store(shape.vector, x, f.at(to, f.mul(step, row)), shape.size)

        with f.loop("0", whole, str(lanes)) as k:
            offset = f.mul(k, str(source.size))
            rows = [source.vector(f, f.at(line, offset)) for line in lines]
            for i, x in enumerate(transposed(f, shape, rows)):
                put(x, f.add(k, str(i)))
        # The last steps: some are packed twice, so that nothing is read beyond the depth.
        with f.loop(whole, f.select(shallow, whole, "%depth"), str(few)) as k:
            k = f.minimum(k, f.sub("%depth", str(few)))
            for i, x in enumerate(_few_steps(f, source, lines, k, few, None)):
                put(x, f.add(k, str(i)))
        with f.when(shallow):
            for i, x in enumerate(_few_steps(f, source, lines, "0", few, mask)[:-1]):
                with f.when(f.is_("slt", str(i), "%depth")):
                    put(x, str(i))


def _lines(f: Routine, lanes: int, first: str) -> list[str]:
    """Return the addresses of columns from `first` on. The last column replaces missing ones."""
    number = f.fresh()[1:]
    start = f.at("%source", f.mul(first, "%column"))
    last = f.sub(f.sub("%columns", first), "1")
    whole = f.is_("sge", last, str(lanes - 1))
    f.line(f"br i1 {whole}, label %whole.{number}, label %partly.{number}")
    f.label(f"whole.{number}")
    near = [start]
    for _ in range(lanes - 1):
        near.append(f.at(near[-1], "%column"))
    f.line(f"br label %lines.{number}")
    f.label(f"partly.{number}")
    far = [f.at(start, f.mul(f.minimum(str(i), last), "%column")) for i in range(lanes)]
    f.line(f"br label %lines.{number}")
    f.label(f"lines.{number}")
    return [
        f.let(f"phi ptr [ {x}, %whole.{number} ], [ {y}, %partly.{number} ]")
        for x, y in zip(near, far, strict=True)
    ]


def _few_steps(
    f: Routine, source: ElementReader, lines: list[str], k: str, few: int, mask: str | None
) -> list[str]:
    """Return a vector for each of `few` steps from `k` on, with a lane for each line.

    Pieces of 16 bytes are put together to vectors, then transposed.
    """
    shape = source.shape
    offset = f.mul(k, str(source.size))
    parts = [source.vector(f, f.at(line, offset), mask, few) for line in lines]
    # Vector j holds lines j, few + j, 2 * few + j, ...
    rows, width = [parts[j::few] for j in range(few)], few
    while width < shape.lanes:
        order = list(range(2 * width))
        rows = [
            [shuffled(f, shape, x, y, order, width) for x, y in zip(row[::2], row[1::2])]
            for row in rows
        ]
        width *= 2
    return transposed(f, shape, [x for row in rows for x in row], shape.lanes)


def transposed(f: Routine, shape: TileConfig, rows: list[str], lanes: int = 0) -> list[str]:
    """Transpose squares that lie side by side in vectors. Blocks change places, halving each time.

    rows: the vectors, as many as the side of a square
    lanes: the lanes of a vector, a multiple of the number of rows; 0 for a single square
    """
    rows = list(rows)
    lanes = lanes or len(rows)
    block = len(rows) // 2
    while block:
        # Lane numbers from `lanes` on mean the second operand.
        odd = [(lane // block) % 2 for lane in range(lanes)]
        upper = [lanes + lane - block if odd[lane] else lane for lane in range(lanes)]
        lower = [lanes + lane if odd[lane] else lane + block for lane in range(lanes)]
        for i in range(len(rows)):
            if not (i // block) % 2:
                pair = rows[i], rows[i + block]
                rows[i], rows[i + block] = (
                    shuffled(f, shape, *pair, m, lanes) for m in (upper, lower)
                )
        block //= 2
    return rows


def shuffled(f: Routine, shape: TileConfig, x: str, y: str, order: list[int], lanes: int) -> str:
    """Return the lanes `order` of two vectors that have `lanes` lanes each."""
    kind = f"<{lanes} x {shape.element}>"
    listed = ", ".join(f"i32 {lane}" for lane in order)
    return f.let(f"shufflevector {kind} {x}, {kind} {y}, <{len(order)} x i32> <{listed}>")


def pack_left(shape: TileConfig, dtype: str) -> str:
    """The text of `pack_left`, which packs the rows of some tiles of the left operand.

    A packed tile is (rows, depth) if steps lie side by side in the source, else (depth, rows).
    """
    names = "source row step depth tiles each more tile apart".split()
    pointers = {"source", "tile"}
    f = Routine("pack_left", [("ptr" if n in pointers else "i64", n) for n in names], internal=True)
    source = ElementReader(shape, dtype)
    along = f.is_("eq", "%step", str(source.size))
    across = f.is_("eq", "%row", str(source.size))
    # Rows side by side, of a full group of tiles of equal height, are copied step by step.
    even = f.either(f.is_("eq", "%more", "0"), f.is_("sge", "%more", "%tiles"))
    whole = f.both(f.both(across, even), f.is_("eq", "%tiles", str(GROUP)))
    with f.when(whole):
        _copy_groups(f, source)
        f.leave_when("true")
    # The depth is cut in pieces, so that tiles share the cache lines and pages of the source.
    with f.loop("0", "%depth", str(_PIECE)) as first:
        last = f.minimum(f.add(first, str(_PIECE)), "%depth")
        with f.turns("0", "%tiles") as loop:
            row = loop.carry("i64", "0")
            rows = f.add("%each", f.select(f.is_("slt", loop.index, "%more"), "1", "0"))
            loop.become(row, f.add(row, rows))
            here = f.at("%source", f.mul(row, "%row"))
            to = f.at("%tile", f.mul(loop.index, "%apart"))
            with f.when(along):
                _copy_lines(f, source, here, to, rows, first, last)
            with f.when(f.let(f"xor i1 {along}, true")):
                _copy_columns(f, source, here, to, rows, first, last, across)
    return f.text()


def _copy_groups(f: Routine, source: ElementReader) -> None:
    """Write the copy of a full group of tiles, whose rows lie side by side in the source."""
    shape = source.shape
    lanes = 8  # at least the rows of any tile
    rows = f.add("%each", f.select(f.is_("ne", "%more", "0"), "1", "0"))
    mask = lane_mask(f, lanes, rows)
    line, apart = f.mul(rows, str(shape.size)), f.mul(rows, str(source.size))
    # Two halves, of which the second ends with the rows; with few rows both halves are the same.
    half, few = f.maximum("0", f.sub(rows, str(lanes // 2))), lane_mask(f, lanes // 2, rows)
    with f.turns("0", "%depth") as loop:
        here, to = loop.carry("ptr", "%source"), loop.carry("ptr", "%tile")
        for tile in range(GROUP):
            place = f.at(here, f.mul(apart, str(tile)))
            into = f.at(to, f.mul("%apart", str(tile)))
            if tile < GROUP - 1:
                x = source.vector(f, place, mask, lanes)
                # Lanes beyond the rows are overwritten by the next step.
                f.store(f"<{lanes} x {shape.element}>", x, into, shape.size)
                continue
            # Loads beyond the last tile could touch a cache line that no tile needs.
            for offset in ("0", half):
                x = source.vector(f, f.at(place, f.mul(offset, str(source.size))), few, lanes // 2)
                to_half = f.at(into, f.mul(offset, str(shape.size)))
                f.store(f"<{lanes // 2} x {shape.element}>", x, to_half, shape.size)
        loop.become(here, f.at(here, "%step"))
        loop.become(to, f.at(to, line))


def _copy_columns(
    f: Routine,
    source: ElementReader,
    here: str,
    to: str,
    rows: str,
    first: str,
    last: str,
    across: str,
) -> None:
    shape = source.shape
    lanes = 8  # at least the rows of any tile
    line = f.mul(rows, str(shape.size))
    mask = lane_mask(f, lanes, rows)
    with f.when(across), f.loop(first, last) as k:
        x = source.vector(f, f.at(here, f.mul(k, "%step")), mask, lanes)
        # Lanes beyond the rows are overwritten by the next step.
        f.store(f"<{lanes} x {shape.element}>", x, f.at(to, f.mul(k, line)), shape.size)
    with f.when(f.let(f"xor i1 {across}, true")), f.loop(first, last) as k, f.loop("0", rows) as i:
        x = source.one(f, f.at(f.at(here, f.mul(k, "%step")), f.mul(i, "%row")))
        into = f.at(f.at(to, f.mul(k, line)), f.mul(i, str(shape.size)))
        f.store(shape.element, x, into, shape.size)


def _copy_lines(
    f: Routine, source: ElementReader, here: str, to: str, rows: str, first: str, last: str
) -> None:
    shape = source.shape
    with f.loop("0", rows) as i:
        line = f.at(here, f.mul(i, "%row"))
        into = f.at(to, f.mul(f.mul(i, "%depth"), str(shape.size)))
        with f.loop(first, last, str(shape.lanes)) as k:
            mask = lane_mask(f, shape.lanes, f.sub(last, k))
            x = source.vector(f, f.at(line, f.mul(k, str(source.size))), mask)
            masked_store(f, shape, x, f.at(into, f.mul(k, str(shape.size))), mask)
