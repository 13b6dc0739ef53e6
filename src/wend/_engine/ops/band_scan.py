"""Recurrences between neighbours: each place of a row is a sum over places of the row before.

    band_scan:      y[t, n, s] = b[t, n, s] + sum over j of w[j, t, n, s] * y[t-1, n, s-j]
    log_band_scan:  the same of logarithms: sums are logaddexp, products are sums

The weighted sums over all alignments of two sequences are such recurrences (`ctc_loss`).  The
gradient of either is a `band_scan`, and `band_scan` is closed under differentiation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from wend._engine.base.errors import ShapeError
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import OpFacts
from wend._engine.core.primitive import Primitive, Sample, ops
from wend._engine.core.symbolic import hints
from wend._engine.core.types import Spec
from wend._engine.ops.elementwise.transcendental import Logaddexp
from wend._engine.ops.numeric import Array, accumulator, require, widen
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue

#: So many places of the row before lead to a place, with itself.
WIDTH = 3


class _BandScan(Primitive, abstract=True):
    """Base: type and batching rules.

    w: (3, t, n, m)   b: (t, n, m)   ->   y: (t, n, m)
    Raises ShapeError for other shapes.
    """

    facts = OpFacts(supports=frozenset({"float"}))
    add: ClassVar[Any]
    multiply: ClassVar[Any]
    back: bool = False

    def infer(self, w: Spec, b: Spec) -> Spec:
        require(self.name, self.facts.supports, w.dtype, b.dtype)
        if (
            w.rank != 4
            or b.rank != 3
            or w.dtype is not b.dtype
            or any(m != n for m, n in zip(w.shape, (WIDTH, *b.shape), strict=True))
        ):
            raise ShapeError(
                f"{self.name}: w must be of shape (3, t, n, m) and b of shape (t, n, m), and they "
                f"have shapes {hints(w.shape)} and {hints(b.shape)}"
            )
        return Spec(b.shape, b.dtype)

    def reference(self, w: Array, b: Array) -> Array:
        factors, y = widen(w), widen(b).copy()
        add, multiply, m = type(self).add, type(self).multiply, b.shape[2]
        for i in range(1, len(y)):
            t = len(y) - 1 - i if self.back else i
            for j in range(min(WIDTH, m)):
                here, there = slice(j, m), slice(0, m - j)
                if self.back:
                    term = factors[j, t + 1][:, here] * y[t + 1][:, here]
                    y[t][:, there] += term
                else:
                    term = multiply(factors[j, t][:, here], y[t - 1][:, there])
                    y[t][:, here] = add(y[t][:, here], term)
        return y.astype(b.dtype, copy=False)

    def batch(self, batched: Sequence[bool], size: Size, w: Tensor, b: Tensor) -> Any:
        if not batched[0]:
            w = ops.expand(ops.unsqueeze(w, 0), (size, *w.shape))
        if not batched[1]:
            b = ops.expand(ops.unsqueeze(b, 0), (size, *b.shape))
        _, t, n, m = b.shape
        w = ops.reshape(ops.movedim(w, 0, 2), (WIDTH, t, size * n, m))
        b = ops.reshape(ops.movedim(b, 0, 1), (t, size * n, m))
        return ops.movedim(ops.reshape(self.again(w, b), (t, size, n, m)), 1, 0)

    def onnx(self, g: OnnxBuilder, w: OnnxValue, b: OnnxValue) -> OnnxValue:
        shape, wide = b.shape, accumulator(b.dtype)
        nothing = g.constant(-np.inf if type(self).add is np.logaddexp else 0, wide)
        ways = [g.cast(g.reshape(g.slice(w, 0, j, j + 1, 1), shape), wide) for j in range(WIDTH)]
        terms = g.cast(b, wide)
        if self.back:  # the weights of a row stand beside the row they lead to
            ways = [
                moved(g, moved(g, x, 0, -1, nothing), 2, -j, nothing) for j, x in enumerate(ways)
            ]
            ways = [turned(g, x) for x in ways]
            terms = turned(g, terms)
        start = g.node("Expand", nothing, g.sizes(shape[1:]))

        def step(inner: Any, y: Any, total: Any, *weights: Any) -> Any:
            for j, weight in enumerate(weights):
                before = moved(inner, y, 1, -j if self.back else j, nothing)
                total = self.onnx_sum(inner.elements, total, weight, before)
            return total

        y = g.scan(step, start, [terms, *ways], 0)
        return g.cast(turned(g, y) if self.back else y, b.dtype)

    def onnx_sum(self, b: Any, total: Any, weight: Any, before: Any) -> Any:
        """The sum with a further term.  b: a builder of formulas"""
        return b.add(total, b.mul(weight, before))

    def again(self, w: Tensor, b: Tensor) -> Tensor:
        """The same op on new operands."""
        raise NotImplementedError

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((4, 2, 5), (3, 2, 2), (2, 1, 1), (1, 2, 3), (3, 2, 40), (0, 2, 3), (2, 0, 3)):
            yield Sample(rng.normal(size=(WIDTH, *shape)) / 2, rng.normal(size=shape))


class BandScan(_BandScan):
    """y[t, n, s] = b[t, n, s] + sum over j of w[j, t, n, s] * y[t-1, n, s-j], for j = 0, 1, 2.

    w: (3, t, n, m)   b: (t, n, m)   ->   y: (t, n, m)
    back: the transposed recurrence, whose weights lead from row t+1 to row t
    """

    signature = "w, b, back: bool = False"
    add = np.add
    multiply = np.multiply

    def again(self, w: Tensor, b: Tensor) -> Tensor:
        return ops.band_scan(w, b, self.back)

    def vjp(self, g: Tensor, y: Tensor, w: Tensor, b: Tensor) -> tuple[Any, ...]:
        sums = ops.band_scan(w, g, not self.back)
        if self.back:
            return ops.mul(shifted(sums, 0), ops.unsqueeze(y, 0)), sums
        return ops.mul(ops.unsqueeze(sums, 0), shifted(y, 0)), sums

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            yield sample
            yield Sample(*sample.args, True)


class LogBandScan(_BandScan):
    """exp(y[t, n, s]) = exp(b[t, n, s]) + sum over j of exp(w[j, t, n, s] + y[t-1, n, s-j]).

    w: (3, t, n, m)   b: (t, n, m)   ->   y: (t, n, m)
    """

    signature = "w, b"
    add = np.logaddexp
    multiply = np.add

    def again(self, w: Tensor, b: Tensor) -> Tensor:
        return ops.log_band_scan(w, b)

    def onnx_sum(self, b: Any, total: Any, weight: Any, before: Any) -> Any:
        return Logaddexp.of(("T", "T")).emit(b, total, b.add(weight, before))

    def vjp(self, g: Tensor, y: Tensor, w: Tensor, b: Tensor) -> tuple[Any, ...]:
        # Places without a way have shares of 0: there y may be infinite.
        least = float("-inf")
        nothing = ops.eq(y, least)
        finite = ops.where(nothing, 0, y)
        ways = ops.sub(ops.add(w, shifted(y, least)), ops.unsqueeze(finite, 0))
        shares = ops.where(ops.unsqueeze(nothing, 0), 0, ops.exp(ways))
        sums = ops.band_scan(shares, g, True)
        first = ops.where(nothing, 0, ops.exp(ops.sub(b, finite)))
        return ops.mul(ops.unsqueeze(sums, 0), shares), ops.mul(sums, first)


def moved(g: Any, x: Any, dim: int, places: int, value: Any) -> Any:
    """The ONNX value x, moved along a dim; `value` comes in where places become free."""
    if not places:
        return x
    front, behind = [0] * x.rank, [0] * x.rank
    (front if places > 0 else behind)[dim] = abs(places)
    shape = x.shape
    longer = g.node("Pad", x, g.sizes((*front, *behind)), value)
    longer.shape = tuple([n + abs(places) if d == dim else n for d, n in enumerate(shape)])
    first, end = (0, -places) if places > 0 else (-places, None)
    part = g.slice(longer, dim, first, end, 1)
    part.shape = shape
    return part


def turned(g: Any, x: Any) -> Any:
    """The ONNX value x with the rows of dim 0 in reverse order."""
    part = g.slice(x, 0, -1, -(2**63), -1)
    part.shape = x.shape
    return part


def shifted(y: Tensor, value: float) -> Tensor:
    """x[j, t, n, s] = y[t-1, n, s-j], and `value` before the first row or place.

    y: (t, n, m)   ->   x: (3, t, n, m)
    """
    rows = ops.slice(ops.pad(y, (WIDTH - 1, 0, 0, 0, 1, 0), value), 0, 0, -1)
    ends = [-j if j else None for j in range(WIDTH)]
    parts = [ops.slice(rows, 2, WIDTH - 1 - j, ends[j]) for j in range(WIDTH)]
    return ops.stack(parts, 0)
