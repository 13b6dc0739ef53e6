"""How a recurrent layer walks over a sequence.

The input's part of all gates is one product over the whole sequence; each step adds the state's
part. A step is one op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from wend.frontend.nn._core import Sample, Tensor, composite, ops

Weights = list[Any]  # weight_ih, weight_hh, bias_ih, bias_hh (or None), weight_hr (or None)
State = tuple[Tensor, ...]
Step = Callable[[Tensor, State, Weights], State]


def _chunks(x: Any, count: int) -> list[Any]:
    """The last dim taken apart into `count` equal pieces."""
    size = x.shape[-1] // count
    return [ops.slice(x, len(x.shape) - 1, k * size, (k + 1) * size, 1) for k in range(count)]


def _step_samples(gates: int, states: int) -> Any:
    def samples(rng: Any) -> Iterator[Sample]:
        def arrays(*shapes: tuple[int, ...]) -> list[Any]:
            return [rng.normal(size=shape) for shape in shapes]

        state = [(3, 2)] * states
        yield Sample(*arrays((3, 2 * gates), *state, (2 * gates, 2), (2 * gates,)))
        yield Sample(*arrays((3, 2 * gates), *state, (2 * gates, 2)))

    return samples


@composite(
    "gates, hidden, memory, weight, bias: tensor? = None",
    result=tuple,
    samples=_step_samples(4, 2),
)
def lstm_step(gates: Any, hidden: Any, memory: Any, weight: Any, bias: Any) -> Any:
    """(h', c') of an LSTM whose input's part of the gates is known; see `lstm_cell`."""
    i, f, g, o = _chunks(gates + ops.linear(hidden, weight, bias), 4)
    memory = ops.sigmoid(f) * memory + ops.sigmoid(i) * ops.tanh(g)
    return ops.sigmoid(o) * ops.tanh(memory), memory


@composite("gates, hidden, weight, bias: tensor? = None", samples=_step_samples(3, 1))
def gru_step(gates: Any, hidden: Any, weight: Any, bias: Any) -> Any:
    """h' of a GRU whose input's part of the gates is known; see `gru_cell`."""
    x_r, x_z, x_n = _chunks(gates, 3)
    h_r, h_z, h_n = _chunks(ops.linear(hidden, weight, bias), 3)
    z = ops.sigmoid(x_z + h_z)
    n = ops.tanh(x_n + ops.sigmoid(x_r + h_r) * h_n)
    return (hidden - n) * z + n


def _lstm(gates: Tensor, state: State, weights: Weights) -> State:
    hidden, memory = lstm_step(gates, state[0], state[1], weights[1], weights[3])
    if weights[4] is not None:
        hidden = ops.linear(hidden, weights[4])
    return hidden, memory


def _gru(gates: Tensor, state: State, weights: Weights) -> State:
    return (gru_step(gates, state[0], weights[1], weights[3]),)


def _tanh(gates: Tensor, state: State, weights: Weights) -> State:
    return (ops.tanh(gates + ops.linear(state[0], weights[1], weights[3])),)


def _relu(gates: Tensor, state: State, weights: Weights) -> State:
    return (ops.relu(gates + ops.linear(state[0], weights[1], weights[3])),)


STEPS: dict[str, Step] = {"LSTM": _lstm, "GRU": _gru, "RNN_TANH": _tanh, "RNN_RELU": _relu}


def walk(
    mode: str, input: Tensor, state: State, weights: Weights, reverse: bool
) -> tuple[Tensor, State]:
    """One layer in one direction over (T, N, features): (outputs (T, N, hidden), last state)."""
    step = STEPS[mode]
    gates = ops.linear(input, weights[0], weights[2])
    parts = ops.unbind(gates, 0)
    outputs = []
    for part in reversed(parts) if reverse else parts:
        state = step(part, state, weights)
        outputs.append(state[0])
    if reverse:
        outputs.reverse()
    return ops.stack(outputs, 0), state


def walk_packed(
    mode: str, data: Tensor, sizes: list[int], state: State, weights: Weights, reverse: bool
) -> tuple[Tensor, State]:
    """As `walk`, over packed data (sum of sizes, features); sizes[t] sequences reach step t.

    The sequences are sorted by length, longest first: a step works on the first sizes[t].
    """
    step = STEPS[mode]
    gates = ops.linear(data, weights[0], weights[2])
    parts = ops.split(gates, sizes, 0)
    if reverse:
        return _walk_back(step, parts, sizes, state, weights)
    outputs: list[Tensor] = []
    ended: list[State] = []  # states of sequences that are over, the shortest first
    for part, size in zip(parts, sizes, strict=True):
        running = state[0].shape[0]
        if size < running:
            ended.append(tuple(s[size:] for s in state))
            state = tuple(s[:size] for s in state)
        state = step(part, state, weights)
        outputs.append(state[0])
    ended.append(state)
    last = tuple(_joined([group[i] for group in reversed(ended)]) for i in range(len(state)))
    return ops.cat(outputs, 0), last


def _walk_back(
    step: Step, parts: Any, sizes: list[int], start: State, weights: Weights
) -> tuple[Tensor, State]:
    """From the last step to the first: sequences join in as they begin (at their ends)."""
    outputs: list[Tensor] = []
    state = tuple(s[: sizes[-1]] for s in start)
    for part, size in zip(reversed(parts), reversed(sizes), strict=True):
        running = state[0].shape[0]
        if size > running:
            state = tuple(
                ops.cat([s, first[running:size]], 0) for s, first in zip(state, start, strict=True)
            )
        state = step(part, state, weights)
        outputs.append(state[0])
    outputs.reverse()
    return ops.cat(outputs, 0), state


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else ops.cat(parts, 0)
