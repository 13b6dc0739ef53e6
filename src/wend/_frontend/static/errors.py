"""Errors of compiled functions, and of branches and loops as functions."""

from __future__ import annotations

from wend._engine.base.errors import ArgumentTypeError, GraphError
from wend._engine.transforms.exploring.recording import ExploreError

__all__ = [
    "CondOpArgsMismatchError",
    "InvalidBackend",
    "NotCallable",
    "TorchDynamoException",
    "UncapturedHigherOrderOpError",
    "Unsupported",
]


class TorchDynamoException(GraphError):
    """The base of this module's errors."""


class Unsupported(TorchDynamoException, ExploreError):
    """A function under `torch.compile(fullgraph=True)` has no static graph."""


class InvalidBackend(TorchDynamoException):
    """A name of a backend that `torch.compile` does not know."""


class UncapturedHigherOrderOpError(TorchDynamoException):
    """Functions given to `cond`, `while_loop` or `scan` whose results do not fit together."""


class CondOpArgsMismatchError(UncapturedHigherOrderOpError):
    """The branches of `cond` return unlike results."""


class NotCallable(ArgumentTypeError, AssertionError):
    """An object to be compiled that cannot be called; PyTorch raises AssertionError."""
