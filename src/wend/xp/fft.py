"""The extension `fft` of the array API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wend
from wend._engine.base.dtypes import DType
from wend.xp._operands import Array

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]


def _single(name: str, doc: str) -> Callable[..., Array]:
    op = getattr(wend.fft, name)

    def function(
        x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
    ) -> Array:
        return op(x, n=n, dim=axis, norm=norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _several(name: str, doc: str) -> Callable[..., Array]:
    op = getattr(wend.fft, name)

    def function(x: Array, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Array:
        return op(x, s=s, dim=axes, norm=norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


fft = _single("fft", "The discrete Fourier transform along an axis.")
ifft = _single("ifft", "The inverse of `fft`.")
rfft = _single("rfft", "The transform of real numbers: the half that tells all.")
irfft = _single("irfft", "The inverse of `rfft`.")
hfft = _single("hfft", "The transform of a Hermitian signal: real numbers.")
ihfft = _single("ihfft", "The inverse of `hfft`.")
fftn = _several("fftn", "The transform along several axes.")
ifftn = _several("ifftn", "The inverse of `fftn`.")
rfftn = _several("rfftn", "The transform of real numbers along several axes.")
irfftn = _several("irfftn", "The inverse of `rfftn`.")


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Any = None) -> Array:
    """The frequencies of `fft`'s results, in cycles per unit of the sample distance d."""
    return wend.fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Any = None) -> Array:
    """The frequencies of `rfft`'s results, in cycles per unit of the sample distance d."""
    return wend.fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Array, /, *, axes: Any = None) -> Array:
    """The zero frequency moved to the middle."""
    return wend.fft.fftshift(x, axes)


def ifftshift(x: Array, /, *, axes: Any = None) -> Array:
    """The inverse of `fftshift`."""
    return wend.fft.ifftshift(x, axes)
