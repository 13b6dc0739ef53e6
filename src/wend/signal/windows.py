"""torch.signal.windows: factors that fade a piece of a signal in and out.

`sym`: symmetric, for filters; otherwise the first M of M + 1 factors, which continue periodically.
A window of a single factor is 1. Further keywords: dtype (float32 or float64), device, layout,
requires_grad. All raise ArgumentError for M < 0 and for other types.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from wend._engine.base.dtypes import float32, float64, get_default_dtype
from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.ops.views.strided import arange
from wend._frontend.creation import Options, checked_keywords, finished
from wend._frontend.formats import is_sparse_layout

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _made(name: str, M: int, sym: bool, formula: Any, keywords: dict[str, Any]) -> Tensor:
    """The window formula(k, n) for k = 0 ... M - 1, where n is the last k of the whole period."""
    if is_sparse_layout(keywords.get("layout")):
        raise ArgumentError(
            f"{name} is implemented for strided tensors only, got: {keywords['layout']}"
        )
    options = Options(name, **checked_keywords(name, keywords))
    dtype = options.dtype or get_default_dtype()
    if dtype not in (float32, float64):
        raise ArgumentError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    if not isinstance(M, int):
        raise ArgumentTypeError(f"{name}: M must be int, not {type(M).__name__}")
    if M < 0:
        raise ArgumentError(f"{name} requires non-negative window length, got M={M}")
    if M < 2:
        window = ops.full((M,), 1.0, dtype=dtype)
    else:
        window = ops.cast(formula(ops.cast(arange(M), float64), M - 1 if sym else M), dtype)
    return finished(name, window, options)


def _cosines(a: list[float]) -> Any:
    """a[0] - a[1] cos(x) + a[2] cos(2 x) - ..., x going round once."""

    def formula(k: Any, n: int) -> Any:
        x = 2 * math.pi * k / n
        return sum((-1) ** i * factor * ops.cos(i * x) for i, factor in enumerate(a))

    return formula


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **keywords: Any) -> Tensor:
    """y[k] = a[0] - a[1] cos(x) + a[2] cos(2 x) - ..., with x = 2 pi k / (M - 1)."""
    if not isinstance(a, Iterable):
        raise ArgumentTypeError("general_cosine: Coefficients must be a list/tuple")
    factors = [float(v) for v in a]
    if not factors:
        raise ArgumentError("general_cosine: Coefficients cannot be empty")
    return _made("general_cosine", M, sym, _cosines(factors), keywords)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **keywords: Any) -> Tensor:
    """y[k] = alpha - (1 - alpha) cos(2 pi k / (M - 1))."""
    return _made("general_hamming", M, sym, _cosines([alpha, 1 - alpha]), keywords)


def hamming(M: int, *, sym: bool = True, **keywords: Any) -> Tensor:
    """y[k] = 0.54 - 0.46 cos(2 pi k / (M - 1))."""
    return _made("hamming", M, sym, _cosines([0.54, 0.46]), keywords)


def hann(M: int, *, sym: bool = True, **keywords: Any) -> Tensor:
    """y[k] = 0.5 - 0.5 cos(2 pi k / (M - 1))."""
    return _made("hann", M, sym, _cosines([0.5, 0.5]), keywords)


def blackman(M: int, *, sym: bool = True, **keywords: Any) -> Tensor:
    """y[k] = 0.42 - 0.5 cos(x) + 0.08 cos(2 x), with x = 2 pi k / (M - 1)."""
    return _made("blackman", M, sym, _cosines([0.42, 0.5, 0.08]), keywords)


def nuttall(M: int, *, sym: bool = True, **keywords: Any) -> Tensor:
    """The sum of four cosines with the least side lobes (Nuttall, 1981)."""
    factors = [0.3635819, 0.4891775, 0.1365995, 0.0106411]
    return _made("nuttall", M, sym, _cosines(factors), keywords)


def bartlett(M: int, *, sym: bool = True, **keywords: Any) -> Tensor:
    """y[k] = 1 - |2 k / (M - 1) - 1|: a triangle with ends of 0."""
    return _made("bartlett", M, sym, lambda k, n: 1 - ops.abs(2 * k / n - 1), keywords)


def cosine(M: int, *, sym: bool = True, **keywords: Any) -> Tensor:
    """y[k] = sin(pi (k + 0.5) / M)."""
    return _made("cosine", M, sym, lambda k, n: ops.sin(math.pi * (k + 0.5) / (n + 1)), keywords)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **keywords: Any
) -> Tensor:
    """y[k] = exp(-|k - center| / tau). center: the middle by default, and where `sym`."""
    if tau <= 0:
        raise ArgumentError(f"exponential: Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ArgumentError("exponential: Center must be None for symmetric windows")

    def formula(k: Any, n: int) -> Any:
        return ops.exp(-ops.abs(k - (n / 2 if center is None else center)) / tau)

    return _made("exponential", M, sym, formula, keywords)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **keywords: Any) -> Tensor:
    """y[k] = exp(-(k - middle)^2 / (2 std^2))."""
    if std <= 0:
        raise ArgumentError(f"gaussian: Standard deviation must be positive, got: {std} instead.")
    return _made(
        "gaussian", M, sym, lambda k, n: ops.exp(-((k - n / 2) ** 2) / (2 * std**2)), keywords
    )


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **keywords: Any) -> Tensor:
    """y[k] = i0(beta sqrt(1 - (2 k / (M - 1) - 1)^2)) / i0(beta)."""
    if beta < 0:
        raise ArgumentError(f"kaiser: beta must be non-negative, got: {beta} instead.")

    def formula(k: Any, n: int) -> Any:
        inside = ops.clamp(1 - (2 * k / n - 1) ** 2, min=0)
        return ops.i0(beta * ops.sqrt(inside)) / ops.i0(ops.full((), beta, dtype=float64))

    return _made("kaiser", M, sym, formula, keywords)
