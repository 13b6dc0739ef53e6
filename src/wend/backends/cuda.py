"""Settings of a backend that Wend does not use: accepted, without effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from wend._engine.base.errors import DeviceError
from wend._frontend.platform import KERNELS_OF_ATTENTION, is_available

is_built = is_available

__all__ = [
    "SDPAParams",
    "allow_fp16_bf16_reduction_math_sdp",
    "blas_workspace_size",
    "can_use_cudnn_attention",
    "can_use_efficient_attention",
    "can_use_flash_attention",
    "cuBLASModule",
    "cuFFTPlanCache",
    "cuFFTPlanCacheAttrContextProp",
    "cuFFTPlanCacheManager",
    "cublas_workspace_size",
    "cublaslt_workspace_size",
    "cudnn_sdp_enabled",
    "cufft_plan_cache",
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
    "preferred_rocm_fa_library",
    "sdp_kernel",
]

#: The ways to compute attention that a program has allowed: Wend has a way of its own.
_ways = KERNELS_OF_ATTENTION


class cuBLASModule:
    """Settings of CUDA's matrix products: kept."""

    def __init__(self) -> None:
        self.allow_tf32 = False
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_fp16_reduced_precision_reduction_split_k = True
        self.allow_bf16_reduced_precision_reduction = True
        self.allow_bf16_reduced_precision_reduction_split_k = True
        self.allow_fp16_accumulation = False
        self.fp32_precision = "none"


matmul = cuBLASModule()


class SDPAParams(NamedTuple):
    """A call of attention, which `can_use_flash_attention` and the like are asked about."""

    query: Any
    key: Any
    value: Any
    attn_mask: Any
    dropout: float
    is_causal: bool
    enable_gqa: bool


# -- plans of Fourier transforms ------------------------------------------------------------


class cuFFTPlanCacheAttrContextProp:
    """An attribute of a device's cache: getter(index), setter(index, value) or an error's words."""

    def __init__(self, getter: Any, setter: Any) -> None:
        self.getter = getter
        self.setter = setter

    def __get__(self, obj: Any, objtype: Any = None) -> Any:
        return self if obj is None else self.getter(obj.device_index)

    def __set__(self, obj: Any, val: Any) -> None:
        if isinstance(self.setter, str):
            raise DeviceError(self.setter)
        self.setter(obj.device_index, val)


def _no_cache(index: int, *value: Any) -> Any:
    raise DeviceError(f"cufft_plan_cache: there is no CUDA device {index}")


class cuFFTPlanCache:
    """The kept plans of a CUDA device. Raises DeviceError when used: there is no such device."""

    def __init__(self, device_index: int) -> None:
        self.device_index = device_index

    size = cuFFTPlanCacheAttrContextProp(
        _no_cache, "cufft_plan_cache: size is how many plans there are; set max_size"
    )
    max_size = cuFFTPlanCacheAttrContextProp(_no_cache, _no_cache)

    def clear(self) -> None:
        """Forget the plans."""
        _no_cache(self.device_index)


class cuFFTPlanCacheManager(cuFFTPlanCache):
    """The caches of all CUDA devices, by index; itself that of the current device.

    Raises DeviceError when used: there is no such device.
    """

    def __init__(self) -> None:
        super().__init__(0)

    def __getitem__(self, device: Any) -> cuFFTPlanCache:
        raise DeviceError(
            f"cufft_plan_cache: expected 0 <= device index < 0, but got device {device}"
        )


cufft_plan_cache = cuFFTPlanCacheManager()


# -- choices ----------------------------------------------------------------------------------


def cublas_workspace_size(size: int | None = None) -> int:
    """Bytes of memory for a library's products. Raises DeviceError: there is no CUDA device."""
    raise DeviceError("cublas_workspace_size: no CUDA device is available")


def cublaslt_workspace_size(size: int | None = None) -> int:
    """Bytes of memory for a library's products. Raises DeviceError: there is no CUDA device."""
    raise DeviceError("cublaslt_workspace_size: no CUDA device is available")


def blas_workspace_size(size: int | None = None, backend: Any = None) -> int:
    """Bytes of memory for a library's products. Raises DeviceError: there is no CUDA device."""
    raise DeviceError("blas_workspace_size: no CUDA device is available")


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


def preferred_rocm_fa_library(backend: Any = None) -> str:
    """'default': there is no ROCm device to choose a library for."""
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
