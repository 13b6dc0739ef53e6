"""OpBatching: an op, or a whole graph, over a new leading axis, by the `batch` rules of primitives.

`Batched` is an op on many examples: a composite whose body is the op's batching rule (for a
composite: the rule of every op of the body), traced once per structure.  `batch_graph` does the
same for a graph.  `vmap` (see levels.py) records `Batched` ops while the user's function runs once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Any

from wend._engine.base.errors import GraphError
from wend._engine.core import _hot, _types
from wend._engine.core._hot import Tensor
from wend._engine.core._types import Program, TensorType
from wend._engine.core.graph import Graph
from wend._engine.core.op_facts import TorchCall
from wend._engine.core.primitive import Composite, Primitive, ops
from wend._engine.core.symbolic import (
    ARG,
    DIM,
    MAX,
    MIN,
    NEG,
    AnyInt,
    Expr,
    apply_binary,
    category_of,
    expr_of,
    hint_of,
    substitute,
    sym_max,
    sym_min,
)
from wend._engine.core.symtrace import Recorder, flatten_outputs

Flags = tuple[bool, ...]


class Batched(Composite, abstract=True):
    """prim over a leading batch axis of the operands that `flags` names; all results have the axis.

    There is a class per (primitive, flags).  Operands, run-time args and form are the primitive's.
    """

    prim: Primitive
    flags: Flags

    def __init__(self, prim: Primitive, flags: Flags) -> None:
        self.name = prim.name  # type: ignore[misc]
        self.attrs = {}
        self.prim = prim
        self.flags = flags
        self.torch = prim.torch  # type: ignore[misc]
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


def batched(prim: Primitive, flags: Flags) -> Batched:
    """The op `prim` over a batch axis of these operands."""
    key = (prim, flags)
    op = _BATCHED.get(key)
    if op is None:
        op = _BATCHED[key] = Batched(prim, flags)
    return op


def batched_rule(
    prim: Primitive, flags: Flags, types: Sequence[TensorType], args: Sequence[Any]
) -> Graph:
    """The batching rule of an op as a graph over its (partly batched) operands.

    types, args: of the operands at hand, batch axis included: the graph is for their pattern.
    """
    program, _ = batched(prim, flags).typed(list(types), list(args))
    return program.graph  # type: ignore[no-any-return]


def batch_size(tensors: Sequence[Any], flags: Flags) -> Any:
    """Extent of the batch axis of the first batched operand."""
    return tensors[flags.index(True)].shape[0]


def with_batch_axis(x: Tensor, is_batched: bool, size: AnyInt) -> Tensor:
    """x with a batch axis at dim 0, whether x came with the axis or not."""
    return x if is_batched else ops.expand_to(x, (size, *x.shape), (0,))


def arrange_flags(prim: Primitive, flags: Flags) -> tuple[Any, ...]:
    """`flags` as a batching rule takes them: a flag per parameter that may be a tensor.

    A list of tensors has a list of flags; numbers and None are not batched.
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
    """Types of an example's operands (symbolic operands: their types when traced)."""
    types = []
    for x, flag in zip(tensors, flags, strict=True):
        shape = tuple([hint_of(n) for n in tuple(x.shape)[1 if flag else 0 :]])
        types.append(_types.intern_type(shape, x.dtype, x.device))
    return types


def _keep_guards(program: Program, tensors: Sequence[Any], flags: Flags, args: list[Any]) -> None:
    """Note the guards of the example's pattern for the batch too, where guards are asked for."""
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
    graph: Graph,
    tensors: Sequence[Tensor],
    flags: Flags,
    args: Sequence[Any],
    apply: Callable[..., tuple[list[Any], bool]] | None = None,
) -> list[tuple[Any, bool]]:
    """Run a body on operands of which some have a batch axis: (result, batched or not) per output.

    apply(prim, flags, tensors, args) -> (results, batched?): how to record an op; by default ops
    without a batched operand are recorded as they are, all else by batching rules.
    """
    apply = apply or _apply
    env: list[Any] = list(tensors) + [None] * (graph.size - len(tensors))
    on = list(flags) + [False] * (graph.size - len(flags))
    for node in graph.nodes:
        operands = [env[i] for i in node.inputs]
        node_flags = tuple([on[i] for i in node.inputs])
        values = [_evaluate(e, tensors, flags, args) for e in node.args]
        with _nullcontext if node.grad else _without_gradients():
            results, is_batched = apply(node.prim, node_flags, operands, values)
        for o, x in zip(node.outputs, results, strict=True):
            env[o], on[o] = x, is_batched
    out: list[tuple[Any, bool]] = []
    for i in graph.outputs:
        if i is None:
            raise GraphError("a graph without one of its outputs cannot be run")
        out.append((env[i], on[i]))
    return out


_nullcontext = nullcontext()


@contextmanager
def _without_gradients() -> Iterator[None]:
    """Inside the block a rule's ops are recorded so that no gradients flow through them."""
    recorder = _hot.current_trace().symbolic
    if not isinstance(recorder, Recorder):  # a user's trace, whose mode tells
        yield
        return
    before, recorder.grad = recorder.grad, False
    try:
        yield
    finally:
        recorder.grad = before


def _apply(
    prim: Primitive, flags: Flags, tensors: list[Any], args: list[Any]
) -> tuple[list[Any], bool]:
    if True not in flags:
        return flatten_outputs(_hot.record_list(prim, tensors, args)), False
    rule_flags = arrange_flags(prim, flags)
    size = batch_size(tensors, flags)
    results = prim.batch(rule_flags, size, *prim.arrange(tensors, args))
    return flatten_outputs(results), True


def _evaluate(expr: Expr, tensors: Sequence[Any], flags: Flags, args: Sequence[Any]) -> Any:
    """An expression over an example's extents and the args, for ints and symbols alike."""
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


class BatchedBody(Composite, abstract=True):
    """A graph over a leading batch axis of the inputs that `flags` names, as an op.

    There is a class per (graph, flags, kinds of args).  All results have the batch axis at dim 0.
    """

    torch = TorchCall(grad_name="BatchedBackward0")

    def __init__(self, graph: Graph, flags: Flags, kinds: tuple[Any, ...]) -> None:
        self.name = "batched_graph"  # type: ignore[misc]
        self.attrs = {}
        self.graph = graph
        self.flags = flags
        self.setup(("T",) * graph.n_inputs + kinds, False, True, True)

    def result_wrap(self) -> type[list[Any]]:  # type: ignore[override]
        """Always a list."""
        return list

    def call_body(self, tensors: list[Any], args: list[Any]) -> list[Any]:
        """The results of the graph."""
        size = batch_size(tensors, self.flags)
        outs = interpret(self.graph, tensors, self.flags, args)
        return [with_batch_axis(x, flag, size) for x, flag in outs]


@lru_cache(maxsize=1024)
def _body(graph: Graph, flags: Flags, kinds: tuple[Any, ...]) -> BatchedBody:
    return BatchedBody(graph, flags, kinds)


def batched_body(graph: Graph, flags: Flags, args: Sequence[Any]) -> BatchedBody:
    """`graph` over a batch axis of these inputs as an op; args: ints are sizes, floats are numbers.

    Raises GraphError unless there is a flag per input and at least one flag is set.
    """
    if True not in flags or len(flags) != graph.n_inputs:
        raise GraphError(
            f"batch_graph: {len(flags)} flags, {sum(flags)} of them set, for a graph of "
            f"{graph.n_inputs} inputs: give one per input and set at least one"
        )
    kinds = tuple(["I" if type(a) is int else ("N", category_of(a)) for a in args])
    return _body(graph, flags, kinds)


def batch_graph(
    graph: Graph, flags: Flags, types: Sequence[TensorType], args: Sequence[Any] = ()
) -> Program:
    """The pattern of the graph over a leading batch axis of the inputs.

    flags: which inputs have the batch axis     types, args: of the inputs, batch axis included
    The program's `graph` is the batched graph, with extents as expressions over the inputs.  The
    program holds for all sizes that the guards admit.  Kept per structure.
    """
    program, _ = batched_body(graph, flags, args).typed(list(types), list(args))
    return program  # type: ignore[no-any-return]


def record_batched(
    graph: Graph, flags: Flags, tensors: Sequence[Tensor], args: Sequence[Any] = ()
) -> list[Tensor]:
    """The results of the graph over a leading batch axis, recorded as a step."""
    prim = batched_body(graph, flags, args)
    return _hot.record_list(prim, list(tensors), list(args))  # type: ignore[no-any-return]
