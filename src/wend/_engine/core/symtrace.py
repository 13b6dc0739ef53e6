"""Rules run on symbolic tensors: the bodies of composites, and gradient rules, become graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wend._engine.base.collecting import CollectionPaused, CollectionSeldom
from wend._engine.base.devices import accelerator_among
from wend._engine.base.errors import WendError
from wend._engine.core import _hot, _types
from wend._engine.core._hot import Tensor
from wend._engine.core._types import Program, TensorType
from wend._engine.core.graph import Graph, Node, Shapes
from wend._engine.core.primitive import Composite, Primitive, make_program, ops
from wend._engine.core.symbolic import (
    ARG,
    DIM,
    NEG,
    Expr,
    Guards,
    SymInt,
    SymNumber,
    evaluate,
    expr_of,
    hint_of,
    make,
)

# -- recording symbolically -----------------------------------------------------------------


def over_rule(expr: Expr, shapes: list[Any], args: Sequence[Any]) -> Expr:
    """An expression over an op's operands and args, as an expression over those of the calling
    rule."""
    if type(expr) is not tuple:
        return expr
    op = expr[0]
    if op == DIM:
        return expr_of(shapes[expr[1]][expr[2]])
    if op == ARG:
        return expr_of(args[expr[1]])
    a = over_rule(expr[1], shapes, args)
    return make(op, a, 0 if op == NEG else over_rule(expr[2], shapes, args))


class Recorder:
    """Stands in for a trace while a rule runs: ops become nodes, extents stay symbolic."""

    def __init__(self, guards: Guards, types: Sequence[TensorType] = ()) -> None:
        """types: of the operands; what the rule makes without operands lies where these do"""
        self.guards = guards
        self.place = accelerator_among(types)
        self.serial = _hot.fresh_serial()
        self.nodes: list[Node] = []
        self.shapes: Shapes = {}
        self.n = 0
        self.hints: list[TensorType] = []  # concrete types, by id
        self.refused: set[str] = set()  # names of ops that did not take their operands
        self.grad = True  # False while ops are recorded that gradients do not flow through

    def tensor(self, shape: tuple[Any, ...], hint: TensorType) -> Tensor:
        """A tensor that stands for the next input, or for the next result; `hint` is its type."""
        type_ = _types.symbolic_type(shape, hint.dtype, hint.device)
        value = _hot.symbolic_value(type_, self.serial, self.n)
        self.hints.append(hint)
        self.n += 1
        return _hot.wrap(value)

    def id_of(self, prim: object, tensor: Tensor) -> int:
        """The id of an operand.  Raises TypeError for a tensor from outside the rule."""
        value = tensor.value
        if value.serial != self.serial:
            raise TypeError(f"{prim}: a rule used a tensor that is not one of its operands")
        return int(value.index)

    def record(self, prim: Any, tensors: list[Any], args: list[Any]) -> Any:
        """Record an op of the body; composites are inlined."""
        hints = self.hints
        try:
            if prim.is_composite:
                result = prim.call_body(tensors, args)
                wrap = prim.result_wrap()
                return result if wrap is None else wrap(result)
            if self.place is not None and not tensors:
                prim = prim.at(self.place)
            ids = tuple([self.id_of(prim, t) for t in tensors])
            program, outs = prim.typed([hints[i] for i in ids], [hint_of(a) for a in args])
        except WendError:
            self.refused.add(prim.name)
            raise
        shapes = [t.value.type.shape for t in tensors]
        for op, a, b, outcome in program.guards:
            self.guards.add(op, over_rule(a, shapes, args), over_rule(b, shapes, args), outcome)
        results = []
        outputs = []
        for (row, dtype), hint in zip(program.outs, outs, strict=True):
            exprs = []
            shape = []
            for e, h in zip(row, hint.shape, strict=True):
                if type(e) is tuple and e[0] == DIM:  # nearly all are
                    extent = shapes[e[1]][e[2]]
                    shape.append(extent)
                    exprs.append(expr_of(extent))
                    continue
                e = over_rule(e, shapes, args)
                shape.append(SymInt(e, h, self.guards) if type(e) is tuple else e)
                exprs.append(e)
            self.shapes[self.n] = (tuple(exprs), dtype)
            outputs.append(self.n)
            results.append(self.tensor(tuple(shape), hint))
        numbers = tuple([expr_of(a) for a in args])
        grad = self.grad and program.differentiable
        self.nodes.append(Node(prim, program, ids, tuple(outputs), numbers, grad))
        wrap = program.wrap
        return results[0] if wrap is None else wrap(results)

    def run(self, body: Callable[[], Any]) -> Any:
        """Call `body` with this recorder in the place of the thread's trace."""
        CollectionSeldom.put_off()
        trace = _hot.current_trace()
        before, trace.symbolic = trace.symbolic, self
        try:
            with CollectionPaused():
                return body()
        finally:
            trace.symbolic = before


def symbolic_args(prim: Primitive, args: Sequence[Any], guards: Guards) -> list[Any]:
    """The run-time args of a call as symbols."""
    out: list[Any] = []
    for k, value in enumerate(args):
        if prim.size_mask[k]:
            out.append(SymInt((ARG, k), value, guards))
        else:
            out.append(SymNumber((ARG, k), prim.categories[k], value))
    return out


def symbolic_shape(operand: int, type_: TensorType, guards: Guards) -> tuple[Any, ...]:
    """The extents of operand number `operand` as symbols."""
    return tuple([SymInt((DIM, operand, a), n, guards) for a, n in enumerate(type_.shape)])


def flatten_outputs(result: object) -> list[Any]:
    """The tensors that a body returned."""
    return list(result) if isinstance(result, (tuple, list)) else [result]


def trace_composite(prim: Composite, types: list[Any], args: list[Any]) -> Program:
    """Trace the body of a composite for these operand types; the program keeps the graph."""
    guards = Guards()
    recorder = Recorder(guards, types)
    tensors = [recorder.tensor(symbolic_shape(i, t, guards), t) for i, t in enumerate(types)]
    values = symbolic_args(prim, args, guards)
    try:
        result = recorder.run(lambda: prim.call_body(tensors, values))
    except WendError as error:
        for name in recorder.refused:
            error.name_call(name, prim.name)
        raise
    outs = flatten_outputs(result)
    ids: list[int | None] = [recorder.id_of(prim, t) for t in outs]
    program = make_program(prim, types, [t.value.type for t in outs], guards)
    program.graph = Graph(len(types), recorder.nodes, ids, recorder.shapes)
    return program


Composite.tracer = staticmethod(trace_composite)


# -- gradient templates ---------------------------------------------------------------------


def template(program: Program, needs: tuple[bool, ...], has_grad: tuple[bool, ...]) -> Graph:
    """The gradient rule of an op as a graph, made once per pattern.

    needs: which operands want a gradient
    has_grad: which results have a gradient

    Inputs of the graph: operands, results, then the gradients given.  Outputs: per operand the
    id of the gradient, or None.
    """
    key = (needs, has_grad)
    graph: Graph | None = program.templates.get(key)
    if graph is None:
        rule = getattr(program.prim, "gradient_graph", None)  # of a composite as a single op
        graph = _trace_vjp(program, needs, has_grad) if rule is None else rule(needs, has_grad)
        program.templates[key] = graph
    return graph


def _trace_vjp(program: Program, needs: tuple[bool, ...], has_grad: tuple[bool, ...]) -> Graph:
    prim: Any = program.prim
    types = program.sample_types
    guards = Guards()
    recorder = Recorder(guards, types)
    tensors = [recorder.tensor(symbolic_shape(i, t, guards), t) for i, t in enumerate(types)]
    device = prim.place_of(types)
    rows = []
    extents = [t.shape for t in types]
    for exprs, dtype in program.outs:
        concrete = [evaluate(e, extents, program.sample_args) for e in exprs]
        pairs = zip(exprs, concrete, strict=True)
        shape = tuple([SymInt(e, n, guards) if type(e) is tuple else e for e, n in pairs])
        rows.append((shape, _types.intern_type(tuple(concrete), dtype, device)))
    results = [recorder.tensor(shape, hint) for shape, hint in rows]
    seeds = [recorder.tensor(*row) for row, on in zip(rows, has_grad, strict=True) if on]
    n_inputs = recorder.n
    args = symbolic_args(prim, program.sample_args, guards)

    def rule() -> list[Any]:
        waiting = iter(seeds)
        gs = [
            next(waiting) if on else ops.full(y.shape, 0.0, dtype=y.dtype)
            for y, on in zip(results, has_grad, strict=True)
        ]
        single = prim.result_wrap() is None
        turned = prim.facts.holomorphic and gs[0].dtype.is_complex
        if turned:
            gs = [ops.conj(gs[0])]
        g, y = (gs[0], results[0]) if single else (tuple(gs), tuple(results))
        grads = prim.vjp(g, y, *prim.arrange(tensors, args))
        flat = align_gradients(prim, grads, len(tensors))
        if turned:
            flat = [conjugated(grad, x) for grad, x in zip(flat, tensors, strict=True)]
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


def conjugated(grad: Tensor | None, x: Tensor) -> Tensor | None:
    """The conjugate of a gradient for a complex operand; for a real operand the imaginary part
    is dropped anyway.

    A gradient is the conjugate derivative. So a rule that multiplies by the derivative is right for
    conjugates: conj(rule(conj(g))).
    """
    return grad if grad is None or not x.dtype.is_complex else ops.conj(grad)


def align_gradients(prim: Primitive, grads: object, n: int) -> list[Any]:
    """The result of a gradient rule, as an entry per tensor operand."""
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


def undo_broadcast(prim: Primitive, grad: Tensor, x: Tensor) -> Tensor:
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
