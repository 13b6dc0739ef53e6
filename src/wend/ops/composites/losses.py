"""Losses that compare an input with a target of like shape, element by element or row by row.

`reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are its deprecated forms.
Halves are computed in float32 and rounded at the end.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wend.base.dtypes import FLOAT
from wend.base.errors import ArgumentError, DTypeError, ShapeError
from wend.core.primitive import Sample, composite, ops
from wend.core.symbolic import hints
from wend.ops.composites.reduce import widened
from wend.ops.elementwise import V, is_number, promoted

Samples = Iterator[Sample]
LEGACY = "size_average: attr = None, reduce: attr = None, reduction: str = 'mean'"


# -- reductions ------------------------------------------------------------------------------------


def reduction_of(size_average: Any, reduce: Any, reduction: str) -> str:
    """The reduction that the two deprecated arguments stand for, if they are given."""
    if size_average is None and reduce is None:
        return reduction
    size_average = True if size_average is None else size_average
    reduce = True if reduce is None else reduce
    chosen = ("mean" if size_average else "sum") if reduce else "none"
    warnings.warn(
        "size_average and reduce args will be deprecated, "
        f"please use reduction='{chosen}' instead.",
        stacklevel=2,
    )
    return chosen


def reduced(name: str, loss: V, reduction: str) -> V:
    """The mean, the sum, or the losses themselves. Raises ArgumentError for another reduction."""
    if reduction == "mean":
        return ops.mean(loss)
    if reduction == "sum":
        return ops.sum(loss)
    if reduction == "none":
        return loss
    raise ArgumentError(f"{name}: {reduction!r} is not a valid value for reduction")


def loss(
    signature: str, samples: Callable[..., Samples], grad_name: str = "MeanBackward0"
) -> Callable[[Callable[..., V]], Any]:
    """A composite that nn.functional publishes; the body sees halves as float32.

    The body's first parameters are the tensors and options of the signature without `LEGACY`'s
    three; its last is the reduction.
    """
    names = [part.split(":")[0].strip() for part in signature.split(", ")]

    def declare(body: Callable[..., V]) -> Any:
        name = body.__name__

        def guarded(*given: Any) -> V:
            call = dict(zip(names, given, strict=True))
            if "reduce" in call:
                legacy = (call.pop("size_average"), call.pop("reduce"), call["reduction"])
                call["reduction"] = reduction_of(*legacy)
            tensors = [v for v in call.values() if hasattr(v, "shape")]
            out = promoted(*(t for t in tensors if t.dtype.category >= FLOAT) or tensors)
            values = [widened(v) if hasattr(v, "shape") else v for v in call.values()]
            y = body(*values)
            return y if y.dtype is out or y.dtype.category < FLOAT else ops.cast(y, out)

        guarded.__name__, guarded.__doc__, guarded.__module__ = name, body.__doc__, body.__module__
        return composite(
            signature,
            functional=(name,),
            grad_name=grad_name,
            samples=samples,
            supports=frozenset({"float"}),
        )(guarded)

    return declare


def _pairs(low: float = -2.0, high: float = 2.0, *, broadcast: bool = True) -> Callable[..., Samples]:
    """Samples of inputs and targets drawn from [low, high)."""

    def samples(rng: np.random.Generator) -> Samples:
        for reduction in ("mean", "sum", "none"):
            x, target = rng.uniform(low, high, size=(2, 3, 4))
            yield Sample(x, target, reduction=reduction)
        yield Sample(*rng.uniform(low, high, size=(2,)).reshape(2, 1)[:, 0:1])
        if broadcast:
            yield Sample(rng.uniform(low, high, size=(3, 4)), rng.uniform(low, high, size=(3, 4)))

    return samples


def _check_sizes(name: str, input: V, target: V) -> None:
    """Warn, as PyTorch does, that a target will be broadcast: it is mostly a mistake."""
    if len(input.shape) == len(target.shape) and all(
        a == b for a, b in zip(input.shape, target.shape, strict=True)
    ):
        return
    warnings.warn(
        f"Using a target size ({hints(target.shape)}) that is different to the input size "
        f"({hints(input.shape)}). This will likely lead to incorrect results due to broadcasting. "
        "Please ensure they have the same size.",
        stacklevel=2,
    )


def _same_shape(name: str, **tensors: V) -> None:
    (first, a), *others = tensors.items()
    for label, b in others:
        if len(a.shape) != len(b.shape) or not all(
            m == n for m, n in zip(a.shape, b.shape, strict=True)
        ):
            raise ArgumentError(
                f"{name}: {label} has size {hints(b.shape)}, which must be that of {first}, "
                f"{hints(a.shape)}"
            )


# -- distances -------------------------------------------------------------------------------------


def _weighted_mean(name: str, values: V, weight: V, reduction: str) -> V:
    """Reduce values; with weights the mean is the weighted one."""
    if weight is None:
        return reduced(name, values, reduction)
    if reduction == "mean":
        return ops.sum(values * weight) / ops.sum(weight)
    return reduced(name, values * weight, reduction)


@loss(f"input, target, {LEGACY}, weight: tensor? = None", _pairs(), "MseLossBackward0")
def mse_loss(input: V, target: V, reduction: str, weight: V) -> V:
    """y = (input - target)^2."""
    _check_sizes("mse_loss", input, target)
    return _weighted_mean("mse_loss", ops.square(input - target), weight, reduction)


@loss(f"input, target, {LEGACY}, weight: tensor? = None", _pairs())
def l1_loss(input: V, target: V, reduction: str, weight: V) -> V:
    """y = |input - target|."""
    _check_sizes("l1_loss", input, target)
    return _weighted_mean("l1_loss", ops.abs(input - target), weight, reduction)
