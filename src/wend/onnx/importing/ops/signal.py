"""Transforms of signals, by products with cosines and sines, with gradients, for any length."""

from __future__ import annotations

import math
from typing import Any

import wend
from wend._engine.base.dtypes import DType
from wend._engine.core._hot import Tensor
from wend.onnx.importing.ops.movement import padded
from wend.onnx.importing.ops.support import number
from wend.onnx.importing.registry import OpNode, op
from wend.onnx.importing.types import dtype_of


def _waves(n: int, dtype: DType, sign: int) -> tuple[Any, Any]:
    """cos and sin of sign 2 pi i j / n, as matrices."""
    # The product is reduced first: large angles would lose digits.
    turns = wend.remainder(wend.arange(n).reshape(-1, 1) * wend.arange(n), n).double()
    angle = turns * (sign * 2 * math.pi / n)
    return wend.cos(angle).to(dtype), wend.sin(angle).to(dtype)


def transform(real: Tensor, imaginary: Tensor | None, inverse: bool) -> tuple[Tensor, Tensor]:
    """The discrete Fourier transform along the last dim, as two parts."""
    n = real.shape[-1]
    c, s = _waves(n, real.dtype, 1 if inverse else -1)
    a, b = wend.matmul(real, c), wend.matmul(real, s)
    if imaginary is not None:
        a, b = a - wend.matmul(imaginary, s), b + wend.matmul(imaginary, c)
    return (a / n, b / n) if inverse else (a, b)


@op("DFT")
def dft(
    node: OpNode, x: Tensor, length: Tensor | None = None, axis: Tensor | None = None
) -> Tensor:
    """The transform along an axis; the last dim holds the real and imaginary parts."""
    place = node.get("axis", 1) if node.version < 20 else (-2 if axis is None else number(axis))
    place = place % x.ndim
    if length is not None:
        amounts = [0] * 2 * x.ndim
        amounts[place + x.ndim] = number(length) - x.shape[place]
        x = padded(x, amounts, 0)
    inverse, onesided = bool(node.get("inverse")), bool(node.get("onesided"))
    real = x[..., 0].movedim(place, -1)
    imaginary = x[..., 1].movedim(place, -1) if x.shape[-1] == 2 else None
    if inverse and onesided:
        n = 2 * (real.shape[-1] - 1) if length is None else number(length)
        real, imaginary = _both_sides(real, imaginary, n)
    a, b = transform(real, imaginary, inverse)
    if onesided and not inverse:
        half = a.shape[-1] // 2 + 1
        a, b = a[..., :half], b[..., :half]
    parts = [a] if inverse and onesided else [a, b]
    return wend.stack([part.movedim(-1, place) for part in parts], -1)


def _both_sides(real: Tensor, imaginary: Tensor | None, n: int) -> tuple[Tensor, Tensor | None]:
    """All n frequencies of a real signal, from those up to the half."""
    half = n // 2 + 1
    rest = n - half
    real = real[..., :half]
    real = wend.cat([real, real[..., 1 : 1 + rest].flip(-1)], -1)
    if imaginary is not None:
        imaginary = imaginary[..., :half]
        imaginary = wend.cat([imaginary, -imaginary[..., 1 : 1 + rest].flip(-1)], -1)
    return real, imaginary


@op("STFT")
def stft(
    node: OpNode,
    x: Tensor,
    step: Tensor,
    window: Any = None,
    length: Tensor | None = None,
) -> Tensor:
    """Transforms of overlapping frames of a signal."""
    size = number(length) if length is not None else window.shape[0]
    hop = number(step)
    count = (x.shape[1] - size) // hop + 1
    places = (wend.arange(count) * hop).reshape(-1, 1) + wend.arange(size)
    x = x.unsqueeze(-1) if x.ndim == 2 else x
    frames = x.index_select(1, places.reshape(-1)).reshape(x.shape[0], count, size, x.shape[2])
    if window is not None:
        frames = frames * window.reshape(-1, 1)
    imaginary = frames[..., 1] if frames.shape[-1] == 2 else None
    a, b = transform(frames[..., 0], imaginary, False)
    if node.get("onesided", 1):
        a, b = a[..., : size // 2 + 1], b[..., : size // 2 + 1]
    return wend.stack([a, b], -1)


@op("MelWeightMatrix")
def mel_weight_matrix(
    node: OpNode, bins: Tensor, length: Tensor, rate: Tensor, low: Tensor, high: Tensor
) -> Tensor:
    """Triangles over frequencies, equally wide on the mel scale."""
    count, n, hertz = number(bins), number(length), number(rate)

    def mel(f: float) -> float:
        return 2595 * math.log10(1 + f / 700)

    first, last = mel(number(low)), mel(number(high))
    step = (last - first) / (count + 2)
    edges = [700 * (10 ** ((first + i * step) / 2595) - 1) for i in range(count + 2)]
    spots = [int((n + 1) * edge // hertz) for edge in edges]
    rows = [[0.0] * count for _ in range(n // 2 + 1)]
    for i in range(count):
        left, centre, right = spots[i : i + 3]
        if left == centre:
            rows[centre][i] = 1.0
        for j in range(left, centre + 1):
            if centre > left:
                rows[j][i] = (j - left) / (centre - left)
        for j in range(centre, right):
            if right > centre:
                rows[j][i] = (right - j) / (right - centre)
    return wend.tensor(rows).to(dtype_of(node.get("output_datatype", 1)))
