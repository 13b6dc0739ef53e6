"""The sizes and strides of a product: the facts that decide among its variants.

A fact is an `Int` or a `Bool`: of the function `product`, or known beforehand, as in `partition`.
In code a fact is computed where it is first asked for, and kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from wend._engine.base.records import Record
from wend._engine.compiler.kernels.matmul.blocked import chunk_columns, reads_in_place
from wend._engine.compiler.kernels.matmul.macrokernel import LARGE, Scratch
from wend._engine.compiler.kernels.matmul.microkernel import TileConfig
from wend._engine.compiler.kernels.matmul.operands import Matrix
from wend._engine.compiler.kernels.matmul.packing import SOURCES
from wend._engine.compiler.kernels.matmul.small_n import FewColumns
from wend._engine.compiler.kernels.matmul.transposed import along_depth, crossed
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool, Int
from wend._engine.compiler.llvm_ir.variants import Variant, variants_of

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


class Rest(Record):
    """The columns that no variant has taken so far.

    taken: whether all columns are taken
    first, last: the first column of the part that was not left over, and the end behind the last
    columns: the columns of the whole product that are not left over
    """

    taken: Bool
    first: Int
    last: Int
    columns: Int


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
        self._taken: dict[str, Bool] = {}

    @staticmethod
    def known(shape: TileConfig, dtype: str, **numbers: int) -> ProductSizes:
        """The sizes of a whole product known beforehand. Missing words are 0.

        Strides count elements. `out_row` counts bytes.
        """
        size, words = SOURCES[dtype][1], _ZEROS.copy()
        for name, number in numbers.items():
            words[name] = Int(number * size if name in _STRIDES else number)
        words["last_row"], words["last_column"] = words["rows"], words["columns"]
        accumulate, packed = (Bool(bool(numbers.get(name))) for name in ("accumulate", "packed"))
        return ProductSizes(shape, dtype, words, packed, accumulate)

    def chosen(self) -> list[tuple[type[Variant], Bool]]:
        """The variants that the processor has, and whether each computes (a part of) the product.

        All facts that variants read in the loops over the batch are computed here, before them.
        """
        _ = self.in_place, self.rest
        asked = [made for made in variants_of("product") if made.exists(self)]
        found = [(made, self.takes(made.__name__)) for made in asked]
        _ = self.chunk
        return found

    @property
    def widened(self) -> bool:
        """Whether elements of the operands are narrower than sums, so that packing widens them."""
        return self.element != self.shape.element

    @property
    def never(self) -> Bool:
        """The condition that does not hold."""
        return Bool(False) if self.f is None else Bool("false", self.f)

    def takes(self, name: str) -> Bool:
        """Whether the variant of that name computes the product."""
        if name not in self._taken:
            found = {made.__name__: made for made in variants_of("product")}
            self._taken[name] = found[name].applies(self)
        return self._taken[name]

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
        return reads_in_place(self)

    @cached_property
    def chunk(self) -> Int:
        """The columns of a chunk of panels."""
        return chunk_columns(self)

    @cached_property
    def transposes(self) -> Bool:
        """Whether tiles of the transpose compute all columns, if these are not few."""
        found = along_depth(self)
        found = found | (crossed(self) & ~self.packed)
        return found & ~self.takes("DotProducts")

    @cached_property
    def few_columns(self) -> FewColumns:
        """The product's few columns, or those that are left over."""
        return FewColumns.of(self, self.takes("DotProducts") | self.transposes)

    @cached_property
    def turned(self) -> Bool:
        """Whether the transpose is computed, unless steps are few."""
        return self.transposes | (self.few_columns.turned & ~self.takes("DotProducts"))

    @cached_property
    def rest(self) -> Rest:
        """The columns that are left for variants which ask no layout along the depth."""
        dots, few = self.takes("DotProducts"), self.few_columns
        columns, turned = self.takes("ColumnDots"), self.turned
        taken = (dots | columns | turned) & ~few.left_over
        first = self.first_column.at_least(few.first)
        last = few.left_over.choose(few.first, self.last_column)
        return Rest(taken, first, last, few.left_over.choose(few.first, self.columns))

    @cached_property
    def short(self) -> Bool:
        """Whether the product has so few steps that rows are written from end to end."""
        return self.takes("Outer") | self.takes("Upright")

    @cached_property
    def of_few_steps(self) -> Bool:
        """Whether a variant for few steps computes the product."""
        short, held = self.short, self.takes("Held")
        return short | held if self.shape.rows == 8 else short

    @cached_property
    def taken(self) -> Bool:
        """Whether a variant for special layouts, few columns or few steps computes the product."""
        return self.rest.taken if self.widened else self.rest.taken | self.of_few_steps


class ProductSite(Record):
    """The place in the function `product` where a variant writes its code: an entry of the batch.

    a: the words, with strides in bytes
    left, right, out: the operands and the address of the result
    told: batch0 and batch1, as an epilogue is told
    """

    f: Routine
    p: ProductSizes
    a: dict[str, str]
    room: Scratch
    left: Matrix
    right: Matrix
    out: str
    told: tuple[str, str]

    @property
    def part(self) -> str:
        """The arguments that say which part of the result is computed, and where it lies."""
        a, rest = self.a, self.p.rest
        return (
            f"i64 {a['first_row']}, i64 {a['last_row']}, i64 {rest.first}, "
            f"i64 {a['last_column']}, ptr {self.out}, i64 {a['out_row']}"
        )

    @property
    def told_words(self) -> str:
        """The last arguments of an epilogue."""
        return f"ptr {self.a['state']}, i64 {self.told[0]}, i64 {self.told[1]}"

    @property
    def handing(self) -> str:
        """The arguments that say whether to add to the result, and who gets it."""
        return f"i1 {self.p.accumulate}, ptr {self.a['epilogue']}, {self.told_words}"
