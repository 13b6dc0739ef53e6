"""Matrices as operands of a blocked product: read in place where that is quick, else packed."""

from __future__ import annotations

from wend._engine.base.records import Record
from wend._engine.compiler.kernels.matmul.blocks import CacheBlock, PanelAddresses, PrefetchTarget
from wend._engine.compiler.kernels.matmul.macrokernel import (
    GROUP,
    Scratch,
    TileGroup,
    TileRows,
    is_partial,
    most_rows,
    packed_apart,
    panels,
)
from wend._engine.compiler.kernels.matmul.microkernel import TileConfig
from wend._engine.compiler.kernels.matmul.packing import SOURCES
from wend._engine.compiler.llvm_ir.function import Routine

#: The rows of a right operand that are packed for all panels of a block before the next rows.
_PIECE = 8
#: The most bytes from the first to the last step of a left operand that is read in place though its
#: steps lie apart. Such an operand stays in the second-level cache beside the panels.
_NEAR = 1 << 19
#: More than _WAYS steps, a multiple of _CROWDED bytes apart, evict each other from the first-level
#: cache.
_WAYS, _CROWDED = 8, 1 << 12
#: The steps by which the left operand of a tall tile is prefetched ahead.
_SOON = 12
#: The steps below which packing the left operand saves less.
_SHALLOW = 64


class Matrix(Record):
    """An operand in memory.

    base: the address
    line: the bytes to the next row of a left operand, or column of a right operand
    step: the bytes to the next step of the depth
    """

    base: str
    line: str
    step: str


def pack_panel(
    f: Routine,
    shape: TileConfig,
    matrix: Matrix,
    columns: str,
    depth: str,
    column: str,
    width: str,
    place: str,
) -> None:
    """Write the call that packs a panel of a right operand.

    columns, depth: the columns of the whole operand, and the steps to pack
    column, width: the first column of the panel, and the number of vectors
    place: the address of the packed panel
    """
    here = f.at(matrix.base, f.mul(column, matrix.line))
    lanes = f.mul(width, str(shape.lanes))
    valid = f.minimum(f.sub(columns, column), lanes)
    f.line(
        f"call void @pack_right(ptr {here}, i64 {matrix.step}, i64 {matrix.line}, "
        f"i64 {depth}, i64 {valid}, i64 {lanes}, ptr {place})"
    )


class Operands(Record):
    """The hooks of `Multiply` for two matrices. few: an i1, whether few rows use each panel"""

    f: Routine
    shape: TileConfig
    dtype: str
    room: Scratch
    left: Matrix
    right: Matrix
    columns: str
    few: str

    def packed(self, depth: str, packed: str, block: CacheBlock) -> PanelAddresses:
        """The panels of a block, of a right operand that may have been packed as a whole.

        depth: the depth of the product
        packed: an i1, whether the operand has been packed by `pack`
        """
        f, shape = self.f, self.shape
        unpacked = f.let(f"xor i1 {packed}, true")
        here = self.panels(block, unpacked)
        whole = f.mul(depth, str(shape.size))
        return PanelAddresses(
            f.select(packed, self.right.base, here.base, "ptr"),
            f.select(packed, whole, here.per_column),
            f.select(packed, f.mul(block.start, str(shape.bytes)), "0"),
            here.direct,
            here.step,
            here.spare,
            packed,
            here.copied,
            here.source,
        )

    def panels(self, block: CacheBlock, wanted: str = "true") -> PanelAddresses:
        """The panels of a block of the right operand: in place if few rows use them, else packed.

        wanted: an i1, whether the panels are used at all
        """
        f, shape = self.f, self.shape
        element, size = SOURCES[self.dtype]
        direct = copied = "false"
        beside = f.is_("eq", self.right.line, str(size))
        if element == shape.element:
            direct = f.both(f.both(beside, self.few), wanted)
            copied = f.both(f.both(beside, f.let(f"xor i1 {direct}, true")), wanted)
        source = f.at(self.right.base, f.mul(block.start, self.right.step))
        matrix = Matrix(source, self.right.line, self.right.step)
        bytes_ = f.mul(block.depth, str(shape.size))
        # A few rows at a time are packed for all panels, because rows may lie pages apart.
        many = f.both(beside, f.let(f"xor i1 {f.either(direct, copied)}, true"))
        piece = f.select(many, str(_PIECE), block.depth)
        with f.when(wanted), f.loop("0", block.depth, piece) as k:
            steps = f.minimum(piece, f.sub(block.depth, k))
            here = Matrix(f.at(source, f.mul(k, matrix.step)), matrix.line, matrix.step)
            with panels(f, shape, block.first, block.last, self.columns) as (column, width):
                partial = is_partial(f, shape, column, width, self.columns)
                later = f.either(direct, f.both(copied, f.is_("eq", width, str(shape.vectors))))
                with f.when(f.either(partial, f.let(f"xor i1 {later}, true"))):
                    place = f.mul(f.sub(column, block.first), bytes_)
                    place = f.at(self.room.panels, f.select(direct, "0", place))
                    place = f.at(place, f.mul(k, f.mul(width, str(shape.bytes))))
                    pack_panel(f, shape, here, self.columns, steps, column, width, place)
        scratch = f.at(self.room.panels, f.sub("0", f.mul(block.first, bytes_)))
        return PanelAddresses(
            f.select(direct, source, scratch, "ptr"),
            f.select(direct, str(shape.size), bytes_),
            direct=direct,
            step=self.right.step,
            spare=self.room.panels,
            copied=copied,
            source=source,
        )

    def stands(self, block: CacheBlock) -> str:
        """Whether the left operand is read in place (an i1)."""
        f, shape, left = self.f, self.shape, self.left
        element, size = SOURCES[self.dtype]
        if element != shape.element:
            return "false"
        along = f.is_("eq", left.step, str(size))
        # Packing does not pay for a single panel, nor for rows side by side that stay in the cache.
        single = f.is_("sle", f.sub(block.last, block.first), str(shape.panel))
        across = f.is_("eq", left.line, str(size))
        small = f.is_("ule", f.mul(block.depth, left.step), str(_NEAR))
        panels = f.select(f.is_("slt", block.depth, str(_SHALLOW)), "3", "2")
        few = f.is_("sle", f.sub(block.last, block.first), f.mul(panels, str(shape.panel)))
        over = f.let(f"and i64 {left.step}, {_CROWDED - 1}")
        crowded = f.both(f.is_("eq", over, "0"), f.is_("sgt", block.depth, str(_WAYS)))
        few = f.both(few, f.let(f"xor i1 {crowded}, true"))
        return f.either(f.either(along, single), f.both(across, f.both(small, few)))

    def left_rows(self, group: TileGroup) -> TileRows:
        """The rows of a group of tiles of the left operand: in place if `stands`, else packed."""
        f, shape, left = self.f, self.shape, self.left
        size = SOURCES[self.dtype][1]
        block = group.block
        offset = f.add(f.mul(group.row, left.line), f.mul(block.start, left.step))
        source = f.at(left.base, offset)
        along = f.is_("eq", left.step, str(size))
        stands = self.stands(block)
        with f.when(f.let(f"xor i1 {stands}, true")):
            f.line(
                f"call void @pack_left(ptr {source}, i64 {left.line}, i64 {left.step}, "
                f"i64 {block.depth}, i64 {group.tiles}, i64 {group.each}, i64 {group.more}, "
                f"ptr {self.room.rows}, i64 {packed_apart(shape)})"
            )
        # Packed tiles are (rows, depth) if steps lie side by side in the source; or (depth, rows).
        unit = str(shape.size)
        row = f.select(along, f.mul(block.depth, unit), unit)
        return TileRows(
            f.select(stands, source, self.room.rows, "ptr"),
            f.select(stands, left.line, row),
            f.select(stands, left.step, f.select(along, unit, "0")),
            f.select(f.either(stands, along), "0", unit),
            f.select(stands, "0", str(packed_apart(shape))),
            f.select(stands, left.line, "0"),
            self._later(group, source, stands, along),
        )

    def _later(self, group: TileGroup, source: str, stands: str, along: str) -> PrefetchTarget:
        """The rows to prefetch: of the next tile if read in place, of the next group if packed."""
        f, shape, left = self.f, self.shape, self.left
        size = SOURCES[self.dtype][1]
        shared = f.both(stands, along)
        tiles = f.select(shared, "1", str(GROUP))
        first = f.add(f.mul(group.each, tiles), f.minimum(group.more, tiles))
        # Rows follow closely with little in between, or steps lie far apart.
        tile = shape.rows * size
        length = f.mul(group.block.depth, str(size))
        near = f.is_("ule", left.line, f.mul(length, "2"))
        step = f.select(near, str(2 * tile), "0")
        step = f.select(f.is_("ule", left.line, length), str(tile), step)
        across = f.is_("eq", left.line, str(size))
        step = f.select(shared, step, f.select(across, left.step, "0"))
        own = "false"
        if shape.fills_lines:
            # Tall tiles whose steps lie apart must prefetch their own operand.
            most = most_rows(f, shape, f.sub(self.columns, group.block.first))
            own = f.both(f.both(stands, across), f.is_("sgt", most, str(shape.rows)))
        start = f.select(own, f.mul(left.step, str(_SOON)), f.mul(first, left.line))
        tiles = f.select(own, "0", tiles)
        return PrefetchTarget(f.at(source, start), left.line, step, shared, tiles, own)
