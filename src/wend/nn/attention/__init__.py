"""torch.nn.attention: the choice among kernels for attention."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["SDPBackend", "sdpa_kernel"]

#: PyTorch's kernels.
SDPBackend = enum.IntEnum(
    "SDPBackend",
    "ERROR MATH FLASH_ATTENTION EFFICIENT_ATTENTION CUDNN_ATTENTION OVERRIDEABLE",
    start=-1,
)


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[dict[str, Any]]:
    """A block that asks for kernels; attention is computed as ever."""
    yield {}
