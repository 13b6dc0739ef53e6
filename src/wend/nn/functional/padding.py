"""Padding by constants, mirrors, edges or wrapping around."""

from __future__ import annotations

from collections.abc import Sequence

from wend._engine.base.errors import ArgumentError, ShapeError
from wend._frontend.toolkit import NotImplementedInWend, Tensor, ops

__all__ = ["pad"]

_MODES = {
    "reflect": ops.reflection_pad,
    "replicate": ops.replication_pad,
    "circular": ops.circular_pad,
}
_constant = ops.pad


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Extend a tensor at the borders.

    pad: (before, after) of the last dim, then of the dim before, ...; negative amounts crop
    mode: 'constant', 'reflect' (the edge not repeated), 'replicate' (the edge) or 'circular'
    """
    amounts = tuple(pad.tolist() if isinstance(pad, Tensor) else pad)
    if len(amounts) % 2 or len(amounts) // 2 > input.dim():
        raise ShapeError(
            "pad: padding length must be divisible by 2 and at most twice the number of "
            f"dimensions of the input ({input.dim()}), but got {len(amounts)} numbers"
        )
    if mode == "constant":
        return _constant(input, amounts, 0.0 if value is None else value)
    if value is not None and value != 0:
        raise ArgumentError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in _MODES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    spatial = len(amounts) // 2
    if input.dim() not in (spatial + 1, spatial + 2):
        raise NotImplementedInWend(
            f"pad: mode {mode!r} pads the last 1 to 3 dims of an input with one or two dims "
            f"before them; got {len(amounts)} numbers for {input.dim()} dims"
        )
    return _MODES[mode](input, amounts)
