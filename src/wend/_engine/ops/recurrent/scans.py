"""Recurrent layers over all steps of sequences: `rnn_scan`, `gru_scan`, `lstm_scan`.

A single product has given the input's part of the gates.  Gradients are linear recurrences
(`linear_steps`), by coefficients that follow from saved sums: activations are computed again.
Dims are those of `steps`; gates are in PyTorch's order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.core.kinds import Tensor
from wend._engine.core.primitive import Sample, ops
from wend._engine.ops.numeric import Array
from wend._engine.ops.recurrent.linear_steps import joined, pieces, rows_product
from wend._engine.ops.recurrent.steps import StepsOp


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def _slope(y: Tensor) -> Tensor:
    """The slope of y = sigmoid(x)."""
    return ops.mul(y, ops.sub(1, y))


def _tanh_slope(y: Tensor) -> Tensor:
    """The slope of y = tanh(x)."""
    return ops.sub(1, ops.mul(y, y))


class RnnScan(StepsOp):
    """h' = tanh(x + h weight.T), or relu instead of tanh: (all h', last h').

    x: (R, H)   weight: (H, H)   start: (N, H)   sizes: (T,)   ->   (R, H), (N, H)
    Elman (1990).
    """

    signature = "x, weight, start, sizes, relu: bool = False, back: bool = False"
    operands, results = "RJ JH NH T", "RH NH"
    n_outputs = 2
    result = ("states", "last")
    relu: bool

    def run(self, outs: list[Array], *arrays: Array) -> None:
        (states, h), (x, weight, start, sizes) = outs, arrays
        h[:] = start
        for rows, some in self.steps(sizes, len(h), len(x)):
            total = x[rows] + h[some] @ weight.T
            h[some] = np.maximum(total, 0) if self.relu else np.tanh(total)
            states[rows] = h[some]

    def vjp(
        self, g: Any, y: Any, x: Tensor, weight: Tensor, start: Tensor, sizes: Tensor
    ) -> tuple[Any, ...]:
        states = y[0]
        if self.relu:
            slope = ops.cast(ops.gt(states, 0), states.dtype)
        else:
            slope = _tanh_slope(states)
        none = ops.full(x.shape, 0.0, dtype=x.dtype)
        v, _, first = ops.state_steps_back(
            g[0], none, weight, [slope], None, g[1], sizes, not self.back
        )
        before, _ = ops.steps_before(states, start, sizes, self.back)
        return v, rows_product(v, before), first, None

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            yield Sample(*sample.args[:-1], False, sample.args[-1])
            yield Sample(*sample.args[:-1], True, sample.args[-1])


class GruScan(StepsOp):
    """(all h', sums, last h') of gated recurrent units (Cho et al., 2014).

    sums = h weight.T + bias;  r, z = sigmoid of the first pieces of x + sums
    n = tanh(x_n + r sums_n);  h' = n + z (h - n)

    x: (R, J)   weight: (J, H)   bias: (J,)   start: (N, H)   ->   (R, H), (R, J), (N, H)
    """

    signature = "x, weight, bias, start, sizes, back: bool = False"
    operands, results = "RJ JH J NH T", "RH RJ NH"
    n_outputs = 3
    result = ("states", "sums", "last")
    gates = 3

    def run(self, outs: list[Array], *arrays: Array) -> None:
        (states, sums, h), (x, weight, bias, start, sizes) = outs, arrays
        h[:] = start
        for rows, some in self.steps(sizes, len(h), len(x)):
            sums[rows] = h[some] @ weight.T + bias
            x_r, x_z, x_n = np.split(x[rows], 3, -1)
            s_r, s_z, s_n = np.split(sums[rows], 3, -1)
            n = np.tanh(x_n + sigmoid(x_r + s_r) * s_n)
            h[some] = n + sigmoid(x_z + s_z) * (h[some] - n)
            states[rows] = h[some]

    def vjp(
        self, g: Any, y: Any, x: Tensor, weight: Tensor, bias: Tensor, start: Tensor, sizes: Tensor
    ) -> tuple[Any, ...]:
        states, sums, _ = y
        (x_r, x_z, x_n), (s_r, s_z, s_n) = pieces(x, 3), pieces(sums, 3)
        r, z = ops.sigmoid(ops.add(x_r, s_r)), ops.sigmoid(ops.add(x_z, s_z))
        n = ops.tanh(ops.add(x_n, ops.mul(r, s_n)))
        before, _ = ops.steps_before(states, start, sizes, self.back)
        k_n = ops.mul(ops.sub(1, z), _tanh_slope(n))
        k_z = ops.mul(ops.sub(before, n), _slope(z))
        k_r = ops.mul(ops.mul(k_n, s_n), _slope(r))
        k = [k_r, k_z, ops.mul(k_n, r)]
        v, d, first = ops.state_steps_back(g[0], g[1], weight, k, z, g[2], sizes, not self.back)
        to_x = joined([ops.mul(d, k_r), ops.mul(d, k_z), ops.mul(d, k_n)])
        return to_x, rows_product(v, before), ops.sum(v, len(v.shape) - 2), first, None


class LstmScan(StepsOp):
    """(all h', all c', sums, last h', last c') of long short-term memory.

    sums = x + h weight.T;  i, f, g, o = pieces of the sums
    c' = sigmoid(f) c + sigmoid(i) tanh(g);  h' = sigmoid(o) tanh(c')

    x: (R, J)   weight: (J, H)   h, c: (N, H)   sizes: (T,)
    Hochreiter and Schmidhuber (1997).
    """

    signature = "x, weight, h, c, sizes, back: bool = False"
    operands, results = "RJ JH NH NH T", "RH RH RJ NH NH"
    n_outputs = 5
    result = ("states", "memories", "sums", "last_state", "last_memory")
    gates = 4

    def run(self, outs: list[Array], *arrays: Array) -> None:
        (states, memories, sums, h, c), (x, weight, start, first, sizes) = outs, arrays
        h[:], c[:] = start, first
        for rows, some in self.steps(sizes, len(h), len(x)):
            sums[rows] = x[rows] + h[some] @ weight.T
            i, f, g, o = np.split(sums[rows], 4, -1)
            c[some] = sigmoid(f) * c[some] + sigmoid(i) * np.tanh(g)
            h[some] = sigmoid(o) * np.tanh(c[some])
            states[rows], memories[rows] = h[some], c[some]

    def vjp(
        self, g: Any, y: Any, x: Tensor, weight: Tensor, h: Tensor, c: Tensor, sizes: Tensor
    ) -> tuple[Any, ...]:
        states, memories, sums, _, _ = y
        i, f, new, o = pieces(sums, 4)
        i, f, new, o = ops.sigmoid(i), ops.sigmoid(f), ops.tanh(new), ops.sigmoid(o)
        shown = ops.tanh(memories)
        older, _ = ops.steps_before(memories, c, sizes, self.back)
        k = [
            ops.mul(new, _slope(i)), ops.mul(older, _slope(f)),
            ops.mul(i, _tanh_slope(new)), ops.mul(shown, _slope(o)),
        ]  # fmt: skip
        v, _, _, *firsts = ops.memory_steps_back(
            g[0], g[1], g[2], weight, k, ops.mul(o, _tanh_slope(shown)), f, g[3], g[4], sizes,
            not self.back,
        )  # fmt: skip
        before, _ = ops.steps_before(states, h, sizes, self.back)
        return v, rows_product(v, before), *firsts, None
