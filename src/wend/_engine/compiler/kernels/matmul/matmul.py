"""Matrix products: out[i, j] = sum over k of left[i, k] * right[k, j], for any sizes and strides.

`core(dtype)` returns a library with two functions, compiled once per processor and dtype:

    void product(ptr args)      the product, in two levels of batch
    void pack(ptr args)         the right operand, rearranged once for many products

`args` is an argument block: 64-bit words, a word per name in PRODUCT or PACK, in that order, which
are pointers or integers. Strides count elements, and may be zero or negative. Only `out` must have
its columns side by side.

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

`epilogue(name, dtype, body)` writes an epilogue with a loop over rows and vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from wend._engine.base.records import Record
from wend._engine.compiler.kernels.matmul import blocked, small_n  # noqa: F401  (variants)
from wend._engine.compiler.kernels.matmul.choice import ProductChoice, ProductSite
from wend._engine.compiler.kernels.matmul.dot_products import dots
from wend._engine.compiler.kernels.matmul.gemv import streamed
from wend._engine.compiler.kernels.matmul.macrokernel import (
    DEPTH,
    Scratch,
    arguments,
    direct_rows,
    panels,
    scratch_size,
)
from wend._engine.compiler.kernels.matmul.microkernel import EPILOGUE, TileConfig, lane_mask, tiles
from wend._engine.compiler.kernels.matmul.operands import Matrix, pack_panel
from wend._engine.compiler.kernels.matmul.packing import SOURCES, pack_left, pack_right
from wend._engine.compiler.kernels.matmul.sizes import PRODUCT
from wend._engine.compiler.kernels.matmul.small_k import held, outer, upright
from wend._engine.compiler.kernels.matmul.transposed import turn_tile, turned
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool, Int
from wend._engine.compiler.llvm_ir.jit import (
    Library,
    Target,
    cached_by_processor,
    compile_module,
    written_for,
)

PACK = "right packed depth columns right_step right_column batch0 batch1 right0 right1".split()


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
    return _shape(dtype, written_for() if target is None else target)


def tile_columns(dtype: str, target: Target | None = None) -> int:
    """The elements between the rows of a tile that an epilogue gets."""
    return _of(dtype, target).panel


def hands_strips(dtype: str, target: Target | None = None) -> bool:
    """Whether an epilogue may get several tiles side by side as a single tile."""
    return _of(dtype, target).hands_strips


def lanes(dtype: str, target: Target | None = None) -> int:
    """The number of accumulators in a vector."""
    return _of(dtype, target).lanes


def depth_block() -> int:
    """The largest depth that is summed up as a single block."""
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


def sizes_of(dtype: str, target: Target | None = None, **numbers: int) -> ProductChoice:
    """Return the sizes of a product known before the call, by words of PRODUCT (in elements)."""
    return ProductChoice.known(_of(dtype, target), dtype, **numbers)


def scratch_bytes(dtype: str, target: Target | None = None) -> int:
    """The bytes of the memory `scratch` of `product`, for any sizes."""
    return scratch_size(_of(dtype, target))


@cache
def core(dtype: str) -> Library:
    """Return the library of `product` and `pack` for this processor. The first call compiles it."""
    return compile_module(core_text(dtype), ["product", "pack"])


@cached_by_processor
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
    body: appends the instructions for a vector of sums, of `lanes(dtype)` elements; a lane
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
    words = {name: Int(word, f) for name, word in a.items()}
    p = ProductChoice(shape, dtype, words, Bool(packed, f), Bool(accumulate, f), f)
    chosen = p.chosen()
    with f.loop("0", a["batch0"]) as i, f.loop("0", a["batch1"]) as j:
        told = f.add(i, a["origin0"]), f.add(j, a["origin1"])
        left = Matrix(_place(f, a, "left", i, j), a["left_row"], a["left_step"])
        right = Matrix(_place(f, a, "right", i, j), a["right_column"], a["right_step"])
        room = Scratch.of(f, shape, a["scratch"])
        site = ProductSite(f, p, a, room, left, right, _place(f, a, "out", i, j), told)
        for variant, condition in chosen:
            with f.when(condition):
                variant.emit(site)
    return f.text()
