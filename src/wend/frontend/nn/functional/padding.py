"""Padding by constants, mirrors, edges or wrapping around."""

from __future__ import annotations

from typing import Any

from wend.frontend.nn._core import NotImplementedInWend, Tensor, ops

__all__ = ["pad"]


def pad(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    """Extend a tensor at its borders.

    pad: (before, after) of the last dim, then of the one before it, ...; negative ones crop
    mode: 'constant', 'reflect' (the edge not repeated), 'replicate' (the edge) or 'circular'
    """
    amounts = tuple(pad.tolist() if isinstance(pad, Tensor) else pad)
    if len(amounts) % 2 or len(amounts) // 2 > input.dim():
        raise RuntimeError(
            f"pad: padding length must be divisible by 2 and at most twice the number of "
            f"dimensions of the input ({input.dim()}), but got {len(amounts)} numbers"
        )
    if mode == "constant":
        return ops.pad(input, amounts, value=0.0 if value is None else value)
    if value is not None and value != 0:
        raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in _EXTENDERS:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    spatial = len(amounts) // 2
    if input.dim() not in (spatial + 1, spatial + 2):
        raise NotImplementedInWend(
            f"pad: mode {mode!r} pads the last 1 to 3 dims of an input with one or two dims "
            f"before them; got {len(amounts)} numbers for {input.dim()} dims"
        )
    for i in range(spatial):
        before, after = amounts[2 * i], amounts[2 * i + 1]
        input = _extended(input, input.dim() - 1 - i, before, after, mode)
    return input


def _cropped(x: Tensor, dim: int, before: int, after: int) -> Tensor:
    size = x.shape[dim]
    return x.narrow(dim, -min(before, 0), size + min(before, 0) + min(after, 0))


def _extended(x: Tensor, dim: int, before: int, after: int, mode: str) -> Tensor:
    """One dim extended on both sides."""
    if before < 0 or after < 0:
        x = _cropped(x, dim, before, after)
        before, after = max(before, 0), max(after, 0)
    if before == 0 and after == 0:
        return x
    return _EXTENDERS[mode](x, dim, before, after)


def _reflect(x: Tensor, dim: int, before: int, after: int) -> Tensor:
    size = x.shape[dim]
    if before >= size or after >= size:
        raise RuntimeError(
            "Padding size should be less than the corresponding input dimension, but got: "
            f"padding ({before}, {after}) at dimension {dim} of input {list(x.shape)}"
        )
    parts = [x]
    if before:
        parts.insert(0, x.narrow(dim, 1, before).flip(dim))
    if after:
        parts.append(x.narrow(dim, size - 1 - after, after).flip(dim))
    return ops.cat(parts, dim)


def _replicate(x: Tensor, dim: int, before: int, after: int) -> Tensor:
    size = x.shape[dim]
    parts = [x]
    if before:
        shape = [*x.shape[:dim], before, *x.shape[dim + 1 :]]
        parts.insert(0, x.narrow(dim, 0, 1).expand(shape))
    if after:
        shape = [*x.shape[:dim], after, *x.shape[dim + 1 :]]
        parts.append(x.narrow(dim, size - 1, 1).expand(shape))
    return ops.cat(parts, dim)


def _circular(x: Tensor, dim: int, before: int, after: int) -> Tensor:
    size = x.shape[dim]
    if before > size or after > size:
        raise RuntimeError(
            "Padding value causes wrapping around more than once: "
            f"padding ({before}, {after}) at dimension {dim} of input {list(x.shape)}"
        )
    parts = [x]
    if before:
        parts.insert(0, x.narrow(dim, size - before, before))
    if after:
        parts.append(x.narrow(dim, 0, after))
    return ops.cat(parts, dim)


_EXTENDERS = {"reflect": _reflect, "replicate": _replicate, "circular": _circular}
