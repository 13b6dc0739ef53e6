"""Windows under the older names of `torch`: periodic by default, in any float type."""

from __future__ import annotations

from typing import Any

from wend._engine.base.devices import CPU
from wend._engine.base.dtypes import FLOAT, float64, get_default_dtype
from wend._engine.base.errors import DTypeError, DTypeNotImplemented, ValueRefused
from wend._engine.base.tracebacks import short_errors
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.creation import Options, checked_keywords, finished
from wend.signal import windows

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


def _window(
    op: str, make: Any, length: int, periodic: bool, keywords: dict[str, Any], **how: Any
) -> Tensor:
    options = Options(op, **checked_keywords(op, keywords))
    dtype = options.dtype or get_default_dtype()
    if dtype.category < FLOAT:
        raise DTypeError(f"{op} expects floating point dtypes, got: {dtype}")
    if dtype.is_complex:
        raise DTypeNotImplemented(f"{op}: not implemented for {dtype}")
    if isinstance(length, int) and length < 0:
        raise ValueRefused(f"{op} requires non-negative window_length, got window_length={length}")
    window = make(length, sym=not periodic, dtype=float64, device=CPU, **how)
    return finished(op, ops.cast(window, dtype), options)


@short_errors
def bartlett_window(window_length: int, periodic: bool = True, **keywords: Any) -> Tensor:
    """y[k] = 1 - |2 k / N - 1|, with N = window_length, or window_length - 1 unless periodic."""
    return _window("bartlett_window", windows.bartlett, window_length, periodic, keywords)


@short_errors
def blackman_window(window_length: int, periodic: bool = True, **keywords: Any) -> Tensor:
    """signal.windows.blackman, periodic by default."""
    return _window("blackman_window", windows.blackman, window_length, periodic, keywords)


@short_errors
def hann_window(window_length: int, periodic: bool = True, **keywords: Any) -> Tensor:
    """y[k] = 0.5 - 0.5 cos(2 pi k / N), with N = window_length, or one less unless periodic."""
    return _window("hann_window", windows.hann, window_length, periodic, keywords)


@short_errors
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    **keywords: Any,
) -> Tensor:
    """y[k] = alpha - beta cos(2 pi k / N), with N as for hann_window."""
    how = {"a": [alpha, beta]}
    return _window(
        "hamming_window", windows.general_cosine, window_length, periodic, keywords, **how
    )


@short_errors
def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, **keywords: Any
) -> Tensor:
    """signal.windows.kaiser, periodic by default."""
    return _window("kaiser_window", windows.kaiser, window_length, periodic, keywords, beta=beta)
