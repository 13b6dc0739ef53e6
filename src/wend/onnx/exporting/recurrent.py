"""Loops over a sequence whose turn is a step of a recurrent cell, as LSTM, GRU or RNN nodes.

The loop must be the layer as a whole: each turn takes the next part of a sequence, from either
end, and steps once; nothing else is carried but a list of the outputs.  The weights must follow
from parameters alone: the node has them as initializers, with the gates in ONNX's order.  All other
loops stay Loop nodes: projections, masks, several cells in a turn, elements other than float32.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from wend._engine.core import _hot
from wend._engine.core.symbolic import ARG, SUB, Expr
from wend._engine.transforms.exploring.carried import Carried
from wend._engine.transforms.exploring.program import Apply, Compute
from wend._engine.transforms.exploring.running import apply
from wend._engine.transforms.exploring.structure import Repeat
from wend.onnx.exporting.scopes import Scope, StatementWriter
from wend.onnx.exporting.values import Value

__all__ = ["layer_of", "write"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Kind:
    """A recurrent operator.  gates: Wend's gates in the order of ONNX"""

    op: str
    gates: tuple[int, ...]
    attributes: tuple[tuple[str, Any], ...] = ()


_LSTM = Kind("LSTM", (0, 3, 1, 2))  # i f g o -> i o f g
_GRU = Kind("GRU", (1, 0, 2), (("linear_before_reset", 1),))  # r z n -> z r n
_TANH = Kind("RNN", (0,))
_RELU = Kind("RNN", (0,), (("activations", ["Relu"]),))
#: Ops that step with the input's part of the gates given.
_STEPS = {"lstm_step": _LSTM, "gru_step": _GRU, "rnn_tanh_step": _TANH, "rnn_relu_step": _RELU}
#: Ops that step with the input.
_CELLS = {"lstm_cell": _LSTM, "gru_cell": _GRU, "rnn_tanh_cell": _TANH, "rnn_relu_cell": _RELU}


@dataclass
class Layer:
    """A loop as a layer, by ids.

    sequence: the parts along `dim`, in time     reverse: whether the last comes first
    states: per state the place among the params     weights: w_ih, w_hh, b_ih, b_hh as arrays
    """

    kind: Kind
    sequence: int
    dim: int
    reverse: bool
    states: list[int]
    weights: list[Any]
    name: str


def write(
    w: StatementWriter, scope: Scope, item: Repeat, layer: Layer
) -> tuple[Value, list[Value]]:
    """The node of a layer: (the outputs of the turns, the last states)."""
    writer = scope.writer
    x = w.value(scope, layer.sequence)
    if layer.dim == 1:
        x = writer.transpose(x, (1, 0, 2))
    states = [_start(w, scope, item.start[k]) for k in layer.states]
    n = len(states)
    y, *last = w.outputs_of(
        scope,
        layer.kind.op,
        [x, *_initializers(w, layer), None, *states],
        [x.dtype] * (1 + n),
        hidden_size=layer.weights[1].shape[1],
        direction="reverse" if layer.reverse else "forward",
        **dict(layer.kind.attributes),
    )
    shape = (x.shape[1], layer.weights[1].shape[1])
    rows: Any = Value(y.name, y.dtype, (x.shape[0], 1, *shape))
    rows = writer.with_axes("Squeeze", rows, (1,), (x.shape[0], *shape))
    if layer.reverse:  # the loop has made the last row first
        rows = writer.shaped(writer.slice(rows, 0, -1, -(2**63), -1), rows.shape)
    ends = [
        writer.with_axes("Squeeze", writer.shaped(state, (1, *shape)), (0,), shape)
        for state in last
    ]
    return rows, ends


def layer_of(w: StatementWriter, item: Repeat, plan: Carried) -> Layer | None:
    """The loop as a layer, or None."""
    joins = {id(join) for join, _ in plan.lists.values()}
    items = [x for x in item.body.items if not isinstance(x, Compute) and id(x) not in joins]
    ops = [x for x in items if isinstance(x, Apply) and x.prim.name != "unsqueeze"]
    if plan.bound is None or len(ops) != 2 or any(not isinstance(x, Apply) for x in items):
        return None
    part, step = ops
    kind = {**_STEPS, **_CELLS}.get(step.prim.name)
    if kind is None or part.prim.name != "select":
        return None
    operands = _flat(step.prim.arrange(list(step.inputs), list(step.args)))
    n = len(step.outputs)
    x, states = operands[0], operands[1 : 1 + n]
    weights = [plan.first.get(i, i) for i in operands[1 + n :]]
    places = [item.params.index(i) for i in states if i in item.params]
    if (
        x != part.outputs[0]
        or sorted(places) != plan.moving
        or [plan.row[k] for k in places] != list(step.outputs)
        or any(value != step.outputs[0] for _, value in plan.lists.values())
    ):
        return None
    info = w.program.info
    if any(info[item.params[k]].extents != info[o].extents for k, o in zip(places, step.outputs)):
        return None
    return _of_sequence(w, item, plan, part, step, kind, places, weights)


def _of_sequence(
    w: StatementWriter,
    item: Repeat,
    plan: Carried,
    part: Apply,
    step: Apply,
    kind: Kind,
    places: list[int],
    weights: list[Any],
) -> Layer | None:
    """The layer that takes parts of a sequence in order, or None."""
    info = w.program.info
    source = part.inputs[0]
    if source in item.params:
        if source not in plan.first:
            return None
        source = plan.first[source]
    extents = info[source].extents
    dim = part.prim.dim % len(extents)
    counts = {p for k, p in enumerate(item.params) if plan.twins.get(k, k) in plan.counts}
    reverse = _order(plan.settled(part.args[0]), counts, plan.bound)
    if len(extents) != 3 or dim > 1 or extents[dim] != plan.bound or reverse is None:
        return None
    name = _named(w, weights)
    if step.prim.name in _STEPS:
        producer = w.made.get(w.meant(source))
        if not isinstance(producer, Apply) or producer.prim.name != "linear":
            return None
        source, *outer = producer.prim.arrange(list(producer.inputs), list(producer.args))
        weights = [outer[0], weights[0], outer[1], weights[1]]
        name = _named(w, outer)
    arrays = [None if i is None else _folded(w, i) for i in weights]
    if any(a is None for a, i in zip(arrays, weights, strict=True) if i is not None):
        return None
    if not w.writer.runs(kind.op, info[source].dtype) or len(info[source].extents) != 3:
        return None
    return Layer(kind, source, dim, reverse, places, arrays, name)


def _flat(values: Iterable[Any]) -> list[Any]:
    """Operands, those of lists too."""
    operands: list[Any] = []
    for x in values:
        operands += _flat(x) if isinstance(x, (list, tuple)) else [x]
    return operands


def _order(place: Expr, counts: set[int], bound: Expr) -> bool | None:
    """False for parts from the first on, True for parts from the last on; else None."""
    if type(place) is not tuple:
        return None
    if place[0] == ARG:
        return False if place[1] in counts else None
    last = (SUB, bound, 1)
    backward = place[0] == SUB and place[1] == last and type(place[2]) is tuple
    return True if backward and place[2][0] == ARG and place[2][1] in counts else None


def _named(w: StatementWriter, weights: list[Any]) -> str:
    """The name of the first weight, if that is a parameter."""
    captured = w.captured.get(weights[0])
    return captured.name if captured is not None else w.writer.model.name("weight")


def _folded(w: StatementWriter, i: int) -> Array | None:
    """The array of an id that follows from tensors from outside alone; else None."""
    env: dict[int, Any] = {}
    waiting = [w.meant(i)]
    while waiting:
        at = waiting[-1]
        if at in env:
            waiting.pop()
        elif at in w.captured:
            env[at] = w.captured[at].tensor.detach()
        else:
            producer = w.made.get(at)
            if (
                not isinstance(producer, Apply)
                or producer.prim.facts.random
                or w.is_asked(producer)
            ):
                return None
            missing = [k for k in producer.inputs if k not in env]
            waiting += missing
            if not missing:
                apply(producer, env)
    return np.asarray(_hot.ensure(_hot.refreshed(env[w.meant(i)])))


def _initializers(w: StatementWriter, layer: Layer) -> list[Value | None]:
    """W, R and B of a layer."""
    w_ih, w_hh, b_ih, b_hh = layer.weights
    order = layer.kind.gates

    def of_onnx(array: Array) -> Array:
        parts = np.split(array, len(order))
        return np.concatenate([parts[k] for k in order])[None]

    name = layer.name
    initializers: list[Value | None] = [
        w.initializer(f"{name}_W", of_onnx(w_ih)),
        w.initializer(f"{name}_R", of_onnx(w_hh)),
    ]
    if b_ih is None and b_hh is None:
        return [*initializers, None]
    none = np.zeros(len(w_hh), w_hh.dtype)
    both = [of_onnx(none if b is None else b) for b in (b_ih, b_hh)]
    return [*initializers, w.initializer(f"{name}_B", np.concatenate(both, 1))]


def _start(w: StatementWriter, scope: Scope, i: int) -> Value | None:
    """The first value of a state as (1, batch, hidden); None for zeros."""
    producer = w.made.get(w.meant(i))
    if isinstance(producer, Apply) and producer.prim.name == "select" and producer.prim.dim == 0:
        whole = producer.inputs[0]
        source = w.made.get(w.meant(whole))
        if _is_zero(source):
            return None
        if producer.args[0] == 0 and w.program.info[whole].extents[0] == 1:
            return w.value(scope, whole)
    if _is_zero(producer):
        return None
    state = w.value(scope, i)
    return scope.writer.with_axes(  # type: ignore[no-any-return]
        "Unsqueeze", state, (0,), (1, *state.shape)
    )


def _is_zero(producer: object) -> bool:
    """Whether an op makes a tensor of zeros."""
    return isinstance(producer, Apply) and producer.prim.name == "full" and producer.args[-1] == 0
