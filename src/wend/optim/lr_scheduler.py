"""Learning rates that change from epoch to epoch."""

from __future__ import annotations

from wend.optim._schedules.base import LRScheduler
from wend.optim._schedules.cyclic import CyclicLR, OneCycleLR
from wend.optim._schedules.joined import ChainedScheduler, SequentialLR
from wend.optim._schedules.plain import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from wend.optim._schedules.plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


class _LRScheduler(LRScheduler):
    """The former name of `LRScheduler`."""
