"""From a path's nodes to a `Function`: the loops of each op.

Rules are registered by family (`lower.registry`); the simple rules are methods here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.compiler.codegen.scalar_ops import convertible, elementwise_code, rounded_to
from wend._engine.compiler.ir.layout import is_dense, view_of
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
    contiguous,
)
from wend._engine.compiler.ir.symbolic_extents import (
    ONE,
    ZERO,
    Extents,
    FirstSizes,
    find_extents,
    known,
    product,
)
from wend._engine.compiler.lower.index import add as add_up
from wend._engine.compiler.lower.registry import lowers, rule_of
from wend._engine.compiler.lower.sums_of_products import join_products
from wend._engine.core.graph import Node, PathGraph, live_nodes
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
from wend._engine.ops.reduce import Reduction, Sum
from wend._engine.ops.views.complexes import Part
from wend._engine.ops.views.family import Alias
from wend._engine.ops.views.family import View as ViewOp
from wend._engine.ops.views.reshapes import Reshaping
from wend._engine.ops.views.strided import AsStrided


class Lowering:
    """The state of a lowering."""

    def __init__(self, path: PathGraph, needed: frozenset[int]) -> None:
        self.path = path
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
        self.puts = 0  # writes to single slices
        self.maxima: dict[int, int] = {}  # maxima along dims that stay -> the operand
        self.differences: dict[int, tuple[int, ...]] = {}  # result -> operands
        self.copies: dict[tuple[int, tuple[int, ...]], int] = {}  # of operands of products
        self.joined: set[int] = set()  # operands side by side: see `sums_of_products`
        self.views: dict[Any, Any] = {}  # layouts of views that were looked at

    def work(self) -> Iterator[None]:
        """Lower all nodes, a node in each slice; the result is `function`."""
        yield from find_extents(self.path, self.extents)
        f = self.function
        nodes = join_products(self)
        if nodes is not self.nodes:
            self.nodes, self.consumers = nodes, consumers_of(nodes)
        made = {o for node in self.nodes for o in node.outputs}
        used = {i for node in self.nodes for i in node.inputs} | self.needed
        f.inputs = sorted(i for i in used if i not in made)
        for i in f.inputs:
            f.dtypes[i] = self.path.dtype_of(i)
        for node in self.nodes:
            self.lower(node)
            yield
        f.outputs = sorted(i for i in self.needed if i in made)
        for i in f.outputs:
            self.materialise(f.resolve(i))
            self.lay_out(i)
        self.drop_unread()

    def drop_unread(self) -> None:
        """Forget ops of which only the shape was asked, by a fill."""
        f = self.function
        used = {f.base(f.resolve(i)) for i in f.outputs}
        kept = []
        for op in reversed(f.ops):
            if op.kind == HOST or not used.isdisjoint(op.outputs):
                kept.append(op)
                used.update(f.base(read.value) for read in op.reads)
        f.ops = kept[::-1]

    def lay_out(self, i: int) -> None:
        """Copy a needed value that shows elements of a computed value in another order."""
        f = self.function
        value = f.resolve(i)
        layout = f.layout(value)
        if layout.base in f.inputs:
            if self.picks_one(value, layout):
                f.same[value] = self.copy(value)
            return
        whole = f.extents.canonical(product(f.shape(layout.base)))
        mine = f.extents.canonical(product(f.shape(value)))
        if is_dense(f.shape(value), layout.strides) and layout.offset == ZERO and whole == mine:
            return
        f.same[value] = self.copy(value)

    def picks_one(self, i: int, layout: Layout) -> bool:
        """Whether a value is one element of an operand, at a place that the args of a visit name.

        Shown in the operand's memory, the element would bind the plan to its place, and each other
        place anew.
        """
        f = self.function
        named = any(f.extents.atoms[a][0] == "arg" for m, _ in layout.offset for a in m)
        return named and known(product(f.shape(i))) == 1 and convertible(f.dtypes[i])

    def materialise(self, i: int) -> None:
        """Make sure that a value with the same number everywhere lies in memory."""
        f = self.function
        while i in f.views:
            i = f.views[i].source
        if i not in f.uniform or i in self.filled:
            return
        self.filled.add(i)
        number = f.uniform[i]

        def emit(code: Any, operands: list[Any]) -> Any:
            return code.uniform(*number)

        node = self.sources[i]
        space = f.shape(i)
        dims = tuple(range(len(space)))
        f.add(Op(MAP, node, (i,), [], space, dims, emit, cheap=True))

    def lower(self, node: Node) -> None:
        """Add the result of a node: ops, a view, or another name for a known value."""
        f = self.function
        for out in node.outputs:
            if out not in f.dtypes:
                f.dtypes[out] = self.path.dtype_of(out)
        inputs = tuple(f.resolve(i) for i in node.inputs)
        prim: Any = node.prim
        if prim.facts.pure and not prim.facts.random and not prim.facts.calls_user:
            key = (prim, inputs, node.args)
            before = self.known.setdefault(key, node)
            if before is not node and len(before.outputs) == len(node.outputs):
                for mine, theirs in zip(node.outputs, before.outputs, strict=True):
                    f.same[mine] = f.resolve(theirs)
                return
        node = Node(prim, node.program, inputs, node.outputs, node.args, node.grad)
        rule = rule_of(type(prim))
        traced = isinstance(prim, Identity) or self.extents.holds_for(node)
        if rule is None:
            self.host(node, "no rule makes loops of it")
        elif not traced:
            self.host(node, "it was traced for operands of other ranks")
        elif not rule(self, node):
            self.host(node, self.refusal(node))

    # -- rules ------------------------------------------------------------------------------

    def refusal(self, node: Node) -> str:
        """Return why the rule of a family has made nothing of a node."""
        dtypes_ = {self.function.dtypes[i] for i in (*node.inputs, *node.outputs)}
        foreign = sorted(str(d) for d in dtypes_ if not convertible(d))
        if foreign:
            return f"there is no code for {', '.join(foreign)}"
        return "its family's rule does not know this form"

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

    def alias(self, node: Node, source: int) -> bool:
        """The result is an operand."""
        self.function.same[node.outputs[0]] = self.function.resolve(source)
        return True

    @lowers(Alias, Graft)
    def first_operand(self, node: Node) -> bool:
        """The first operand itself."""
        return self.alias(node, node.inputs[0])

    @lowers(Identity)
    def identity(self, node: Node) -> bool:
        """The operand itself, unless the op has to look at elements."""
        return not node.prim.facts.fallible and self.alias(node, node.inputs[0])

    def kernel_types(self, node: Node) -> bool:
        """Whether code can be made for the dtypes of operands and results."""
        f = self.function
        return all(convertible(f.dtypes[i]) for i in (*node.inputs, *node.outputs))

    @lowers(Part)
    def part(self, node: Node) -> bool:
        """The real or the imaginary part, as an array of its own."""
        space = self.function.shape(node.inputs[0])
        dims = tuple(range(len(space)))
        name = node.prim.name

        def emit(code: Any, operands: list[Any]) -> Any:
            return getattr(code.b, name)(operands[0])

        reads = [Read(node.inputs[0], dims)]
        self.function.add(Op(MAP, node, node.outputs, reads, space, dims, emit, cheap=True))
        return True

    def read(self, i: int, shape: tuple[Any, ...]) -> Read | None:
        """Value i broadcast to `shape`, dims aligned at the right."""
        mine = self.function.shape(i)
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

    @lowers(Elementwise)
    def map(self, node: Node) -> bool:
        """An elementwise op."""
        f = self.function
        out = node.outputs[0]
        space = f.shape(out)
        reads = [self.read(i, space) for i in node.inputs]
        if any(r is None for r in reads):
            return False
        emit = self.code_of(node)
        if emit is None:
            return False
        if isinstance(node.prim, Exp) and self.is_negative(node.inputs[0]):
            emit = _exp_of_negative
        dims = tuple(range(len(space)))
        if isinstance(node.prim, Sub) and len(node.inputs) == 2:
            self.differences[out] = node.inputs
        cheap = node.prim.kind != "float" or isinstance(node.prim, Cast)
        given = [r for r in reads if r is not None]
        f.add(Op(MAP, node, node.outputs, given, space, dims, emit, node.args, cheap=cheap))
        return True

    def code_of(self, node: Node) -> Emit | None:
        """The code of an elementwise op; None if there is none."""
        key = node.prim, node.program
        if key not in self.codes:
            specs = [Spec(t.shape, t.dtype) for t in node.program.sample_types]
            self.codes[key] = elementwise_code(node.prim, specs)
        return self.codes[key]

    def is_negative(self, i: int) -> bool:
        """Whether no element is above 0, as where a softmax subtracts a maximum."""
        f = self.function
        x, maximum = self.differences.get(i, (i, -1))
        wide = f.dtypes[i] in (dtypes.float32, dtypes.float64) and f.dtypes[x] is f.dtypes[i]
        return wide and self.maxima.get(maximum) == x

    @lowers(Clone)
    def clone(self, node: Node) -> bool:
        """A copy in separate memory."""
        space = self.function.shape(node.inputs[0])
        dims = tuple(range(len(space)))
        reads = [Read(node.inputs[0], dims)]
        self.function.add(Op(MAP, node, node.outputs, reads, space, dims, _itself, cheap=True))
        return True

    @lowers(Cast)
    def cast(self, node: Node) -> bool:
        """A cast: nothing where the dtype stays, another number where all elements are equal."""
        f = self.function
        source = node.inputs[0]
        if f.dtypes[source] is node.prim.dtype:
            return self.alias(node, source)
        if source in f.uniform and f.dtypes[source].category != dtypes.COMPLEX:
            expr, dtype, category = f.uniform[source]
            if dtype.category <= node.prim.dtype.category and type(expr) is not tuple:
                self.spread(node, expr, node.prim.dtype, category)
                return True
        return self.map(node)

    @lowers(Full, FillLike)
    def fill(self, node: Node) -> bool:
        """The same number everywhere."""
        out = node.outputs[0]
        if node.prim.categories[-1] == dtypes.COMPLEX:
            return False
        self.spread(node, node.args[-1], self.function.dtypes[out], node.prim.categories[-1])
        return True

    def spread(self, node: Node, expr: Any, dtype: DType, category: int) -> None:
        """Note that the result is the same number everywhere."""
        self.sources[node.outputs[0]] = node
        self.function.uniform[node.outputs[0]] = (expr, dtype, category)

    @lowers(ViewOp)
    def view(self, node: Node) -> bool:
        """The elements of an operand, in another order or fewer of them."""
        f = self.function
        source, out = node.inputs[0], node.outputs[0]
        if source in f.uniform:
            self.spread(node, *f.uniform[source])
            return True
        if node.prim.strides is None or len(node.inputs) != 1:
            return False
        if f.shape(out) == f.shape(source) and node.prim.facts.checks_strides:
            return self.alias(node, source)
        layout = f.layout(source)
        dense = is_dense(f.shape(source), layout.strides) and layout.offset == ZERO
        if isinstance(node.prim, AsStrided) and not dense:
            source = self.copy(source)  # `AsStrided` counts in dense memory
            layout = f.layout(source)
        view = View(out, source, node)
        found = self.shown(view, layout)
        if found is None and isinstance(node.prim, Reshaping):
            if not is_dense(f.shape(source), layout.strides):
                source = self.copy(source)
                view = View(out, source, node)
            found = contiguous(f.shape(out)), f.layout(source).offset
        if found is None:
            return False
        f.views[out] = view
        f.layouts[out] = Layout(f.layout(source).base, *found)
        return True

    def shown(self, view: View, layout: Layout) -> Any:
        """(strides, offset) of a view of something that lies so, or None: see `view_of`."""
        key = view.value, layout.strides, layout.offset
        if key not in self.views:
            self.views[key] = view_of(self.function, view, layout.strides, layout.offset)
        return self.views[key]

    @lowers(Patches)
    def patches(self, node: Node) -> bool:
        """Windows: strides that overlap, which nobody outside of the plan gets to see."""
        f = self.function
        out = node.outputs[0]
        if not self.kernel_types(node):
            return False
        if out not in self.needed:
            return self.view(node)
        shown = f.fresh(f.shape(out), f.dtypes[out])
        if not self.view(
            Node(node.prim, node.program, node.inputs, (shown,), node.args, node.grad)
        ):
            return False
        return self.alias(node, self.copy(shown)) if shown in f.views else False

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
        op = Op(MAP, self.path.nodes[0], (out,), [read], space, dims, _itself, cheap=True)
        op.name = "copy"
        f.add(op)
        return out

    def shared_copy(self, source: int, order: tuple[int, ...]) -> int:
        """Return a dense copy, shared by all products that want the copy."""
        key = source, order
        if key not in self.copies:
            self.copies[key] = self.copy(source, order)
        return self.copies[key]

    @lowers(Reduction)
    def fold(self, node: Node) -> bool:
        """A reduction over some dims."""
        f = self.function
        x, out = node.inputs[0], node.outputs[0]
        prim = node.prim
        if len(node.outputs) != 1 or prim.identity is None:
            return False
        rank = len(f.shape(x))
        axes = prim.axes(rank)
        kept = [d for d in range(rank) if d not in axes]
        out_dims = tuple(-1 if d in axes else d for d in range(rank)) if prim.keepdim else kept
        if isinstance(prim, Amax) and prim.keepdim:
            self.maxima[out] = x
        wide = dtypes.bool_ if type(prim.identity) is bool else widened(f.dtypes[out])
        fold = Fold(prim.combine, prim.identity, wide, isinstance(prim, Sum))
        return self.add_fold(node, x, tuple(out_dims), fold)

    def add_fold(self, node: Node, x: int, out_dims: tuple[int, ...], fold: Fold) -> bool:
        """Fold value x over the loops that the result does not follow."""
        space = self.function.shape(x)
        reads = [Read(x, tuple(range(len(space))))]

        def emit(code: Any, operands: list[Any]) -> Any:
            return code.b.convert(operands[0], fold.dtype)

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
            op.emit = lambda code, operands: code.b.convert(inner(code, operands), dtype)
        elif dtype is not fold.dtype:
            shape = f.shape(op.out)
            dims = tuple(range(len(shape)))
            total = f.fresh(shape, fold.dtype)
            f.add(op)
            given = [Read(total, dims)]
            rounded = Op(
                MAP, op.node, op.outputs, given, shape, dims, rounded_to(dtype), cheap=True
            )
            op.outputs, op = (total,), rounded
        f.add(op)

    @lowers(SumTo)
    def sum_to(self, node: Node) -> bool:
        """The adjoint of a broadcast."""
        f = self.function
        x, out = node.inputs[0], node.outputs[0]
        dtype = f.dtypes[x]
        if dtype is dtypes.bool_:
            return False
        rank, kept = len(f.shape(x)), len(f.shape(out))
        dims = tuple(-1 if d in node.prim.axes else d for d in range(rank - kept, rank))
        fold = Fold(add_up, 0, widened(dtype), True)
        return self.add_fold(node, x, dims, fold)


def consumers_of(nodes: list[Node]) -> dict[int, list[Node]]:
    """Return the nodes that read each value, as often as they read the value."""
    consumers: dict[int, list[Node]] = {}
    for node in nodes:
        for i in node.inputs:
            consumers.setdefault(i, []).append(node)
    return consumers


def _exp_of_negative(code: Any, operands: list[Any]) -> Any:
    return code.b.exp_of_negative(operands[0])


def _itself(code: Any, operands: list[Any]) -> Any:
    return operands[0]
