"""Kernels of draws by weight, with replacement: multinomial_draw.

    void draws(ptr args)     for each row: adds the weights up, then finds the place of each draw

`args` holds the addresses of the weights and the results. The numbers of rows, weights of a row and
draws of a row follow, and the bytes from row to row. The seed, the first position, the address of
scratch memory, and the address for failures are last.
Random numbers go in vectors; the place of each draw is searched by halves among the sums.
"""

from __future__ import annotations

from typing import Any

from wend._engine.base.dtypes import DType, bool_, float64, int64
from wend._engine.compiler.codegen import philox
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.loops import DRAWS, Function, Layout, Op, Read, contiguous
from wend._engine.compiler.ir.symbolic_extents import ONE, ZERO, add, scale
from wend._engine.compiler.kernels.matmul.microkernel import lane_mask
from wend._engine.compiler.llvm_ir.error_flags import Faults
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.jit import cached_by_processor, written_for
from wend._engine.compiler.llvm_ir.text import Module
from wend._engine.compiler.llvm_ir.values import SsaValue
from wend._engine.compiler.lower.registry import lowers, makes_kernel
from wend._engine.core.graph import Node
from wend._engine.ops.random import MultinomialDraw

NO_WEIGHTS = "multinomial: an element is either inf, nan or < 0"
NO_SUM = "multinomial: invalid distribution (sum of probabilities <= 0)"
SORTED = "draws without replacement are sorted by NumPy"


@lowers(MultinomialDraw)
def lower_draws(low: Any, node: Node) -> bool:
    """Lower draws with replacement."""
    f: Function = low.function
    prim: Any = node.prim
    if not prim.replacement:
        return bool(low.refuse(SORTED))
    if not low.kernel_types(node):
        return False
    (weights,), (out,) = node.inputs, node.outputs
    low.materialise(weights)
    dense = f.layout(weights).strides[-1] == ONE or f.shape(weights)[-1] == ONE
    source = weights if dense else low.copy(weights)
    f.layouts[out] = Layout(out, contiguous(f.shape(out)), ZERO)
    rank = len(f.shape(weights))
    read = Read(source, tuple(range(rank)))
    f.add(Op(DRAWS, node, node.outputs, [read], numbers=node.args))
    return True


@makes_kernel(DRAWS)
def draws(f: Function, op: Op) -> Kernel:
    """Return the kernel of draws by weight, with its slots."""
    (out,), source = op.outputs, op.reads[0].value
    layout, shape, size = f.layout(source), f.shape(source), f.dtypes[source].itemsize
    text, faults = _text(f.dtypes[source])
    kernel = Kernel("draws", text, f"multinomial_draw {out}")
    kernel.reads, kernel.writes, kernel.faults = [layout.base], [out], list(faults)
    many = len(shape) > 1
    kernel.slots = [
        Slot("pointer", layout.base, scale(layout.offset, size)),
        Slot("pointer", out, ZERO),
        Slot("extent", shape[0] if many else ONE),
        Slot("extent", shape[-1]),
        Slot("extent", f.shape(out)[-1]),
        Slot("extent", scale(layout.strides[0], size) if many else ZERO),
        *(Slot("number", e, 1) if type(e) is tuple else Slot("word", e) for e in op.numbers[1:]),
        Slot("scratch", scale(add(shape[-1], ONE), 8), "sums"),
        Slot("fault"),
    ]
    return kernel


@cached_by_processor
def _text(dtype: DType) -> tuple[str, tuple[str, ...]]:
    """The text for weights of a type, and the failures."""
    f, module, target, faults = (
        Routine("draws", [("ptr", "args")]),
        Module(),
        written_for(),
        Faults(),
    )
    place = len(f.lines)
    f.lines.append("")

    def word(k: int, kind: str = "i64") -> str:
        return f.load(kind, f.at("%args", 8 * k), 8)

    weights, out, sums, fault = (word(k, "ptr") for k in (0, 1, 8, 9))
    rows, n, count, step, seed, offset = (word(k) for k in range(2, 8))
    one = VectorBuilder(f, module, 1, target, faults)
    lanes = target.vector_bytes // 8
    with f.loop("0", rows) as row:
        source = f.at(weights, f.mul(row, step))

        def weight(k: str, source: str = source) -> SsaValue:
            element = one.load(f.at(source, f.mul(k, str(dtype.itemsize))), dtype)
            return one.convert(element, float64)

        zero = one.number(0.0, float64)
        with f.turns("0", n) as loop:
            total = SsaValue(loop.carry("double", zero.name), float64)
            fits = SsaValue(loop.carry("i1", "true"), bool_)
            last = loop.carry("i64", "0")
            x = weight(loop.index)
            bound = one.add(total, x).name
            f.store("double", bound, f.at(sums, f.mul(loop.index, "8")), 8)
            loop.become(total.name, bound)
            inside = one.bitwise_and(one.le(zero, x), one.lt(x, one.number(float("inf"), float64)))
            loop.become(fits.name, one.bitwise_and(fits, inside).name)
            loop.become(last, f.select(one.ne(x, zero).name, loop.index, last))
        one.require(fits, NO_WEIGHTS)
        one.require(one.lt(zero, total), NO_SUM)
        first = f.mul(row, count)
        with f.loop("0", count, str(lanes)) as k:
            b = VectorBuilder(
                f, module, lanes, target, faults, lane_mask(f, lanes, f.sub(count, k))
            )
            here = f.add(first, k)
            at = b.add(b.spread(f.add(offset, here), int64), philox.counted(b))
            u = philox.uniform(b, b.spread(seed, int64), at, float64)
            height = b.mul(u, b.spread(total.name, float64))
            b.store(height, f.at(out, f.mul(here, "8")))  # the place takes as many bytes
        with f.loop(first, f.add(first, count)) as k:
            place_of(f, f.at(out, f.mul(k, "8")), sums, n, last)
    faults.leave(f, fault)
    f.lines[place] = faults.entry()
    return f.text() + "\n" + module.render(), tuple(faults.messages)


def place_of(f: Routine, at: str, sums: str, n: str, last: str) -> None:
    """Replace the height of a draw by the number of sums that are not above the height.

    at: the address of both     sums: the address of the n sums
    last: the most, as rounding may pass the last sum: the last weight that is not 0
    """
    height = f.load("double", at, 8)

    def is_passed(k: str) -> str:
        bound = f.load("double", f.at(sums, f.mul(k, "8")), 8)
        return f.let(f"fcmp ole double {bound}, {height}")

    zeros = f.let(f"call i64 @llvm.ctlz.i64(i64 {f.sub(n, '1')}, i1 false)")
    with f.turns("0", f.sub("64", zeros)) as loop:
        base, left = loop.carry("i64", "0"), loop.carry("i64", n)
        half = f.let(f"lshr i64 {left}, 1")
        middle = f.add(base, f.maximum(f.sub(half, "1"), "0"))
        loop.become(base, f.select(is_passed(middle), f.add(base, half), base))
        loop.become(left, f.sub(left, half))
    count = f.add(base, f.select(is_passed(base), "1", "0"))
    f.store("i64", f.minimum(count, last), at, 8)
