"""Functions of square matrices: determinants and the exponential; and the check of a code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.dtypes import float32
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import OpFacts, OpSchedule, TorchCall
from wend._engine.core.primitive import Primitive, Sample, ops
from wend._engine.core.types import Spec
from wend._engine.ops.linalg.family import (
    OfMatrices,
    across,
    all_over,
    floating,
    narrow,
    narrow_real,
    raise_where,
    square,
    turned,
    wide,
)
from wend._engine.ops.numeric import INEXACT, Array
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue


def _square_samples(rng: np.random.Generator) -> Iterator[Sample]:
    a = rng.normal(size=(2, 3, 3))
    yield Sample(a)
    yield Sample(a[0, :2, :2])
    yield Sample(a[:, :1, :1])
    yield Sample(a[:, :0, :0])


class Det(OfMatrices):
    """y = the determinant of square matrices; 1 for 0 x 0. Its gradient exists everywhere."""

    torch = TorchCall(names=("det",), grad_name="LinalgDetBackward0")
    facts = OpFacts(holomorphic=True)

    def infer(self, a: Spec) -> Spec:
        floating("linalg.det", a.dtype)
        square("linalg.det", a)
        return Spec(a.shape[:-2], a.dtype)

    def reference(self, a: Array) -> Array:
        return narrow(np.linalg.det(wide(a)), a)

    def vjp(self, g: Tensor, y: Tensor, a: Tensor) -> tuple[Any, ...]:
        return (ops.cofactors(a) * all_over(g, a),)

    def onnx(self, g: OnnxBuilder, a: OnnxValue) -> OnnxValue:
        return g.cast(g.node("Det", g.cast(a, float32)), a.dtype)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield from _square_samples(rng)
        yield Sample(np.ones((3, 3)))


class Cofactors(OfMatrices):
    """y = the matrix of cofactors, the gradient of the determinant: det(A) A^-T, for any A."""

    facts = OpFacts(holomorphic=True)

    def infer(self, a: Spec) -> Spec:
        return a

    def reference(self, a: Array) -> Array:
        u, s, vh, sign = _with_sign(a)
        product = (u * _products_of_others(s)[..., None, :]) @ vh
        return narrow(product.conj() * sign[..., None, None], a)

    def vjp(self, g: Tensor, y: Tensor, a: Tensor) -> tuple[Any, ...]:
        return (ops.cofactors_along(a, g),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield from _square_samples(rng)
        yield Sample(np.eye(3))


class CofactorsAlong(OfMatrices):
    """y = the gradient of sum(cofactors(A) * G) with respect to A, for any A.

    Its own gradient with respect to A asks for an invertible A.
    """

    signature = "A, G"
    tails = (2, 2)
    facts = OpFacts(holomorphic=True)

    def infer(self, a: Spec, g: Spec) -> Spec:
        return a

    def reference(self, a: Array, g: Array) -> Array:
        u, s, vh, sign = _with_sign(a)
        n = s.shape[-1]
        eye = np.eye(n, dtype=bool)
        others = _products_of_others(np.where(eye, 1, s[..., None, :]))
        others = np.where(eye, 0, others) * sign[..., None, None]
        moved = across(u) @ wide(g) @ across(vh)
        diagonal = others @ np.diagonal(moved, axis1=-2, axis2=-1)[..., None]
        core = np.where(eye, diagonal, -others * np.swapaxes(moved, -1, -2))
        return narrow(u.conj() @ core @ vh.conj(), a)

    def vjp(self, seed: Tensor, y: Tensor, a: Tensor, g: Tensor) -> tuple[Any, ...]:
        # y = (sum(G C) C - C G^T C) / det, with C the cofactors.
        c, det = ops.cofactors(a), all_over(ops.det(a), a)
        with_g, with_seed = _total(g * c), _total(seed * c)
        ct, gt = ops.matrix_transpose(c), ops.matrix_transpose(g)
        inner = ops.matmul(ops.matmul(seed, ct), g) + ops.matmul(ops.matmul(g, ct), seed)
        value = with_g * with_seed - _total(seed * ops.matmul(ops.matmul(c, gt), c))
        along = g * with_seed + seed * with_g - inner
        grad = (ops.cofactors_along(a, along) - c * (value / det)) / det
        return grad, ops.cofactors_along(a, seed)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in _square_samples(rng):
            a = sample.args[0]
            yield Sample(a, rng.normal(size=a.shape))


def _total(x: Tensor) -> Tensor:
    """The sum of each matrix, all over the matrix."""
    return all_over(ops.sum(x, (-2, -1)), x)


def _with_sign(a: Array) -> tuple[Array, Array, Array, Array]:
    """(U, S, Vh, det U det Vh) of each matrix; NaN where a matrix has inf or NaN."""
    full = wide(a)
    finite = np.isfinite(full).all((-2, -1))[..., None, None]
    u, s, vh = np.linalg.svd(np.where(finite, full, 0))
    sign = np.linalg.det(u) * np.linalg.det(vh)
    sign = sign if sign.dtype.kind == "c" else np.rint(sign)
    return u, np.where(finite[..., 0], s, np.nan).astype(s.dtype), vh, sign.astype(full.dtype)


def _products_of_others(s: Array) -> Array:
    """Per element of the last axis, the product of all others."""
    ones = np.ones_like(s[..., :1])
    before = np.cumprod(np.concatenate([ones, s[..., :-1]], -1), -1)[..., : s.shape[-1]]
    after = np.cumprod(np.concatenate([ones, s[..., :0:-1]], -1), -1)[..., : s.shape[-1]]
    return before * after[..., ::-1]


class LinalgSlogdet(OfMatrices):
    """(sign, logabsdet): the determinant is sign * exp(logabsdet). 0 and -inf if singular."""

    signature = "A"
    result = ("sign", "logabsdet")
    torch = TorchCall(grad_name="LinalgSlogdetBackward0")

    def infer(self, a: Spec) -> tuple[Spec, ...]:
        floating("linalg.slogdet", a.dtype)
        square("linalg.slogdet", a)
        front = a.shape[:-2]
        return Spec(front, a.dtype), Spec(front, a.dtype.to_real())

    def reference(self, a: Array) -> tuple[np.ndarray, ...]:
        sign, size = np.linalg.slogdet(wide(a))
        return narrow(sign, a), narrow_real(size, a)

    def vjp(self, g: tuple[Tensor, ...], y: tuple[Tensor, ...], a: Tensor) -> tuple[Any, ...]:
        seed = g[1]
        if a.dtype.is_complex:  # the sign has an angle
            seed = ops.complex(seed, ops.imag(g[0] * ops.conj(y[0])))
        return (turned(ops.inv_ex(a)[0]) * all_over(seed, a),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        return _square_samples(rng)


class MatrixExp(OfMatrices):
    """y = I + A + A^2 / 2 + A^3 / 6 + ..., of square matrices."""

    torch = TorchCall(grad_name="LinalgMatrixExpBackward0")

    def infer(self, a: Spec) -> Spec:
        floating("linalg.matrix_exp", a.dtype)
        square("linalg.matrix_exp", a)
        return a

    def reference(self, a: Array) -> Array:
        if not a.size:
            return np.zeros(a.shape, a.dtype)
        stack = wide(a).reshape(-1, *a.shape[-2:])
        return narrow(_exponential(stack).reshape(a.shape), a)

    def vjp(self, g: Tensor, y: Tensor, a: Tensor) -> tuple[Any, ...]:
        # exp [[A, G], [0, A]] has the derivative along G in the upper right corner.
        n, across = a.shape[-1], turned(a)
        top = ops.cat([across, g], -1)
        below = ops.cat([ops.full(a.shape, 0, dtype=a.dtype), across], -1)
        whole = ops.matrix_exp(ops.cat([top, below], -2))
        return (ops.narrow(ops.narrow(whole, -2, 0, n), -1, n, n),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        return _square_samples(rng)


#: Padé's approximants to exp: the degree m, and the norm of a matrix up to which the error is
#: below a rounding of float64 (Higham, The scaling and squaring method for the matrix exponential
#: revisited, SIAM J. Matrix Anal. Appl. 26, 2005, table 2.3).
_DEGREES = (
    (3, 1.495585217958292e-2),
    (5, 2.539398330063230e-1),
    (7, 9.504178996162932e-1),
    (9, 2.097847961257068),
    (13, 5.371920351148152),
)


def _exponential(a: Array) -> Array:
    """exp of a stack of matrices by scaling and squaring: see `_DEGREES`."""
    y = np.empty_like(a)
    with np.errstate(all="ignore"):
        norm = np.abs(a).sum(-2).max(-1)
        y[~np.isfinite(norm)] = np.nan
        todo = np.isfinite(norm)
        for degree, bound in _DEGREES:
            chosen = todo & ((norm <= bound) | (degree == _DEGREES[-1][0]))
            if chosen.any():
                y[chosen] = _by_pade(a[chosen], norm[chosen], degree, bound)
            todo &= ~chosen
    return y


def _by_pade(a: Array, norm: Array, degree: int, bound: float) -> Array:
    """exp of 2^-s A by the approximant of a degree, squared s times."""
    halvings = np.maximum(np.ceil(np.log2(norm / bound)), 0).astype(np.int64)
    a = a * np.ldexp(np.ones((), norm.dtype), -halvings)[:, None, None]
    weights = [1.0]
    for k in range(degree):
        weights.append(weights[-1] * (degree - k) / ((2 * degree - k) * (k + 1)))
    square = a @ a
    powers = [square]
    while len(powers) < min(degree // 2, 3 if degree == 13 else 4):
        powers.append(powers[-1] @ square)
    even, odd = _even(powers, weights[::2]), a @ _even(powers, weights[1::2])
    y = np.linalg.solve(even - odd, even + odd)
    for step in range(halvings.max()):
        again = halvings > step
        y[again] = y[again] @ y[again]
    return y


def _even(powers: list[Array], weights: list[float]) -> Array:
    """weights[0] + weights[1] X + ..., of X, X^2, ...: a product for what lies beyond these."""
    y = weights[1] * powers[0]
    for power, weight in zip(powers[1:], weights[2:], strict=False):
        y += weight * power
    y += weights[0] * np.eye(y.shape[-1], dtype=y.dtype)
    beyond = weights[len(powers) + 1 :]
    if beyond:
        high = beyond[0] * powers[0]
        for power, weight in zip(powers[1:], beyond[1:], strict=True):
            high += weight * power
        y += high @ powers[-1]
    return y


class Completed(Primitive):
    """y = x; LinAlgError (when the value is computed) names a matrix whose code is not 0.

    x: a factor, or what else an algorithm found   info: the codes, a number per matrix
    """

    signature = "x, info, *, op: str, fault: str"
    name = "linalg_completed"
    facts = OpFacts(supports=INEXACT, fallible=True)
    schedule = OpSchedule(unlowered="the error names a matrix, which a kernel cannot do")
    op: str
    fault: str

    def infer(self, x: Spec, info: Spec) -> Spec:
        return x

    def reference(self, x: Array, info: Array) -> Array:
        raise_where(self.op, info, self.fault)
        return x.copy()

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, info: Tensor) -> tuple[Any, ...]:
        return g, None

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor, info: Tensor) -> Tensor:
        if not batched[0]:
            x = ops.expand_to(x, (size, *x.shape), (0,))
        return ops.linalg_completed(x, info, op=self.op, fault=self.fault)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3)), np.zeros(2, np.int32), op="inv", fault="{0}")
        yield Sample(rng.normal(size=()), np.zeros((), np.int32), op="inv", fault="{0}")
