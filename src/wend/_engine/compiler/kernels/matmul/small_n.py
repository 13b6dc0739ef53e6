"""Products of few columns as dot products of the left operand's rows (see `few_columns`)."""

from __future__ import annotations

from wend._engine.compiler.kernels.matmul.choice import ProductChoice, ProductSite
from wend._engine.compiler.kernels.matmul.operands import Matrix
from wend._engine.compiler.llvm_ir.integers import Bool
from wend._engine.compiler.llvm_ir.variants import Variant, variant


@variant("product", after="Streamed")
class ColumnDots(Variant):
    """Up to 8 columns, or those left over behind whole panels; more rows, along the depth."""

    @staticmethod
    def applies(p: ProductChoice) -> Bool:
        """Whether the few columns are dot products with the left operand's rows."""
        return p.few_columns.dotted & ~p.takes("DotProducts")

    @staticmethod
    def emit(site: ProductSite) -> None:
        """Write the call of `dots`, whose rows are the columns."""
        p, a, left, lines = site.p, site.a, site.left, _columns_along(site)
        site.f.line(
            f"call void @dots(ptr {lines.base}, i64 {lines.line}, ptr {left.base}, "
            f"i64 {left.line}, i64 {a['depth']}, i64 {p.rest.first}, "
            f"i64 {a['last_column']}, i64 {a['first_row']}, i64 {a['last_row']}, ptr {site.out}, "
            f"i64 {p.shape.size}, i64 {a['out_row']}, {site.handing}, ptr {site.room.tile})"
        )


def _columns_along(site: ProductSite) -> Matrix:
    """Return the right operand with its columns along the depth, copied to `room` if necessary."""
    f, shape, a, few = site.f, site.p.shape, site.a, site.p.few_columns
    base, room, size = site.right.base, site.room.panels, str(shape.size)
    stands = f.is_("eq", few.step, size)
    length = f.mul(a["depth"], size)
    with f.when(f.let(f"xor i1 {stands}, true")), f.loop("0", a["depth"]) as k:
        source = f.at(base, f.mul(k, few.step))
        goal = f.at(room, f.mul(k, size))
        with f.loop(few.first, a["columns"]) as j:
            x = f.load(shape.element, f.at(source, f.mul(j, few.line)), shape.size)
            place = f.mul(f.sub(j, few.first), length)
            f.store(shape.element, x, f.at(goal, place), shape.size)
    copies = f.at(room, f.sub("0", f.mul(few.first, length)))
    address = f.select(stands, base, copies, "ptr")
    return Matrix(address, f.select(stands, few.line, length), size)
