"""Losses of scores against classes.

input: (C), (N, C) or (N, C, d1, d2, ...), the classes in dim 1 (dim 0 of (C)).
A target of classes is (), (N) or (N, d1, d2, ...) of int64 or uint8.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base import dtypes
from wend._engine.base.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    ShapeError,
    ValueRefused,
)
from wend._engine.core.kinds import Size
from wend._engine.core.primitive import Sample, ops
from wend._engine.core.symbolic import category_of, hints, numel
from wend._engine.ops.composites.criteria.losses import (
    LEGACY,
    loss,
    reduced,
    require_floats,
    same_sizes,
)
from wend._engine.ops.composites.layers.softmax import log_softmax_of
from wend._engine.ops.elementwise.family import V
from wend._engine.ops.gradient_nodes import NodeBuilder, NodeOperand

Samples = Iterator[Sample]


def _class_dim(name: str, input: V) -> int:
    if len(input.shape) == 0:
        raise ArgumentError(f"{name}: a 0-d input has no classes")
    return 0 if len(input.shape) == 1 else 1


def _checked_classes(name: str, input: V, target: V, dim: int) -> V:
    """The target as int64, of the input's shape without `dim`. Raises DTypeError, ShapeError."""
    if target.dtype not in (dtypes.int64, dtypes.uint8):
        raise DTypeError(
            f"{name}: expected target dtype to be Long or Byte, but got {target.dtype}"
        )
    if len(input.shape) == 1 and len(target.shape) == 1 and target.shape[0] == 1:
        target = ops.reshape(target, ())
    want = input.shape[:dim] + input.shape[dim + 1 :]
    if len(want) and (len(target.shape) == 0 or want[0] != target.shape[0]):
        n_targets = target.shape[0] if len(target.shape) else 0
        raise ArgumentError(
            f"{name}: expected input batch_size ({want[0]}) to match target batch_size "
            f"({n_targets}): input {hints(input.shape)}, target {hints(target.shape)}"
        )
    if len(target.shape) != len(want):
        refusal = ShapeError if len(want) else ValueRefused
        raise refusal(
            f"{name}: expected a target of {len(want)} dims for an input of size "
            f"{hints(input.shape)}, got size {hints(target.shape)}"
        )
    for i, (n, m) in enumerate(zip(want, target.shape, strict=True)):
        if n != m:
            raise ValueRefused(
                f"{name}: expected input size in dim {i} ({n}) to match target size in dim {i} "
                f"({m}): input {hints(input.shape)}, target {hints(target.shape)}"
            )
    return ops.cast(target, dtypes.int64) if target.dtype is dtypes.uint8 else target


def _checked_weight(name: str, weight: V, classes: Size) -> None:
    if weight is not None and not (len(weight.shape) == 1 and weight.shape[0] == classes):
        raise ShapeError(
            f"{name}: weight tensor should be defined either for all {classes} classes or no "
            f"classes but got weight tensor of shape: {list(hints(weight.shape))}"
        )


def _along(weight: V, rank: int, dim: int) -> V:
    """A weight per class, shaped to broadcast along dim of a tensor of that rank."""
    return ops.reshape(weight, (weight.shape[0], *(1,) * (rank - 1 - dim)))


def _finish(name: str, losses: V, counted: V, reduction: str) -> V:
    """counted: the weight of each target in the mean."""
    if reduction == "mean":
        return ops.sum(losses) / ops.sum(counted)
    return reduced(name, losses, reduction)


class _Picked:
    """Classes of a target, with those to ignore taken out."""

    def __init__(self, target: V, weight: V, ignore_index: V, dtype: dtypes.DType) -> None:
        if category_of(ignore_index) > dtypes.INT:
            raise ArgumentTypeError("argument 'ignore_index' must be int, not float")
        self.ignored = target == ignore_index
        self.classes = ops.where(self.ignored, 0, target)
        if weight is None:
            self.weights = ops.cast(ops.logical_not(self.ignored), dtype)
        else:
            self.weights = ops.where(self.ignored, 0, ops.take(weight, self.classes))
        self.weighted = weight is not None

    def nll(self, log_probabilities: V, dim: int) -> V:
        """-weight * the log-probability of each target's class; 0 for ignored targets."""
        index = ops.unsqueeze(self.classes, dim)
        losses = -ops.squeeze(ops.gather(log_probabilities, dim, index), dim)
        return self.mask(losses * self.weights if self.weighted else losses)

    def mask(self, losses: V) -> V:
        """The losses, 0 for ignored targets (whose scores may be infinite)."""
        return ops.where(self.ignored, 0, losses)


def _nll_nodes(n: NodeBuilder, x: NodeOperand, values: Any) -> object:
    return (n.NllLoss2D if x.rank == 4 else n.NllLoss)(values)


def _cross_entropy_nodes(
    n: NodeBuilder, x: NodeOperand, target: NodeOperand, reduction: str, smoothing: float
) -> object:
    values = n.LogSoftmax(x)
    if target.rank == x.rank:
        losses = n.Mul(values, target)
        if reduction == "none":
            return n.Neg(n.Sum1(losses))
        total = n.Neg(n.Sum(losses))
        return n.Div1(total) if reduction == "mean" else total
    likely = _nll_nodes(n, x, values)
    if not smoothing:
        return likely
    even = n.MaskedFill(n.Neg(n.Sum1(values)))
    if reduction == "mean":
        even = n.Div(n.Sum(even), None)
    elif reduction == "sum":
        even = n.Sum(even)
    return n.Add(n.Mul1(likely), n.Mul1(even))


def _nll_samples(rng: np.random.Generator) -> Samples:
    for input_shape, target_shape in (
        ((3, 4), (3,)),
        ((4,), ()),
        ((2, 4, 3), (2, 3)),
        ((2, 4, 3, 2), (2, 3, 2)),
        ((1, 1), (1,)),
    ):
        x = np.log(rng.uniform(0.1, 1, size=input_shape))
        classes = x.shape[0] if x.ndim == 1 else x.shape[1]
        target = np.asarray(rng.integers(0, classes, size=target_shape))
        weight = rng.uniform(0.5, 2, size=(classes,))
        for reduction in ("mean", "sum", "none"):
            yield Sample(x, target, reduction=reduction)
            yield Sample(x, target, weight, reduction=reduction)
        if x.size > 4:
            yield Sample(x, target, weight, ignore_index=int(target.ravel()[0]))
            yield Sample(x, np.where(target == 1, -100, target), reduction="none")


@loss(
    "input, target, weight: tensor? = None, size_average: attr = None, "
    "ignore_index: scalar = -100, reduce: attr = None, reduction: str = 'mean'",
    _nll_samples,
    "NllLossBackward0",
    nodes=lambda n, input, **_: _nll_nodes(n, input, input),
    indices="Target",
)
def nll_loss(input: V, target: V, weight: V, ignore_index: V, reduction: str) -> V:
    """y = -weight[target] * input[target], the input log-probabilities.

    The mean is over the weights of the targets. Targets equal to ignore_index count for nothing.
    Raises ShapeError, ArgumentError, DTypeError; IndexOutOfRange for a class beyond the input's.
    """
    dim = _class_dim("nll_loss", input)
    require_floats("nll_loss", input)
    _checked_weight("nll_loss", weight, input.shape[dim])
    target = _checked_classes("nll_loss", input, target, dim)
    picked = _Picked(target, weight, ignore_index, input.dtype)
    return _finish("nll_loss", picked.nll(input, dim), picked.weights, reduction)


def _cross_entropy_samples(rng: np.random.Generator) -> Samples:
    for sample in _nll_samples(rng):
        yield sample
        yield Sample(*sample.args, **sample.kwargs, label_smoothing=0.1)
    for shape in ((3, 4), (4,), (2, 4, 3)):
        x, target = rng.normal(size=shape), rng.uniform(0, 1, size=shape)
        weight = rng.uniform(0.5, 2, size=(4,))
        for reduction in ("mean", "sum", "none"):
            yield Sample(x, target, reduction=reduction)
        yield Sample(x, target, weight, label_smoothing=0.2)
    yield Sample(rng.normal(size=(3, 4)) * 1000, np.array([0, 1, 2]))


@loss(
    "input, target, weight: tensor? = None, size_average: attr = None, "
    "ignore_index: scalar = -100, reduce: attr = None, reduction: str = 'mean', "
    "label_smoothing: attr = 0.0",
    _cross_entropy_samples,
    "NllLossBackward0",
    nodes=lambda n, input, target, reduction, label_smoothing, **_: _cross_entropy_nodes(
        n, input, target, reduction, label_smoothing
    ),
    indices="Target",
)
def cross_entropy(
    input: V, target: V, weight: V, ignore_index: V, reduction: str, label_smoothing: float
) -> V:
    """y = -sum over the classes of weight * target * log_softmax(input).

    target: classes, or probabilities of the input's shape.
    label_smoothing: in [0, 1], how much of the target is spread evenly over all classes
    (Szegedy et al., Rethinking the Inception Architecture for Computer Vision, 2015).
    Raises ShapeError, ArgumentError, DTypeError; IndexOutOfRange for a class beyond the input's.
    """
    name = "cross_entropy"
    if not 0.0 <= label_smoothing <= 1.0:
        raise ShapeError(
            f"{name}: label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}"
        )
    dim = _class_dim(name, input)
    require_floats(name, input)
    _checked_weight(name, weight, input.shape[dim])
    scores = log_softmax_of(input, dim)
    if target.dtype.category >= dtypes.FLOAT and len(target.shape) == len(input.shape):
        return _of_probabilities(scores, target, weight, reduction, label_smoothing, dim)
    if len(target.shape) == len(input.shape) and same_sizes(input, target) and dim == 1:
        raise DTypeError(
            f"{name}: expected floating point type for target with class probabilities, got "
            f"{target.dtype}"
        )
    target = _checked_classes(name, input, target, dim)
    picked = _Picked(target, weight, ignore_index, input.dtype)
    losses = picked.nll(scores, dim)
    if label_smoothing > 0:
        spread = scores if weight is None else scores * _along(weight, len(input.shape), dim)
        even = ops.div(picked.mask(-ops.sum(spread, dim)), input.shape[dim])
        losses = losses * (1 - label_smoothing) + even * label_smoothing
    return _finish(name, losses, picked.weights, reduction)


def _of_probabilities(
    scores: V, target: V, weight: V, reduction: str, smoothing: float, dim: int
) -> V:
    if not same_sizes(scores, target):
        raise ValueRefused(
            f"cross_entropy: a target of probabilities must have the input's size "
            f"{hints(scores.shape)}, not {hints(target.shape)}"
        )
    if smoothing > 0:
        even = ops.div(ops.full((), smoothing, dtype=target.dtype), scores.shape[dim])
        target = target * (1 - smoothing) + even
    terms = scores * target
    if weight is not None:
        terms = terms * _along(weight, len(scores.shape), dim)
    losses = -ops.sum(terms, dim)
    if reduction == "mean":
        return ops.div(ops.sum(losses), numel(losses.shape))
    return reduced("cross_entropy", losses, reduction)


# -- margins between classes -----------------------------------------------------------------------


def _margin_samples(rng: np.random.Generator) -> Samples:
    for reduction in ("mean", "sum", "none"):
        x, target = rng.normal(size=(3, 4)), rng.integers(0, 4, size=(3,))
        yield Sample(x, target, reduction=reduction)
        yield Sample(x, target, 2, 0.5, rng.uniform(0.5, 2, size=(4,)), reduction=reduction)
    yield Sample(x[0], np.array(2))


@loss(
    "input, target, p: int = 1, margin: scalar = 1.0, weight: tensor? = None, "
    "size_average: attr = None, reduce: attr = None, reduction: str = 'mean'",
    _margin_samples,
    "MultiMarginLossBackward0",
    nodes=lambda n, input, **_: n.MultiMarginLoss(input),
)
def multi_margin_loss(input: V, target: V, p: int, margin: V, weight: V, reduction: str) -> V:
    """y = sum over classes i other than the target of max(0, margin - x[target] + x[i])^p / C.

    input: (N, C) or (C)   target: (N) or ()   p: 1 or 2. Raises ArgumentError, ShapeError.
    """
    name = "multi_margin_loss"
    if p not in (1, 2):
        raise ArgumentError(f"{name}: only supports p == 1 and p == 2, not {p}")
    if len(input.shape) == 0:  # a single class
        input = ops.unsqueeze(input, 0)
    dim = _class_dim(name, input)
    require_floats(name, input)
    if len(input.shape) > 2:
        raise ShapeError(f"{name}: expected an input of 1 or 2 dims, not {hints(input.shape)}")
    classes = input.shape[dim]
    if weight is not None and len(weight.shape) != 1:
        raise ArgumentError(
            f"{name}: weight must be one-dimensional, but got {len(weight.shape)} dims"
        )
    _checked_weight(name, weight, classes)
    target = ops.unsqueeze(_checked_classes(name, input, target, dim), dim)
    gap = margin - ops.gather(input, dim, target) + input
    others = ops.arange(0, classes, 1, classes) != target
    gap = ops.where(ops.logical_and(others, gap > 0), gap, 0)
    if p == 2:
        gap = gap * gap
    if weight is not None:
        gap = gap * ops.take(weight, target)
    return reduced(name, ops.mean(gap, dim), reduction)


def _multilabel_samples(rng: np.random.Generator) -> Samples:
    target = np.array([[3, 0, -1, 1], [-1, 2, 2, 2], [1, 2, 3, 0]])
    for reduction in ("mean", "sum", "none"):
        yield Sample(rng.normal(size=(3, 4)), target, reduction=reduction)
    yield Sample(rng.normal(size=(4,)), target[0])


@loss(
    f"input, target, {LEGACY}",
    _multilabel_samples,
    "MultilabelMarginLossBackward0",
    nodes=lambda n, input, **_: n.MultilabelMarginLoss(input),
)
def multilabel_margin_loss(input: V, target: V, reduction: str) -> V:
    """y = sum over target classes j and other classes i of max(0, 1 - x[j] + x[i]) / C.

    input: (N, C) or (C)   target: the same, each row classes up to the first negative number.
    """
    name = "multilabel_margin_loss"
    if len(input.shape) == 0 and len(target.shape) == 0:  # a single class
        input, target = ops.unsqueeze(input, 0), ops.unsqueeze(target, 0)
    if not same_sizes(input, target) or len(input.shape) not in (1, 2):
        raise ShapeError(
            f"{name}: expected input and target of one size, (N, C) or (C), not "
            f"{hints(input.shape)} and {hints(target.shape)}"
        )
    counts = ops.cumprod(ops.cast(target >= 0, dtypes.int64), -1)
    classes = ops.where(counts > 0, target, 0)
    named = ops.scatter_add(ops.fill_like(target, 0), -1, classes, counts) > 0
    hit = ops.unsqueeze(ops.gather(input, -1, classes), -1)
    gap = 1 - hit + ops.unsqueeze(input, -2)
    pairs = ops.logical_and(ops.unsqueeze(counts > 0, -1), ops.unsqueeze(~named, -2))
    gap = ops.where(ops.logical_and(pairs, gap > 0), gap, 0)
    total = ops.div(ops.sum(gap, (-2, -1)), input.shape[-1])
    return reduced(name, total, reduction)
