"""The data that tiles of a matrix product prefetch for later tiles.

The processor foresees neither where the next chunk of packed panels begins, nor rows of which only
the first has been read. All fields are names of LLVM values; strides are in bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from wend._engine.compiler.kernels.matmul.blocks import CacheBlock, PanelAddresses, PrefetchTarget
from wend._engine.compiler.kernels.matmul.microkernel import TileConfig
from wend._engine.compiler.llvm_ir.function import Routine


class PrefetchStream(NamedTuple):
    """The data that the tiles of some rows prefetch.

    start, apart: the tile of panel t prefetches from start + t * apart on
    turns: the number of panels whose tiles prefetch
    bytes: the bytes from a prefetch to the next
    halved: each prefetch is repeated for 2 ** halved steps of depth
    """

    start: str
    apart: str
    turns: str
    bytes: str
    halved: str

    def of(self, f: Routine, turn: str, place: str) -> str:
        """The arguments of a tile. turn, place: the panel's number, and start + turn * apart"""
        there = f.is_("slt", turn, self.turns)
        place = f.select(there, place, self.start, "ptr")
        return f"ptr {place}, i64 {f.select(there, self.bytes, '0')}, i64 {self.halved}"

    def whole(self, f: Routine) -> str:
        """The arguments of a strip of tiles."""
        bytes_ = f.select(f.is_("sgt", self.turns, "0"), self.bytes, "0")
        return (
            f"ptr {self.start}, i64 {self.apart}, i64 {self.turns}, i64 {bytes_}, i64 {self.halved}"
        )


#: LLVM's names of the types of the fields of `PrefetchStream`.
SOON = ("ptr", "i64", "i64", "i64", "i64")


def ahead(
    f: Routine,
    shape: TileConfig,
    block: CacheBlock,
    addresses: PanelAddresses,
    later: PrefetchTarget,
    count: str,
    whole: tuple[str, str],
) -> Callable[[str, str], PrefetchStream]:
    """Return a function from (address of later rows, number of a tile) to the data to prefetch.

    Tiles prefetch the next panels if all panels are in memory, else the rows of later tiles.

    addresses: the panels of the block
    later: the rows to prefetch
    count: the tiles of a panel
    whole: the columns and the depth of the product
    """
    rows = _later_rows(f, shape, block, later, count)
    if addresses.whole == "false":
        return rows
    panels = _next_panels(f, shape, block, addresses, count, whole)

    def either(base: str, tile: str) -> PrefetchStream:
        usual = rows(base, tile)
        choices = zip(panels(tile), usual, SOON, strict=True)
        nearer = f.both(addresses.whole, f.let(f"xor i1 {later.own}, true"))
        return PrefetchStream(*(f.select(nearer, *each) for each in choices))

    return either


def _later_rows(
    f: Routine, shape: TileConfig, block: CacheBlock, later: PrefetchTarget, count: str
) -> Callable[[str, str], PrefetchStream]:
    """Return the function of `ahead` for the rows of later tiles.

    Rows whose steps lie apart are prefetched line by line. Two neighbouring tiles share these
    lines, so the panels of both share the work. Each panel prefetches some steps, so slowly that
    loads do not wait.
    """
    panels = f.ceil_div(f.sub(block.last, block.first), shape.panel)
    step = f.div(f.add(later.step, f.sub(panels, "1")), panels)
    step = f.select(later.shared, step, later.step)
    zeros = f.let(f"call i64 @llvm.ctlz.i64(i64 {panels}, i1 true)")
    each = f.either(later.shared, later.own)
    halved = f.select(each, "0", f.sub("64", zeros))  # 2 ** halved <= 2 * panels
    parts = f.let(f"shl i64 1, {halved}")
    turns = f.select(each, panels, parts)
    steps = f.let(f"lshr i64 {f.add(block.depth, f.sub(parts, '1'))}, {halved}")

    def rows(base: str, tile: str) -> PrefetchStream:
        second = f.both(f.let(f"trunc i64 {tile} to i1"), f.let(f"xor i1 {each}, true"))
        turn = f.select(second, panels, "0")
        there = f.is_("slt", f.add(tile, later.tiles), count)
        bytes_ = f.select(there, step, "0")
        apart = f.select(later.own, "0", f.mul(steps, bytes_))
        start = f.at(base, f.mul(turn, apart))
        return PrefetchStream(start, apart, f.sub(turns, turn), bytes_, halved)

    return rows


def _next_panels(
    f: Routine,
    shape: TileConfig,
    block: CacheBlock,
    addresses: PanelAddresses,
    count: str,
    whole: tuple[str, str],
) -> Callable[[str], PrefetchStream]:
    """Return a function from the number of a tile to the data to prefetch of the next panels.

    The tiles of a panel share the prefetching of the next panel.
    """
    columns, depth = whole
    share = f.div(f.add(str(shape.panel * shape.size), f.sub(count, "1")), count)
    end = f.add(block.start, block.depth)
    closing = f.is_("eq", end, depth)
    later = f.select(closing, block.last, block.first)
    offset = f.select(closing, "0", f.mul(end, str(shape.vectors * shape.bytes)))
    start = f.at(addresses.base, f.add(f.mul(later, addresses.per_column), offset))
    turns = f.ceil_div(f.sub(columns, later), shape.panel)
    apart = f.mul(addresses.per_column, str(shape.panel))
    part = f.mul(share, block.depth)

    def panels(tile: str) -> PrefetchStream:
        return PrefetchStream(f.at(start, f.mul(tile, part)), apart, turns, share, "0")

    return panels
