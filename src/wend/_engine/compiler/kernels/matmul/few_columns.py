"""Whether a product has few columns, or some left over behind whole vectors.

A tile has as many columns as two or three vectors hold, so a product of a single column would use a
single lane. A few columns behind whole vectors would waste lanes too. Such left-over columns are a
product of their own, unless the product is cut into parts.
"""

from __future__ import annotations

from wend._engine.base.records import Record
from wend._engine.compiler.kernels.matmul.macrokernel import panel_capacity
from wend._engine.compiler.kernels.matmul.sizes import ProductSizes
from wend._engine.compiler.llvm_ir.integers import Bool, Int, every

#: The most columns for dot products, and the least rows per column.
# measured: 2026-11-26, 32x256x1 nt of a GAN's discriminator takes 0.16 of the time: decision 020
COLUMNS, TIMES = 8, 3
#: The least steps, in all and per column. In shorter dot products, adding up lanes costs more than
#: the multiplications. Tiles do many columns at once, so many columns need more steps.
DEPTH, STEPS = 32, 10
#: The least steps and rows for which a product of left-over columns pays.
# measured: 2026-11-26, 128x400x20 nt of an autoencoder takes 0.83 of the time: decision 020
REST, ROWS = 16, 12
#: The least multiplications of a product that may be cut (see `partition.WORTH`). Its left-over
#: columns stay with the rest, or parts would be computed in another way than the whole.
MOST = 3_000_000
#: The least rows per left-over column, if columns do not lie along the depth: APART, or FAR if the
#: right operand has more than NEAR bytes.
APART, FAR, NEAR = 12, 48, 1 << 18


class FewColumns(Record):
    """Whether a product has few columns, and the right operand's strides.

    dotted: whether columns are dot products: the left rows lie along the depth
    turned: whether the transpose is computed: the left rows lie side by side
    line, step: the right operand's strides in bytes, to the next column and step
    left_over: whether the few columns are those from `first` on, behind whole vectors
    first: the first of the few columns; other functions compute the columns before
    """

    dotted: Bool
    turned: Bool
    line: Int
    step: Int
    left_over: Bool
    first: Int

    @staticmethod
    def of(p: ProductSizes, other: Bool) -> FewColumns:
        """Return the record for a product.

        other: whether another function takes all columns, so that none are left over
        """
        shape, size = p.shape, p.shape.size
        line = p.packed.choose(size, p.right_column)
        vectors = p.columns.ceil_div(shape.lanes)  # of a panel
        step = p.packed.choose(vectors * shape.bytes, p.right_step)
        if p.widened:
            return FewColumns(p.never, p.never, line, step, p.never, Int(0, p.f))
        rows = p.last_row - p.first_row
        along = p.left_step == size
        rest = p.columns % shape.panel
        whole = p.columns - rest
        over = rest % shape.lanes
        each = (p.depth * step).is_within(NEAR).choose(APART, FAR)
        conditions = [
            ~(p.packed | other),
            p.last_column == p.columns,
            p.columns > shape.panel,
            over != 0,
            over <= shape.lanes // 2,
            rows >= ROWS,
            (step == size) | (rows >= over * each),
            p.depth >= REST,
            p.all_rows * p.columns * p.depth < MOST,
        ]
        left_over = every(conditions)
        columns = left_over.choose(rest, p.columns)
        many = rows >= columns * TIMES
        few = many & (columns <= min(COLUMNS, shape.lanes))
        # With at least half a vector of a tile unused, the waste exceeds the cost of turning tiles.
        partly = many & (columns <= shape.panel - shape.lanes // 2)
        deep = (p.depth >= DEPTH) & (p.depth >= columns * STEPS)
        fits = columns * p.depth <= panel_capacity(shape)
        stores = p.stores()
        dotted = (few & along) & (fits & deep & stores)
        beside = (p.left_row == size) & ~along
        turned = partly & beside
        left_over = left_over & (dotted | turned)
        return FewColumns(dotted, turned, line, step, left_over, left_over.choose(whole, 0))
