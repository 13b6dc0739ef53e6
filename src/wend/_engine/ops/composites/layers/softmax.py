"""Softmax and its relatives: ops that turn scores along a dim into probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wend._engine.base.dtypes import FLOAT, INT, DType, float64
from wend._engine.base.errors import DTypeNotImplemented
from wend._engine.base.shapes import normalize_dim
from wend._engine.core.kinds import Tensor
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.ops.composites.reduce import widened
from wend._engine.ops.elementwise.family import V
from wend._engine.ops.numeric import accumulator

Samples = Iterator[Sample]
FLOATING = frozenset({"float"})  # of the input, unless dtype says another type for it


def _samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.normal(size=(3, 4)), 1)
    yield Sample(rng.normal(size=(3, 4)), dim=0)
    yield Sample(rng.normal(size=(2, 3, 4)), -2)
    yield Sample(rng.normal(size=(5,)) * 300, 0)
    yield Sample(rng.normal(size=()), 0)
    yield Sample(rng.normal(size=(2, 1)), 1)
    yield Sample(rng.normal(size=(0, 3)), 1)
    yield Sample(rng.normal(size=(3, 0)), 1)
    yield Sample(rng.normal(size=(3, 4)), 1, dtype=float64)


def _prepared(name: str, input: V, dim: int, dtype: DType | None) -> tuple[V, int, DType]:
    """(input in the dtype of the computation, dim counted from 0, dtype of the result)."""
    out = dtype or input.dtype
    if out.category < FLOAT:
        raise DTypeNotImplemented(
            f"{name}: not implemented for {out}; pass dtype= or convert the input with .float()"
        )
    x = input if out is input.dtype else ops.cast(input, out)
    return widened(x), normalize_dim(dim, len(input.shape), name), out


def _narrowed(y: V, out: DType) -> V:
    return y if y.dtype is out else ops.cast(y, out)


def _shifted(x: V, dim: int) -> V:
    """x minus the maximum along dim, which changes no quotient of exponentials."""
    return x - ops.stop_gradient(ops.amax(x, dim, True))


def _softmax(x: V, dim: int) -> V:
    if len(x.shape) and x.shape[dim] == 0:  # no maximum to take
        return ops.exp(x)
    powers = ops.exp(_shifted(x, dim))
    # One quotient a row: here, and three times in the gradient.
    return powers * ops.reciprocal(ops.sum(powers, dim, True))


def _onnx(node: str) -> Callable[..., Any]:
    """The ONNX rule of an op that is a node over a dim."""

    def rule(self: Any, g: Any, x: Any) -> Any:
        out = self.dtype or x.dtype
        dim = normalize_dim(self.dim, x.rank, self.name)
        if not x.shape or x.shape[dim] == 0:
            return NotImplemented
        wide = g.cast(g.cast(x, out), accumulator(out))
        return g.cast(g.node(node, wide, axis=dim), out)

    return rule


@composite(
    onnx=_onnx("Softmax"),
    functions=("softmax",),
    methods=("softmax",),
    functional=("softmax",),
    samples=_samples,
    supports=FLOATING,
    grad_nodes=lambda n, x, _, dtype: n.Softmax(x if dtype is None else n.ToCopy(x)),
)
def softmax(input: Tensor, dim: int, dtype: DType | None = None) -> V:
    """y = exp(x) / sum of exp(x) along dim.

    dtype: of the input after a conversion. Raises DTypeError for bool and ints without dtype.
    """
    x, dim, out = _prepared("softmax", input, dim, dtype)
    return _narrowed(_softmax(x, dim), out)


@composite(
    functional=("softmin",),
    grad_name="SoftmaxBackward0",
    samples=_samples,
    supports=FLOATING,
    grad_nodes=lambda n, x, *_: n.Softmax(n.Neg(x)),
)
def softmin(input: Tensor, dim: int, dtype: DType | None = None) -> V:
    """y = exp(-x) / sum of exp(-x) along dim."""
    if input.dtype.category == INT:  # as PyTorch: unsigned ints wrap, before the conversion
        x, dim, out = _prepared("softmin", -input, dim, dtype)
        return _narrowed(_softmax(x, dim), out)
    x, dim, out = _prepared("softmin", input, dim, dtype)
    return _narrowed(_softmax(-x, dim), out)


@composite(
    onnx=_onnx("LogSoftmax"),
    functions=("log_softmax",),
    methods=("log_softmax",),
    functional=("log_softmax",),
    samples=_samples,
    supports=FLOATING,
    grad_nodes=lambda n, x, _, dtype: n.LogSoftmax(x if dtype is None else n.ToCopy(x)),
)
def log_softmax(input: Tensor, dim: int, dtype: DType | None = None) -> V:
    """y = x - log of the sum of exp(x) along dim: log(softmax(x)), without overflow.

    dtype: of the input after a conversion. Raises DTypeError for bool and ints without dtype.
    """
    x, dim, out = _prepared("log_softmax", input, dim, dtype)
    return _narrowed(log_softmax_of(x, dim), out)


def log_softmax_of(x: V, dim: int) -> V:
    """log_softmax inside other composites: x of a wide float dtype, dim counted from 0."""
    if len(x.shape) and x.shape[dim] == 0:
        return ops.clone(x)
    shifted = _shifted(x, dim)
    return shifted - ops.log(ops.sum(ops.exp(shifted), dim, True))
