"""Settings of a backend that Wend does not use: accepted, without effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wend.frontend.platform import is_available

is_built = is_available

__all__ = [
    "allow_fp16_bf16_reduction_math_sdp",
    "can_use_cudnn_attention",
    "can_use_efficient_attention",
    "can_use_flash_attention",
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "fp16_bf16_reduction_math_sdp_allowed",
    "is_available",
    "is_built",
    "is_ck_sdpa_available",
    "is_flash_attention_available",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "preferred_blas_library",
    "preferred_linalg_library",
    "sdp_kernel",
]

#: The ways to compute attention that a program has allowed: Wend has a way of its own.
_ways = {"flash": True, "math": True, "mem_efficient": True, "cudnn": True, "reduced": False}


class matmul:
    """Settings of CUDA's matrix products."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    allow_fp16_accumulation = False
    fp32_precision = "none"


def flash_sdp_enabled() -> bool:
    """The last setting."""
    return _ways["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Kept for `flash_sdp_enabled`."""
    _ways["flash"] = enabled


def math_sdp_enabled() -> bool:
    """The last setting."""
    return _ways["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Kept for `math_sdp_enabled`."""
    _ways["math"] = enabled


def mem_efficient_sdp_enabled() -> bool:
    """The last setting."""
    return _ways["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Kept for `mem_efficient_sdp_enabled`."""
    _ways["mem_efficient"] = enabled


def cudnn_sdp_enabled() -> bool:
    """The last setting."""
    return _ways["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Kept for `cudnn_sdp_enabled`."""
    _ways["cudnn"] = enabled


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """The last setting."""
    return _ways["reduced"]


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Kept for `fp16_bf16_reduction_math_sdp_allowed`."""
    _ways["reduced"] = enabled


def is_flash_attention_available() -> bool:
    """False: there is no CUDA device."""
    return False


def is_ck_sdpa_available() -> bool:
    """False: there is no such device."""
    return False


def can_use_flash_attention(params: Any, debug: bool = False) -> bool:
    """False: there is no CUDA device."""
    return False


def can_use_efficient_attention(params: Any, debug: bool = False) -> bool:
    """False: there is no CUDA device."""
    return False


def can_use_cudnn_attention(params: Any, debug: bool = False) -> bool:
    """False: there is no CUDA device."""
    return False


def preferred_linalg_library(backend: Any = None) -> str:
    """'default': there is no CUDA device to choose a library for."""
    return "default"


def preferred_blas_library(backend: Any = None) -> str:
    """'default': there is no CUDA device to choose a library for."""
    return "default"


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """A block with these settings."""
    former = dict(_ways)
    _ways.update(
        flash=enable_flash,
        math=enable_math,
        mem_efficient=enable_mem_efficient,
        cudnn=enable_cudnn,
    )
    try:
        yield
    finally:
        _ways.update(former)
