"""Transforms of the windows of a signal: stft and its inverse."""

from __future__ import annotations

import warnings
from typing import Any

from wend._engine.base.dtypes import FLOAT, int32
from wend._engine.base.errors import ArgumentError, DTypeError, ShapeError, ValueRefused
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.ops.placing import full_beside
from wend._engine.ops.views.strided import arange
from wend._frontend.linalg.entries import completed, entry

__all__ = ["istft", "stft"]


class _Frames:
    """How a signal is cut: sizes and window, checked."""

    def __init__(self, op: str, n_fft: int, hop: Any, length: Any, window: Any) -> None:
        self.op, self.size = op, n_fft
        self.hop = n_fft // 4 if hop is None else hop
        self.length = n_fft if length is None else length
        self.window = window

    def require(self, met: bool, told: str) -> None:
        """Raise ValueRefused unless `met`."""
        if not met:
            raise ValueRefused(
                f"{self.op}: n_fft={self.size}, hop_length={self.hop}, win_length={self.length}: "
                f"{told}"
            )

    def check_window(self) -> None:
        """Raise ShapeError for a window of another size, and warn where it is missing."""
        if self.window is None:
            warnings.warn(
                f"{self.op}: A window was not provided. A rectangular window will be applied; "
                "pass window=torch.ones(n_fft) to say that this is meant.",
                UserWarning,
                stacklevel=4,
            )
        elif self.window.dim() != 1 or self.window.shape[0] != self.length:
            raise ShapeError(
                f"{self.op}: expected a 1D window tensor of size equal to win_length={self.length},"
                f" but got window with size {list(self.window.shape)}"
            )

    def taper(self, like: Tensor) -> Tensor | None:
        """The window in the middle of n_fft places; None if all factors are 1."""
        window, size, length = self.window, self.size, self.length
        if window is None:
            if length == size:
                return None
            window = full_beside(like, (length,), 1, like.dtype.to_real())
        before = (size - length) // 2
        if length == size:
            return window  # type: ignore[no-any-return]
        return ops.pad(window, (before, size - length - before), 0)  # type: ignore[no-any-return]


@entry("input", functions=("stft",), methods=("stft",))
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """y[..., f, t] = the entry f of the transform of the window that begins at t * hop_length.

    input: (time) or (batch, time)   ->   (batch, n_fft // 2 + 1, windows), complex
    hop_length: n_fft // 4 by default   win_length: n_fft by default; a shorter window is put in the
    middle   center: the signal is padded, so that window t is around t * hop_length
    normalized: divides by the root of n_fft   onesided: half of the spectrum, by default that of
    real signals   return_complex: False gives pairs of real numbers in a last dim
    Raises ValueRefused and ShapeError for sizes that do not fit, DTypeError for ints.
    """
    frames = _Frames("stft", n_fft, hop_length, win_length, window)
    frames.check_window()
    if center and align_to_window is not None:
        raise ArgumentError("stft: align_to_window should only be set when center = false")
    plain = input.dtype.is_complex or (window is not None and window.dtype.is_complex)
    if return_complex is None:
        if not plain:
            raise ValueRefused(
                "stft requires the return_complex parameter be given for real inputs, and will "
                "further require that return_complex=True in a future PyTorch release."
            )
        return_complex = True
    if onesided is None:
        onesided = not plain
    elif onesided and plain:
        raise ValueRefused("stft: Cannot have onesided output if window or input is complex")
    if input.dtype.category < FLOAT:
        raise DTypeError("stft: expected a tensor of floating point or complex values")
    if input.dim() not in (1, 2):
        raise ShapeError(f"stft: expected a 1D or 2D tensor, got {input.dim()} dims")
    spectrum = _transforms(frames, input, center, pad_mode, align_to_window, normalized, onesided)
    return spectrum if return_complex else ops.view_as_real(spectrum)  # type: ignore[no-any-return]


def _transforms(
    frames: _Frames,
    input: Tensor,
    center: bool,
    pad_mode: str,
    align: bool | None,
    normalized: bool,
    onesided: bool,
) -> Tensor:
    size, single = frames.size, input.dim() == 1
    x = ops.unsqueeze(input, 0) if single else input
    if center:
        x = ops.squeeze(ops.pad_mode(ops.unsqueeze(x, 0), (size // 2, size // 2), pad_mode), 0)
    elif align:
        before = (size - frames.length) // 2
        x = ops.pad(x, (before, size - frames.length - before), 0)
    frames.require(0 < size <= x.shape[-1], f"expected 0 < n_fft < {x.shape[-1]}")
    frames.require(frames.hop > 0, "expected hop_length > 0")
    frames.require(0 < frames.length <= size, "expected 0 < win_length <= n_fft")
    cut = ops.unfold(x, -1, size, frames.hop)
    taper = frames.taper(input)
    if taper is not None:
        cut = ops.mul(cut, taper)
    scale = "ortho" if normalized else "none"
    spectrum = ops.fft_r2c(cut, (2,), scale) if onesided else ops.fft_c2c(cut, (2,), False, scale)
    spectrum = ops.transpose(spectrum, 1, 2)
    return ops.squeeze(spectrum, 0) if single else spectrum  # type: ignore[no-any-return]


@entry("input", functions=("istft",), methods=("istft",))
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose stft is nearest to the input, in the sense of least squares.

    input: (frequencies, windows) or (batch, frequencies, windows), complex, as stft gives it with
    the same parameters. length: of the signal, which is cut or padded with zeros.
    Raises LinAlgError where windows leave a place of the signal out.
    """
    frames = _Frames("istft", n_fft, hop_length, win_length, window)
    if window is None:
        frames.check_window()
    if not input.dtype.is_complex:
        raise DTypeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    if input.dim() not in (2, 3):
        raise ShapeError(f"istft: expected a tensor with 2 or 3 dimensions, but got {input.dim()}")
    turns = window is not None and window.dtype.is_complex
    if turns and not return_complex:
        raise ValueRefused("istft: Complex windows are incompatible with return_complex=False")
    if onesided is None:
        onesided = input.shape[-2] != n_fft
    if return_complex and onesided:
        raise ValueRefused("istft: Cannot have onesided output if window or input is complex")
    if not input.numel():
        raise ShapeError("istft: input tensor cannot be empty.")
    wanted = n_fft // 2 + 1 if onesided else n_fft
    frames.require(
        input.shape[-2] == wanted,
        f"expected the frequency dimension (3rd to the last) of the input tensor to match "
        f"{'n_fft / 2 + 1' if onesided else 'n_fft'} when onesided={onesided}, but got "
        f"{input.shape[-2]}",
    )
    frames.require(0 < frames.hop <= frames.length, "expected 0 < hop_length <= win_length")
    frames.require(0 < frames.length <= n_fft, "expected 0 < win_length <= n_fft")
    if window is not None:
        frames.check_window()
    single = input.dim() == 2
    z = ops.transpose(ops.unsqueeze(input, 0) if single else input, 1, 2)
    scale = "ortho" if normalized else "full"
    if return_complex:
        y = ops.fft_c2c(z, (2,), True, scale)
    else:
        half = z if onesided else ops.slice(z, 2, 0, n_fft // 2 + 1)
        y = ops.fft_c2r(half, (2,), n_fft, scale)
    signal = _joined(frames, y, center, length)
    return ops.squeeze(signal, 0) if single else signal  # type: ignore[no-any-return]


def _joined(frames: _Frames, y: Tensor, center: bool, length: int | None) -> Tensor:
    """The windows added where they lie, divided by the sum of squared factors."""
    count, size = y.shape[1:]
    taper = frames.taper(y)
    if taper is None:
        taper = full_beside(y, (size,), 1, y.dtype.to_real())
    y = ops.mul(y, taper)
    total = size + frames.hop * (count - 1)
    starts = ops.unsqueeze(arange(count) * frames.hop, 1)
    places = ops.reshape(ops.expand(starts, (count, size)) + arange(size), (-1,))
    signal = _added(y, places, total)
    squares = ops.expand(ops.pow(taper, 2), (1, count, size))
    weights = _added(squares, places, total)
    start = size // 2 if center else 0
    end = start + length if length is not None else total - start
    signal, weights = (ops.slice(x, 1, start, min(end, total)) for x in (signal, weights))
    absent = ops.cast(ops.any(ops.le(ops.abs(weights), 1e-11)), int32)
    signal = completed("istft", ops.div(signal, weights), absent, "window overlap add min: {0}")
    if end > total:
        warnings.warn(
            "istft: The length of signal is shorter than the length parameter. Result is being "
            "padded with zeros in the tail. Please check your center and hop_length settings.",
            UserWarning,
            stacklevel=3,
        )
        signal = ops.pad(signal, (0, end - total), 0)
    return signal


def _added(frames: Any, places: object, total: Any) -> Tensor:
    """(batch, windows, size) -> (batch, total): each element added to its place."""
    flat = ops.flatten(frames, 1, 2)
    zeros = full_beside(frames, (frames.shape[0], total), 0)
    return ops.index_add(zeros, 1, places, flat)
