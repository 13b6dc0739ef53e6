"""Recurrent steps after a single product has given the input's part of the gates.

gates: (N, G * H), weight: (G * H, H), bias: (G * H,), hidden, memory: (N, H); G gates
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wend._engine.core.kinds import Tensor
from wend._engine.core.primitive import Sample, composite, ops


def _gates(x: Tensor, count: int) -> list[Any]:
    """The last dim taken apart into `count` equal pieces."""
    dim = len(x.shape) - 1
    size = x.shape[dim] // count
    return [ops.slice(x, dim, k * size, (k + 1) * size, 1) for k in range(count)]


def _samples(count: int, states: int) -> Callable[..., Iterator[Sample]]:
    def samples(rng: np.random.Generator) -> Iterator[Sample]:
        def arrays(*shapes: tuple[int, ...]) -> list[Any]:
            return [rng.normal(size=shape) for shape in shapes]

        for rows in (3, 1, 0):
            state = [(rows, 2)] * states
            weights = [(2 * count, 2), (2 * count,)]
            yield Sample(*arrays((rows, 2 * count), *state, *weights))
        yield Sample(*arrays((3, 2 * count), *[(3, 2)] * states, (2 * count, 2)))

    return samples


@composite(result=tuple, samples=_samples(4, 2))
def lstm_step(
    gates: Tensor, hidden: Tensor, memory: Tensor, weight: Tensor, bias: Tensor | None = None
) -> tuple[Tensor, ...]:
    """(h', c') of an LSTM, gates = x @ w_ih.T + b_ih; see `lstm_cell`."""
    i, f, g, o = _gates(ops.add(gates, ops.linear(hidden, weight, bias)), 4)
    memory = ops.add(ops.mul(ops.sigmoid(f), memory), ops.mul(ops.sigmoid(i), ops.tanh(g)))
    return ops.mul(ops.sigmoid(o), ops.tanh(memory)), memory


@composite(samples=_samples(3, 1))
def gru_step(gates: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """h' of a GRU, gates = x @ w_ih.T + b_ih; see `gru_cell`."""
    x_r, x_z, x_n = _gates(gates, 3)
    h_r, h_z, h_n = _gates(ops.linear(hidden, weight, bias), 3)
    z = ops.sigmoid(ops.add(x_z, h_z))
    n = ops.tanh(ops.add(x_n, ops.mul(ops.sigmoid(ops.add(x_r, h_r)), h_n)))
    return ops.add(ops.mul(ops.sub(hidden, n), z), n)


def _plain_step(
    activation: Callable[..., Tensor],
    gates: Tensor,
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
) -> Tensor:
    return activation(ops.add(gates, ops.linear(hidden, weight, bias)))


@composite(samples=_samples(1, 1))
def rnn_tanh_step(
    gates: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """h' = tanh(gates + h @ weight.T + bias)."""
    return _plain_step(ops.tanh, gates, hidden, weight, bias)


@composite(samples=_samples(1, 1))
def rnn_relu_step(
    gates: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """h' = relu(gates + h @ weight.T + bias)."""
    return _plain_step(ops.relu, gates, hidden, weight, bias)
