"""The function `winograd`: squares are transformed, multiplied and joined, a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wend._engine.base.records import Record
from wend._engine.compiler.kernels.conv.image_batches import pieces
from wend._engine.compiler.kernels.conv.winograd.squares import (
    FIRST,
    FRONT,
    LEAST_ROWS,
    MANY,
    NARROW,
    Squares,
    chunk_of,
    is_padded,
    squares_of,
    together,
)
from wend._engine.compiler.kernels.matmul.blocks import CacheBlock, PanelAddresses
from wend._engine.compiler.kernels.matmul.macrokernel import (
    Multiply,
    Scratch,
    Tiles,
    arguments,
    panels,
)
from wend._engine.compiler.kernels.matmul.microkernel import TileConfig
from wend._engine.compiler.kernels.matmul.operands import Matrix, Operands
from wend._engine.compiler.llvm_ir.function import Routine


def winograd(shape: TileConfig, dtype: str, names: list[str], way: Squares) -> str:
    """The text of the function `winograd` + way.name, which computes a convolution."""
    f = Routine("winograd" + way.name, [("ptr", "args")], internal=True)
    a = arguments(f, names, "input out epilogue state scratch workspace spread")
    room = Scratch.of(f, shape, a["scratch"])
    unit = str(shape.size)
    filters = f"call void @spread_filters{way.name}(ptr %args)"
    with f.when(f.is_("eq", a["turned"], "0")):
        f.line(filters)
    flag = f.at(a["workspace"], way.flag - FRONT)
    with (
        f.when(f.is_("sge", a["turned"], str(FIRST))),
        f.when(f.is_("eq", f.load("i64", flag, 8), "0")),
    ):
        f.line(filters)
        f.store("i64", "1", flag, 8)
    high, wide = squares_of(f, a, way)
    squares = f.mul(high, wide)
    # A call may compute a part of one image: the squares whose first position is in that part.
    rows = [
        f.div(f.add(a[name], f.sub(line, "1")), line)
        for line in [f.mul(a["out_width"], str(way.side))]
        for name in ("first_column", "last_column")
    ]
    if way.by_panel:  # the positions may reach beyond the last row, see `pool_squares`
        rows = [f.minimum(row, high) for row in rows]
    begin, end = (f.mul(row, wide) for row in rows)
    columns = f.add(end, f.mul(squares, f.sub(a["images"], "1")))
    image_bytes = f.mul(a["input_image"], unit)
    depth_bytes = f.mul(a["channels"], unit)
    plane = f.mul(a["filters"], depth_bytes)
    kernels = way.kernels(f, a, depth_bytes)
    with f.turns(begin, columns) as chunks:
        first = chunks.index
        count = chunk_of(f, shape, a, way, columns, first)
        chunks.step = count
        # Each plane is a vector longer than its data, or all planes would use the same cache sets.
        each = shape.panel if is_padded(shape) else shape.lanes
        blocks = f.ceil_div(count, each)
        line = f.mul(blocks, str(each * shape.size))
        padded = f.mul(blocks, str(each)) if is_padded(shape) else count
        apart = f.add(f.mul(line, a["channels"]), str(shape.bytes))
        sums_apart = f.add(f.mul(line, a["filters"]), str(shape.bytes))
        sums = f.at(a["spread"], f.mul(apart, str(way.places)))
        with panels(f, shape, "0", padded, padded) as (column, width):
            row = f.mul(width, str(shape.bytes))
            valid = f.minimum(f.sub(count, column), f.mul(width, str(shape.lanes)))
            place = f.at(a["spread"], f.mul(column, depth_bytes))
            here = f.add(first, column)
            if way.by_panel:
                operands = f"i64 {here}, i64 {valid}, ptr {place}, i64 {apart}"
                f.line(f"call void @spread_panel(ptr %args, {operands})")
            else:
                with pieces(f, squares, here, valid) as (image, at, before, some):
                    source = f.at(a["input"], f.mul(image, image_bytes))
                    to = f.at(place, f.mul(before, unit))
                    f.line(
                        f"call void @spread_image(ptr %args, ptr {source}, i64 {at}, i64 {some}, "
                        f"i64 {row}, ptr {to}, i64 {apart})"
                    )
        products = _Products(
            (kernels, plane), (a["spread"], apart), (sums, sums_apart), depth_bytes, line, padded
        )
        if way.by_panel:
            _multiply_panels(f, shape, a, way, products, count)
        else:
            _multiply(f, shape, dtype, room, a, products)
        if way.by_panel:
            operands = f"ptr {sums}, i64 {line}, i64 {sums_apart}, i64 {first}, i64 {count}"
            f.line(f"call void @join_squares(ptr %args, {operands})")
        else:
            with pieces(f, squares, first, count) as (image, at, before, some):
                out = f.at(a["out"], f.mul(image, f.mul(a["out_image"], unit)))
                f.line(
                    f"call void @join_image(ptr %args, ptr {f.at(sums, f.mul(before, unit))}, "
                    f"i64 {line}, i64 {sums_apart}, i64 {at}, i64 {some}, "
                    f"i64 {f.add(image, a['origin'])}, ptr {out}, ptr {room.tile})"
                )
    return f.text()


class _Products(Record):
    """The addresses and strides of the matrix products of a chunk.

    kernels, spread, sums: the address of the first place's plane, and the bytes to the next plane
    row, line: the bytes of a row of the kernels, and of a row of the sums
    columns: the columns of the product, which are squares
    """

    kernels: tuple[str, str]
    spread: tuple[str, str]
    sums: tuple[str, str]
    row: str
    line: str
    columns: str

    @staticmethod
    def of_place(f: Routine, base: tuple[str, str], k: str) -> str:
        """The address of plane `k`. base: any of the three pairs of this record"""
        return f.at(base[0], f.mul(k, base[1]))


def _multiply(
    f: Routine, shape: TileConfig, dtype: str, room: Scratch, a: dict[str, str], products: _Products
) -> None:
    """Write the products of all places, for squares of 2 x 2 and any weight."""
    row, columns = products.row, products.columns
    with f.loop("0", str(NARROW.places)) as k:
        left = Matrix(products.of_place(f, products.kernels, k), row, str(shape.size))
        base = products.of_place(f, products.spread, k)
        operands = Operands(f, shape, dtype, room, left, left, columns, "false")

        def spread_panels(block: CacheBlock, base: str = base) -> PanelAddresses:
            return PanelAddresses(base, row, f.mul(block.start, str(shape.bytes)))

        Multiply(
            f,
            shape,
            right=spread_panels,
            left=operands.left_rows,
            room=room,
            part_rows=("0", a["filters"]),
            part_columns=("0", columns),
            columns=columns,
            depth=a["channels"],
            out=products.of_place(f, products.sums, k),
            out_row=products.line,
            accumulate="false",
            epilogue="null",
            state="null",
            place=("0", "0"),
            chunk=str(MANY + shape.lanes),
        ).write()


def _multiply_panels(
    f: Routine,
    shape: TileConfig,
    a: dict[str, str],
    way: Squares,
    products: _Products,
    squares: str,
) -> None:
    """Write the products of all places, for few squares and a weight that is not large.

    The choices that `Multiply` makes at run time are known here. A last panel whose squares fill
    only a single vector is multiplied by a tile of its own, see `tiles_4x4`.
    """
    last = f.sub(f.div(products.columns, str(shape.panel)), "1")
    short = "true"
    if shape.vectors > 1:
        empty = f.sub(products.columns, squares)
        short = f.is_("sge", empty, str(shape.panel - shape.lanes))
        whole = f.add(last, f.let(f"zext i1 {f.let(f'xor i1 {short}, true')} to i64"))
        with f.when(f.is_("ne", whole, "0")):
            _multiply_whole(f, shape, a, way, products, whole)
    with (
        f.when(short),
        f.loop("0", str(way.places), str(together(shape))) as k,
        _tiles_of_place(f, shape, a, products, k) as (left, right, out, height, _),
        f.loop("0" if shape.vectors == 1 else last, f.add(last, "1")) as panel,
    ):
        right = f.at(right, f.mul(panel, f.mul(products.row, str(shape.panel))))
        out = f.at(out, f.mul(panel, str(shape.panel * shape.size)))
        number = f.sub(height, str(LEAST_ROWS))
        single = f.load("ptr", f.at("@singles", f.mul(number, "8")), 8)
        f.line(
            f"call void {single}(ptr {left}, i64 {products.row}, i64 {products.kernels[1]}, "
            f"ptr {right}, i64 {products.spread[1]}, i64 {a['channels']}, "
            f"ptr {out}, i64 {products.line}, i64 {products.sums[1]})"
        )


def _multiply_whole(
    f: Routine,
    shape: TileConfig,
    a: dict[str, str],
    way: Squares,
    products: _Products,
    panels_: str,
) -> None:
    """Write the products of the first `panels_` panels.

    Each tile prefetches the kernels of the next tile, which may belong to the next place.
    """
    row_bytes = str(shape.panel * shape.size)
    part = f.add(f.div(str(shape.rows * shape.size - 1), panels_), "1")
    soon = f"i64 {f.mul(part, a['channels'])}, i64 {panels_}, i64 {part}, i64 0"
    apart = f.mul(products.row, str(shape.panel))
    with (
        f.loop("0", str(way.places)) as k,
        _tiles_of_place(f, shape, a, products, k) as (left, right, out, height, later),
    ):
        strip = f.load("ptr", f.at("@strips", f.mul(f.sub(height, "1"), "8")), 8)
        f.line(
            f"call void {strip}(ptr {left}, i64 {products.row}, i64 {shape.size}, ptr {right}, "
            f"i64 {row_bytes}, i64 {apart}, i64 {a['channels']}, i64 {panels_}, ptr null, "
            f"ptr {out}, i64 {products.line}, ptr {later}, {soon})"
        )


@contextmanager
def _tiles_of_place(
    f: Routine, shape: TileConfig, a: dict[str, str], products: _Products, k: str
) -> Iterator[tuple[str, str, str, str, str]]:
    """A loop over the tiles of all filters of place `k`.

    Yields the addresses of a tile's kernels, panels and sums, the tile's height, and the address
    of the next tile's kernels.
    """
    first, right, goal = (
        products.of_place(f, base, k) for base in (products.kernels, products.spread, products.sums)
    )
    tiles = Tiles.of(f, shape, a["filters"])
    with f.turns("0", tiles.count) as loop:
        left, out = loop.carry("ptr", first), loop.carry("ptr", goal)
        height = tiles.height(f, loop.index)
        later = f.at(left, f.mul(height, products.row))
        loop.become(left, later)
        loop.become(out, f.at(out, f.mul(height, products.line)))
        yield left, right, out, height, later
