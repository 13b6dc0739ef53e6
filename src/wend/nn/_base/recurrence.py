"""The walk of a recurrent layer over a sequence.

The input's part of all gates is one product over the whole sequence; each step adds the state's
part. A step is an op.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend.frontend.toolkit import Tensor, ops, tensor

Weights = list[Any]  # weight_ih, weight_hh, bias_ih, bias_hh (or None), weight_hr (or None)
State = tuple[Tensor, ...]
Step = Callable[[Tensor, State, Weights], State]

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


def walk(
    mode: str, data: Tensor, sizes: list[int], start: State, weights: Weights, reverse: bool
) -> tuple[Tensor, State]:
    """A layer in one direction: (outputs (sum of sizes, hidden), last state).

    data: (sum of sizes, features), step after step; sizes[t] sequences reach step t, never more
    than before: the sequences are sorted by length, longest first

    The ops depend on the number of steps alone, so lengths of all kinds share a path.
    """
    step = STEPS[mode]
    parts = ops.split_rows(ops.linear(data, weights[0], weights[2]), sizes)
    advance = _backward if reverse else _forward
    states = advance(step, parts, sizes, start, weights)
    last = states[0] if reverse else _ends(states, sizes)
    return ops.cat([state[0] for state in states], 0), last


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
        for direction, found in enumerate(directions):
            state = tuple(part[len(lasts)] for part in start)
            if sizes is None:
                output, last = walk_steps(mode, data, state, found, direction == 1)
            else:
                output, last = walk(mode, data, sizes, state, found, direction == 1)
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


def _forward(
    step: Step, parts: Any, sizes: list[int], state: State, weights: Weights
) -> list[State]:
    """The state of the running sequences after each step."""
    states: list[State] = []
    for t, part in enumerate(parts):
        if t > 0:
            state = tuple(ops.narrow(s, 0, 0, sizes[t]) for s in state)
        state = step(part, state, weights)
        states.append(state)
    return states


def _ends(states: list[State], sizes: list[int]) -> State:
    """The last state of each sequence: a row of the step that is the sequence's last."""
    if len(states) == 1:
        return states[0]
    rows: list[int] = []
    ended, first = 0, sum(sizes)
    for size in reversed(sizes):  # the longest sequences come first, and end last
        first -= size
        rows.extend(range(first + ended, first + size))
        ended = size
    index = tensor(rows)
    return tuple(
        ops.index_select(ops.cat([state[i] for state in states], 0), 0, index)
        for i in range(len(states[0]))
    )


def _backward(
    step: Step, parts: Any, sizes: list[int], start: State, weights: Weights
) -> list[State]:
    """As `_forward`, from the last step to the first: sequences join in at their ends."""
    states: list[State] = []
    for t in reversed(range(len(sizes))):
        state = tuple(ops.narrow(s, 0, 0, sizes[t]) for s in start)
        if states:
            state = tuple(
                ops.slice_scatter(s, before, 0, 0, sizes[t + 1], 1)
                for s, before in zip(state, states[-1], strict=True)
            )
        states.append(step(parts[t], state, weights))
    states.reverse()
    return states
