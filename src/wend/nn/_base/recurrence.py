"""The walk of a recurrent layer over a sequence.

The input's part of all gates is one product over the whole sequence; each step adds the state's
part. A step is an op.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from wend._engine.core._hot import current_trace
from wend._frontend.toolkit import (
    Tensor,
    float32,
    float64,
    full_beside,
    int64,
    ops,
    tensor,
)

Weights = list[Any]  # weight_ih, weight_hh, bias_ih, bias_hh (or None), weight_hr (or None)
State = tuple[Tensor, ...]
Step = Callable[[Tensor, State, Weights], State]

#: Rows of a step that has all sequences: no step has more.
EVERY = 1 << 40

_dropout = ops.dropout
_gru_step = ops.gru_step
_lstm_step = ops.lstm_step
_relu_step = ops.rnn_relu_step
_tanh_step = ops.rnn_tanh_step


def _lstm(gates: Tensor, state: State, weights: Weights) -> State:
    hidden, memory = _lstm_step(gates, state[0], state[1], weights[1], weights[3])
    if weights[4] is not None:
        hidden = ops.linear(hidden, weights[4])
    return hidden, memory


def _gru(gates: Tensor, state: State, weights: Weights) -> State:
    return (_gru_step(gates, state[0], weights[1], weights[3]),)


def _tanh(gates: Tensor, state: State, weights: Weights) -> State:
    return (_tanh_step(gates, state[0], weights[1], weights[3]),)


def _relu(gates: Tensor, state: State, weights: Weights) -> State:
    return (_relu_step(gates, state[0], weights[1], weights[3]),)


STEPS: dict[str, Step] = {"LSTM": _lstm, "GRU": _gru, "RNN_TANH": _tanh, "RNN_RELU": _relu}


def _lstm_scan(
    gates: Tensor, state: State, weight: Tensor, bias: Any, sizes: Tensor, back: bool
) -> tuple[Tensor, State]:
    output, _, _, *last = ops.lstm_scan(gates, weight, *state, sizes, back)
    return output, tuple(last)


def _gru_scan(
    gates: Tensor, state: State, weight: Tensor, bias: Any, sizes: Tensor, back: bool
) -> tuple[Tensor, State]:
    if bias is None:
        bias = full_beside(weight, (weight.shape[0],), 0.0)
    output, _, last = ops.gru_scan(gates, weight, bias, state[0], sizes, back)
    return output, (last,)


def _rnn_scan(
    relu: bool,
    gates: Tensor,
    state: State,
    weight: Tensor,
    bias: Any,
    sizes: Tensor,
    back: bool,
) -> tuple[Tensor, State]:
    output, last = ops.rnn_scan(gates, weight, state[0], sizes, relu, back)
    return output, (last,)


#: The op over all steps, by mode.
SCANS: dict[str, Any] = {
    "LSTM": _lstm_scan,
    "GRU": _gru_scan,
    "RNN_TANH": partial(_rnn_scan, False),
    "RNN_RELU": partial(_rnn_scan, True),
}


def _scan(
    mode: str, gates: Tensor, state: State, weights: Weights, sizes: Tensor, reverse: bool
) -> tuple[Tensor, State]:
    """(outputs, last state) of all steps. gates: (rows of all steps, ...); sizes: see `walk`"""
    dtype, (_, weight, _, bias, _) = gates.dtype, weights
    if dtype is float32 or dtype is float64:
        return SCANS[mode](gates, state, weight, bias, sizes, reverse)
    # Sums of halves go from step to step in a wider type.
    gates, weight, *state_ = (ops.cast(x, float32) for x in (gates, weight, *state))
    bias = None if bias is None else ops.cast(bias, float32)
    output, last = SCANS[mode](gates, tuple(state_), weight, bias, sizes, reverse)
    return ops.cast(output, dtype), tuple([ops.cast(part, dtype) for part in last])


def _scans(data: Tensor, weights: Weights) -> bool:
    """Whether an op computes all steps, and not an op a step.

    Steps of projected states have no such op, and the loop of an explored function stays a loop.
    """
    run = current_trace().symbolic
    while run is not None and not hasattr(run, "explores"):  # vmap's levels lie around each other
        run = getattr(run, "outer", None)
    return weights[4] is None and data.dtype.is_floating_point and run is None


def _input_part(mode: str, data: Tensor, weights: Weights) -> Tensor:
    """The input's part of the gates, with both biases. (A GRU needs its biases apart.)"""
    bias = weights[2]
    if mode != "GRU" and bias is not None:
        bias = ops.add(bias, weights[3])
    return ops.linear(data, weights[0], bias)


def walk(
    mode: str, data: Tensor, sizes: list[int], state: State, weights: Weights, reverse: bool
) -> tuple[Tensor, State]:
    """A layer in one direction: (outputs (sum of sizes, hidden), last state).

    data: (sum of sizes, features), step after step; sizes[t] sequences reach step t, never more
    than before: the sequences are sorted by length, longest first

    The ops depend on the number of steps alone, so lengths of all kinds share a path.
    """
    if _scans(data, weights):
        gates = _input_part(mode, data, weights)
        return _scan(mode, gates, state, weights, tensor(sizes, device=gates.device), reverse)
    step = STEPS[mode]
    gates = ops.linear(data, weights[0], weights[2])
    order = tensor(_turned(sizes), device=gates.device) if reverse and len(sizes) > 1 else None
    if order is not None:  # each sequence from its last step to its first: all begin together
        gates = ops.index_select(gates, 0, order)
    states: list[State] = []
    for t, part in enumerate(ops.split_with_sizes(gates, sizes, 0)):
        if t > 0:
            state = tuple(ops.narrow(s, 0, 0, sizes[t]) for s in state)
        state = step(part, state, weights)
        states.append(state)
    columns = [ops.cat(column, 0) for column in zip(*states, strict=True)]
    if len(states) > 1:
        ends = tensor(_ends(sizes), device=gates.device)
        state = tuple(ops.index_select(column, 0, ends) for column in columns)
    output = columns[0]
    return output if order is None else ops.index_select(output, 0, order), state


def _turned(sizes: list[int]) -> list[int]:
    """The row of each sequence's steps in the opposite order; an order that undoes itself."""
    firsts = [0, *itertools.accumulate(sizes)]
    lengths = [0] * sizes[0]
    for t, size in enumerate(sizes):
        lengths[:size] = [t + 1] * size
    return [firsts[lengths[k] - 1 - t] + k for t, size in enumerate(sizes) for k in range(size)]


def _ends(sizes: list[int]) -> list[int]:
    """The row of each sequence's last step."""
    rows: list[int] = []
    ended, first = 0, sum(sizes)
    for size in reversed(sizes):  # the longest sequences come first, and end last
        first -= size
        rows.extend(range(first + ended, first + size))
        ended = size
    return rows


def layers(
    mode: str,
    data: Tensor,
    start: State,
    sizes: list[int] | None,
    weights: list[list[Weights]],
    dropout: float,
) -> tuple[Tensor, State]:
    """All layers over (sum of sizes, features), step after step; see `walk`.

    sizes: None for data of (steps, batch, features); see `walk_steps`
    weights: of each layer in each direction   dropout: between layers, 0 outside of training
    """
    lasts: list[State] = []
    for layer, directions in enumerate(weights):
        outputs = []
        for direction, own_weights in enumerate(directions):
            state = tuple(part[len(lasts)] for part in start)
            if sizes is None:
                output, last = walk_steps(mode, data, state, own_weights, direction == 1)
            else:
                output, last = walk(mode, data, sizes, state, own_weights, direction == 1)
            outputs.append(output)
            lasts.append(last)
        data = outputs[0] if len(outputs) == 1 else ops.cat(outputs, -1)
        if dropout > 0 and layer < len(weights) - 1:
            data = _dropout(data, dropout, True)
    return data, tuple(ops.stack([last[i] for last in lasts], 0) for i in range(len(start)))


def walk_steps(
    mode: str, sequence: Tensor, state: State, weights: Weights, reverse: bool
) -> tuple[Tensor, State]:
    """As `walk`, for a sequence (steps, batch, features), of which each step has all sequences.

    The batch is a dim of its own: no size of a part has to be proven equal to another. Where the
    number of steps is a symbol, the loop stays a loop of the graph of the explored function.
    """
    if _scans(sequence, weights):
        gates = _input_part(mode, sequence, weights)
        steps, batch, _ = gates.shape
        sizes = full_beside(gates, (steps,), EVERY, int64)
        output, last = _scan(mode, ops.flatten(gates, 0, 1), state, weights, sizes, reverse)
        return ops.reshape(output, (steps, batch, output.shape[1])), last
    step = STEPS[mode]
    gates = ops.linear(sequence, weights[0], weights[2])
    steps = gates.shape[0]
    outputs = []
    if getattr(steps, "is_extent", False):  # a function is being explored
        for t in range(steps):
            state = step(ops.select(gates, 0, steps - 1 - t if reverse else t), state, weights)
            outputs.append(state[0])
        joined = ops.stack(outputs, 0)
        return ops.flip(joined, (0,)) if reverse else joined, state
    parts = ops.unbind(gates, 0)
    for part in reversed(parts) if reverse else parts:
        state = step(part, state, weights)
        outputs.append(state[0])
    if reverse:
        outputs.reverse()
    return ops.stack(outputs, 0), state
