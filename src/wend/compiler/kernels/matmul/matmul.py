"""Matrix products: out[i, j] = sum over k of left[i, k] * right[k, j], for any sizes and strides.

`core(dtype)` returns a library with two functions, compiled once per processor and dtype:

    void product(ptr args)      the product, in two levels of batch
    void pack(ptr args)         the right operand, rearranged once for many products

`args` is an argument block: 64-bit words, one per name in PRODUCT or PACK, in that order, which are
pointers or integers. Strides count elements, and may be zero or negative. Only `out` must have its
columns side by side.

PRODUCT
    left right out          pointers
    rows columns depth      M, N, K; any of them may be 0
    left_row left_step      strides of left[i, k]
    right_step right_column strides of right[k, j]; without meaning if it is packed
    packed                  1 if `right` has been written by `pack`, else 0
    out_row                 stride of out[i, .]
    batch0 batch1           extents of the batch, at least 0; 1 for none
    left0 left1 right0 right1 out0 out1     strides of the batch (packed: `packed_size` apart)
    first_row last_row first_column last_column
                            the part to compute; all: 0, M, 0, N. Parts of a product are
                            independent. A cut between columns is where `column_cuts` says.
    accumulate              1: add to what is in `out`, else 0
    epilogue state          a function and the pointer passed to it, or 0: see below
    scratch                 `scratch_bytes(dtype)` of memory for this call, aligned to 64 bytes
    origin0 origin1         batch0 and batch1 as an epilogue is told for the batch's first entry

PACK
    right packed            pointers: the source, and the goal (`packed_size(...)` elements per
                            entry of the batch, aligned to 64 bytes)
    depth columns right_step right_column batch0 batch1 right0 right1

The accumulators' type is the dtype, and float32 for float16 and bfloat16. `out` and packed operands
have the accumulators' type; left and right have the dtype.

An *epilogue* is called once for each tile of the finished product, and may do anything with the
tile:

    void epilogue(ptr tile, i64 rows, i64 columns, i64 row, i64 column, i64 batch0, i64 batch1,
                  ptr state)

`tile` holds rows x columns accumulators. Its rows are `tile_columns(dtype)` elements apart, or
`columns` elements if `columns` is greater (where `hands_strips(dtype)`). row, column, batch0 and
batch1 say where the tile lies in the product. All columns up to the next multiple of the lanes may
be read. Before a tile is computed, the epilogue is called with a null tile, so that it prefetches
the data that it will read. With an epilogue, `out` is written only if the depth is larger than
`depth_block()`, with sums over a part of the depth. So the epilogue may put its results in `out`,
if the results have the accumulators' type and the same strides.

The way in which a sum is split depends on the sizes, and on a part's number of rows. Cut a product
by sizes alone, never by the number of threads, and results are the same from run to run.

`epilogue(name, dtype, body)` writes an epilogue with one loop over rows and vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from wend.base.records import Record
from wend.compiler.kernels.matmul.dot_products import FEW_ROWS, dots
from wend.compiler.kernels.matmul.gemv import streamed, streams
from wend.compiler.kernels.matmul.macrokernel import (
    DEPTH,
    DIRECT_SPLIT,
    LARGE,
    Multiply,
    Scratch,
    arguments,
    column_panels,
    direct_rows,
    narrow,
    panel_capacity,
    panels,
    scratch_size,
)
from wend.compiler.kernels.matmul.microkernel import EPILOGUE, LINE, TileConfig, lane_mask, tiles
from wend.compiler.kernels.matmul.operands import Matrix, Operands, pack_panel
from wend.compiler.kernels.matmul.packing import SOURCES, pack_left, pack_right
from wend.compiler.kernels.matmul.small_k import held, holds, outer, shallow, thin, upright
from wend.compiler.kernels.matmul.small_n import Narrow
from wend.compiler.kernels.matmul.transposed import crossed, pays, turn_tile, turned
from wend.compiler.llvm_ir.function import Routine
from wend.compiler.llvm_ir.jit import Library, Target, compile_module, host

__all__ = [
    "PACK",
    "PRODUCT",
    "EpilogueSite",
    "accumulator",
    "column_cuts",
    "core",
    "core_text",
    "depth_block",
    "epilogue",
    "hands_strips",
    "lanes",
    "packed_size",
    "scratch_bytes",
    "tile_columns",
    "unpacked_rows",
]

PRODUCT = (
    "left right out rows columns depth left_row left_step right_step right_column packed out_row "
    "batch0 batch1 left0 left1 right0 right1 out0 out1 "
    "first_row last_row first_column last_column accumulate epilogue state scratch "
    "origin0 origin1"
).split()
PACK = "right packed depth columns right_step right_column batch0 batch1 right0 right1".split()

# The bytes of a chunk where the next chunk is prefetched into the second-level cache during its
# use. Left rows are read once for each chunk, so chunks of narrow panels have more bytes.
_CHUNK_BYTES, _NARROW_CHUNK_BYTES = 1 << 17, 3 << 17
# For rows side by side that are transposed for dot products: the least steps for each row, and the
# most rows where tiles are narrow.
_TURNED_STEPS, _TURNED_ROWS = 16, 4
# The most rows, and the least steps, for chunks of one panel that stays in the first-level cache.
_NEAR_ROWS, _NEAR_STEPS = 64, 48


class EpilogueSite(Record):
    """The values for the body of an epilogue: names of LLVM values, i64 unless said otherwise.

    sums: a vector of accumulators
    row, column: the row and the column of its first lane
    mask: the lanes that are in the product, <lanes x i1>
    batch0, batch1: the place in the batch
    state: the pointer given in the argument block
    """

    sums: str
    row: str
    column: str
    mask: str
    batch0: str
    batch1: str
    state: str


def accumulator(dtype: str) -> str:
    """The dtype of the accumulators of a dtype."""
    return "float64" if dtype == "float64" else "float32"


@cache
def _shape(dtype: str, target: Target) -> TileConfig:
    return TileConfig.of(target, SOURCES[accumulator(dtype)][0])


def _of(dtype: str, target: Target | None) -> TileConfig:
    return _shape(dtype, host() if target is None else target)


def tile_columns(dtype: str, target: Target | None = None) -> int:
    """The elements between the rows of a tile that an epilogue gets."""
    return _of(dtype, target).panel


def hands_strips(dtype: str, target: Target | None = None) -> bool:
    """Whether an epilogue may get several tiles side by side as one."""
    return _of(dtype, target).hands_strips


def lanes(dtype: str, target: Target | None = None) -> int:
    """The number of accumulators in one vector."""
    return _of(dtype, target).lanes


def depth_block() -> int:
    """The largest depth that is summed up as one block."""
    return DEPTH


def packed_size(depth: int, columns: int, dtype: str, target: Target | None = None) -> int:
    """The number of elements of a packed right operand, of the accumulators' type."""
    lanes = _of(dtype, target).lanes
    return depth * (-(-columns // lanes) * lanes)


def column_cuts(columns: int, dtype: str, target: Target | None = None) -> range:
    """The columns before which a product may be cut into parts."""
    shape = _of(dtype, target)
    # The last panels share their vectors, so that no panel is a single vector.
    return range(shape.panel, columns - 2 * shape.lanes + 1, shape.panel)


def unpacked_rows(dtype: str, target: Target | None = None) -> int:
    """The most rows that read a right operand in place, if the operand is not large."""
    return direct_rows(_of(dtype, target), large=False)


def scratch_bytes(dtype: str, target: Target | None = None) -> int:
    """The bytes of the memory `scratch` of `product`, for any sizes."""
    return scratch_size(_of(dtype, target))


@cache
def core(dtype: str) -> Library:
    """Return the library of `product` and `pack` for this processor. The first call compiles it."""
    return compile_module(core_text(dtype), ["product", "pack"])


@cache
def core_text(dtype: str, target: Target | None = None) -> str:
    """Return the text of the LLVM module of `core`."""
    shape = _of(dtype, target)
    texts = [
        tiles(shape),
        pack_right(shape, dtype),
        pack_left(shape, dtype),
        dots(shape, dtype),
        outer(shape),
        upright(shape),
        held(shape) if shape.rows == 8 else "",
        streamed(shape),
        turn_tile(shape),
        turned(shape, dtype),
        _product(shape, dtype),
        _pack(shape, dtype),
    ]
    return "\n".join(texts)


def epilogue(
    name: str,
    dtype: str,
    body: Callable[[Routine, EpilogueSite], None],
    target: Target | None = None,
) -> str:
    """Return the text of an epilogue.

    name: the name of the function
    body: appends the instructions for one vector of sums, of `lanes(dtype)` elements; a lane
        outside of the product may hold anything
    """
    shape = _of(dtype, target)
    f = Routine(name, EPILOGUE)
    f.leave_when(f.is_("eq", "%tile", "null", "ptr"))
    apart = str(shape.panel * shape.size)
    if shape.hands_strips:
        apart = f.mul(f.maximum("%columns", str(shape.panel)), str(shape.size))
    with f.loop("0", "%rows") as i:
        line = f.at("%tile", f.mul(i, apart))
        row = f.add("%row", i)
        with f.loop("0", "%columns", str(shape.lanes)) as j:
            sums = f.load(shape.vector, f.at(line, f.mul(j, str(shape.size))), shape.size)
            mask = lane_mask(f, shape.lanes, f.sub("%columns", j))
            column = f.add("%column", j)
            body(f, EpilogueSite(sums, row, column, mask, "%batch0", "%batch1", "%state"))
    return f.text()


# -- the functions of the core ------------------------------------------------------------------


def _scaled(f: Routine, a: dict[str, str], names: str, size: str) -> None:
    """Turn strides in elements into strides in bytes. size: the bytes of an element"""
    for name in names.split():
        a[name] = f.mul(a[name], size)


def _place(f: Routine, a: dict[str, str], name: str, i: str, j: str) -> str:
    """The address of an operand for the entry i, j of the batch."""
    return f.at(a[name], f.add(f.mul(i, a[name + "0"]), f.mul(j, a[name + "1"])))


def _pack(shape: TileConfig, dtype: str) -> str:
    f = Routine("pack", [("ptr", "args")])
    a = arguments(f, PACK, "right packed")
    _scaled(f, a, "right_step right_column right0 right1", str(SOURCES[dtype][1]))
    column_bytes = f.mul(a["depth"], str(shape.size))
    entry_bytes = f.mul(f.ceil_div(a["columns"], shape.lanes), f.mul(a["depth"], str(shape.bytes)))
    with f.loop("0", a["batch0"]) as i, f.loop("0", a["batch1"]) as j:
        source = _place(f, a, "right", i, j)
        to = f.at(a["packed"], f.mul(f.add(f.mul(i, a["batch1"]), j), entry_bytes))
        with panels(f, shape, "0", a["columns"], a["columns"]) as (column, width):
            place = f.at(to, f.mul(column, column_bytes))
            matrix = Matrix(source, a["right_column"], a["right_step"])
            pack_panel(f, shape, matrix, a["columns"], a["depth"], column, width, place)
    return f.text()


def _product(shape: TileConfig, dtype: str) -> str:
    f = Routine("product", [("ptr", "args")])
    a = arguments(f, PRODUCT, "left right out epilogue state scratch")
    size = str(SOURCES[dtype][1])
    _scaled(f, a, "left_row left_step right_step right_column left0 left1", size)
    _scaled(f, a, "out_row out0 out1", str(shape.size))
    packed = f.is_("ne", a["packed"], "0")
    _scaled(f, a, "right0 right1", f.select(packed, str(shape.size), size))
    accumulate = f.is_("ne", a["accumulate"], "0")
    rows = f.sub(a["last_row"], a["first_row"])
    part_columns = f.sub(a["last_column"], a["first_column"])
    large = f.is_("sge", f.mul(a["depth"], a["right_step"]), str(LARGE))
    direct = min(DIRECT_SPLIT, direct_rows(shape, False))
    split = f.is_("ne", f.let(f"and i64 {a['right_step']}, {LINE - 1}"), "0")
    few = f.select(split, str(direct), str(direct_rows(shape, False)))
    few = f.select(large, str(direct_rows(shape, True)), few)
    few = f.is_("sle", rows, few)
    along = f.both(f.is_("eq", a["right_step"], size), f.let(f"xor i1 {packed}, true"))
    along = f.both(along, f.is_("ne", a["right_column"], size))  # else panels are read in place
    dotted = f.both(along, f.is_("sle", rows, str(FEW_ROWS)))
    stands = f.is_("eq", a["left_step"], size)
    dotted = f.both(dotted, f.either(stands, _turnable(f, shape, dtype, rows, a)))
    along = f.both(along, stands)
    short = f.both(f.is_("slt", a["depth"], "12"), f.is_("sge", a["columns"], str(shape.lanes)))
    dotted = f.both(dotted, f.let(f"xor i1 {short}, true"))
    apart = f.both(along, f.is_("sgt", rows, str(FEW_ROWS)))
    turned_ = f.both(apart, pays(f, shape, dtype, rows, a))
    crossed_ = f.both(crossed(f, shape, dtype, rows, a), f.let(f"xor i1 {packed}, true"))
    turned_ = f.both(f.either(turned_, crossed_), f.let(f"xor i1 {dotted}, true"))
    narrow = Narrow.of(f, shape, dtype, a, packed, f.either(dotted, turned_))
    mirrored = f.both(narrow.dotted, f.let(f"xor i1 {dotted}, true"))
    turned_ = f.either(turned_, narrow.turned)
    special = f.either(f.either(dotted, mirrored), turned_)
    special = f.both(special, f.let(f"xor i1 {narrow.left_over}, true"))
    first_column = f.maximum(a["first_column"], narrow.first)
    last_column = f.select(narrow.left_over, narrow.first, a["last_column"])
    columns = f.select(narrow.left_over, narrow.first, a["columns"])
    streamed_ = shallow_ = thin_ = held_ = "false"
    if SOURCES[dtype][0] == shape.element:
        beside = f.both(f.is_("eq", a["right_column"], size), f.let(f"xor i1 {packed}, true"))
        plain = f.both(
            f.is_("eq", a["epilogue"], "null", "ptr"), f.let(f"xor i1 {accumulate}, true")
        )
        shallow_ = f.both(shallow(f, shape, part_columns, a["depth"]), f.both(beside, plain))
        thin_ = f.both(thin(f, shape, rows, part_columns, a["depth"]), plain)
        thin_ = f.both(thin_, f.is_("eq", a["left_row"], size))
        thin_ = f.both(thin_, f.let(f"xor i1 {f.either(dotted, shallow_)}, true"))
        short = f.either(shallow_, thin_)
        turnable = f.both(f.is_("eq", a["right_step"], size), f.let(f"xor i1 {packed}, true"))
        turnable = f.both(turnable, f.is_("sle", a["columns"], str(shape.panel)))
        if shape.rows == 8:
            held_ = holds(f, shape, rows, a["depth"])
            held_ = f.both(held_, f.both(f.either(beside, turnable), plain))
            held_ = f.both(held_, f.let(f"xor i1 {f.either(dotted, short)}, true"))
            short = f.either(short, held_)
        turned_ = f.both(turned_, f.let(f"xor i1 {short}, true"))
        special = f.either(special, short)
        streamed_ = f.both(
            beside, streams(f, shape, rows, part_columns, a["depth"], a["right_step"])
        )
        streamed_ = f.both(streamed_, f.let(f"xor i1 {special}, true"))
    usual = f.let(f"xor i1 {f.either(special, streamed_)}, true")
    # Left rows that must be packed are packed once for each chunk, so small chunks would cost more.
    ahead = f.both(packed, f.is_("eq", a["left_step"], size))
    near = f.both(along, f.is_("sge", a["depth"], str(_NEAR_STEPS)))
    near = f.both(near, f.is_("sle", rows, str(_NEAR_ROWS)))
    if SOURCES[dtype][0] != shape.element:
        near = "false"  # left rows are widened once for each chunk
    chunk = _chunk(f, shape, ahead, near, a["depth"])
    with f.loop("0", a["batch0"]) as i, f.loop("0", a["batch1"]) as j:
        told = f.add(i, a["origin0"]), f.add(j, a["origin1"])
        left = Matrix(_place(f, a, "left", i, j), a["left_row"], a["left_step"])
        right = Matrix(_place(f, a, "right", i, j), a["right_column"], a["right_step"])
        room = Scratch.of(f, shape, a["scratch"])
        out = _place(f, a, "out", i, j)
        part = (
            f"i64 {a['first_row']}, i64 {a['last_row']}, "
            f"i64 {first_column}, i64 {a['last_column']}, ptr {out}, i64 {a['out_row']}"
        )
        told_ = f"ptr {a['state']}, i64 {told[0]}, i64 {told[1]}"
        rest = f"i1 {accumulate}, ptr {a['epilogue']}, {told_}"
        with f.when(dotted):
            lines = _turned_rows(f, shape, left, stands, room.panels, rows, a)
            f.line(
                f"call void @dots(ptr {lines.base}, i64 {lines.line}, ptr {right.base}, "
                f"i64 {right.line}, i64 {a['depth']}, {part}, i64 {shape.size}, {rest}, "
                f"ptr {room.tile})"
            )
        with f.when(turned_):
            blocks = f.ceil_div(a["depth"], DEPTH)
            blocks = f.select(f.is_("eq", blocks, "0"), "1", blocks)
            with f.loop("0", blocks) as index:
                onward = f.add(index, "1")
                start = f.div(f.mul(a["depth"], index), blocks)
                steps = f.sub(f.div(f.mul(a["depth"], onward), blocks), start)
                x, y = f.mul(start, left.step), f.mul(start, narrow.step)
                closing = f.is_("eq", onward, blocks)
                more = f.either(accumulate, f.is_("ne", index, "0"))
                f.line(
                    f"call void @turned(ptr {f.at(left.base, x)}, i64 {left.line}, "
                    f"i64 {left.step}, ptr {f.at(right.base, y)}, i64 {narrow.line}, "
                    f"i64 {narrow.step}, i64 {steps}, {part}, i1 {more}, "
                    f"ptr {f.select(closing, a['epilogue'], 'null', 'ptr')}, {told_}, "
                    f"ptr {a['scratch']})"
                )
        with f.when(shallow_):
            f.line(
                f"call void @outer(ptr {left.base}, i64 {left.line}, i64 {left.step}, "
                f"ptr {right.base}, i64 {right.step}, i64 {a['depth']}, {part})"
            )
        if held_ != "false":
            with f.when(held_):
                matrix = _turned_columns(f, shape, right, room.panels, a)
                f.line(
                    f"call void @held(ptr {left.base}, i64 {left.line}, i64 {left.step}, "
                    f"ptr {matrix.base}, i64 {matrix.step}, i64 {a['depth']}, {part})"
                )
        with f.when(thin_):
            place = f.mul(a["first_column"], narrow.line)
            goal = f.at(out, f.mul(a["first_column"], str(shape.size)))
            f.line(
                f"call void @upright(ptr {left.base}, i64 {left.step}, "
                f"ptr {f.at(right.base, place)}, i64 {narrow.step}, i64 {narrow.line}, "
                f"i64 {a['depth']}, i64 {part_columns}, i64 {a['first_row']}, "
                f"i64 {a['last_row']}, ptr {goal}, i64 {a['out_row']})"
            )
        with f.when(streamed_):
            f.line(
                f"call void @streamed(ptr {left.base}, i64 {left.line}, i64 {left.step}, "
                f"ptr {right.base}, i64 {right.step}, i64 {a['depth']}, {part}, {rest}, "
                f"ptr {a['scratch']})"
            )
        with f.when(mirrored):
            lines = narrow.columns(f, shape, a, right.base, room.panels)
            f.line(
                f"call void @dots(ptr {lines.base}, i64 {lines.line}, ptr {left.base}, "
                f"i64 {left.line}, i64 {a['depth']}, i64 {first_column}, "
                f"i64 {a['last_column']}, i64 {a['first_row']}, i64 {a['last_row']}, ptr {out}, "
                f"i64 {shape.size}, i64 {a['out_row']}, {rest}, ptr {room.tile})"
            )
        operands = Operands(f, shape, dtype, room, left, right, columns, few)
        with f.when(usual):
            Multiply(
                f,
                shape,
                right=lambda block: operands.packed(a["depth"], packed, block),
                left=operands.left_rows,
                room=room,
                part_rows=(a["first_row"], a["last_row"]),
                part_columns=(a["first_column"], last_column),
                columns=columns,
                depth=a["depth"],
                out=out,
                out_row=a["out_row"],
                accumulate=accumulate,
                epilogue=a["epilogue"],
                state=a["state"],
                place=told,
                chunk=chunk,
                stands=operands.stands,
                strips=True,
            ).write()
    return f.text()


def _turnable(f: Routine, shape: TileConfig, dtype: str, rows: str, a: dict[str, str]) -> str:
    """Whether few rows that lie side by side are transposed for dot products (an i1)."""
    if SOURCES[dtype][0] != shape.element:
        return "false"
    most = panel_capacity(shape) // FEW_ROWS - shape.lanes
    conditions = [
        f.is_("eq", a["left_row"], str(shape.size)),
        f.is_("sle", a["depth"], str(most)),
        # With fewer steps, adding up lanes costs too much; narrow tiles do more rows as fast.
        f.is_("sge", a["depth"], f.mul(rows, str(_TURNED_STEPS))),
        f.is_("sle", rows, str(_TURNED_ROWS if narrow(shape) else FEW_ROWS)),
    ]
    return f.every(conditions)


def _turned_rows(
    f: Routine,
    shape: TileConfig,
    left: Matrix,
    stands: str,
    room: str,
    rows: str,
    a: dict[str, str],
) -> Matrix:
    """Return a left operand with its steps side by side.

    stands: an i1, whether the operand is read in place; else it is transposed into `room`
    """
    size = str(shape.size)
    width = f.mul(f.ceil_div(a["depth"], shape.lanes), str(shape.lanes))
    line = f.mul(width, size)
    with f.when(f.let(f"xor i1 {stands}, true")):
        first = f.at(left.base, f.mul(a["first_row"], left.line))
        f.line(
            f"call void @pack_right(ptr {first}, i64 {left.line}, i64 {left.step}, i64 {rows}, "
            f"i64 {a['depth']}, i64 {width}, ptr {room})"
        )
    base = f.at(room, f.sub("0", f.mul(a["first_row"], line)))
    return Matrix(f.select(stands, left.base, base, "ptr"), f.select(stands, left.line, line), size)


def _turned_columns(
    f: Routine, shape: TileConfig, right: Matrix, room: str, a: dict[str, str]
) -> Matrix:
    """Return a right operand with its columns side by side, in place or as a panel in `room`."""
    size = str(shape.size)
    stands = f.is_("eq", right.line, size)
    width = str(shape.panel)
    with f.when(f.let(f"xor i1 {stands}, true")):
        pack_panel(f, shape, right, a["columns"], a["depth"], "0", str(shape.vectors), room)
    step = f.select(stands, right.step, f.mul(width, size))
    return Matrix(f.select(stands, right.base, room, "ptr"), size, step)


def _chunk(f: Routine, shape: TileConfig, ahead: str, near: str, depth: str) -> str:
    """The number of columns in a chunk.

    Left rows are read, or packed, once for each chunk. Where the depth is small, many panels fit.

    ahead: an i1, whether a chunk has no more panels than can be prefetched in time
    near: an i1, whether a few rows, read in place, multiply each panel while the panel is in the
        first-level cache
    """
    steps = f.minimum(depth, str(DEPTH))
    panel = f.mul(steps, str(shape.panel * shape.size))
    most = _NARROW_CHUNK_BYTES if narrow(shape) else _CHUNK_BYTES
    fewer = f.add(f.div(str(most), f.add(panel, "1")), "1")
    steps = f.select(f.is_("eq", steps, "0"), "1", steps)
    more = f.div(str(column_panels(shape) * DEPTH), steps)
    if not narrow(shape):
        more = f.select(near, "1", more)
    return f.mul(f.select(ahead, fewer, more), str(shape.panel))
