"""The state of a lowering, from a path's nodes to a `Function`, and the steps that rules share."""

from __future__ import annotations

from functools import cache
from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.compiler.codegen.scalar_ops import convertible, rounded_to, then_rounded
from wend._engine.compiler.ir.layout import view_of
from wend._engine.compiler.ir.loops import (
    FOLD,
    HOST,
    MAP,
    Emit,
    Fold,
    Function,
    Layout,
    Op,
    Read,
    View,
    shared,
)
from wend._engine.compiler.ir.symbolic_extents import ONE, Extents, FirstSizes, product
from wend._engine.compiler.llvm_ir.jit import written_for
from wend._engine.core.graph import Node, PathGraph, live_nodes

#: Reasons of several rules.
NO_DIMS = "the operand has no dims"
NO_SUMS = "there are no sums of bools"


class Lowering:
    """The state of a lowering."""

    def __init__(self, path: PathGraph, needed: frozenset[int]) -> None:
        self.path = path
        self.is_device = written_for().is_device
        self.extents = Extents()
        self.function = Function(self.extents)
        self.sizes = FirstSizes(self.extents, path)
        self.known: dict[Any, Node] = {}
        self.nodes = live_nodes(path.nodes[: path.n_nodes], set(needed))
        self.needed = needed
        self.consumers = consumers_of(self.nodes)
        self.filled: set[int] = set()
        self.codes: dict[Any, Emit | None] = {}  # of elementwise ops, by primitive and program
        self.sources: dict[int, Node] = {}  # the nodes of uniform values
        self.puts = 0  # writes to parts
        self.refusal = ""  # why the rule of the present node adds nothing
        self.maxima: dict[int, int] = {}  # maxima along dims that stay -> the operand
        self.differences: dict[int, tuple[int, ...]] = {}  # result -> operands
        self.copies: dict[tuple[int, tuple[int, ...]], int] = {}  # of operands of products
        self.wide: dict[Any, int] = {}  # copies in float32 of operands of half precision
        self.joined: set[int] = set()  # operands side by side: see `sums_of_products`
        self.views: dict[Any, Any] = {}  # layouts of views that were looked at

    def materialise(self, i: int) -> None:
        """Make sure that a value with the same number everywhere lies in memory."""
        f = self.function
        while i in f.views:
            i = f.views[i].source
        if i not in f.uniform or i in self.filled:
            return
        self.filled.add(i)
        node = self.sources[i]
        space = f.shape(i)
        dims = tuple(range(len(space)))
        f.add(Op(MAP, node, (i,), [], space, dims, _filled, cheap=True))

    def copy(self, source: int, order: tuple[int, ...] | None = None) -> int:
        """Return a dense copy of a value. order: the order of dims in the copy"""
        f = self.function
        shape = f.shape(source)
        if order is None:
            order = tuple(range(len(shape)))
        space = tuple([shape[d] for d in order])
        out = f.fresh(space, f.dtypes[source])
        dims = tuple(range(len(space)))
        read = Read(source, tuple([order.index(d) for d in dims]))
        op = Op(MAP, self.path.nodes[0], (out,), [read], space, dims, same_element, cheap=True)
        op.name = "copy"
        f.add(op)
        return out

    def shared_copy(self, source: int, order: tuple[int, ...]) -> int:
        """Return a dense copy, shared by all products that want the copy."""
        key = source, order
        if key not in self.copies:
            self.copies[key] = self.copy(source, order)
        return self.copies[key]

    def widened(self, source: int) -> int:
        """Return a dense copy in float32 of a value of half precision.

        All products that read the same elements in the same order share the copy.
        """
        f = self.function
        shape, layout = f.shape(source), f.layout(source)
        key = layout.base, layout.offset, tuple(layout.strides), shape
        if key not in self.wide:
            out = self.wide[key] = f.fresh(shape, dtypes.float32)
            every = tuple(range(len(shape)))
            emit = rounded_to(dtypes.float32)
            read = Read(source, every)
            op = Op(MAP, self.path.nodes[0], (out,), [read], shape, every, emit, cheap=True)
            op.name = "widen"
            f.add(op)
        return self.wide[key]

    def alias(self, node: Node, source: int) -> bool:
        """The result is an operand."""
        self.function.same[node.outputs[0]] = self.function.resolve(source)
        return True

    def spread(self, node: Node, expr: Any, dtype: DType, category: int) -> None:
        """Note that the result is the same number everywhere."""
        self.sources[node.outputs[0]] = node
        self.function.uniform[node.outputs[0]] = (expr, dtype, category)

    def kernel_types(self, node: Node) -> bool:
        """Whether code can be made for the dtypes of operands and results."""
        f = self.function
        return all(convertible(f.dtypes[i]) for i in (*node.inputs, *node.outputs))

    def read(self, i: int, shape: tuple[Any, ...]) -> Read | None:
        """Value i broadcast to `shape`, dims aligned at the right."""
        mine = self.function.shape(i)
        if mine == shape:
            return Read(i, every(len(shape)))
        lead = len(shape) - len(mine)
        dims = []
        for axis, extent in enumerate(mine):
            if extent == shape[lead + axis]:
                dims.append(lead + axis)
            elif extent == ONE:
                dims.append(-1)
            else:
                return None
        return Read(i, tuple(dims))

    def shown(self, view: View, layout: Layout) -> Any:
        """(strides, offset) of a view of something that lies so, or None: see `view_of`."""
        key = view.value, layout.strides, layout.offset
        if key not in self.views:
            self.views[key] = view_of(self.function, view, layout.strides, layout.offset)
        return self.views[key]

    def add_fold(self, node: Node, x: int, out_dims: tuple[int, ...], fold: Fold) -> bool:
        """Fold value x over the loops that the result does not follow."""
        space = self.function.shape(x)
        reads = [Read(x, tuple(range(len(space))))]
        emit = rounded_to(fold.dtype)
        self.folding(Op(FOLD, node, node.outputs, reads, space, out_dims, emit, fold=fold))
        return True

    def folding(self, op: Op) -> None:
        """Append a fold; a fold of single elements is a map.

        Totals of half floats are kept as float32 in memory too, and rounded once.
        """
        f = self.function
        inner, fold, dtype = op.emit, op.fold, f.dtypes[op.out]
        assert inner is not None and fold is not None
        if all(op.space[d] == ONE for d in op.reduced):
            op.kind = MAP
            op.emit = then_rounded(inner, dtype)
        elif dtype is not fold.dtype:
            shape = f.shape(op.out)
            dims = tuple(range(len(shape)))
            total = f.fresh(shape, fold.dtype)
            f.add(op)
            reads = [Read(total, dims)]
            rounded = Op(
                MAP, op.node, op.outputs, reads, shape, dims, rounded_to(dtype), cheap=True
            )
            op.outputs, op = (total,), rounded
        f.add(op)

    def number(self, node: Node, dtype: DType) -> int:
        """Add a step that writes the only number of a node to memory; returns the value."""
        number = self.function.fresh((), dtype)
        emit = _converted(dtype)
        self.function.add(Op(MAP, node, (number,), [], emit=emit, numbers=node.args))
        return number

    def refuse(self, reason: str) -> bool:
        """Note why a rule adds nothing for a node; returns False, as the rule then does."""
        self.refusal = reason
        return False

    def host(self, node: Node, reason: str) -> None:
        """The reference rule is run."""
        f = self.function
        f.reasons.update(dict.fromkeys(node.outputs, reason))
        for i in node.inputs:
            self.materialise(i)
        if node.prim.schedule.donates and f.base(node.inputs[0]) in f.inputs:
            # The reference writes into the memory of a leaf, and the step into a copy.
            f.small.append(product(f.shape(node.inputs[0])))
        reads = [Read(i, tuple(range(len(f.shape(i))))) for i in node.inputs]
        f.add(Op(HOST, node, node.outputs, reads))


@cache
def every(rank: int) -> tuple[int, ...]:
    """Return the loops that the dims of a value follow, where each dim follows its own."""
    return tuple(range(rank))


def consumers_of(nodes: list[Node]) -> dict[int, list[Node]]:
    """Return the nodes that read each value, as often as they read the value."""
    consumers: dict[int, list[Node]] = {}
    for node in nodes:
        for i in node.inputs:
            consumers.setdefault(i, []).append(node)
    return consumers


@cache
def _converted(dtype: DType) -> Emit:
    """Return a rule for the only number of an op."""

    def emit(code: Any, operands: list[Any]) -> Any:
        return code.b.convert(code.number(0), dtype)

    return shared(emit)


@shared
def _filled(code: Any, operands: list[Any]) -> Any:
    """The code of a value that holds the same number everywhere."""
    return code.filled()


@shared
def same_element(code: Any, operands: list[Any]) -> Any:
    """The code of a copy: the operand's element."""
    return operands[0]
