"""torch.nn.attention: the choice among kernels for attention."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from wend._engine.base.errors import ValueRefused
from wend._frontend.platform import KERNELS_OF_ATTENTION

__all__ = [
    "WARN_FOR_UNFUSED_KERNELS",
    "SDPBackend",
    "activate_flash_attention_impl",
    "current_flash_attention_impl",
    "list_flash_attention_impls",
    "register_flash_attention_impl",
    "restore_flash_attention_impl",
    "sdpa_kernel",
]

#: Whether PyTorch warns where no kernel of the chosen fits.
WARN_FOR_UNFUSED_KERNELS = False

#: PyTorch's kernels.
SDPBackend = enum.IntEnum(
    "SDPBackend",
    "ERROR MATH FLASH_ATTENTION EFFICIENT_ATTENTION CUDNN_ATTENTION OVERRIDEABLE",
    start=-1,
)


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[dict[str, Any]]:
    """A block that asks for kernels, as `torch.backends.cuda` tells; attention is computed as ever.

    backends: an SDPBackend, or a list of these. Raises AssertionError for anything else.
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(chosen, list):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    former = dict(KERNELS_OF_ATTENTION)
    KERNELS_OF_ATTENTION.update(
        flash=SDPBackend.FLASH_ATTENTION in chosen,
        math=SDPBackend.MATH in chosen,
        mem_efficient=SDPBackend.EFFICIENT_ATTENTION in chosen,
        cudnn=SDPBackend.CUDNN_ATTENTION in chosen,
    )
    try:
        yield {}
    finally:
        KERNELS_OF_ATTENTION.update(former)


# --- kernels from elsewhere ----------------------------------------------------------------

_REGISTERED: dict[str, Callable[..., Any]] = {}
_ACTIVE: list[str] = []


def register_flash_attention_impl(impl: str, *, register_fn: Callable[..., Any]) -> None:
    """Note a kernel for GPUs under a name, which is never called."""
    _REGISTERED[impl] = register_fn


def list_flash_attention_impls() -> list[str]:
    """Names of the registered kernels."""
    return sorted(_REGISTERED)


def activate_flash_attention_impl(impl: str) -> None:
    """Ask for a registered kernel; attention is computed as ever. Raises ValueRefused for none."""
    if impl not in _REGISTERED:
        raise ValueRefused(
            f"Unknown flash attention impl {impl!r}. Available implementations: "
            f"{list_flash_attention_impls()}"
        )
    _ACTIVE[:] = [impl]


def current_flash_attention_impl() -> str | None:
    """The kernel that was asked for last; None for the standard kernel."""
    return _ACTIVE[0] if _ACTIVE else None


def restore_flash_attention_impl(_raise_warn: bool = True) -> None:
    """Ask for the standard kernel again."""
    _ACTIVE.clear()
