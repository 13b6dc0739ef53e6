"""Matrix products: out[i, j] = sum over k of left[i, k] * right[k, j], for any sizes and strides.

`core(dtype)` is a module with two functions, compiled once per processor and dtype:

    void product(ptr args)      the product, in two levels of batch
    void pack(ptr args)         the right operand, rearranged once for many products

`args` is a block of 64-bit words, one per name in PRODUCT or PACK, in that order: pointers, and
integers. Strides count elements, and may be zero or negative; only `out` must have its columns
side by side.

PRODUCT
    left right out          pointers
    rows columns depth      M, N, K; any of them may be 0
    left_row left_step      strides of left[i, k]
    right_step right_column strides of right[k, j]; without meaning if it is packed
    packed                  1 if `right` is what `pack` wrote, else 0
    out_row                 stride of out[i, .]
    batch0 batch1           extents of the batch, at least 0; 1 for none
    left0 left1 right0 right1 out0 out1     strides of the batch (packed: `packed_size` apart)
    first_row last_row first_column last_column
                            the part to compute; all: 0, M, 0, N. Parts of a product are
                            independent. A cut between columns is where `column_cuts` says.
    accumulate              1: add to what is in `out`, else 0
    epilogue state          function and its pointer, or 0: see below
    scratch                 `scratch_bytes(dtype)` of memory for this call, aligned to 64 bytes

PACK
    right packed            pointers: from, to (`packed_size(...)` elements per entry of the batch,
                            aligned to 64 bytes)
    depth columns right_step right_column batch0 batch1 right0 right1

The accumulators' type is the dtype, and float32 for float16 and bfloat16. `out` and packed operands
have the accumulators' type; left and right have the dtype.

An *epilogue* is called once for each tile of the finished product, and does with it what it likes:

    void epilogue(ptr tile, i64 rows, i64 columns, i64 row, i64 column, i64 batch0, i64 batch1,
                  ptr state)

`tile` holds rows x columns accumulators, its rows `tile_columns(dtype)` elements apart; row,
column, batch0 and batch1 say where it lies in the product. All columns up to the next multiple of
the lanes may be read. `out` is then only written, with sums over a part of the depth, if the depth
is larger than `depth_block(dtype)`: it may be the place where the epilogue puts its results, if
they have the accumulators' type and the same strides.

How a sum is split depends on the sizes, and on the part's number of rows: cut by sizes alone, never
by the number of threads, and results are the same from run to run.

`epilogue(name, dtype, body)` writes such a function: one loop over rows and vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from wend.compiler.llvm import Library, Target, compile_module, host
from wend.compiler.packing import SOURCES, pack_left, pack_right
from wend.compiler.routine import Routine
from wend.compiler.tile import Shape, lane_mask, tiles

__all__ = [
    "PACK",
    "PRODUCT",
    "Site",
    "accumulator",
    "column_cuts",
    "core",
    "core_text",
    "depth_block",
    "epilogue",
    "lanes",
    "packed_size",
    "scratch_bytes",
    "tile_columns",
]

PRODUCT = (
    "left right out rows columns depth left_row left_step right_step right_column packed out_row "
    "batch0 batch1 left0 left1 right0 right1 out0 out1 "
    "first_row last_row first_column last_column accumulate epilogue state scratch"
).split()
PACK = "right packed depth columns right_step right_column batch0 batch1 right0 right1".split()

# The part of the right operand that tiles pass over again and again stays in the second-level
# cache: depth times columns; and a tile's rows of the left operand stay in the first.
_DEPTH_BYTES = 2048
_COLUMN_PANELS = 8
# Up to so many rows read the right operand as it stands, where that is possible.
_DIRECT_ROWS = "128"
# Tiles of the left operand that are packed together.
_GROUP = 8


@dataclass(frozen=True)
class Site:
    """Where the body of an epilogue is: names of values, i64 unless said otherwise.

    sums: a vector of accumulators     row, column: of its first lane     mask: the lanes that are
    in the product, <lanes x i1>     batch0, batch1: place in the batch     state: the pointer
    given in the block
    """

    sums: str
    row: str
    column: str
    mask: str
    batch0: str
    batch1: str
    state: str


def accumulator(dtype: str) -> str:
    """The dtype in which sums are kept."""
    return "float64" if dtype == "float64" else "float32"


@cache
def _shape(dtype: str, target: Target) -> Shape:
    return Shape.of(target, SOURCES[accumulator(dtype)][0])


def _of(dtype: str, target: Target | None) -> Shape:
    return _shape(dtype, host() if target is None else target)


def tile_columns(dtype: str, target: Target | None = None) -> int:
    """Elements between the rows of the tile that an epilogue gets."""
    return _of(dtype, target).panel


def lanes(dtype: str, target: Target | None = None) -> int:
    """Accumulators in one vector."""
    return _of(dtype, target).lanes


def depth_block(dtype: str, target: Target | None = None) -> int:
    """The largest depth that is summed up in one go."""
    return _DEPTH_BYTES // _of(dtype, target).size


def packed_size(depth: int, columns: int, dtype: str, target: Target | None = None) -> int:
    """Elements of a packed right operand, of the accumulators' type."""
    lanes = _of(dtype, target).lanes
    return depth * (-(-columns // lanes) * lanes)


def column_cuts(columns: int, dtype: str, target: Target | None = None) -> range:
    """Columns before which a product may be cut into parts."""
    shape = _of(dtype, target)
    # The last panels share what is left over, so that none of them is a single vector.
    return range(shape.panel, columns - 2 * shape.lanes + 1, shape.panel)


def _places(shape: Shape) -> tuple[int, int, int]:
    """Bytes of scratch for a block of the right operand, a tile of the left, a tile of sums."""
    depth = _DEPTH_BYTES // shape.size
    right = depth * (_COLUMN_PANELS * shape.panel + shape.lanes) * shape.size
    return right, _GROUP * _apart(shape), shape.rows * shape.panel * shape.size


def _apart(shape: Shape) -> int:
    """Bytes from one packed tile of the left operand to the next."""
    return shape.rows * _DEPTH_BYTES + shape.bytes


def scratch_bytes(dtype: str, target: Target | None = None) -> int:
    """Bytes that `product` needs to work in, whatever the sizes."""
    return sum(_places(_of(dtype, target)))


@cache
def core(dtype: str) -> Library:
    """The functions `product` and `pack` for this processor; compiles them when first asked."""
    return compile_module(core_text(dtype), ["product", "pack"])


@cache
def core_text(dtype: str, target: Target | None = None) -> str:
    """The module of `core`, as text."""
    shape = _of(dtype, target)
    texts = [
        tiles(shape),
        pack_right(shape, dtype),
        pack_left(shape, dtype),
        _product(shape, dtype),
        _pack(shape, dtype),
    ]
    text = "\n".join(texts)
    return text


def epilogue(
    name: str, dtype: str, body: Callable[[Routine, Site], None], target: Target | None = None
) -> str:
    """An epilogue as text. `body` appends what is to be done with one vector of sums.

    The vectors have `lanes(dtype)` elements. A lane outside of the product may hold anything.
    """
    shape = _of(dtype, target)
    integers = "rows columns row column batch0 batch1".split()
    parameters = [("ptr", "tile"), *(("i64", word) for word in integers), ("ptr", "state")]
    f = Routine(name, parameters)
    with f.loop("0", "%rows") as i:
        line = f.at("%tile", f.mul(i, str(shape.panel * shape.size)))
        row = f.add("%row", i)
        with f.loop("0", "%columns", str(shape.lanes)) as j:
            sums = f.load(shape.vector, f.at(line, f.mul(j, str(shape.size))), shape.size)
            mask = lane_mask(f, shape.lanes, f.sub("%columns", j))
            column = f.add("%column", j)
            body(f, Site(sums, row, column, mask, "%batch0", "%batch1", "%state"))
    return f.text()


# -- the functions of the core ------------------------------------------------------------------


def _arguments(f: Routine, names: Sequence[str], pointers: str) -> dict[str, str]:
    kinds = {name: "ptr" if name in pointers.split() else "i64" for name in names}
    return {name: f.load(kinds[name], f.at("%args", 8 * i), 8) for i, name in enumerate(names)}


def _pack(shape: Shape, dtype: str) -> str:
    f = Routine("pack", [("ptr", "args")])
    a = _arguments(f, PACK, "right packed")
    size = str(SOURCES[dtype][1])
    for name in ("right_step", "right_column", "right0", "right1"):
        a[name] = f.mul(a[name], size)
    column_bytes = f.mul(a["depth"], str(shape.size))
    entry_bytes = f.mul(f.ceil_div(a["columns"], shape.lanes), f.mul(a["depth"], str(shape.bytes)))
    with f.loop("0", a["batch0"]) as i, f.loop("0", a["batch1"]) as j:
        source = f.at(a["right"], f.add(f.mul(i, a["right0"]), f.mul(j, a["right1"])))
        entry = f.mul(f.add(f.mul(i, a["batch1"]), j), entry_bytes)
        to = f.at(a["packed"], entry)
        with _panels(f, shape, "0", a["columns"], a["columns"]) as (column, width):
            place = f.at(to, f.mul(column, column_bytes))
            _pack_panel(f, shape, source, a, a["depth"], column, width, place)
    return f.text()


@contextmanager
def _panels(
    f: Routine, shape: Shape, first: str, last: str, columns: str
) -> Iterator[tuple[str, str]]:
    """A loop over the panels of columns first ... last - 1; gives first column and vectors."""
    with f.turns(first, last) as loop:
        left = f.ceil_div(f.sub(columns, loop.index), shape.lanes)
        width = f.minimum(left, str(shape.vectors))
        if shape.vectors > 2:
            # A panel of one vector is slow: where one would be left over, two share.
            width = f.select(f.is_("eq", left, str(shape.vectors + 1)), "2", width)
        loop.step = f.mul(width, str(shape.lanes))
        yield loop.index, width


def _product(shape: Shape, dtype: str) -> str:
    f = Routine("product", [("ptr", "args")])
    a = _arguments(f, PRODUCT, "left right out epilogue state scratch")
    size = str(SOURCES[dtype][1])
    for name in ("left_row", "left_step", "right_step", "right_column", "left0", "left1"):
        a[name] = f.mul(a[name], size)
    for name in ("out_row", "out0", "out1"):
        a[name] = f.mul(a[name], str(shape.size))
    a["packed"] = f.is_("ne", a["packed"], "0")
    a["accumulate"] = f.is_("ne", a["accumulate"], "0")
    entry = f.select(a["packed"], str(shape.size), size)
    a["right0"], a["right1"] = f.mul(a["right0"], entry), f.mul(a["right1"], entry)
    right, left, _ = _places(shape)
    a["left_scratch"], a["tile"] = f.at(a["scratch"], right), f.at(a["scratch"], right + left)
    with f.loop("0", a["batch0"]) as i, f.loop("0", a["batch1"]) as j:
        for name in ("left", "right", "out"):
            offset = f.add(f.mul(i, a[name + "0"]), f.mul(j, a[name + "1"]))
            a[name + "_here"] = f.at(a[name], offset)
        a["at0"], a["at1"] = i, j
        _chunks(f, shape, dtype, a)
    return f.text()


def _chunks(f: Routine, shape: Shape, dtype: str, a: dict[str, str]) -> None:
    """Cut the columns into chunks and the depth into blocks that the cache can hold."""
    chunk = _COLUMN_PANELS * shape.panel
    most = _DEPTH_BYTES // shape.size
    with f.turns(a["first_column"], a["last_column"]) as columns:
        first = columns.index
        last = f.minimum(f.add(first, str(chunk)), a["last_column"])
        # No chunk of a single vector: the one before takes it.
        rest = f.sub(a["last_column"], last)
        last = f.select(f.is_("sle", rest, str(shape.lanes)), a["last_column"], last)
        columns.step = f.sub(last, first)
        blocks = f.ceil_div(a["depth"], most)
        blocks = f.select(f.is_("eq", blocks, "0"), "1", blocks)
        with f.loop("0", blocks) as block:
            start = f.div(f.mul(a["depth"], block), blocks)
            onward = f.add(block, "1")
            depth = f.sub(f.div(f.mul(a["depth"], onward), blocks), start)
            here = a | {"first": first, "last": last, "start": start, "block_depth": depth}
            opening, closing = f.is_("eq", block, "0"), f.is_("eq", onward, blocks)
            fresh = f.both(opening, f.let(f"xor i1 {a['accumulate']}, true"))
            here["before"] = f.select(fresh, "null", a["out_here"], "ptr")
            handed = f.is_("ne", a["epilogue"], "null", "ptr")
            here["handed"] = f.both(handed, closing)
            _right_block(f, shape, dtype, here)
            _rows(f, shape, dtype, here)


def _right_block(f: Routine, shape: Shape, dtype: str, a: dict[str, str]) -> None:
    """Find or make the panels of this block: base, bytes per column, bytes per vector of width."""
    size = SOURCES[dtype][1]
    rows = f.sub(a["last_row"], a["first_row"])
    unpacked = f.let(f"xor i1 {a['packed']}, true")
    direct = "false"
    if SOURCES[dtype][0] == shape.element:
        direct = f.both(f.is_("eq", a["right_column"], str(size)), f.is_("sle", rows, _DIRECT_ROWS))
        direct = f.both(direct, unpacked)
    a["direct"] = direct
    source = f.at(a["right_here"], f.mul(a["start"], a["right_step"]))
    with (
        f.when(unpacked),
        _panels(f, shape, a["first"], a["last"], a["columns"]) as (column, width),
    ):
        partial = _partial(f, shape, a, column, width)
        with f.when(f.either(partial, f.let(f"xor i1 {direct}, true"))):
            place = f.mul(f.mul(f.sub(column, a["first"]), a["block_depth"]), str(shape.size))
            place = f.at(a["scratch"], f.select(direct, "0", place))
            _pack_panel(f, shape, source, a, a["block_depth"], column, width, place)
    depth = f.select(a["packed"], a["depth"], a["block_depth"])
    away = f.sub("0", f.mul(f.mul(a["first"], a["block_depth"]), str(shape.size)))
    base = f.select(a["packed"], a["right_here"], f.at(a["scratch"], away), "ptr")
    a["panels"] = f.select(direct, source, base, "ptr")
    a["per_column"] = f.select(direct, str(shape.size), f.mul(depth, str(shape.size)))
    a["per_width"] = f.select(a["packed"], f.mul(a["start"], str(shape.bytes)), "0")


def _partial(f: Routine, shape: Shape, a: dict[str, str], column: str, width: str) -> str:
    """Whether the last vector of a panel has fewer columns than lanes."""
    return f.is_("sgt", f.add(column, f.mul(width, str(shape.lanes))), a["columns"])


def _pack_panel(
    f: Routine,
    shape: Shape,
    source: str,
    a: dict[str, str],
    depth: str,
    column: str,
    width: str,
    place: str,
) -> None:
    here = f.at(source, f.mul(column, a["right_column"]))
    lanes = f.mul(width, str(shape.lanes))
    valid = f.minimum(f.sub(a["columns"], column), lanes)
    f.line(
        f"call void @pack_right(ptr {here}, i64 {a['right_step']}, i64 {a['right_column']}, "
        f"i64 {depth}, i64 {valid}, i64 {lanes}, ptr {place})"
    )


def _rows(f: Routine, shape: Shape, dtype: str, a: dict[str, str]) -> None:
    """All tiles of a block: the rows of one at a time, along all panels."""
    rows = f.sub(a["last_row"], a["first_row"])
    # Tiles share the rows evenly: 9 rows are 5 and 4, not 8 and 1.
    count = f.ceil_div(rows, shape.rows)
    with f.when(f.is_("ne", count, "0")):
        each = f.div(rows, count)
        more = f.sub(rows, f.mul(each, count))
        with f.loop("0", count, str(_GROUP)) as group:
            last = f.minimum(f.add(group, str(_GROUP)), count)
            taller = f.minimum(group, more)  # tiles before this group that have one row more
            row = f.add(f.add(a["first_row"], f.mul(group, each)), taller)
            here = a | {"row": row, "each": each, "more": f.sub(more, taller)}
            _left_tiles(f, shape, dtype, here, f.sub(last, group))
            with f.turns(group, last) as tiles:
                row, left = tiles.carry("i64", row), tiles.carry("ptr", here["tile_left"])
                height = f.add(each, f.select(f.is_("slt", tiles.index, more), "1", "0"))
                tiles.become(row, f.add(row, height))
                tiles.become(
                    left,
                    f.at(
                        left,
                        f.select(here["stands"], f.mul(height, a["left_row"]), str(_apart(shape))),
                    ),
                )
                step = f.select(here["by_rows"], f.mul(height, str(shape.size)), here["tile_step"])
                here |= {"row": row, "height": height, "tile_left": left, "tile_step": step}
                with _panels(f, shape, a["first"], a["last"], a["columns"]) as (column, width):
                    _tile(f, shape, here, column, width)


def _left_tiles(f: Routine, shape: Shape, dtype: str, a: dict[str, str], tiles: str) -> None:
    """Find or make the rows of a group of tiles of the left operand: pointer and strides."""
    element, size = SOURCES[dtype]
    offset = f.add(f.mul(a["row"], a["left_row"]), f.mul(a["start"], a["left_step"]))
    source = f.at(a["left_here"], offset)
    along = f.is_("eq", a["left_step"], str(size))
    stands = "false"
    if element == shape.element:
        # One panel does not pay for packing.
        single = f.is_("sle", f.sub(a["last"], a["first"]), str(shape.panel))
        stands = f.either(along, single)
    packed = f.let(f"xor i1 {stands}, true")
    with f.when(packed):
        f.line(
            f"call void @pack_left(ptr {source}, i64 {a['left_row']}, i64 {a['left_step']}, "
            f"i64 {a['block_depth']}, i64 {tiles}, i64 {a['each']}, i64 {a['more']}, "
            f"ptr {a['left_scratch']}, i64 {_apart(shape)})"
        )
    unit = str(shape.size)
    row = f.select(along, f.mul(a["block_depth"], unit), unit)
    a["stands"] = stands
    a["by_rows"] = f.both(packed, f.let(f"xor i1 {along}, true"))
    a["tile_left"] = f.select(stands, source, a["left_scratch"], "ptr")
    a["tile_row"] = f.select(stands, a["left_row"], row)
    a["tile_step"] = f.select(stands, a["left_step"], unit)


def _tile(f: Routine, shape: Shape, a: dict[str, str], column: str, width: str) -> None:
    """One tile: look its function up by its extents, call it, and the epilogue."""
    unit = str(shape.size)
    bytes_ = f.mul(width, str(shape.bytes))
    offset = f.add(f.mul(column, a["per_column"]), f.mul(width, a["per_width"]))
    panel, step = f.at(a["panels"], offset), bytes_
    if a["direct"] != "false":
        partial = _partial(f, shape, a, column, width)
        panel = f.select(f.both(a["direct"], partial), a["scratch"], panel, "ptr")
        there = f.both(a["direct"], f.let(f"xor i1 {partial}, true"))
        step = f.select(there, a["right_step"], step)
    offset = f.add(f.mul(a["row"], a["out_row"]), f.mul(column, unit))
    out = f.at(a["out_here"], offset)
    before = f.select(f.is_("eq", a["before"], "null", "ptr"), "null", out, "ptr")
    into = f.select(a["handed"], a["tile"], out, "ptr")
    into_row = f.select(a["handed"], str(shape.panel * shape.size), a["out_row"])
    columns = f.minimum(f.sub(a["columns"], column), f.mul(width, str(shape.lanes)))
    valid = f.sub(columns, f.mul(f.sub(width, "1"), str(shape.lanes)))
    number = f.add(f.mul(f.sub(a["height"], "1"), str(shape.vectors)), f.sub(width, "1"))
    function = f.load("ptr", f.at("@tiles", f.mul(number, "8")), 8)
    f.line(
        f"call void {function}(ptr {a['tile_left']}, i64 {a['tile_row']}, i64 {a['tile_step']}, "
        f"ptr {panel}, i64 {step}, i64 {a['block_depth']}, ptr {before}, i64 {a['out_row']}, "
        f"ptr {into}, i64 {into_row}, i64 {valid})"
    )
    with f.when(a["handed"]):
        f.line(
            f"call void {a['epilogue']}(ptr {a['tile']}, i64 {a['height']}, i64 {columns}, "
            f"i64 {a['row']}, i64 {column}, i64 {a['at0']}, i64 {a['at1']}, ptr {a['state']})"
        )
