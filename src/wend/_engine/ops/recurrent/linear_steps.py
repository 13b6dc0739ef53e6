"""Linear recurrences over the steps of sequences, with products by a matrix from step to step.

Gradients of recurrent layers are such recurrences, against the direction of the layer.  The
gradient of each op here is its transpose: of `state_steps` it is `state_steps_back`, of
`memory_steps` it is `memory_steps_back`, and the reverse.  Dims are those of `steps`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.errors import ShapeError
from wend._engine.core.kinds import Tensor
from wend._engine.core.primitive import Sample, ops
from wend._engine.core.types import Spec
from wend._engine.ops.numeric import Array
from wend._engine.ops.recurrent.steps import StepsOp


def rows_product(x: Tensor, y: Tensor) -> Tensor:
    """The sum over rows of x[r, i] y[r, j]: (R, I), (R, J) -> (I, J), by groups."""
    at = len(x.shape) - 2
    groups = tuple(range(at))
    return ops.contract(x, y, (at,), (at,), groups, groups)


def pieces(x: Tensor, count: int) -> list[Tensor]:
    """The last dim taken apart into `count` equal pieces."""
    dim = len(x.shape) - 1
    size = x.shape[dim] // count
    return [ops.slice(x, dim, k * size, (k + 1) * size, 1) for k in range(count)]


def joined(parts: list[Tensor]) -> Tensor:
    """The pieces side by side along the last dim."""
    return ops.cat(parts, len(parts[0].shape) - 1)


def _scaled(d: list[Tensor], a: Tensor) -> list[Tensor]:
    """The product of each with a piece of `a`."""
    return [ops.mul(x, piece) for x, piece in zip(d, pieces(a, len(d)), strict=True)]


class _StateOp(StepsOp, abstract=True):
    """Base of recurrences of a single state."""

    n_outputs = 3
    terms = (0, 1)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for gates in (1, 3):
            self.gates = gates
            for sample in super().samples(rng):
                x, y, weight, k, z, *rest = sample.args
                yield Sample(x, y, weight, k, None if gates == 1 else z, *rest)


class StateSteps(_StateOp):
    """a = x + s weight.T;  s' = y + k1 a1 + k2 a2 + ... + z s: (a, s', last s').

    x: (R, J)   k1, k2, ..., y, z: (R, H)   weight: (J, H)   start: (N, H)
    Results: (R, J), (R, H), (N, H). Without z, the last term is left out.
    """

    signature = "x, y, weight, k: tensors, z: tensor?, start, sizes, back: bool = False"
    operands, results = "RJ RH JH RH* RH NH T", "RJ RH NH"
    result = ("a", "states", "last")

    def run(self, outs: list[Array], *arrays: Any) -> None:
        (a, states, s), (x, y, weight, k, z, start, sizes) = outs, arrays
        s[:] = start
        for rows, some in self.steps(sizes, len(s), len(x)):
            a[rows] = x[rows] + s[some] @ weight.T
            kept = 0 if z is None else z[rows] * s[some]
            parts = np.split(a[rows], len(k), -1)
            s[some] = y[rows] + kept + sum(f[rows] * p for f, p in zip(k, parts, strict=True))
            states[rows] = s[some]

    def vjp(
        self, g: Any, y: Any, x: Tensor, added: Tensor, weight: Tensor, k: list[Tensor], z: Any,
        start: Tensor, sizes: Tensor,
    ) -> tuple[Any, ...]:  # fmt: skip
        a, states, _ = y
        v, d, first = ops.state_steps_back(g[1], g[0], weight, k, z, g[2], sizes, not self.back)
        before, _ = ops.steps_before(states, start, sizes, self.back)
        to_k = _scaled([d] * len(k), a)
        to_z = None if z is None else ops.mul(d, before)
        return v, d, rows_product(v, before), to_k, to_z, first, None


class StateStepsBack(_StateOp):
    """d = x + s;  v = (k1 d, k2 d, ...) + y;  s' = v weight + z d: (v, d, last s').

    x, k1, k2, ..., z: (R, H)   y: (R, J)   weight: (J, H)   start: (N, H)
    Results: (R, J), (R, H), (N, H). Without z, the last term is left out.
    """

    signature = "x, y, weight, k: tensors, z: tensor?, start, sizes, back: bool = False"
    operands, results = "RH RJ JH RH* RH NH T", "RJ RH NH"
    result = ("v", "d", "last")

    def run(self, outs: list[Array], *arrays: Any) -> None:
        (v, d, s), (x, y, weight, k, z, start, sizes) = outs, arrays
        s[:] = start
        for rows, some in self.steps(sizes, len(s), len(x)):
            d[rows] = x[rows] + s[some]
            v[rows] = np.concatenate([f[rows] * d[rows] for f in k], -1) + y[rows]
            s[some] = v[rows] @ weight + (0 if z is None else z[rows] * d[rows])

    def vjp(
        self, g: Any, y: Any, x: Tensor, added: Tensor, weight: Tensor, k: list[Tensor], z: Any,
        start: Tensor, sizes: Tensor,
    ) -> tuple[Any, ...]:  # fmt: skip
        v, d, _ = y
        a, states, first = ops.state_steps(g[0], g[1], weight, k, z, g[2], sizes, not self.back)
        before, _ = ops.steps_before(states, g[2], sizes, not self.back)
        to_k = _scaled([d] * len(k), a)
        to_z = None if z is None else ops.mul(d, before)
        return states, a, rows_product(v, before), to_k, to_z, first, None


class _MemoryOp(StepsOp, abstract=True):
    """Base of recurrences of a state and a memory, by four gates: the last one is of the state."""

    n_outputs = 5
    terms = (0, 1, 2)
    gates = 4

    def infer(self, *operands: Any) -> tuple[Spec, ...]:
        if self.count(operands) != 4:
            raise ShapeError(f"{self.name}: k has {self.count(operands)} tensors, and not 4")
        return super().infer(*operands)


class MemorySteps(_MemoryOp):
    """(a, s', c', last s', last c') of a state s and a memory c.

    a = x + s weight.T;  c' = y_c + k1 a1 + k2 a2 + k3 a3 + f c;  s' = y_s + k4 a4 + p c'

    x: (R, J)   k1, ..., k4, y_s, y_c, p, f: (R, H)   weight: (J, H)   s, c: (N, H)
    """

    signature = "x, y_s, y_c, weight, k: tensors, p, f, s, c, sizes, back: bool = False"
    operands, results = "RJ RH RH JH RH* RH RH NH NH T", "RJ RH RH NH NH"
    result = ("a", "states", "memories", "last_state", "last_memory")

    def run(self, outs: list[Array], *arrays: Any) -> None:
        a, states, memories, s, c = outs
        x, y_s, y_c, weight, k, p, f, start, first, sizes = arrays
        s[:], c[:] = start, first
        for rows, some in self.steps(sizes, len(s), len(x)):
            a[rows] = x[rows] + s[some] @ weight.T
            parts = np.split(a[rows], 4, -1)
            a1, a2, a3, a4 = (factor[rows] * p for factor, p in zip(k, parts, strict=True))
            c[some] = y_c[rows] + a1 + a2 + a3 + f[rows] * c[some]
            s[some] = y_s[rows] + a4 + p[rows] * c[some]
            states[rows], memories[rows] = s[some], c[some]

    def vjp(
        self, g: Any, y: Any, x: Tensor, y_s: Tensor, y_c: Tensor, weight: Tensor, k: list[Tensor],
        p: Tensor, f: Tensor, s: Tensor, c: Tensor, sizes: Tensor,
    ) -> tuple[Any, ...]:  # fmt: skip
        a, states, memories, _, _ = y
        v, ds, dc, *firsts = ops.memory_steps_back(
            g[1], g[2], g[0], weight, k, p, f, g[3], g[4], sizes, not self.back
        )
        before, _ = ops.steps_before(states, s, sizes, self.back)
        older, _ = ops.steps_before(memories, c, sizes, self.back)
        to = _scaled([dc, dc, dc, ds], a), ops.mul(ds, memories), ops.mul(dc, older)
        return v, ds, dc, rows_product(v, before), *to, *firsts, None


class MemoryStepsBack(_MemoryOp):
    """(v, d_s, d_c, last s', last c') of a state s and a memory c.

    d_s = x_s + s;  d_c = x_c + c + p d_s;  v = (k1 d_c, k2 d_c, k3 d_c, k4 d_s) + y
    s' = v weight;  c' = f d_c

    x_s, x_c, k1, ..., k4, p, f: (R, H)   y: (R, J)   weight: (J, H)   s, c: (N, H)
    """

    signature = "x_s, x_c, y, weight, k: tensors, p, f, s, c, sizes, back: bool = False"
    operands, results = "RH RH RJ JH RH* RH RH NH NH T", "RJ RH RH NH NH"
    result = ("v", "d_state", "d_memory", "last_state", "last_memory")

    def run(self, outs: list[Array], *arrays: Any) -> None:
        v, ds, dc, s, c = outs
        x_s, x_c, y, weight, k, p, f, start, first, sizes = arrays
        s[:], c[:] = start, first
        for rows, some in self.steps(sizes, len(s), len(x_s)):
            ds[rows] = x_s[rows] + s[some]
            dc[rows] = x_c[rows] + c[some] + p[rows] * ds[rows]
            of = dc, dc, dc, ds
            parts = [factor[rows] * d[rows] for factor, d in zip(k, of, strict=True)]
            v[rows] = np.concatenate(parts, -1) + y[rows]
            s[some] = v[rows] @ weight
            c[some] = f[rows] * dc[rows]

    def vjp(
        self, g: Any, y: Any, x_s: Tensor, x_c: Tensor, added: Tensor, weight: Tensor,
        k: list[Tensor], p: Tensor, f: Tensor, s: Tensor, c: Tensor, sizes: Tensor,
    ) -> tuple[Any, ...]:  # fmt: skip
        v, ds, dc, _, _ = y
        a, states, memories, *firsts = ops.memory_steps(
            g[0], g[1], g[2], weight, k, p, f, g[3], g[4], sizes, not self.back
        )
        before, _ = ops.steps_before(states, g[3], sizes, not self.back)
        older, _ = ops.steps_before(memories, g[4], sizes, not self.back)
        to = _scaled([dc, dc, dc, ds], a), ops.mul(ds, memories), ops.mul(dc, older)
        return states, memories, a, rows_product(v, before), *to, *firsts, None
