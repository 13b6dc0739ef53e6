"""Batching: an op, or a whole graph, over a new leading axis, by the `batch` rules of primitives.

`Batched` is one op on many examples: a composite whose body is the op's batching rule (for a
composite: that of every op of its body), traced once per structure.  `batch_graph` gives the same
for a graph.  `vmap` (see levels.py) records `Batched` ops while the user's function runs once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from wend.base.errors import GraphError
from wend.core import _hot
from wend.core._hot import Program, Tensor
from wend.core.graph import Graph, Node, Shapes, flatten_outputs
from wend.core.primitive import Composite, ops
from wend.core.symbolic import (
    ARG,
    DIM,
    MAX,
    MIN,
    NEG,
    Expr,
    apply_binary,
    expr_of,
    hint_of,
    substitute,
    sym_max,
    sym_min,
)

__all__ = ["Batched", "batch_graph", "batched", "example_types", "interpret", "with_batch_axis"]

Flags = tuple[bool, ...]
#: Examples in a batch while a template is traced: the first that is no extent of the operands.
_SIZES = (13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59)


class Batched(Composite, abstract=True):
    """prim over a leading batch axis of the operands that `flags` names; so are its results.

    One per (primitive, flags).  Operands, run-time args and form are those of the primitive.
    """

    prim: Any
    flags: Flags

    def __init__(self, prim: Any, flags: Flags) -> None:
        self.name = prim.name  # type: ignore[misc]
        self.attrs = {}
        self.prim = prim
        self.flags = flags
        self.grad_name = prim.grad_name  # type: ignore[misc]
        self.setup(prim.form, False, True, prim.is_differentiable)

    def result_wrap(self) -> Any:  # type: ignore[override]
        """As the primitive's."""
        return self.prim.result_wrap()

    def call_body(self, tensors: list[Any], args: list[Any]) -> Any:
        """The results, each with the batch axis at dim 0."""
        prim, flags = self.prim, self.flags
        size = batch_size(tensors, flags)
        if prim.is_composite:
            types = example_types(tensors, flags)
            program, _ = prim.typed(types, [hint_of(a) for a in args])
            _keep_guards(program, tensors, flags, args)
            outs = interpret(program.graph, tensors, flags, args)
            results = [with_batch_axis(x, flag, size) for x, flag in outs]
        else:
            rule_flags = arrange_flags(prim, flags)
            results = flatten_outputs(prim.batch(rule_flags, size, *prim.arrange(tensors, args)))
        return results[0] if prim.result_wrap() is None else results

    def __repr__(self) -> str:
        return f"batched({self.prim!r}, {self.flags})"


_BATCHED: dict[tuple[Any, Flags], Batched] = {}


def batched(prim: Any, flags: Flags) -> Batched:
    """The op `prim` over a batch axis of these operands."""
    key = (prim, flags)
    found = _BATCHED.get(key)
    if found is None:
        found = _BATCHED[key] = Batched(prim, flags)
    return found


def batch_size(tensors: Sequence[Any], flags: Flags) -> Any:
    """Extent of the batch axis of the first batched operand."""
    return tensors[flags.index(True)].shape[0]


def with_batch_axis(x: Any, is_batched: bool, size: Any) -> Any:
    """x with a batch axis at dim 0, whether it came with one or not."""
    return x if is_batched else ops.expand_to(x, (size, *x.shape), (0,))


def arrange_flags(prim: Any, flags: Flags) -> tuple[Any, ...]:
    """`flags` as a batching rule takes them: one per parameter that may be a tensor.

    For a list of tensors it is a list; numbers and None are not batched.
    """
    rest = iter(flags)
    out: list[Any] = []
    params = [p for p in prim.params if not p.is_attr]
    for p, entry in zip(params, prim.form, strict=True):
        if entry == "T":
            out.append(next(rest))
        elif type(entry) is tuple and entry[0] == "L":
            out.append([next(rest) for _ in range(entry[1])])
        elif p.kind in ("tensor", "tensor?", "operand", "tensors"):
            out.append(False)
    return tuple(out)


def example_types(tensors: Sequence[Any], flags: Flags) -> list[Any]:
    """Types of one example's operands (of symbolic ones: as they were when traced)."""
    types = []
    for x, flag in zip(tensors, flags, strict=True):
        shape = tuple([hint_of(n) for n in tuple(x.shape)[1 if flag else 0 :]])
        types.append(_hot.intern_type(shape, x.dtype, x.device))
    return types


def _keep_guards(program: Program, tensors: Sequence[Any], flags: Flags, args: list[Any]) -> None:
    """What the example's pattern rests on also holds for the batch: note it where that is asked."""
    guards = getattr(_hot.current_trace().symbolic, "guards", None)
    if guards is None:
        return

    def dim_of(i: int, axis: int) -> Expr:
        return expr_of(tensors[i].shape[axis + flags[i]])

    def arg_of(k: int) -> Expr:
        return expr_of(args[k])

    for op, a, b, outcome in program.guards:
        guards.add(op, substitute(a, dim_of, arg_of), substitute(b, dim_of, arg_of), outcome)


# -- running a graph on batched operands ----------------------------------------------------


def interpret(
    graph: Graph, tensors: Sequence[Tensor], flags: Flags, args: Sequence[Any], apply: Any = None
) -> list[tuple[Any, bool]]:
    """Run a body on operands of which some have a batch axis: (result, has it one?) per output.

    apply(prim, flags, tensors, args) -> (results, batched?): how to record one op; by default ops
    without a batched operand are recorded as they are, the others by their batching rule.
    """
    apply = apply or _apply
    env: list[Any] = list(tensors) + [None] * (graph.size - len(tensors))
    on = list(flags) + [False] * (graph.size - len(flags))
    for node in graph.nodes:
        operands = [env[i] for i in node.inputs]
        node_flags = tuple([on[i] for i in node.inputs])
        values = [_evaluate(e, tensors, flags, args) for e in node.args]
        results, is_batched = apply(node.prim, node_flags, operands, values)
        for o, x in zip(node.outputs, results, strict=True):
            env[o], on[o] = x, is_batched
    out: list[tuple[Any, bool]] = []
    for i in graph.outputs:
        if i is None:
            raise GraphError("a graph without one of its outputs cannot be run")
        out.append((env[i], on[i]))
    return out


def _apply(prim: Any, flags: Flags, tensors: list[Any], args: list[Any]) -> tuple[list[Any], bool]:
    if True not in flags:
        return flatten_outputs(_hot.record_list(prim, tensors, args)), False
    rule_flags = arrange_flags(prim, flags)
    size = batch_size(tensors, flags)
    results = prim.batch(rule_flags, size, *prim.arrange(tensors, args))
    return flatten_outputs(results), True


def _evaluate(expr: Expr, tensors: Sequence[Any], flags: Flags, args: Sequence[Any]) -> Any:
    """An expression over one example's extents and the args, for ints and symbols alike."""
    if type(expr) is not tuple:
        return expr
    op = expr[0]
    if op == DIM:
        return tensors[expr[1]].shape[expr[2] + flags[expr[1]]]
    if op == ARG:
        return args[expr[1]]
    a = _evaluate(expr[1], tensors, flags, args)
    if op == NEG:
        return -a
    b = _evaluate(expr[2], tensors, flags, args)
    if op == MIN:
        return sym_min(a, b)
    if op == MAX:
        return sym_max(a, b)
    return apply_binary(op, a, b)


# -- graphs ---------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def batch_graph(graph: Graph, flags: Flags) -> tuple[Graph, Flags]:
    """(the graph over a leading batch axis of the inputs in `flags`, which outputs then have one).

    Inputs keep their order; extents are expressions over the inputs with their batch axes, so that
    the result holds for all sizes (of two examples and more).  Raises GraphError if no input is
    batched.
    """
    if True not in flags or len(flags) != graph.n_inputs:
        raise GraphError(
            f"batch_graph: {len(flags)} flags, {sum(flags)} of them set, for a graph of "
            f"{graph.n_inputs} inputs: give one per input and set at least one"
        )
    made = _GraphBatcher(graph, flags)
    for node in graph.nodes:
        made.add(node)
    outputs = [None if i is None else made.names[i] for i in graph.outputs]
    on = tuple([i is not None and made.on[i] for i in graph.outputs])
    return Graph(graph.n_inputs, made.nodes, outputs, made.shapes), on


class _GraphBatcher:
    """One use of `batch_graph`: the nodes so far, names and flags of the old graph's values."""

    def __init__(self, graph: Graph, flags: Flags) -> None:
        self.graph = graph
        self.flags = flags
        self.size: Expr = (DIM, flags.index(True), 0)
        self.names: dict[int, int] = {i: i for i in range(graph.n_inputs)}
        self.on: dict[int, bool] = dict(enumerate(flags))
        self.nodes: list[Node] = []
        self.shapes: Shapes = {}
        self.n = graph.n_inputs

    def add(self, node: Node) -> None:
        """Append what stands for one node of the old graph."""
        flags = tuple([self.on[i] for i in node.inputs])
        inputs = tuple([self.names[i] for i in node.inputs])
        args = tuple([self.moved(e) for e in node.args])
        is_batched = True in flags
        if not is_batched:
            outputs = [self.fresh(o, False) for o in node.outputs]
            moved = Node(node.prim, node.program, inputs, tuple(outputs), args, node.grad)
            self.nodes.append(moved)
        else:
            outputs = self.instantiate(batched_template(node.program, flags), inputs, args, node)
        for o, name in zip(node.outputs, outputs, strict=True):
            self.names[o] = name
            self.on[o] = is_batched

    def moved(self, expr: Expr) -> Expr:
        """An expression of the old graph over the batched inputs."""
        return substitute(expr, self._dim_of, lambda k: (ARG, k))

    def _dim_of(self, i: int, axis: int) -> Expr:
        return (DIM, i, axis + self.flags[i])

    def fresh(self, old: int, is_batched: bool) -> int:
        """A new id for the value `old`."""
        exprs, dtype = self.graph.shapes[old]
        lead = (self.size,) if is_batched else ()
        return self.new((*lead, *[self.moved(e) for e in exprs]), dtype)

    def new(self, exprs: tuple[Expr, ...], dtype: Any) -> int:
        """A new id."""
        self.shapes[self.n] = (exprs, dtype)
        self.n += 1
        return self.n - 1

    def instantiate(
        self, template: Graph, inputs: tuple[int, ...], args: tuple[Expr, ...], node: Node
    ) -> list[int]:
        """The nodes of a template on these inputs; the ids of its outputs."""
        names = dict(enumerate(inputs))

        def dim_of(k: int, axis: int) -> Expr:
            i = inputs[k]
            return (DIM, i, axis) if i < self.graph.n_inputs else self.shapes[i][0][axis]

        for inner in template.nodes:
            for o in inner.outputs:
                exprs, dtype = template.shapes[o]
                placed = tuple([substitute(e, dim_of, args.__getitem__) for e in exprs])
                names[o] = self.new(placed, dtype)
            self.nodes.append(
                Node(
                    inner.prim,
                    inner.program,
                    tuple([names[i] for i in inner.inputs]),
                    tuple([names[o] for o in inner.outputs]),
                    tuple([substitute(e, dim_of, args.__getitem__) for e in inner.args]),
                    node.grad and inner.grad,
                )
            )
        return [names[i] for i in template.outputs if i is not None]


def batched_template(program: Program, flags: Flags) -> Graph:
    """The batching rule of one op as a graph over its (partly batched) operands, traced once."""
    key = ("batched", flags)
    found: Graph | None = program.templates.get(key)
    if found is None:
        types = program.sample_types
        taken = {n for t in types for n in t.shape}
        taken.update(a for a in program.sample_args if type(a) is int)
        size = next(n for n in (*_SIZES, max(taken, default=0) + 1) if n not in taken)
        lifted = [
            _hot.intern_type((size, *t.shape), t.dtype, t.device) if flag else t
            for t, flag in zip(types, flags, strict=True)
        ]
        traced, _ = batched(program.prim, flags).typed(lifted, list(program.sample_args))
        found = program.templates[key] = traced.graph
    return found
