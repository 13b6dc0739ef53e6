"""Parts of a product in generated code: columns and depth of a block, panels, rows to prefetch.

All fields are names of LLVM values, or numbers as texts.
"""

from __future__ import annotations

from wend._engine.base.records import Record


class CacheBlock(Record):
    """Columns first ... last - 1 of a product, and a part of its depth from `start` on."""

    first: str
    last: str
    start: str
    depth: str


class PanelAddresses(Record):
    """The addresses of a block's panels.

    A panel of w vectors is at base + column * per_column + w * per_width. Packed panels are dense.

    direct: an i1, whether panels are read in place, from a matrix whose rows are `step` bytes
        apart; a panel that is not whole is packed at `spare` instead
    whole: an i1, whether the panels of all columns and of the whole depth are in memory
    copied: an i1, whether the widest panels are not packed yet; the first tiles read them at
        `source` + column elements, in rows `step` bytes apart, and pack them
    """

    base: str
    per_column: str
    per_width: str = "0"
    direct: str = "false"
    step: str = "0"
    spare: str = "null"
    whole: str = "false"
    copied: str = "false"
    source: str = "null"


class PrefetchTarget(Record):
    """The left operand's rows that a group's tiles prefetch.

    base: the address of the rows that are read `tiles` tiles after the group's first tile; the
        second tile prefetches the rows of the tile after that, and so on
    row: the bytes to the next row
    step: the bytes to prefetch in a step of depth
    shared: an i1, whether the rows follow directly, so that each panel prefetches a part
    own: an i1, whether tiles prefetch their own operand, some steps on, for every panel
    """

    base: str
    row: str
    step: str
    shared: str
    tiles: str
    own: str
