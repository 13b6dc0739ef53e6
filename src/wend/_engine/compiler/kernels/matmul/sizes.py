"""The sizes and strides of a product, and the facts that follow from them alone.

A fact is an `Int` or a `Bool`: of the function `product`, or known beforehand, as in `partition`.
In code a fact is computed where it is first asked for, and kept. `matmul.choice` goes on from these
facts to the variant that computes the product.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Self

from wend._engine.compiler.kernels.matmul.macrokernel import (
    DEPTH,
    DIRECT_SPLIT,
    LARGE,
    column_panels,
    direct_rows,
    has_narrow_panels,
)
from wend._engine.compiler.kernels.matmul.microkernel import LINE, TileConfig
from wend._engine.compiler.kernels.matmul.packing import SOURCES
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool, Int

#: The words of the argument block of `product`, see `matmul.matmul`.
PRODUCT = (
    "left right out rows columns depth left_row left_step right_step right_column packed out_row "
    "batch0 batch1 left0 left1 right0 right1 out0 out1 "
    "first_row last_row first_column last_column accumulate epilogue state scratch "
    "origin0 origin1"
).split()

_ZEROS = dict.fromkeys(PRODUCT, Int(0))
#: The strides in elements of the operands' dtype.
_STRIDES = {"left_row", "left_step", "right_step", "right_column"}

# The bytes of a chunk where the next chunk is prefetched into the second-level cache during its
# use. Left rows are read once for each chunk, so chunks of narrow panels have more bytes.
_CHUNK_BYTES, _NARROW_CHUNK_BYTES = 1 << 17, 3 << 17
# The most rows, and the least steps, for chunks of a panel that stays in the first-level cache.
# measured: command not recorded, 2026-11-24, 32x113x2048 nt takes 0.89 of the time with AVX-512
_NEAR_ROWS, _NEAR_STEPS = 64, 48
# The most rows: with more, packing the right operand costs little.
_ROWS = 256


class ProductSizes:
    """The sizes and strides of a product, or of a part of a product.

    shape, dtype: the tiles, and the operands' dtype
    f: the function that the facts are computed in, or None
    rows, part_columns: the extents of the part
    all_rows, columns, depth: the extents of the whole product
    left_row ... out_row: strides in bytes
    packed, accumulate: see `matmul.matmul`
    """

    def __init__(
        self,
        shape: TileConfig,
        dtype: str,
        words: Mapping[str, Int],
        packed: Bool,
        accumulate: Bool,
        f: Routine | None = None,
    ) -> None:
        self.shape, self.dtype, self.f = shape, dtype, f
        self.element, self.size = SOURCES[dtype]
        self.packed, self.accumulate, self._words = packed, accumulate, words
        self.all_rows, self.columns, self.depth = words["rows"], words["columns"], words["depth"]
        self.left_row, self.left_step = words["left_row"], words["left_step"]
        self.right_step, self.right_column = words["right_step"], words["right_column"]
        self.out_row = words["out_row"]
        self.first_row, self.last_row = words["first_row"], words["last_row"]
        self.first_column, self.last_column = words["first_column"], words["last_column"]
        self.rows = self.last_row - self.first_row
        self.part_columns = self.last_column - self.first_column

    @classmethod
    def known(cls, shape: TileConfig, dtype: str, **numbers: int) -> Self:
        """The sizes of a whole product known beforehand. Missing words are 0.

        Strides count elements. `out_row` counts bytes.
        """
        size, words = SOURCES[dtype][1], _ZEROS.copy()
        for name, number in numbers.items():
            words[name] = Int(number * size if name in _STRIDES else number)
        words["last_row"], words["last_column"] = words["rows"], words["columns"]
        accumulate, packed = (Bool(bool(numbers.get(name))) for name in ("accumulate", "packed"))
        return cls(shape, dtype, words, packed, accumulate)

    @property
    def widened(self) -> bool:
        """Whether elements of the operands are narrower than sums, so that packing widens them."""
        return self.element != self.shape.element

    @property
    def never(self) -> Bool:
        """The condition that does not hold."""
        return Bool(False) if self.f is None else Bool("false", self.f)

    def stores(self) -> Bool:
        """Whether sums go straight to memory: there is no epilogue."""
        if self.f is None:
            return self._words["epilogue"] == 0
        return Bool(self.f.is_("eq", self._words["epilogue"], "null", "ptr"), self.f)

    @cached_property
    def plain(self) -> Bool:
        """Whether sums go straight to memory, and replace the old values."""
        return self.stores() & ~self.accumulate

    @cached_property
    def left_along(self) -> Bool:
        """Whether the left operand's steps lie side by side."""
        return self.left_step == self.size

    @cached_property
    def right_along(self) -> Bool:
        """Whether the right operand's steps lie side by side, and its columns do not.

        Panels of columns that lie side by side are read in place.
        """
        along = (self.right_step == self.size) & ~self.packed
        return along & (self.right_column != self.size)

    @cached_property
    def both_along(self) -> Bool:
        """Whether both operands lie along the depth: x @ weight.T."""
        return self.right_along & self.left_along

    @cached_property
    def beside(self) -> Bool:
        """Whether the right operand's columns lie side by side, not packed."""
        return (self.right_column == self.size) & ~self.packed

    @cached_property
    def large(self) -> Bool:
        """Whether the right operand is large."""
        return self.depth * self.right_step >= LARGE

    @cached_property
    def in_place(self) -> Bool:
        """Whether rows are so few that they read the right operand where it lies, if they can."""
        most, shape = direct_rows(self.shape, large=False), self.shape
        large = self.large
        split = (self.right_step & (LINE - 1)) != 0
        few = split.choose(min(DIRECT_SPLIT, most), most)
        return self.rows <= large.choose(direct_rows(shape, large=True), few)

    @cached_property
    def chunk(self) -> Int:
        """The number of columns in a chunk.

        Left rows are read, or packed, once for each chunk. Where the depth is small, many panels
        fit.
        """
        shape = self.shape
        # A chunk has no more panels than can be prefetched in time. Left rows that must be packed
        # are packed once for each chunk, so small chunks would cost more.
        ahead = self.packed & (self.left_step == self.size)
        # A few rows, read in place, multiply each panel while it is in the first-level cache.
        near = self.both_along & (self.depth >= _NEAR_STEPS)
        near = near & (self.rows <= _NEAR_ROWS)
        if self.widened:
            near = self.never  # left rows are widened once for each chunk
        steps = self.depth.at_most(DEPTH)
        panel = steps * (shape.panel * shape.size)
        most = _NARROW_CHUNK_BYTES if has_narrow_panels(shape) else _CHUNK_BYTES
        fewer = most // (panel + 1) + 1
        steps = (steps == 0).choose(1, steps)
        more = column_panels(shape) * DEPTH // steps
        if not has_narrow_panels(shape):
            more = near.choose(1, more)
        return ahead.choose(fewer, more) * shape.panel

    @cached_property
    def is_flat(self) -> Bool:
        """Whether there are so many more columns than rows that turning tiles can pay."""
        return self.rows * 3 < self.columns * 2

    @cached_property
    def has_few_rows(self) -> Bool:
        """Whether rows are so few that packing the right operand would cost much."""
        return self.rows <= _ROWS
