"""Recurrent layers of int8 weights over all steps of sequences: `lstm_scan_int8`, `gru_scan_int8`.

At each step the states of all rows are rounded to bytes by the range of these states, as PyTorch's
dynamically quantised layers do.  Dims are those of `recurrent.steps`; the rows of the weight come
in panels, see `windows`: those of a panel are of a single gate, and the panels of all gates follow
each other, for 16 units each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from wend._engine.base.dtypes import DType, float32, int8, int64
from wend._engine.core.op_facts import OpFacts
from wend._engine.core.primitive import NO_GRADIENT, Sample
from wend._engine.ops.numeric import Array
from wend._engine.ops.quantized.elements import scale_and_zero
from wend._engine.ops.quantized.windows import DEPTH, FILTERS
from wend._engine.ops.recurrent.scans import sigmoid
from wend._engine.ops.recurrent.steps import StepsOp

#: The greatest byte of a state: PyTorch leaves a bit unused.
TOP = 127


class BytesScan(StepsOp, abstract=True):
    """Base: types, products by bytes, and batching, which keeps the ranges of examples apart."""

    facts = OpFacts(supports=frozenset({"int"}))
    apart = True
    vjp = NO_GRADIENT
    types: ClassVar[dict[str, DType]] = {"T": int64, "PSB": int8}

    def wanted(self, dims: str, dtype: DType) -> DType:
        return self.types.get(dims, float32)

    def product(self, h: Array, panels: Array, totals: Array, scales: Array, bias: Array) -> Array:
        """h weight.T + bias, of h rounded to bytes."""
        h, width = h.astype(np.float32), h.shape[1]
        edge = np.zeros(1, np.float32)
        flat = np.concatenate([h[~np.isnan(h)], edge]).astype(np.float64)
        scale, zero = (
            x.astype(np.float32)[()] for x in scale_and_zero(flat.min(), flat.max(), TOP)
        )
        with np.errstate(all="ignore"):
            q = np.rint(h * (np.float32(1) / scale)) + zero
        q = np.where(q > 0, q, np.float32(0))
        q = np.where(q < 255, q, np.float32(255)).astype(np.int64)
        units = panels.reshape(-1, self.gates, panels.shape[1], FILTERS, DEPTH)
        weight = units.transpose(1, 0, 3, 2, 4).reshape(self.gates, -1, panels.shape[1] * DEPTH)
        weight = weight[:, :width, :width].reshape(-1, width).astype(np.float64)
        sums = (q.astype(np.float64) @ weight.T).astype(np.int64)
        sums -= int(zero) * totals.astype(np.int64)
        return sums.astype(np.float32) * (scales * scale) + bias

    def more_extents(self, width: int) -> dict[str, int]:
        units = (width + FILTERS - 1) // FILTERS
        return {"P": units * self.gates, "S": (width + DEPTH - 1) // DEPTH, "B": FILTERS * DEPTH}

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            *arrays, back = sample.args
            operands = []
            for k, (dims, x) in enumerate(zip(self.dims, arrays, strict=True)):
                if dims == "PSB":
                    x = np.clip(x * 90, -128, 127)
                elif k == 2:
                    x = np.rint(x * 90)  # totals
                elif k == 3:
                    x = np.abs(x) / 100  # scales
                operands.append(x if dims == "T" else x.astype(self.types.get(dims, float32).numpy))
            yield Sample(*operands, back)


class LstmScanInt8(BytesScan):
    """(all h', last h', last c') of long short-term memory; `lstm_scan` has the formulas.

    x: (R, J)   panels: (P, S, 64)   totals, scales, bias: (J,)   h, c: (N, H)   sizes: (T,)
    totals: the sums of the rows of the weight   scales: those of the rows
    """

    signature = "x, panels, totals, scales, bias, h, c, sizes, back: bool = False"
    operands, results = "RJ PSB J J J NH NH T", "RH NH NH"
    n_outputs = 3
    result = ("states", "last_state", "last_memory")
    gates = 4

    def run(self, outs: list[Array], *arrays: Array) -> None:
        (states, h, c), (x, *weight, start, first, sizes) = outs, arrays
        h[:], c[:] = start, first
        for rows, some in self.steps(sizes, len(h), len(x)):
            i, f, g, o = np.split(self.product(h[some], *weight) + x[rows], 4, -1)
            c[some] = sigmoid(f) * c[some] + sigmoid(i) * np.tanh(g)
            h[some] = sigmoid(o) * np.tanh(c[some])
            states[rows] = h[some]


class GruScanInt8(BytesScan):
    """(all h', last h') of gated recurrent units; `gru_scan` has the formulas.

    x: (R, J)   panels: (P, S, 64)   totals, scales, bias: (J,)   start: (N, H)   sizes: (T,)
    """

    signature = "x, panels, totals, scales, bias, start, sizes, back: bool = False"
    operands, results = "RJ PSB J J J NH T", "RH NH"
    n_outputs = 2
    result = ("states", "last")
    gates = 3

    def run(self, outs: list[Array], *arrays: Array) -> None:
        (states, h), (x, *weight, start, sizes) = outs, arrays
        h[:] = start
        for rows, some in self.steps(sizes, len(h), len(x)):
            s_r, s_z, s_n = np.split(self.product(h[some], *weight), 3, -1)
            x_r, x_z, x_n = np.split(x[rows], 3, -1)
            n = np.tanh(x_n + sigmoid(x_r + s_r) * s_n)
            h[some] = n + sigmoid(x_z + s_z) * (h[some] - n)
            states[rows] = h[some]
