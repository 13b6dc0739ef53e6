"""Normalisation to unit length, and similarities and distances of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.errors import ValueRefused
from wend._engine.core.kinds import Attr, Dims, Scalar, Tensor
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import broadcast_shapes
from wend._engine.ops.elementwise.family import V, promoted
from wend._engine.ops.gradient_nodes import NodeBuilder

Samples = Iterator[Sample]
FLOATING = frozenset({"float"})


def _normalize_samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.normal(size=(3, 4)))
    yield Sample(rng.normal(size=(3, 4)), 1.0, 0)
    yield Sample(rng.normal(size=(2, 3, 4)), dim=-1)
    yield Sample(rng.normal(size=(5,)), p=3.0, dim=0, eps=1e-3)


def _refuse_negative(op: Any, x1: None, x2: None, eps: float = 0.0) -> None:
    if not eps >= 0:  # NaN as well
        raise ValueRefused(f"cosine_similarity: eps must be non-negative, got: {eps}")


@composite(
    functional=("normalize",),
    grad_name="DivBackward0",
    samples=_normalize_samples,
    supports=FLOATING,
    grad_nodes=lambda n, x, *_: n.Div(x, n.Expand(n.ClampMin(n.LinalgVectorNorm(x)))),
    format_of="pointwise",
)
def normalize(input: Tensor, p: Attr = 2.0, dim: Dims | int = 1, eps: Scalar = 1e-12) -> V:
    """y = x / max(p-norm of x over dim, eps)."""
    return input / ops.clamp(ops.norm(input, p, dim, True), min=eps)


def _pair_samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(3, 4)))
    yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(1, 4)))


def _similarity_nodes(n: NodeBuilder, *params: Any) -> object:
    return n.Sum1(n.Mul(*[n.Div(x, n.Clone(n.LinalgVectorNorm(x))) for x in params[:2]]))


def _similarity_samples(rng: np.random.Generator) -> Samples:
    yield from _pair_samples(rng)
    yield Sample(rng.normal(size=(2, 3, 4)), rng.normal(size=(3, 4)), dim=-1, eps=1e-3)
    yield Sample(rng.normal(size=(5,)), rng.normal(size=(5,)), dim=0)


@composite(
    functions=("cosine_similarity",),
    functional=("cosine_similarity",),
    grad_name="SumBackward1",
    samples=_similarity_samples,
    supports=FLOATING,
    grad_nodes=_similarity_nodes,
    checked_numbers=_refuse_negative,
)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: Scalar = 1e-08) -> V:
    """y = (x1 . x2) / (max(|x1|, eps) max(|x2|, eps)) along dim, of the common shape.

    Raises ValueRefused for an eps below 0.
    """
    shape = broadcast_shapes("cosine_similarity", x1.shape, x2.shape)
    common = promoted(x1, x2)
    units = []
    for x in (x1, x2):
        x = x if x.dtype is common else ops.cast(x, common)
        x = ops.expand(x, shape)  # a dim that is broadcast counts in the norm
        units.append(x / ops.clamp(ops.norm(x, 2, dim, True), min=eps))
    return ops.sum(units[0] * units[1], dim)


def _distance_samples(rng: np.random.Generator) -> Samples:
    yield from _pair_samples(rng)
    yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), 1.0, keepdim=True)
    yield Sample(rng.normal(size=(4,)), rng.normal(size=(4,)), p=3.0, eps=0.1)


@composite(
    functions=("pairwise_distance",),
    functional=("pairwise_distance",),
    grad_name="NormBackward1",
    samples=_distance_samples,
    supports=FLOATING,
    grad_nodes=lambda n, x, y, *_: n.Norm1(n.Add1(n.Sub(x, y))),
)
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: Attr = 2.0, eps: Scalar = 1e-06, keepdim: bool = False
) -> V:
    """y = the p-norm of x1 - x2 + eps over the last dim."""
    return ops.norm(x1 - x2 + eps, p, -1, keepdim)
