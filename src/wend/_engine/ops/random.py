"""Random numbers: element i (row-major) of a draw depends on (seed, offset + i) and nothing else.

seed and offset are run-time int64 scalars, taken from a `RandomState` when the op is recorded:

    seed, offset = state.reserve(n);  ops.uniform((2, 3), seed, offset, dtype=float32)

Gamma and Dirichlet numbers have gradients by their parameters: implicit reparameterisation, see
`ops/implicit.py`. Other samples that depend on parameters differentiably are composed of these
(`composites/random.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from wend._engine.base.dtypes import (
    DType,
    bfloat16,
    float16,
    float32,
    float64,
    get_default_dtype,
    int64,
)
from wend._engine.base.errors import ExecutionError, ShapeError
from wend._engine.core.kinds import Scalar, Size, Sizes, Tensor
from wend._engine.core.op_facts import OpFacts, OpSchedule, TorchCall
from wend._engine.core.primitive import NO_GRADIENT, Primitive, Sample, ops
from wend._engine.core.symbolic import broadcast_shapes, hints
from wend._engine.core.types import Number, Spec
from wend._engine.ops import philox
from wend._engine.ops.implicit import in_front
from wend._engine.ops.numeric import Array, array, require
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue

# Digits of each type's significand: uniform numbers are multiples of 2**-digits below 1.
DIGITS = {float16: 11, bfloat16: 8, float32: 24, float64: 53}


class Draw(Primitive, abstract=True):
    """Base: a draw of a given size."""

    signature = "size: sizes, seed: scalar, offset: scalar, *, dtype: dtype = None"
    facts = OpFacts(supports=frozenset({"float"}), random=True)
    vjp = NO_GRADIENT
    dtype: DType | None

    def result_dtype(self) -> DType:
        """Element type of the draw."""
        return self.dtype or get_default_dtype()

    def infer(self, size: Sizes, *scalars: Number) -> Spec:
        for n in size:
            if n < 0:
                raise ShapeError(f"{self.name}: negative extent in size {hints(size)}")
        require(self.name, self.facts.supports, self.result_dtype())
        return Spec(tuple(size), self.result_dtype())

    def onnx_like(self, g: OnnxBuilder, size: Sizes) -> OnnxValue:
        """A tensor of the size and type of the draw: ONNX draws in the shape of a tensor."""
        out = g.out[0].dtype
        wide = out if out is float64 else float32
        return g.expand(g.constant(0, wide), size)

    def batch(self, batched: Sequence[bool], size: Size, *params: Any) -> NoReturn:
        raise AssertionError("a draw has no operands: it never meets a batch")

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((2, 3), 7, 5)
        yield Sample((), -3, 2**40)
        yield Sample((0, 2), 7, 5)
        yield Sample((9,), 7, 5, dtype=float64)


class Uniform(Draw):
    """y: uniform in [0, 1), every multiple of 2**-digits of the type equally likely."""

    def onnx(self, g: OnnxBuilder, size: Sizes, seed: Scalar, offset: Scalar) -> OnnxValue:
        """Not the same numbers as Wend's: a runtime draws from a stream of its own."""
        return g.cast(g.node("RandomUniformLike", self.onnx_like(g, size)), g.out[0].dtype)

    def reference(self, size: Sizes, seed: int, offset: int) -> Array:
        dtype = self.result_dtype()
        count, digits = math.prod(size), DIGITS[dtype]
        if dtype is float64:
            y = philox.unit64(philox.words64(seed, offset, count))
        else:
            words = philox.words32(seed, offset, count)
            y = (words >> np.uint32(32 - digits)).astype(np.float32) * np.float32(2.0**-digits)
        return array(y, dtype).reshape(size)


class Normal(Draw):
    """y: standard normal numbers; float64 from 64-bit words, all else from 32-bit words.

    Box, Muller: A note on the generation of random normal deviates (1958).
    """

    name = "standard_normal"

    def onnx(self, g: OnnxBuilder, size: Sizes, seed: Scalar, offset: Scalar) -> OnnxValue:
        """Not the same numbers as Wend's: a runtime draws from a stream of its own."""
        return g.cast(g.node("RandomNormalLike", self.onnx_like(g, size)), g.out[0].dtype)

    def reference(self, size: Sizes, seed: int, offset: int) -> Array:
        dtype = self.result_dtype()
        y = philox.normal(seed, offset, math.prod(size), dtype is float64)
        return array(y, dtype).reshape(size)


class RandomBits(Draw):
    """y: uniform over all int64."""

    facts = OpFacts(supports=frozenset({"int"}))

    def result_dtype(self) -> DType:
        return int64

    def reference(self, size: Sizes, seed: int, offset: int) -> Array:
        words = philox.words64(seed, offset, math.prod(size))
        return words.view(np.int64).reshape(size)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((2, 3), 7, 5)
        yield Sample((0,), 7, 5)


class RandomIntegers(Draw):
    """y: uniform over the integers low <= y < high.

    From 64-bit words modulo the range: no result is more than 2**-64 * range too likely.
    Raises ExecutionError (when computed) unless low < high.
    """

    signature = (
        "size: sizes, low: scalar, high: scalar, seed: scalar, offset: scalar, "
        "*, dtype: dtype = None"
    )
    facts = OpFacts(supports=frozenset({"bool", "int", "float"}), fallible=True)

    def result_dtype(self) -> DType:
        return self.dtype or int64

    def reference(self, size: Sizes, low: int, high: int, seed: int, offset: int) -> Array:
        if low >= high:
            raise ExecutionError(f"randint: expects 'from' < 'to', but got from={low} >= to={high}")
        words = philox.words64(seed, offset, math.prod(size))
        if high - low < 2**64:
            words = words % np.uint64(high - low)
        # Adding in uint64 wraps as int64 would.
        y = (words + np.uint64(low % 2**64)).view(np.int64)
        return array(y, self.result_dtype()).reshape(size)

    def onnx(
        self, g: OnnxBuilder, size: Sizes, low: Scalar, high: Scalar, seed: Scalar, offset: Scalar
    ) -> OnnxValue:
        """As likely up to 2**-53, but not the same numbers."""
        wide = g.expand(g.constant(0, float64), size)
        unit = g.node("RandomUniformLike", wide)
        first = g.number(low, float64)
        span = g.node("Sub", g.number(high, float64), first)
        drawn = g.node("Floor", g.node("Add", g.node("Mul", unit, span), first))
        return g.cast(g.cast(drawn, int64), g.out[0].dtype)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((2, 3), 0, 10, 7, 5)
        yield Sample((4,), -5, -2, 7, 5, dtype=float32)
        yield Sample((), -(2**63), 2**63 - 1, 7, 5)
        yield Sample((0,), 0, 1, 7, 5)


class PerElement(Primitive, abstract=True):
    """Base: a draw whose element i depends on x[i] and on (seed, offset + i)."""

    signature = "input, seed: scalar, offset: scalar"
    facts = OpFacts(supports=frozenset({"float"}), random=True)
    schedule = OpSchedule(unlowered="each element takes a number of tries of its own")
    vjp = NO_GRADIENT
    torch = TorchCall(label="")

    def infer(self, x: Spec, *scalars: Any) -> Spec:
        require(self.torch.label, self.facts.supports, x.dtype)
        return Spec(x.shape, x.dtype)

    def batch(self, batched: Sequence[bool], size: Size, *params: Any) -> Any:
        # Positions run on from example to example, as in a draw over all examples.
        return getattr(ops, self.name)(*params)


class PoissonDraw(PerElement):
    """y[i]: a Poisson number of rate x[i] >= 0.

    Below a rate of 10 by inversion; above by Hoermann's transformed rejection (PTRS: The
    transformed rejection method for generating Poisson random variables, 1993).
    Raises ExecutionError (when computed) for a negative or NaN rate.
    """

    torch = TorchCall(label="poisson")
    facts = OpFacts(fallible=True)

    def reference(self, x: Array, seed: int, offset: int) -> Array:
        rate = x.astype(np.float64).reshape(-1)
        if not (rate >= 0).all():
            raise ExecutionError("poisson: invalid rate, expected all rates to be non-negative")
        position = np.uint64(offset % 2**64) + np.arange(rate.size, dtype=np.uint64)
        y = np.zeros(rate.size)
        low = rate < 10
        y[low] = _poisson_by_inversion(rate[low], seed, position[low])
        y[~low] = _poisson_by_rejection(rate[~low], seed, position[~low])
        return y.reshape(x.shape).astype(x.dtype)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.uniform(0, 5, size=(3, 4)), 7, 5)
        yield Sample(rng.uniform(0, 100, size=(4,)), 7, 5)
        yield Sample(np.asarray(0.0), 7, 5)
        yield Sample(np.zeros((0,)), 7, 5)


def _units(seed: int, position: Array, kind: int, retry: int) -> tuple[Array, Array]:
    """Two uniform numbers per position, in [0, 1)."""
    words = philox.blocks_at(seed, position, kind, retry).astype(np.uint64)
    pair = words[:, 0::2] | words[:, 1::2] << np.uint64(32)
    return philox.unit64(pair[:, 0]), philox.unit64(pair[:, 1])


def _poisson_by_inversion(rate: Array, seed: int, position: Array) -> Array:
    u, _ = _units(seed, position, philox.POISSON, 0)
    y = np.zeros(rate.size)
    term = np.exp(-rate)
    left = u - term
    k = 0
    # Beyond 100 no probability is left that u could resolve.
    while (left >= 0).any() and k < 100:
        k += 1
        y += left >= 0
        term = term * rate / k
        left = np.where(left >= 0, left - term, left)
    return y


def _poisson_by_rejection(rate: Array, seed: int, position: Array) -> Array:
    root, log_rate = np.sqrt(rate), np.log(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)
    y = np.zeros(rate.size)
    todo = np.arange(rate.size)
    retry = 0
    while todo.size:
        u, v = _units(seed, position[todo], philox.POISSON, 1 + retry)
        u = u - 0.5
        us = 0.5 - np.abs(u)
        at = todo
        k = np.floor((2 * a[at] / us + b[at]) * u + rate[at] + 0.43)
        quick = (us >= 0.07) & (v <= v_r[at])
        bad = (k < 0) | ((us < 0.013) & (v > us))
        with np.errstate(all="ignore"):
            left = np.log(v) + np.log(inverse_alpha[at]) - np.log(a[at] / (us * us) + b[at])
            right = -rate[at] + k * log_rate[at] - _log_factorial(k)
        taken = quick | (~bad & (left <= right))
        y[at[taken]] = k[taken]
        todo = todo[~taken]
        retry += 1
    return y


def _log_factorial(k: Array) -> Array:
    """log(k!) for k >= 0, by Stirling's series from 10 up; NaN below 0."""
    k = np.where(k < 0, np.nan, k)
    shift = np.maximum(10 - np.nan_to_num(k), 0)
    x = k + shift + 1  # log(k!) = log Gamma(k + 1)
    y = (x - 0.5) * np.log(x) - x + 0.5 * math.log(2 * math.pi)
    y += 1 / (12 * x) - 1 / (360 * x**3) + 1 / (1260 * x**5) - 1 / (1680 * x**7)
    for i in range(10):
        y -= np.where(shift > i, np.log(np.maximum(k + 1 + i, 1)), 0)
    return y


class StandardGamma(PerElement):
    """y[i]: a gamma number of shape x[i] > 0 and scale 1.

    Marsaglia, Tsang: A simple method for generating gamma variables (2000).
    """

    torch = TorchCall(label="gamma")

    def reference(self, x: Array, seed: int, offset: int) -> Array:
        y, log_factor = _gamma_numbers(x, seed, offset)
        with np.errstate(all="ignore"):
            y = y * np.exp(log_factor)
        tiny = np.finfo(np.float32).tiny if x.dtype.itemsize < 8 else np.finfo(np.float64).tiny
        return np.maximum(y, tiny).reshape(x.shape).astype(x.dtype)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, seed: Scalar, offset: Scalar) -> tuple[Any, ...]:
        return (g * ops.gamma_slope(x, y),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.uniform(0.1, 5, size=(3, 4)), 7, 5)
        yield Sample(np.asarray(2.0), 7, 5)
        yield Sample(np.zeros((0,)), 7, 5)


def _gamma_numbers(x: Array, seed: int, offset: int) -> tuple[Array, Array]:
    """Numbers of shapes x as (y, l) with the meaning y * exp(l), flat: exp(l) may be 0 as rounded.

    Infinite for an infinite shape, NaN for shapes that are not positive.
    """
    shape = x.astype(np.float64).reshape(-1)
    position = np.uint64(offset % 2**64) + np.arange(shape.size, dtype=np.uint64)
    # Below 1: a number of shape + 1 times u ** (1 / shape).
    boost = shape < 1
    d = np.where(boost, shape + 1, shape) - 1 / 3
    y = np.where(shape == math.inf, math.inf, math.nan)
    todo = np.flatnonzero((shape > 0) & np.isfinite(shape))
    retry = 1
    while todo.size:
        u1, u2 = _units(seed, position[todo], philox.GAMMA, 2 * retry)
        u, _ = _units(seed, position[todo], philox.GAMMA, 2 * retry + 1)
        z = np.sqrt(-2 * np.log1p(-u1)) * np.cos(2 * np.pi * u2)
        v = (1 + z / np.sqrt(9 * d[todo])) ** 3
        with np.errstate(all="ignore"):
            taken = (v > 0) & (np.log1p(-u) < 0.5 * z * z + d[todo] * (1 - v + np.log(v)))
        y[todo[taken]] = (d[todo] * v)[taken]
        todo = todo[~taken]
        retry += 1
    u, _ = _units(seed, position, philox.GAMMA, 0)
    with np.errstate(all="ignore"):
        return y, np.where(boost, np.log1p(-u) / shape, 0.0)


class DirichletDraw(PerElement):
    """y[...]: positive numbers that sum to 1, of concentrations x[...] > 0 along the last dim.

    Gamma numbers by their sum; by logarithms, since numbers of small shapes are 0 as rounded.
    Raises ShapeError for a 0-d tensor.
    """

    torch = TorchCall(label="sample_dirichlet")

    def infer(self, x: Spec, *scalars: Number) -> Spec:
        if not x.rank:
            raise ShapeError(f"{self.torch.label}: concentrations must have at least one dim")
        return super().infer(x, *scalars)

    def reference(self, x: Array, seed: int, offset: int) -> Array:
        y, log_factor = _gamma_numbers(x, seed, offset)
        with np.errstate(all="ignore"):
            logs = (np.log(y) + log_factor).reshape(x.shape)
            top = logs.max(axis=-1, keepdims=True) if logs.size else logs
            y = np.exp(logs - top)
            y = y / y.sum(axis=-1, keepdims=True)
        tiny = np.finfo(np.float32).tiny if x.dtype.itemsize < 8 else np.finfo(np.float64).tiny
        return np.maximum(y, tiny).astype(x.dtype)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, seed: Scalar, offset: Scalar) -> tuple[Any, ...]:
        total = ops.sum(x, -1, keepdim=True)
        # Where y[i] grows, all else shrinks in proportion.
        return (ops.dirichlet_slope(y, x, total) * (g - ops.sum(g * y, -1, keepdim=True)),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.uniform(0.1, 5, size=(3, 4)), 7, 5)
        yield Sample(rng.uniform(0.1, 5, size=(2,)), 7, 5)
        yield Sample(np.zeros((0, 2)), 7, 5)


class BinomialDraw(PerElement):
    """y[i]: how many of count[i] trials succeed, each with probability prob[i].

    By inversion where fewer than 10 successes (or failures, whichever are rarer) are expected;
    else by Hoermann's transformed rejection (BTRS: The generation of binomial random variates,
    1993). NaN where count is negative or infinite, or prob not from 0 to 1.
    """

    signature = "count, prob, seed: scalar, offset: scalar"
    torch = TorchCall(label="binomial")

    def infer(self, count: Spec, prob: Spec, *scalars: Number) -> Spec:
        require(self.torch.label, self.facts.supports, count.dtype)
        require(self.torch.label, self.facts.supports, prob.dtype)
        return Spec(broadcast_shapes(self.torch.label, count.shape, prob.shape), count.dtype)

    def batch(self, batched: Sequence[bool], size: Size, *params: Any) -> Tensor:
        count, prob = in_front(batched, *params[:2])
        return ops.binomial_draw(count, prob, *params[2:])

    def reference(self, count: Array, prob: Array, seed: int, offset: int) -> Array:
        dtype = count.dtype
        count, prob = np.broadcast_arrays(count.astype(np.float64), prob.astype(np.float64))
        n, p = count.reshape(-1), prob.reshape(-1)
        position = np.uint64(offset % 2**64) + np.arange(n.size, dtype=np.uint64)
        valid = (n >= 0) & np.isfinite(n) & (p >= 0) & (p <= 1)
        n, rarer = np.where(valid, np.floor(n), 0), np.where(valid, np.minimum(p, 1 - p), 0)
        y = np.zeros(n.size)
        low = n * rarer < 10
        y[low] = _binomial_by_inversion(n[low], rarer[low], seed, position[low])
        y[~low] = _binomial_by_rejection(n[~low], rarer[~low], seed, position[~low])
        y = np.where(p > 0.5, n - y, y)
        return np.where(valid, y, math.nan).reshape(count.shape).astype(dtype)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        n = rng.integers(1, 60, size=(3, 4)).astype(float)
        yield Sample(n, rng.uniform(0, 1, size=(3, 4)), 7, 5)
        yield Sample(np.asarray(40.0), rng.uniform(0, 1, size=(3,)), 7, 5)
        yield Sample(np.zeros((0,)), np.zeros((0,)), 7, 5)


def _binomial_by_inversion(n: Array, p: Array, seed: int, position: Array) -> Array:
    u, _ = _units(seed, position, philox.BINOMIAL, 0)
    y = np.zeros(n.size)
    odds = p / (1 - p)
    term = np.exp(n * np.log1p(-p))
    left = u - term
    k = 0
    # Beyond 100 no probability is left that u could resolve.
    while (left >= 0).any() and k < 100:
        k += 1
        y += left >= 0
        term = term * odds * np.maximum(n - k + 1, 0) / k
        left = np.where(left >= 0, left - term, left)
    return np.minimum(y, n)


def _binomial_by_rejection(n: Array, p: Array, seed: int, position: Array) -> Array:
    spread = np.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = n * p + 0.5
    v_r = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * spread
    mode = np.floor((n + 1) * p)
    log_odds = np.log(p) - np.log1p(-p)
    at_mode = _log_factorial(mode) + _log_factorial(n - mode)
    y = np.zeros(n.size)
    todo = np.arange(n.size)
    retry = 0
    while todo.size:
        u, v = _units(seed, position[todo], philox.BINOMIAL, 1 + retry)
        u = u - 0.5
        us = 0.5 - np.abs(u)
        at = todo
        k = np.floor((2 * a[at] / us + b[at]) * u + c[at])
        quick = (us >= 0.07) & (v <= v_r[at])
        possible = (k >= 0) & (k <= n[at])
        k = np.where(possible, k, 0)
        with np.errstate(all="ignore"):
            left = np.log(v) + np.log(alpha[at]) - np.log(a[at] / (us * us) + b[at])
            right = at_mode[at] - _log_factorial(k) - _log_factorial(n[at] - k)
            right += (k - mode[at]) * log_odds[at]
        taken = possible & (quick | (left <= right))
        y[at[taken]] = k[taken]
        todo = todo[~taken]
        retry += 1
    return y


class VonMisesDraw(PerElement):
    """y[i]: an angle from -pi to pi, of concentration x[i] > 0 around 0.

    Best, Fisher: Efficient simulation of the von Mises distribution (1979). NaN where x is not
    positive.
    """

    torch = TorchCall(label="von_mises")

    def reference(self, x: Array, seed: int, offset: int) -> Array:
        kappa = x.astype(np.float64).reshape(-1)
        position = np.uint64(offset % 2**64) + np.arange(kappa.size, dtype=np.uint64)
        with np.errstate(all="ignore"):
            tau = 1 + np.sqrt(1 + 4 * kappa**2)
            rho = (tau - np.sqrt(2 * tau)) / (2 * kappa)
            # How far the envelope's bound r is above 1; rho has no digits near 0 and far from 0.
            excess = np.where(kappa < 1e-5, 1 / kappa + kappa - 1, (1 - rho) ** 2 / (2 * rho))
            excess = np.where(kappa > 1e8, 0.5 / kappa, excess)
        y = np.where(kappa == math.inf, 0.0, math.nan)
        todo = np.flatnonzero((kappa > 0) & np.isfinite(kappa))
        retry = 0
        while todo.size:
            u1, u2 = _units(seed, position[todo], philox.VON_MISES, 2 * retry)
            u3, _ = _units(seed, position[todo], philox.VON_MISES, 2 * retry + 1)
            z, over = np.cos(np.pi * u1), excess[todo]
            short = over * (1 - z) / (1 + over + z)  # 1 - cos(angle)
            c = kappa[todo] * (over + short)
            u2 = 1 - u2
            with np.errstate(all="ignore"):
                taken = (c * (2 - c) - u2 > 0) | (np.log(c / u2) + 1 - c >= 0)
            angle = 2 * np.arcsin(np.sqrt(np.clip(short / 2, 0, 1)))
            y[todo[taken]] = (np.where(u3 < 0.5, -1, 1) * angle)[taken]
            todo = todo[~taken]
            retry += 1
        return y.reshape(x.shape).astype(x.dtype)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.uniform(0.1, 50, size=(3, 4)), 7, 5)
        yield Sample(np.asarray(2.0), 7, 5)
        yield Sample(np.zeros((0,)), 7, 5)


class MultinomialDraw(Primitive):
    """y: indices drawn with probabilities proportional to x, per row.

    input: (n,) or (m, n), weights >= 0   ->   (count,) or (m, count), int64
    replacement: by inversion of the cumulative weights; without: the greatest of weight / Exp(1).
    Raises ShapeError for any other rank, ExecutionError (when computed) for weights that are
    negative, infinite, NaN, or all 0 in a row.
    """

    signature = "input, count: size, seed: scalar, offset: scalar, *, replacement: bool = False"
    facts = OpFacts(supports=frozenset({"float"}), random=True, fallible=True)
    vjp = NO_GRADIENT
    replacement: bool

    def infer(self, x: Spec, count: Size, *scalars: Number) -> Spec:
        require("multinomial", self.facts.supports, x.dtype)
        if x.rank not in (1, 2):
            raise ShapeError(f"multinomial: prob_dist must be 1 or 2 dim, not {x.rank}")
        if count <= 0:
            raise ShapeError("multinomial: cannot sample n_sample <= 0 samples")
        if not self.replacement and count > x.shape[-1]:
            raise ShapeError(
                f"multinomial: cannot sample n_sample > prob_dist.size(-1) samples without "
                f"replacement: {count} > {x.shape[-1]}"
            )
        return Spec((*x.shape[:-1], count), int64)

    def reference(self, x: Array, count: int, seed: int, offset: int) -> Array:
        weights = x.astype(np.float64).reshape(-1, x.shape[-1])
        rows, n = weights.shape
        if self.replacement:
            u = philox.unit64(philox.words64(seed, offset, rows * count)).reshape(rows, count)
            y = _by_inversion(weights, u)
        else:
            _check_weights(weights)
            u = philox.unit64(philox.words64(seed, offset, rows * n)).reshape(rows, n)
            with np.errstate(all="ignore"):
                race = np.where(weights > 0, weights / -np.log1p(-u), -1.0)
            y = np.argsort(-race, axis=1, kind="stable")[:, :count]
        return y.astype(np.int64).reshape(*x.shape[:-1], count)

    def onnx(
        self, g: OnnxBuilder, x: OnnxValue, count: Size, seed: Scalar, offset: Scalar
    ) -> OnnxValue:
        """Not the same numbers as Wend's: the greatest of log(weight) + Gumbel noise."""
        wide = g.cast(x, float32)
        weights = g.node("Log", wide)
        if self.replacement:
            weights = g.node("Unsqueeze", weights, g.sizes((x.rank - 1,)))
            weights = g.expand(weights, (*x.shape[:-1], count, x.shape[-1]))
        noise = g.node("RandomUniformLike", weights)
        gumbel = g.node("Neg", g.node("Log", g.node("Neg", g.node("Log", noise))))
        race = g.node("Add", weights, gumbel)
        if self.replacement:
            return g.node("ArgMax", race, dtype=int64, axis=x.rank, keepdims=0)
        return g.node("TopK", race, g.sizes((count,)), axis=x.rank - 1, outputs=2)[1]

    def batch(
        self,
        batched: Sequence[bool],
        size: Size,
        x: Tensor,
        count: Size,
        seed: Scalar,
        offset: Scalar,
    ) -> Tensor:
        if len(x.shape) == 2:
            return ops.multinomial_draw(x, count, seed, offset, replacement=self.replacement)
        b, m, n = x.shape
        flat = ops.reshape(x, (b * m, n))
        y = ops.multinomial_draw(flat, count, seed, offset, replacement=self.replacement)
        return ops.reshape(y, (b, m, count))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.uniform(0.1, 1, size=(3, 5))
        yield Sample(x, 2, 7, 4)
        yield Sample(x[0], 5, 7, 4)
        yield Sample(x, 9, 7, 4, replacement=True)


def _by_inversion(weights: Array, u: Array) -> Array:
    with np.errstate(all="ignore"):
        cumulative = weights.cumsum(axis=1)
        totals = cumulative[:, -1]
        plain = weights.size and weights.min() >= 0 and totals.min() > 0 and totals.max() < np.inf
    if not plain:
        _check_weights(weights)
    y = np.empty(u.shape, np.int64)
    for row, bounds in enumerate(cumulative):
        y[row] = bounds.searchsorted(u[row] * totals[row], side="right")
    if y.size and y.max() >= weights.shape[1]:
        # Rounding may pass the last bound: go back to the last weight that is not 0.
        for row in range(len(y)):
            y[row] = np.minimum(y[row], np.flatnonzero(weights[row])[-1])
    return y


def _check_weights(weights: Array) -> None:
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise ExecutionError(
            "multinomial: probability tensor contains either inf, nan or an element < 0"
        )
    if (weights.sum(axis=1) <= 0).any():
        raise ExecutionError("multinomial: invalid distribution (sum of probabilities <= 0)")
