"""Which variant computes a product: the facts that variants share, and the place of their code."""

from __future__ import annotations

from functools import cached_property

from wend._engine.base.records import Record
from wend._engine.compiler.kernels.matmul.few_columns import FewColumns
from wend._engine.compiler.kernels.matmul.macrokernel import Scratch, has_narrow_panels
from wend._engine.compiler.kernels.matmul.operands import Matrix
from wend._engine.compiler.kernels.matmul.sizes import ProductSizes
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool, Int, every
from wend._engine.compiler.llvm_ir.variants import Variant, variants_of

#: The most rows for dot products: with more, packing pays.
FEW_ROWS = 11
# With fewer steps than _LONG, transposing tiles costs more than packing panels. The limit is _SHORT
# if the right operand has _WIDE elements, and so does not stay in the second-level cache.
_LONG, _SHORT, _WIDE = 160, 64, 3 << 16
# Rows of the result that are a multiple of _CROWDED bytes apart evict each other from the
# first-level cache. Storing turned tiles then takes longer, so _TIMES as many steps are required.
_CROWDED, _TIMES = 1 << 12, 2
# For operands that both lie transposed: the most rows that are few, and the least steps that are
# many.
# measured: command not recorded, 2026-11-24, 16x64x73 tt takes 0.68 of the time with AVX-512
_FEW, _DEEP = 64, 256


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


class ProductChoice(ProductSizes):
    """Which variant computes a product, or each part of a product."""

    @cached_property
    def _taken(self) -> dict[str, Bool]:
        return {}

    def chosen(self) -> list[tuple[type[Variant], Bool]]:
        """The variants that the processor has, and whether each computes (a part of) the product.

        All facts that variants read in the loops over the batch are computed here, before them.
        """
        _ = self.in_place, self.rest
        asked = [variant for variant in variants_of("product") if variant.exists(self)]
        choices = [(variant, self.takes(variant.__name__)) for variant in asked]
        _ = self.chunk
        return choices

    def takes(self, name: str) -> Bool:
        """Whether the variant of that name computes the product."""
        if name not in self._taken:
            variants = {variant.__name__: variant for variant in variants_of("product")}
            self._taken[name] = variants[name].applies(self)
        return self._taken[name]

    @cached_property
    def transposes(self) -> Bool:
        """Whether tiles of the transpose compute all columns, if these are not few."""
        condition = along_depth(self)
        condition = condition | (crossed(self) & ~self.packed)
        return condition & ~self.takes("DotProducts")

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


def along_depth(p: ProductSizes) -> Bool:
    """Whether both operands lie along the depth, and the transpose is best."""
    along = p.both_along & (p.rows > FEW_ROWS)
    if p.widened:
        return along & p.never  # a left operand that must be widened is packed in blocks of depth
    lanes = p.shape.lanes
    full = p.rows.ceil_div(lanes) * lanes
    wide = p.depth * p.columns >= _WIDE
    over = p.out_row & (_CROWDED - 1)
    enough = (over == 0).choose(p.depth // _TIMES, p.depth)
    conditions = [
        # As columns, the rows nearly fill vectors: the unused lanes cost less than packing.
        full - p.rows <= lanes * 5 // 8,
        p.has_few_rows,
        p.is_flat,
        (enough >= _LONG) | ((enough >= _SHORT) & wide),
    ]
    return along & every(conditions)


def crossed(p: ProductSizes) -> Bool:
    """Whether both operands lie transposed, and the transpose needs less packing.

    The right operand is read in place, and the left operand's rows are moved by vectors.
    """
    if p.widened:
        return p.never
    shape, size = p.shape, p.shape.size
    # Turning tiles costs less than packing a right operand for few rows, or than transposing a
    # right operand of many steps. Turned rows of narrow tiles are not whole vectors.
    much = p.never
    if not has_narrow_panels(shape):
        much = (p.rows <= _FEW) & (p.depth >= _FEW // 2)
        # Packed panels that stay in a cache cost less, unless the rows just fill a panel.
        wide = p.depth * p.columns >= _WIDE
        much = much & (wide | (p.rows == shape.panel))
    conditions = [
        p.left_row == size,
        p.left_step != size,
        p.right_step == size,
        p.right_column != size,
        (p.rows >= shape.lanes) | (p.rows >= p.columns * 2),
        much | (p.depth >= _DEEP),
    ]
    return every(conditions)


class ProductSite(Record):
    """The place in the function `product` where a variant writes its code: an entry of the batch.

    a: the words, with strides in bytes
    left, right, out: the operands and the address of the result
    told: batch0 and batch1, as an epilogue is told
    """

    f: Routine
    p: ProductChoice
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
