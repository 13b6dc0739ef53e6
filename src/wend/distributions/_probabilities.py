"""Probabilities and logits, as distributions over finitely many values take them."""

from __future__ import annotations

from typing import Any

from wend.base.dtypes import finfo
from wend.base.errors import ArgumentError
from wend.core._hot import Tensor
from wend.core.primitive import ops


def inside(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1, where logarithms are infinite."""
    eps = finfo(probs.dtype).eps
    return ops.clamp(probs, min=eps, max=1 - eps)


def check_one_given(name: str, probs: Any, logits: Any) -> None:
    """Raise ArgumentError unless either probabilities or logits are given, and not both."""
    if (probs is None) == (logits is None):
        raise ArgumentError(f"{name}: either probs or logits must be specified, but not both")
