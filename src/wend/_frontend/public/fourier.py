"""Discrete Fourier transforms for users: sizes, dims and norms of torch.fft."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from wend._engine.base.dtypes import FLOAT, DType, get_default_dtype
from wend._engine.base.errors import (
    ArgumentTypeError,
    DimError,
    DTypeError,
    DTypeNotImplemented,
    ShapeError,
    ValueRefused,
)
from wend._engine.base.shapes import normalize_dim, normalize_dims
from wend._engine.base.tracebacks import short_errors
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.core.symbolic import SymInt
from wend._engine.ops.numeric import is_half
from wend._engine.ops.views.strided import arange
from wend._frontend.creation import Options, checked_keywords, finished
from wend._frontend.linalg.entries import entry

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

Sizes = int | Sequence[int] | None
_LAST_TWO = (-2, -1)

# -- arguments -------------------------------------------------------------------------------


def _scale(norm: str | None, inverse: bool) -> str:
    """The factor of the result by the name of the norm: see ops/fourier.py."""
    if norm == "ortho":
        return "ortho"
    if norm not in (None, "forward", "backward"):
        raise ValueRefused(f'Invalid normalization mode: "{norm}"')
    return "full" if (norm == "forward") is not inverse else "none"


def _floats(op: str, input: Tensor) -> Tensor:
    """The input as floats or complex numbers. Raises DTypeNotImplemented for halves."""
    if input.dtype.category < FLOAT:
        return ops.cast(input, get_default_dtype())  # type: ignore[no-any-return]
    if is_half(input.dtype):
        raise DTypeNotImplemented(
            f"{op}: Unsupported dtype {input.dtype}; convert the input with .float()"
        )
    return input


def _reals(op: str, input: Tensor) -> Tensor:
    if input.dtype.is_complex:
        raise DTypeError(f"{op} expects a real input tensor, but got {input.dtype}")
    return _floats(op, input)


def _halves(op: str, input: Tensor) -> Tensor:
    """The input as complex numbers: half a spectrum."""
    input = _floats(op, input)
    return ops.cast(input, input.dtype.to_complex())  # type: ignore[no-any-return]


def _whole(op: str, name: str, value: object) -> Any:
    if isinstance(value, SymInt) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if hasattr(value, "__index__") and not isinstance(value, bool):
        return value.__index__()
    raise ArgumentTypeError(f"{op}(): argument '{name}' must be int, not {type(value).__name__}")


def _axis(op: str, input: Tensor, dim: Any) -> tuple[int]:
    if not input.dim():
        raise DimError(f"{op}: Dimension specified as {dim} but tensor has no dimensions")
    return (normalize_dim(dim, input.dim(), op),)


def _layout(
    op: str, input: Tensor, s: Sizes, dim: int | tuple[int, ...]
) -> tuple[tuple[int, ...], list[Any]]:
    """(dims from 0, their wanted sizes, -1 for those of the input)."""
    rank = input.dim()
    sizes = None if s is None else [s] if isinstance(s, (int, SymInt)) else list(s)
    if dim is not None:
        dims = (dim,) if isinstance(dim, int) else tuple(dim)
        if dims and not rank:
            raise DimError(f"{op}: Dimension specified as {dims[0]} but tensor has no dimensions")
        dims = tuple([normalize_dim(d, rank, op) for d in dims])
        if len(set(dims)) != len(dims):
            raise ShapeError(f"{op}: FFT dims must be unique, got {dim}")
        if sizes is not None and len(sizes) != len(dims):
            raise ShapeError(
                f"{op}: When given, dim and shape arguments must have the same length, got "
                f"{len(dims)} and {len(sizes)}"
            )
    elif sizes is None:
        dims = tuple(range(rank))
    elif len(sizes) > rank:
        raise ShapeError(
            f"{op}: Got shape with {len(sizes)} values but input tensor only has {rank} dimensions."
        )
    else:
        dims = tuple(range(rank - len(sizes), rank))
    wanted = [-1] * len(dims) if sizes is None else [_whole(op, "s", n) for n in sizes]
    return dims, wanted


def _resized(op: str, x: Tensor, dim: int, size: int) -> Tensor:
    """x cut, or padded with zeros, to that size of a dim; -1 for its own."""
    have = x.shape[dim]
    wanted = have if size == -1 else size
    if wanted < 1:
        raise ValueRefused(f"{op}: Invalid number of data points ({wanted}) specified")
    if wanted < have:
        return ops.slice(x, dim, 0, wanted)  # type: ignore[no-any-return]
    if wanted > have:
        pads = [0] * (2 * (x.dim() - dim))
        pads[-1] = wanted - have
        return ops.pad(x, tuple(pads), 0)  # type: ignore[no-any-return]
    return x


# -- the three kinds of transforms -----------------------------------------------------------


def _complex(
    op: str, x: Tensor, dims: Sequence[int], sizes: Sequence[int], norm: str | None, inverse: bool
) -> Tensor:
    scale = _scale(norm, inverse)
    x = _floats(op, x)
    for dim, size in zip(dims, sizes, strict=True):
        x = _resized(op, x, dim, size)
    return ops.fft_c2c(x, dims, inverse, scale)  # type: ignore[no-any-return]


def _some(op: str, dims: tuple[int, ...]) -> None:
    if not dims:
        raise ShapeError(f"{op} must transform at least one axis")


def _forward(
    op: str, x: Tensor, dims: tuple[int, ...], sizes: Sequence[Any], norm: str | None, inverse: bool
) -> Tensor:
    """Half the spectrum of real numbers; conjugated for an inverse transform."""
    scale = _scale(norm, inverse)
    x = _reals(op, x)
    _some(op, dims)
    for dim, size in zip(dims, sizes, strict=True):
        x = _resized(op, x, dim, size)
    spectrum = ops.fft_r2c(x, dims, scale)
    return ops.conj(spectrum) if inverse else spectrum  # type: ignore[no-any-return]


def _back(
    op: str, x: Tensor, dims: tuple[int, ...], sizes: Sequence[Any], norm: str | None, inverse: bool
) -> Tensor:
    """Real numbers of half a spectrum; of its conjugate for a forward transform."""
    scale = _scale(norm, inverse)
    x = _halves(op, x)
    _some(op, dims)
    *others, last = zip(dims, sizes, strict=True)
    for dim, size in others:
        x = _resized(op, x, dim, size)
    axis, size = last
    if size == -1:
        size = 2 * (x.shape[axis] - 1)
    if size < 1:
        raise ValueRefused(f"{op}: Invalid number of data points ({size}) specified")
    x = _resized(op, x, axis, size // 2 + 1)
    return ops.fft_c2r(x if inverse else ops.conj(x), dims, size, scale)  # type: ignore[no-any-return]


def _along(
    kind: Any, op: str, input: Tensor, n: int | None, dim: object, norm: Any, inverse: bool
) -> Tensor:
    """A transform over a single dim."""
    size = -1 if n is None else _whole(op, "n", n)
    if n is not None and size < 1:
        raise ValueRefused(f"{op}: Invalid number of data points ({size}) specified")
    return kind(op, input, _axis(op, input, dim), [size], norm, inverse)


def _over(
    kind: Any, op: str, input: Tensor, s: Any, dim: Any, norm: str | None, inverse: bool
) -> Tensor:
    """A transform over several dims."""
    dims, sizes = _layout(op, input, s, dim)
    return kind(op, input, dims, sizes, norm, inverse)


# -- functions -------------------------------------------------------------------------------


@entry("input")
def fft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """y[k] = the sum over j of input[j] * exp(-2 pi i j k / n) along `dim`.

    n: the input is cut or padded with zeros to that size   norm: 'forward' divides by n, 'ortho'
    by its root. Raises ValueRefused for n < 1 and unknown norms.
    """
    return _along(_complex, "fft", input, n, dim, norm, False)  # type: ignore[no-any-return]


@entry("input")
def ifft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """y[j] = 1 / n times the sum over k of input[k] * exp(+2 pi i j k / n): the inverse of fft.

    norm: 'forward' leaves the factor out, 'ortho' divides by the root of n
    """
    return _along(_complex, "ifft", input, n, dim, norm, True)  # type: ignore[no-any-return]


@entry("input")
def fft2(
    input: Tensor,
    s: Sizes = None,
    dim: Sizes = _LAST_TWO,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """fft over two dims, by default the last. s: sizes, -1 for the input's."""
    return _over(_complex, "fft2", input, s, dim, norm, False)  # type: ignore[no-any-return]


@entry("input")
def ifft2(
    input: Tensor,
    s: Sizes = None,
    dim: Sizes = _LAST_TWO,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """ifft over two dims, by default the last. s: sizes, -1 for the input's."""
    return _over(_complex, "ifft2", input, s, dim, norm, True)  # type: ignore[no-any-return]


@entry("input")
def fftn(
    input: Tensor,
    s: Sizes = None,
    dim: Sizes = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """fft over several dims: all, the last len(s), or those of `dim`."""
    return _over(_complex, "fftn", input, s, dim, norm, False)  # type: ignore[no-any-return]


@entry("input")
def ifftn(
    input: Tensor,
    s: Sizes = None,
    dim: Sizes = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """ifft over several dims: all, the last len(s), or those of `dim`."""
    return _over(_complex, "ifftn", input, s, dim, norm, True)  # type: ignore[no-any-return]


@entry("input")
def rfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The first n // 2 + 1 entries of fft of real numbers; the rest are their conjugates.

    Raises DTypeError for complex input.
    """
    return _along(_forward, "rfft", input, n, dim, norm, False)  # type: ignore[no-any-return]


@entry("input")
def irfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The n real numbers of which the input is half a spectrum: the inverse of rfft.

    n: 2 * (input.shape[dim] - 1) by default, which is even
    """
    return _along(_back, "irfft", input, n, dim, norm, True)  # type: ignore[no-any-return]


@entry("input")
def rfft2(
    input: Tensor,
    s: Sizes = None,
    dim: Sizes = _LAST_TWO,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """rfft over two dims; half of the spectrum is left in the last of them."""
    return _over(_forward, "rfft2", input, s, dim, norm, False)  # type: ignore[no-any-return]


@entry("input")
def irfft2(
    input: Tensor,
    s: Sizes = None,
    dim: Sizes = _LAST_TWO,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """irfft over two dims; the input is half a spectrum in the last of them."""
    return _over(_back, "irfft2", input, s, dim, norm, True)  # type: ignore[no-any-return]


@entry("input")
def rfftn(
    input: Tensor,
    s: Sizes = None,
    dim: Sizes = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """rfft over several dims; half of the spectrum is left in the last of them."""
    return _over(_forward, "rfftn", input, s, dim, norm, False)  # type: ignore[no-any-return]


@entry("input")
def irfftn(
    input: Tensor,
    s: Sizes = None,
    dim: Sizes = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """irfft over several dims; the input is half a spectrum in the last of them."""
    return _over(_back, "irfftn", input, s, dim, norm, True)  # type: ignore[no-any-return]


@entry("input")
def hfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """fft of n numbers of which the input is the first half, and the rest their conjugates."""
    return _along(_back, "hfft", input, n, dim, norm, False)  # type: ignore[no-any-return]


@entry("input")
def ihfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The first n // 2 + 1 entries of ifft of real numbers: the inverse of hfft."""
    return _along(_forward, "ihfft", input, n, dim, norm, True)  # type: ignore[no-any-return]


@entry("input")
def hfft2(
    input: Tensor,
    s: Sizes = None,
    dim: Sizes = _LAST_TWO,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """hfft over two dims; the input is half of the numbers in the last of them."""
    return _over(_back, "hfft2", input, s, dim, norm, False)  # type: ignore[no-any-return]


@entry("input")
def ihfft2(
    input: Tensor,
    s: Sizes = None,
    dim: Sizes = _LAST_TWO,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """ihfft over two dims: the inverse of hfft2."""
    return _over(_forward, "ihfft2", input, s, dim, norm, True)  # type: ignore[no-any-return]


@entry("input")
def hfftn(
    input: Tensor,
    s: Sizes = None,
    dim: Sizes = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """hfft over several dims; the input is half of the numbers in the last of them."""
    return _over(_back, "hfftn", input, s, dim, norm, False)  # type: ignore[no-any-return]


@entry("input")
def ihfftn(
    input: Tensor,
    s: Sizes = None,
    dim: Sizes = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """ihfft over several dims: the inverse of hfftn."""
    return _over(_forward, "ihfftn", input, s, dim, norm, True)  # type: ignore[no-any-return]


# -- frequencies -----------------------------------------------------------------------------


def _frequencies(op: str, places: object, n: int, d: float, keywords: dict[str, Any]) -> Tensor:
    options = Options(op, **checked_keywords(op, keywords))
    dtype: DType = options.dtype or get_default_dtype()
    if dtype.category < FLOAT:
        raise DTypeError(f"{op} requires a floating point or complex dtype, not {dtype}")
    if dtype.is_complex:
        raise DTypeNotImplemented(f"{op}: not implemented for {dtype}")
    step = 1 / (n * d) if n * d else math.copysign(math.inf, d)
    return finished(op, ops.mul(ops.cast(places, dtype), step), options)


def _count(op: str, n: int | None) -> int:
    n = _whole(op, "n", n)
    if n < 0:
        raise ShapeError(f"{op}: Trying to create tensor with negative dimension {n}: [{n}]")
    return int(n)


@short_errors
def fftfreq(n: int, d: float = 1.0, **keywords: object) -> Tensor:
    """The frequencies of fft's entries: 0, 1, ..., (n - 1) // 2, -(n // 2), ..., -1, over n d.

    d: the time between samples   Keywords: dtype, out, requires_grad and those of creation.
    """
    n = _count("fftfreq", n)
    places = arange(n)
    signed = ops.where(ops.lt(places, (n + 1) // 2), places, places - n)
    return _frequencies("fftfreq", signed, n, d, keywords)


@short_errors
def rfftfreq(n: int, d: float = 1.0, **keywords: object) -> Tensor:
    """The frequencies of rfft's entries: 0, 1, ..., n // 2, over n d.

    d: the time between samples
    """
    n = _count("rfftfreq", n)
    return _frequencies("rfftfreq", arange(n // 2 + 1), n, d, keywords)


def _shifted(op: str, input: Tensor, dim: Sizes, back: bool) -> Tensor:
    dims = normalize_dims(dim, input.dim(), op)
    sizes = [input.shape[d] if input.dim() else 1 for d in dims]
    return ops.roll(input, tuple([(n + back) // 2 for n in sizes]), dims)  # type: ignore[no-any-return]


@entry("input")
def fftshift(input: Tensor, dim: Sizes = None) -> Tensor:
    """The spectrum with frequency 0 in the middle of the dims, by default of all."""
    return _shifted("fftshift", input, dim, False)


@entry("input")
def ifftshift(input: Tensor, dim: Sizes = None) -> Tensor:
    """The spectrum with frequency 0 in front: the inverse of fftshift."""
    return _shifted("ifftshift", input, dim, True)
