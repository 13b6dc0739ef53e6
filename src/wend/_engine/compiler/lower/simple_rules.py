"""Lowering of the simple families: elementwise ops, copies, fills, views and folds."""

from __future__ import annotations

from typing import Any

from wend._engine.base import dtypes
from wend._engine.compiler.codegen.scalar_ops import elementwise_code
from wend._engine.compiler.ir.layout import is_dense
from wend._engine.compiler.ir.loops import (
    MAP,
    Emit,
    Fold,
    Layout,
    Op,
    Read,
    View,
    contiguous,
    shared,
)
from wend._engine.compiler.ir.symbolic_extents import ZERO
from wend._engine.compiler.lower.index import add as add_up
from wend._engine.compiler.lower.lowering import NO_SUMS, Lowering, every, same_element
from wend._engine.compiler.lower.registry import lowers
from wend._engine.core.graph import Node
from wend._engine.core.types import Spec
from wend._engine.ops.basic import FillLike, Graft, Identity
from wend._engine.ops.creation import Full
from wend._engine.ops.elementwise.arithmetic import Sub
from wend._engine.ops.elementwise.family import Elementwise, widened
from wend._engine.ops.elementwise.selection import Cast
from wend._engine.ops.elementwise.transcendental import Exp
from wend._engine.ops.extremes import Amax
from wend._engine.ops.joining import Clone, SumTo
from wend._engine.ops.neural.patches import Patches
from wend._engine.ops.placing import ToDevice
from wend._engine.ops.reduce import Reduction, Sum
from wend._engine.ops.user import UserFunction
from wend._engine.ops.views.complexes import Part
from wend._engine.ops.views.family import Alias
from wend._engine.ops.views.family import View as ViewOp
from wend._engine.ops.views.reshapes import Reshaping
from wend._engine.ops.views.strided import AsStrided


@lowers(Alias, Graft)
def first_operand(low: Lowering, node: Node) -> bool:
    """The first operand itself."""
    return low.alias(node, node.inputs[0])


@lowers(Identity)
def identity(low: Lowering, node: Node) -> bool:
    """The operand itself, unless the op has to look at elements."""
    return not node.prim.facts.fallible and low.alias(node, node.inputs[0])


@lowers(UserFunction)
def user_function(low: Lowering, node: Node) -> bool:
    """The last operands: the user's function has computed them as its results."""
    f = low.function
    results = node.inputs[-len(node.outputs) :]
    for out, source in zip(node.outputs, results, strict=True):
        f.same[out] = f.resolve(source)
    return True


@lowers(Part)
def part(low: Lowering, node: Node) -> bool:
    """The real or the imaginary part, as an array of its own."""
    space = low.function.shape(node.inputs[0])
    dims = tuple(range(len(space)))
    name = node.prim.name

    def emit(code: Any, operands: list[Any]) -> Any:
        return getattr(code.b, name)(operands[0])

    reads = [Read(node.inputs[0], dims)]
    low.function.add(Op(MAP, node, node.outputs, reads, space, dims, emit, cheap=True))
    return True


@lowers(Elementwise)
def elementwise(low: Lowering, node: Node) -> bool:
    """An elementwise op."""
    f = low.function
    out = node.outputs[0]
    space = f.shape(out)
    reads: list[Read] = []
    for i in node.inputs:
        read = low.read(i, space)
        if read is None:
            return False
        reads.append(read)
    emit = _code_of(low, node)
    if emit is None:
        return False
    if isinstance(node.prim, Exp) and _is_negative(low, node.inputs[0]):
        emit = _exp_of_negative
    dims = every(len(space))
    if isinstance(node.prim, Sub) and len(node.inputs) == 2:
        low.differences[out] = node.inputs
    cheap = node.prim.kind != "float" or isinstance(node.prim, Cast)
    f.add(Op(MAP, node, node.outputs, reads, space, dims, emit, node.args, cheap=cheap))
    return True


@lowers(Clone, ToDevice)
def clone(low: Lowering, node: Node) -> bool:
    """A copy in separate memory."""
    space = low.function.shape(node.inputs[0])
    dims = tuple(range(len(space)))
    reads = [Read(node.inputs[0], dims)]
    low.function.add(Op(MAP, node, node.outputs, reads, space, dims, same_element, cheap=True))
    return True


@lowers(Cast)
def cast(low: Lowering, node: Node) -> bool:
    """A cast: nothing where the dtype stays, another number where all elements are equal."""
    f = low.function
    source = node.inputs[0]
    if f.dtypes[source] is node.prim.dtype:
        return low.alias(node, source)
    if source in f.uniform and f.dtypes[source].category != dtypes.COMPLEX:
        expr, dtype, category = f.uniform[source]
        if dtype.category <= node.prim.dtype.category and type(expr) is not tuple:
            low.spread(node, expr, node.prim.dtype, category)
            return True
    return elementwise(low, node)


@lowers(Full, FillLike)
def fill(low: Lowering, node: Node) -> bool:
    """The same number everywhere."""
    out = node.outputs[0]
    if node.prim.categories[-1] == dtypes.COMPLEX:
        return False
    low.spread(node, node.args[-1], low.function.dtypes[out], node.prim.categories[-1])
    return True


@lowers(ViewOp)
def view(low: Lowering, node: Node) -> bool:
    """The elements of an operand, in another order or fewer of them."""
    f = low.function
    source, out = node.inputs[0], node.outputs[0]
    if source in f.uniform:
        low.spread(node, *f.uniform[source])
        return True
    if node.prim.strides is None or len(node.inputs) != 1:
        return False
    if f.shape(out) == f.shape(source) and node.prim.facts.checks_strides:
        return low.alias(node, source)
    layout = f.layout(source)
    dense = is_dense(f.shape(source), layout.strides) and layout.offset == ZERO
    if isinstance(node.prim, AsStrided) and not dense:
        source = low.copy(source)  # `AsStrided` counts in dense memory
        layout = f.layout(source)
    shown = View(out, source, node)
    placement = low.shown(shown, layout)
    if placement is None and isinstance(node.prim, Reshaping):
        if not is_dense(f.shape(source), layout.strides):
            source = low.copy(source)
            shown = View(out, source, node)
        placement = contiguous(f.shape(out)), f.layout(source).offset
    if placement is None:
        return False
    f.views[out] = shown
    f.layouts[out] = Layout(f.layout(source).base, *placement)
    return True


@lowers(Patches)
def patches(low: Lowering, node: Node) -> bool:
    """Windows: strides that overlap, which nobody outside of the plan gets to see."""
    f = low.function
    out = node.outputs[0]
    if not low.kernel_types(node):
        return False
    if out not in low.needed:
        return view(low, node)
    shown = f.fresh(f.shape(out), f.dtypes[out])
    if not view(low, Node(node.prim, node.program, node.inputs, (shown,), node.args, node.grad)):
        return False
    return low.alias(node, low.copy(shown)) if shown in f.views else False


@lowers(Reduction)
def fold(low: Lowering, node: Node) -> bool:
    """A reduction over some dims."""
    f = low.function
    x, out = node.inputs[0], node.outputs[0]
    prim = node.prim
    if len(node.outputs) != 1 or prim.identity is None:
        return False
    rank = len(f.shape(x))
    axes = prim.axes(rank)
    kept = [d for d in range(rank) if d not in axes]
    out_dims = tuple(-1 if d in axes else d for d in range(rank)) if prim.keepdim else kept
    if isinstance(prim, Amax) and prim.keepdim:
        low.maxima[out] = x
    wide = dtypes.bool_ if type(prim.identity) is bool else widened(f.dtypes[out])
    total = Fold(prim.combine, prim.identity, wide, isinstance(prim, Sum))
    return low.add_fold(node, x, tuple(out_dims), total)


@lowers(SumTo)
def sum_to(low: Lowering, node: Node) -> bool:
    """The adjoint of a broadcast."""
    f = low.function
    x, out = node.inputs[0], node.outputs[0]
    dtype = f.dtypes[x]
    if dtype is dtypes.bool_:
        return low.refuse(NO_SUMS)
    rank, kept = len(f.shape(x)), len(f.shape(out))
    dims = tuple(-1 if d in node.prim.axes else d for d in range(rank - kept, rank))
    return low.add_fold(node, x, dims, Fold(add_up, 0, widened(dtype), True))


def _code_of(low: Lowering, node: Node) -> Emit | None:
    """The code of an elementwise op; None if there is none."""
    key = node.prim, node.program
    if key not in low.codes:
        specs = [Spec(t.shape, t.dtype) for t in node.program.sample_types]
        low.codes[key] = elementwise_code(node.prim, specs)
    return low.codes[key]


def _is_negative(low: Lowering, i: int) -> bool:
    """Whether no element is above 0, as where a softmax subtracts a maximum."""
    f = low.function
    x, maximum = low.differences.get(i, (i, -1))
    wide = f.dtypes[i] in (dtypes.float32, dtypes.float64) and f.dtypes[x] is f.dtypes[i]
    return wide and low.maxima.get(maximum) == x


@shared
def _exp_of_negative(code: Any, operands: list[Any]) -> Any:
    return code.b.exp_of_negative(operands[0])
