"""Graphs: what a path or the body of a rule computes, as a flat list of nodes.

Ids: in a `Graph` (the body of a composite, a gradient rule, a segment's backward) inputs come
first, then temporaries.  In a `PathGraph` ids >= 0 are the dense indices of the trace's values and
ids < 0 are temporaries inside composites and steps; -1 is the first of them, so that one Python
list addressed from both ends holds them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from wend.core import _hot
from wend.core._hot import LeafPrimitive, Program, State, TensorType
from wend.core.primitive import Composite, Primitive, make_program, ops
from wend.core.symbolic import (
    ARG,
    DIM,
    Expr,
    Guards,
    SymInt,
    SymNumber,
    evaluate,
    expr_of,
    hint_of,
    substitute,
)

#: Extents and dtype of temporaries: (extents, dtype), or, while nobody has asked for the extents,
#: (graph, local id, ids of the graph's inputs, args) of the graph that the temporary came from.
Shapes = dict[int, Any]


class Node:
    """One primitive applied: operand ids, result ids, run-time args as expressions.

    grad: whether gradients flow through it (as recorded, and by the op and its result's dtype)
    """

    __slots__ = ("args", "grad", "inputs", "outputs", "prim", "program", "state")

    def __init__(
        self,
        prim: Any,
        program: Program,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        args: tuple[Expr, ...],
        grad: bool,
    ) -> None:
        self.prim = prim
        self.program = program
        self.inputs = inputs
        self.outputs = outputs
        self.args = args
        self.grad = grad

    def __repr__(self) -> str:
        outs = ", ".join(f"%{i}" for i in self.outputs)
        ins = ", ".join(f"%{i}" for i in self.inputs)
        more = f", {', '.join(map(str, self.args))}" if self.args else ""
        return f"{outs} = {self.prim!r}({ins}{more})"


class Graph:
    """A body with inputs 0..n_inputs-1: nodes in order, the ids of its outputs (or None)."""

    __slots__ = ("n_inputs", "nodes", "outputs", "saved", "shapes", "size", "used")

    def __init__(
        self, n_inputs: int, nodes: list[Node], outputs: list[int | None], shapes: Shapes
    ) -> None:
        self.n_inputs = n_inputs
        self.outputs = outputs
        self.nodes = live_nodes(nodes, {i for i in outputs if i is not None})
        self.shapes = shapes
        self.size = n_inputs + 1  # number of local ids
        for node in nodes:
            self.size = max(self.size, *[o + 1 for o in node.outputs])
        used = {i for node in self.nodes for i in node.inputs if i < n_inputs}
        used |= {i for i in outputs if i is not None and i < n_inputs}
        self.used = frozenset(used)
        self.saved: tuple[int, ...] = ()  # of a gradient rule: operands and results it reads

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.nodes)) + f"\nreturn {self.outputs}"


def live_nodes(nodes: Iterable[Node], needed: set[int]) -> list[Node]:
    """The nodes that the needed ids depend on, in order."""
    needed = set(needed)
    kept = []
    for node in reversed(nodes if isinstance(nodes, list) else list(nodes)):
        if not needed.isdisjoint(node.outputs):
            kept.append(node)
            needed.update(node.inputs)
    kept.reverse()
    return kept


# -- recording symbolically -----------------------------------------------------------------


class Recorder:
    """Stands in for a trace while a rule runs: ops become nodes, extents stay symbolic."""

    def __init__(self, guards: Guards) -> None:
        self.guards = guards
        self.serial = _hot.fresh_serial()
        self.nodes: list[Node] = []
        self.shapes: Shapes = {}
        self.n = 0

    def input(self, shape: Sequence[Any], dtype: Any, device: Any) -> Any:
        """A tensor that stands for the next input."""
        return self._tensor(tuple(shape), dtype, device)

    def _tensor(self, shape: tuple[Any, ...], dtype: Any, device: Any) -> Any:
        value = _hot.symbolic_value(_hot.symbolic_type(shape, dtype, device), self.serial, self.n)
        self.n += 1
        return _hot.wrap(value)

    def id_of(self, prim: Any, tensor: Any) -> int:
        """The id of an operand.  Raises TypeError for a tensor from outside the rule."""
        value = tensor.value
        if value.serial != self.serial:
            raise TypeError(f"{prim}: a rule used a tensor that is not one of its operands")
        return int(value.index)

    def record(self, prim: Any, tensors: list[Any], args: list[Any]) -> Any:
        """One op of the body; composites are inlined."""
        if prim.is_composite:
            result = prim.call_body(tensors, args)
            wrap = prim.result_wrap()
            return result if wrap is None else wrap(result)
        ids = tuple(self.id_of(prim, t) for t in tensors)
        hint_types = [hint_type(t) for t in tensors]
        program, outs = prim.typed(hint_types, [hint_of(a) for a in args])

        def dim_of(i: int, axis: int) -> Expr:
            return expr_of(tensors[i].value.type.shape[axis])

        def arg_of(k: int) -> Expr:
            return expr_of(args[k])

        for op, a, b, outcome in program.guards:
            self.guards.add(
                op, substitute(a, dim_of, arg_of), substitute(b, dim_of, arg_of), outcome
            )
        results = []
        for (row, dtype), hint in zip(program.outs, outs, strict=True):
            exprs = tuple(substitute(e, dim_of, arg_of) for e in row)
            shape = tuple(
                SymInt(e, h, self.guards) if type(e) is tuple else e
                for e, h in zip(exprs, hint.shape, strict=True)
            )
            self.shapes[self.n] = (exprs, dtype)
            results.append(self._tensor(shape, dtype, hint.device))
        outputs = tuple(r.value.index for r in results)
        exprs = tuple(expr_of(a) for a in args)
        self.nodes.append(Node(prim, program, ids, outputs, exprs, program.differentiable))
        wrap = prim.result_wrap()
        return results[0] if wrap is None else wrap(results)

    def run(self, body: Callable[[], Any]) -> Any:
        """Call `body` with this recorder in the place of the thread's trace."""
        trace = _hot.current_trace()
        before, trace.symbolic = trace.symbolic, self
        try:
            return body()
        finally:
            trace.symbolic = before


def hint_type(tensor: Any) -> TensorType:
    """The concrete type that a symbolic tensor had when it was traced."""
    type_ = tensor.value.type
    return _hot.intern_type(tuple(hint_of(n) for n in type_.shape), type_.dtype, type_.device)


def symbolic_args(prim: Any, args: Sequence[Any], guards: Guards) -> list[Any]:
    """The run-time args of a call as symbols."""
    out: list[Any] = []
    for k, value in enumerate(args):
        if prim.size_mask[k]:
            out.append(SymInt((ARG, k), value, guards))
        else:
            out.append(SymNumber((ARG, k), prim.categories[k], value))
    return out


def symbolic_shape(operand: int, type_: Any, guards: Guards) -> tuple[Any, ...]:
    """The extents of operand number `operand` as symbols."""
    return tuple(SymInt((DIM, operand, a), n, guards) for a, n in enumerate(type_.shape))


def flatten_outputs(result: Any) -> list[Any]:
    """The tensors that a body returned."""
    return list(result) if isinstance(result, (tuple, list)) else [result]


def trace_composite(prim: Any, types: list[Any], args: list[Any]) -> Program:
    """Trace the body of a composite for these operand types; the program keeps the graph."""
    guards = Guards()
    recorder = Recorder(guards)
    tensors = [
        recorder.input(symbolic_shape(i, t, guards), t.dtype, t.device) for i, t in enumerate(types)
    ]
    values = symbolic_args(prim, args, guards)
    result = recorder.run(lambda: prim.call_body(tensors, values))
    outs = flatten_outputs(result)
    ids: list[int | None] = [recorder.id_of(prim, t) for t in outs]
    program = make_program(prim, types, [t.value.type for t in outs], guards)
    program.graph = Graph(len(types), recorder.nodes, ids, recorder.shapes)
    return program


Composite.tracer = staticmethod(trace_composite)


# -- gradient templates ---------------------------------------------------------------------


def template(program: Program, needs: tuple[bool, ...], given: tuple[bool, ...]) -> Graph:
    """The gradient rule of one op as a graph, made once per pattern.

    needs: which operands want a gradient     given: which results have one
    Inputs of the graph: operands, results, then the gradients given.  Outputs: per operand the
    id of its gradient, or None.
    """
    key = (needs, given)
    found: Graph | None = program.templates.get(key)
    if found is None:
        found = program.templates[key] = _trace_vjp(program, needs, given)
    return found


def _trace_vjp(program: Program, needs: tuple[bool, ...], given: tuple[bool, ...]) -> Graph:
    prim: Any = program.prim
    types = program.sample_types
    guards = Guards()
    recorder = Recorder(guards)
    tensors = [
        recorder.input(symbolic_shape(i, t, guards), t.dtype, t.device) for i, t in enumerate(types)
    ]
    device = types[0].device if types else prim.device_of_result()
    rows = []
    for exprs, dtype in program.outs:
        shape = tuple(
            SymInt(e, evaluate(e, [t.shape for t in types], program.sample_args), guards)
            if type(e) is tuple
            else e
            for e in exprs
        )
        rows.append((shape, dtype))
    results = [recorder.input(shape, dtype, device) for shape, dtype in rows]
    seeds = [recorder.input(s, d, device) for (s, d), on in zip(rows, given, strict=True) if on]
    n_inputs = recorder.n
    args = symbolic_args(prim, program.sample_args, guards)

    def rule() -> list[Any]:
        waiting = iter(seeds)
        gs = [
            next(waiting) if on else ops.full(y.shape, 0.0, dtype=y.dtype)
            for y, on in zip(results, given, strict=True)
        ]
        single = prim.result_wrap() is None
        g, y = (gs[0], results[0]) if single else (tuple(gs), tuple(results))
        grads = prim.vjp(g, y, *prim.arrange(tensors, args))
        flat = align_gradients(prim, grads, len(tensors))
        return [
            undo_broadcast(prim, grad, x) if need and grad is not None else None
            for grad, x, need in zip(flat, tensors, needs, strict=True)
        ]

    grads = recorder.run(rule)
    outputs = [None if t is None else recorder.id_of(prim, t) for t in grads]
    graph = Graph(n_inputs, recorder.nodes, outputs, recorder.shapes)
    n_values = len(tensors) + len(results)
    graph.saved = tuple(sorted(i for i in graph.used if i < n_values))
    return graph


def align_gradients(prim: Any, grads: Any, n: int) -> list[Any]:
    """What a gradient rule returned, one entry per tensor operand."""
    if not isinstance(grads, (tuple, list)):
        raise TypeError(f"{prim.name}: vjp must return a tuple")
    flat: list[Any] = []
    rest = iter(grads)
    params = [p for p in prim.params if not p.is_attr]
    for p, entry in zip(params, prim.form, strict=True):
        if p.kind not in ("tensor", "tensor?", "operand", "tensors"):
            continue
        grad = next(rest, None)
        if entry == "T":
            flat.append(grad)
        elif isinstance(entry, tuple) and entry[0] == "L":
            flat.extend([None] * entry[1] if grad is None else grad)
    if len(flat) != n:
        raise TypeError(f"{prim.name}: vjp returned {len(flat)} gradients for {n} operands")
    return flat


def undo_broadcast(prim: Any, grad: Any, x: Any) -> Any:
    """Sum a gradient over the dims by which its operand was broadcast; cast it back."""
    have, want = grad.shape, x.shape
    extra = len(have) - len(want)
    if extra < 0:
        raise TypeError(f"{prim.name}: vjp gave rank {len(have)} for an operand of {len(want)}")
    axes = list(range(extra))
    for axis in range(len(want)):
        h, w = hint_of(have[extra + axis]), hint_of(want[axis])
        if h != w:
            if w != 1:
                raise TypeError(f"{prim.name}: vjp gave extent {h} for an operand's {w}")
            axes.append(extra + axis)
    if axes:
        grad = ops.sum_to(grad, want, tuple(axes))
    if grad.dtype is not x.dtype:
        grad = ops.cast(grad, x.dtype)
    return grad


# -- paths ----------------------------------------------------------------------------------


class Step:
    """What a step stands for: nodes with path ids."""

    __slots__ = ("flags", "inner", "nodes", "shapes", "spent")

    def __init__(
        self, nodes: list[Node], inner: int, shapes: Shapes, spent: frozenset[int]
    ) -> None:
        self.flags: Any = None  # per result whether it has a history, if a graph is created
        self.nodes = nodes
        self.inner = inner  # temporaries in use after this step
        self.shapes = shapes
        self.spent = spent  # results whose node a backward pass has used up


class PathGraph:
    """The nodes of a recorded path, composites and backward steps expanded.

    base: the graph of a path that this one continues; its work is not done again
    """

    def __init__(
        self,
        states: list[State],
        types: list[TensorType],
        args: list[Any],
        base: PathGraph | None = None,
    ) -> None:
        self.states = states
        self.types = types
        self.args = args
        self.caches: dict[Any, Any] = {}  # what differentiation has found out about this path
        if base is None:
            self.nodes: list[Node] = []
            self.shapes: Shapes = {}
            self.inner = 0
            self.spent: set[int] = set()
            self.leaves: list[tuple[int, int]] = []  # (dense id, gradient role)
            self.node_of_state: list[int] = []  # per state, how many nodes before it
            self.producer: dict[int, int] = {}  # id -> position of its node; none for leaves
            self.block_at: dict[int, int] = {}  # position -> checkpoint block
            self.calls: list[int] = []  # positions of user-defined functions
            done = 0
        else:
            self.nodes = base.nodes.copy()
            self.shapes = base.shapes.copy()
            self.inner = base.inner
            self.spent = base.spent.copy()
            self.leaves = base.leaves.copy()
            self.node_of_state = base.node_of_state.copy()
            self.producer = base.producer.copy()
            self.block_at = base.block_at.copy()
            self.calls = base.calls.copy()
            done = len(base.states)
        self._add(states[done:] if done else states)

    def _add(self, states: list[State]) -> None:
        nodes, producer, node_of_state = self.nodes, self.producer, self.node_of_state
        for state in states:
            at = len(nodes)
            node_of_state.append(at)
            prim = state.prim
            if isinstance(prim, LeafPrimitive):
                self.leaves.append((state.first, prim.grad if state.requires_grad else 0))
                continue
            if state.is_step:
                self._add_step(state.step)
                continue
            mode = state.mode
            first = state.first
            n_out = state.n_out
            outputs = (first,) if n_out == 1 else tuple(range(first, first + n_out))
            inputs = tuple(state.operand_indices())
            n_args = len(prim.size_mask)
            args: tuple[Expr, ...] = ()
            if n_args:
                args = tuple([(ARG, state.arg0 + k) for k in range(n_args)])
            program = state.program
            if prim.is_composite:
                builder = Expander(self.inner, self.shapes)
                builder.expand(program.graph, inputs, args, mode.grad, outputs)
                self.inner = builder.inner
                nodes.extend(builder.nodes)
                for k in range(at, len(nodes)):
                    for o in nodes[k].outputs:
                        producer[o] = k
            else:
                grad = mode.grad and program.differentiable
                nodes.append(Node(prim, program, inputs, outputs, args, grad))
                if prim.labels_leaf:
                    self.leaves.append((first, 1))
                else:
                    for o in outputs:
                        producer[o] = at
                if prim.calls_user:
                    self.calls.append(at)
            if mode.recompute:
                for k in range(at, len(nodes)):
                    self.block_at[k] = mode.recompute

    def _add_step(self, step: Step) -> None:
        at = len(self.nodes)
        self.nodes.extend(step.nodes)
        for k, node in enumerate(step.nodes, at):
            for o in node.outputs:
                self.producer[o] = k
        self.shapes.update(step.shapes)
        self.inner = step.inner
        self.spent |= step.spent

    def position(self, i: int) -> int:
        """Position of the node that makes a value; -1 for leaves."""
        return self.producer.get(i, -1)

    def shape_of(self, i: int) -> tuple[Expr, ...]:
        """Extents of a value as expressions."""
        if i < 0:
            return extents(self.shapes, i)
        return tuple([(DIM, i, a) for a in range(len(self.types[i].shape))])

    def dtype_of(self, i: int) -> Any:
        """Element type of a value."""
        return self.types[i].dtype if i >= 0 else dtype_of(self.shapes[i])


#: The graph last made of states that are not in the trie: these do not keep it themselves, or
#: the two would keep each other.
_RECENT: list[PathGraph] = []


def path_at(states: list[State], values: list[Any], args: list[Any]) -> PathGraph:
    """The graph of what has been recorded, kept on the last state for those who come again."""
    n = len(states)
    base = None
    if _RECENT:
        recent = _RECENT[0]
        k = len(recent.states)
        if k <= n and states[k - 1] is recent.states[k - 1]:
            base = recent
    if base is None:
        for k in range(n, 0, -1):
            plans = states[k - 1].plans
            if plans is not None:
                base = plans.get("path")
                if base is not None:
                    break
    if base is not None and len(base.states) == n:
        return base
    path = PathGraph(states[:], [v.type for v in values], args[:], base)
    last = states[n - 1]
    if last.parent is None:
        _RECENT[:] = [path]
        return path
    if last.plans is None:
        last.plans = {}
    last.plans["path"] = path
    return path


def dtype_of(entry: Any) -> Any:
    """Element type in an entry of `Shapes`."""
    return entry[1] if len(entry) == 2 else entry[0].shapes[entry[1]][1]


def extents(shapes: Shapes, i: int) -> tuple[Expr, ...]:
    """Extents of the temporary `i`; worked out when first asked for."""
    entry = shapes[i]
    if len(entry) == 4:
        graph, local, inputs, args = entry
        exprs, dtype = graph.shapes[local]
        entry = (place_all(exprs, inputs, args, shapes), dtype)
        shapes[i] = entry
    return entry[0]  # type: ignore[no-any-return]


def place(expr: Expr, inputs: tuple[int, ...], args: tuple[Expr, ...], shapes: Shapes) -> Expr:
    """An expression over a graph's inputs and args, over those of the path it was put into."""
    if type(expr) is not tuple:
        return expr
    op = expr[0]
    if op == DIM:
        i = inputs[expr[1]]
        return (DIM, i, expr[2]) if i >= 0 else extents(shapes, i)[expr[2]]
    if op == ARG:
        return args[expr[1]]

    def dim_of(k: int, axis: int) -> Expr:
        i = inputs[k]
        return (DIM, i, axis) if i >= 0 else extents(shapes, i)[axis]

    return substitute(expr, dim_of, args.__getitem__)


def place_all(
    exprs: tuple[Expr, ...], inputs: tuple[int, ...], args: tuple[Expr, ...], shapes: Shapes
) -> tuple[Expr, ...]:
    """`place` for several."""
    return tuple([place(e, inputs, args, shapes) for e in exprs])


class Expander:
    """Instantiates graphs into a path: renames ids, substitutes extents."""

    def __init__(self, inner: int, shapes: Shapes) -> None:
        self.inner = inner
        self.shapes = shapes
        self.nodes: list[Node] = []

    def temporary(self, exprs: tuple[Expr, ...], dtype: Any) -> int:
        """A new temporary of the path."""
        self.inner += 1
        self.shapes[-self.inner] = (exprs, dtype)
        return -self.inner

    def expand(
        self,
        graph: Graph,
        inputs: tuple[int, ...],
        args: tuple[Expr, ...],
        grad: bool,
        outputs: tuple[int | None, ...] | None = None,
    ) -> list[int | None]:
        """Append the graph's nodes; returns the path ids of its outputs.

        `outputs`, if given, are the ids that the results must get.
        """
        n = graph.n_inputs
        names: list[Any] = list(inputs)
        names += [None] * (graph.size - n)
        if outputs is not None:
            for local, wanted in zip(graph.outputs, outputs, strict=True):
                if local is not None and wanted is not None and names[local] is None:
                    names[local] = wanted
        shapes, nodes, inner = self.shapes, self.nodes, self.inner
        for node in graph.nodes:
            for local in node.outputs:
                if names[local] is None:
                    inner += 1
                    names[local] = -inner
                    shapes[-inner] = (graph, local, inputs, args)
            exprs = node.args
            if exprs:
                exprs = place_all(exprs, inputs, args, shapes)
            nodes.append(
                Node(
                    node.prim,
                    node.program,
                    tuple([names[i] for i in node.inputs]),
                    tuple([names[i] for i in node.outputs]),
                    exprs,
                    grad and node.grad,
                )
            )
        self.inner = inner
        result = [None if i is None else names[i] for i in graph.outputs]
        if outputs is not None:
            for have, wanted in zip(result, outputs, strict=True):
                if have is not None and wanted is not None and have != wanted:
                    self.copy(have, wanted, grad)
        return result

    def copy(self, source: int, target: int, grad: bool) -> None:
        """Give the value `source` the further id `target`."""
        prim, program = identity_program()
        self.nodes.append(Node(prim, program, (source,), (target,), (), grad))


_IDENTITY: list[Any] = []


def identity_program() -> Any:
    """(primitive, program) of the identity; its pattern holds for every rank."""
    if not _IDENTITY:
        from wend.base.devices import CPU
        from wend.base.dtypes import float32

        prim = ops.identity.primitive.of()
        program, _ = prim.typed([_hot.intern_type((), float32, CPU)], [])
        _IDENTITY[:] = [prim, program]
    return _IDENTITY[0], _IDENTITY[1]


def is_primitive(prim: Any) -> bool:
    """Whether this is an op (not a leaf, not a backward step)."""
    return isinstance(prim, Primitive)
