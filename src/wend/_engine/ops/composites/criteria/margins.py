"""Losses with a margin: of signs, pairs, triplets and rankings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.errors import ArgumentError, ShapeError
from wend._engine.core.primitive import Sample, ops
from wend._engine.core.symbolic import hints
from wend._engine.ops.composites.criteria.losses import LEGACY, loss, pairs, reduced, reduced_node
from wend._engine.ops.elementwise.family import V
from wend._engine.ops.gradient_nodes import NodeBuilder, NodeOperand

Samples = Iterator[Sample]


@loss(
    f"input, target, margin: scalar = 1.0, {LEGACY}",
    pairs(signs=True),
    nodes=lambda n, input, reduction, **_: reduced_node(
        n, n.Add(n.Where(n.ClampMin(n.Sub(None, input)), None), n.Where(input, None)), reduction
    ),
)
def hinge_embedding_loss(input: V, target: V, margin: V, reduction: str) -> V:
    """y = input where target is 1, max(0, margin - input) where target is -1."""
    far = ops.where(target == 1, 0, ops.clamp(margin - input, min=0))
    near = ops.where(target == -1, 0, input)
    return reduced("hinge_embedding_loss", far + near, reduction)


def _ranking_samples(rng: np.random.Generator) -> Samples:
    for reduction in ("mean", "sum", "none"):
        x1, x2, target = rng.normal(size=(3, 5))
        yield Sample(x1, x2, np.sign(target), 0.3, reduction=reduction)
    yield Sample(*(np.asarray(v) for v in rng.normal(size=3)))


@loss(
    f"input1, input2, target, margin: scalar = 0.0, {LEGACY}",
    _ranking_samples,
    nodes=lambda n, input1, input2, target, reduction, **_: reduced_node(
        n, n.ClampMin(n.Add1(n.Mul(n.Neg(target), n.Sub(input1, input2)))), reduction
    ),
)
def margin_ranking_loss(input1: V, input2: V, target: V, margin: V, reduction: str) -> V:
    """y = max(0, -target * (input1 - input2) + margin), target 1 or -1.

    Raises ShapeError if the numbers of dims differ.
    """
    if not len(input1.shape) == len(input2.shape) == len(target.shape):
        raise ShapeError(
            "margin_ranking_loss: all input tensors should have the same number of dims, not "
            f"{hints(input1.shape)}, {hints(input2.shape)} and {hints(target.shape)}"
        )
    y = ops.clamp(-target * (input1 - input2) + margin, min=0)
    return reduced("margin_ranking_loss", y, reduction)


def _embedding_nodes(n: NodeBuilder, x: object, y: object, reduction: str) -> object:
    squares = n.Mul(*[n.Add1(n.Sum1(n.Mul(v, v))) for v in (x, y)])
    cosine = n.Div(n.Sum1(n.Mul(x, y)), n.Sqrt(squares))
    near, far = n.Sub(None, cosine), n.ClampMin(n.Sub1(cosine))
    return reduced_node(n, n.Add(n.Where(near, None), n.Where(far, None)), reduction)


def _embedding_samples(rng: np.random.Generator) -> Samples:
    for reduction in ("mean", "sum", "none"):
        x1, x2 = rng.normal(size=(2, 3, 4))
        yield Sample(x1, x2, np.array([1.0, -1.0, 1.0]), 0.1, reduction=reduction)
    yield Sample(x1[0], x2[0], np.array(-1.0))


@loss(
    f"input1, input2, target, margin: scalar = 0.0, {LEGACY}",
    _embedding_samples,
    nodes=lambda n, input1, input2, reduction, **_: _embedding_nodes(n, input1, input2, reduction),
)
def cosine_embedding_loss(input1: V, input2: V, target: V, margin: V, reduction: str) -> V:
    """y = 1 - c where target is 1, max(0, c - margin) where target is -1; c the cosine of the rows.

    input1, input2: (N, D) or (D)   target: (N) or (). Raises ShapeError for any other rank.
    """
    if len(target.shape) > 1 or len(input1.shape) != len(target.shape) + 1:
        raise ShapeError(
            f"cosine_embedding_loss: inputs of size {hints(input1.shape)} and "
            f"{hints(input2.shape)} do not fit a target of size {hints(target.shape)}; they "
            "should be (N, D), (N, D) and (N), or (D), (D) and ()"
        )
    epsilon = 1e-12
    product = ops.sum(input1 * input2, -1)
    squares = (ops.sum(x * x, -1) + epsilon for x in (input1, input2))
    cosine = product / ops.sqrt(ops.mul(*squares))
    alike = ops.where(target == 1, 1 - cosine, 0)
    unlike = ops.where(target == -1, ops.clamp(cosine - margin, min=0), 0)
    return reduced("cosine_embedding_loss", alike + unlike, reduction)


def _triplet_nodes(
    n: NodeBuilder, x: NodeOperand, near: NodeOperand, far: NodeOperand, swap: bool, reduction: str
) -> object:
    def distance(a: Any, b: Any) -> Any:
        return n.Norm1(n.Add1(n.Sub(a, b)))

    to_near, to_far = distance(x, near), distance(x, far)
    if swap:
        to_far = n.Minimum(to_far, distance(near, far))
    return reduced_node(n, n.ClampMin(n.Sub(n.Add1(to_near), to_far)), reduction)


def _triplet_samples(rng: np.random.Generator) -> Samples:
    for reduction in ("mean", "sum", "none"):
        yield Sample(*rng.normal(size=(3, 3, 4)), reduction=reduction)
    yield Sample(*rng.normal(size=(3, 3, 4)), margin=2.0, p=1.0, swap=True)


@loss(
    f"anchor, positive, negative, margin: attr = 1.0, p: attr = 2, eps: scalar = 1e-06, "
    f"swap: bool = False, {LEGACY}",
    _triplet_samples,
    nodes=lambda n, anchor, positive, negative, swap, reduction, **_: _triplet_nodes(
        n, anchor, positive, negative, swap, reduction
    ),
    takes_complex=True,
)
def triplet_margin_loss(
    anchor: V, positive: V, negative: V, margin: float, p: Any, eps: V, swap: bool, reduction: str
) -> V:
    """y = max(0, |anchor - positive|_p - |anchor - negative|_p + margin).

    swap: the negative's distance is to anchor or positive, whichever is nearer
    (Balntas et al., Learning shallow convolutional feature descriptors with triplet losses, 2016).
    Raises ArgumentError unless margin is positive, ShapeError for unlike numbers of dims.
    """
    if margin <= 0:
        raise ArgumentError(f"triplet_margin_loss: margin must be greater than 0, got {margin}")
    ranks = [len(x.shape) for x in (anchor, positive, negative)]
    if len(set(ranks)) > 1:
        raise ShapeError(
            "triplet_margin_loss: anchor, positive and negative must have the same number of "
            f"dims, not {ranks[0]}, {ranks[1]} and {ranks[2]}"
        )
    near = ops.pairwise_distance(anchor, positive, p, eps)
    far = ops.pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = ops.minimum(far, ops.pairwise_distance(positive, negative, p, eps))
    return reduced("triplet_margin_loss", ops.clamp(near - far + margin, min=0), reduction)
