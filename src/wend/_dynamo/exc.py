"""torch._dynamo.exc: errors of compiled functions and of control flow as functions."""

from wend._frontend.static.errors import (
    CondOpArgsMismatchError,
    InvalidBackend,
    TorchDynamoException,
    UncapturedHigherOrderOpError,
    Unsupported,
)

__all__ = [
    "CondOpArgsMismatchError",
    "InvalidBackend",
    "TorchDynamoException",
    "UncapturedHigherOrderOpError",
    "Unsupported",
]
