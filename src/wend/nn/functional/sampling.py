"""Images sampled at places of a grid (Jaderberg et al., 2015)."""

from __future__ import annotations

import warnings
from typing import Any

from wend.frontend.toolkit import NotImplementedInWend, Tensor, arange, full, ops

__all__ = ["affine_grid", "grid_sample"]

_DEFAULT_CHANGED = (
    "Default {name} and {name}_grid behavior has changed to align_corners=False since 1.3.0. "
    "Please specify align_corners=True if the old behavior is desired. "
    "See the documentation of {name} for details."
)


def _centres(size: int, align_corners: bool, dtype: Any) -> Tensor:
    """Places of `size` pixels in [-1, 1]: of the centres, or with corners on the ends."""
    if align_corners:
        return arange(size, dtype=dtype) * (2 / (size - 1)) - 1 if size > 1 else full((1,), 0.0)
    return (arange(size, dtype=dtype) * 2 + 1) / size - 1


def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """The grid (N, H, W, 2) of an affine map; theta: (N, 2, 3), size: (N, C, H, W)."""
    if align_corners is None:
        warnings.warn(_DEFAULT_CHANGED.format(name="affine"), stacklevel=2)
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if len(size) != 4:
        raise NotImplementedInWend(f"affine_grid: takes a size (N, C, H, W), got {tuple(size)}")
    if theta.dim() != 3 or tuple(theta.shape[1:]) != (2, 3):
        raise ValueError(
            "Expected a batch of 2D affine matrices of shape Nx2x3 for size "
            f"{tuple(size)}. Got {tuple(theta.shape)}."
        )
    batch, _, height, width = size
    corners = bool(align_corners)
    x = _centres(width, corners, theta.dtype).unsqueeze(0).expand(height, width)
    y = _centres(height, corners, theta.dtype).unsqueeze(1).expand(height, width)
    base = ops.stack([x, y, x * 0 + 1], -1).reshape(1, height * width, 3)
    grid = base.expand(batch, height * width, 3) @ theta.transpose(1, 2)
    return grid.reshape(batch, height, width, 2)


def _pixels(place: Tensor, size: int, align_corners: bool) -> Tensor:
    """[-1, 1] as pixel numbers."""
    if align_corners:
        return (place + 1) * ((size - 1) / 2)
    return ((place + 1) * size - 1) / 2


def _reflected(x: Tensor, low: float, high: float) -> Tensor:
    """x mirrored at both ends until it lies between them."""
    if low == high:
        return x * 0
    span = high - low
    turned = ops.fmod((x - low).abs(), 2 * span)
    return ops.where(turned > span, 2 * span - turned, turned) + low


def _padded(x: Tensor, size: int, mode: str, align_corners: bool) -> Tensor:
    """Pixel numbers brought into the image as the padding mode says."""
    if mode == "reflection":
        ends = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        x = _reflected(x, *ends)
    if mode in ("border", "reflection"):
        x = x.clamp(0, size - 1)
    return x


def _pick(input: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """input[n, :, y[n], x[n]], 0 outside; x, y: (N, H', W') whole numbers -> (N, C, H', W')."""
    batch, channels, height, width = input.shape
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    index = (y.clamp(0, height - 1) * width + x.clamp(0, width - 1)).long()
    rows = index.reshape(batch, 1, -1).expand(batch, channels, index[0].numel())
    found = input.reshape(batch, channels, height * width).gather(2, rows)
    found = found.reshape(batch, channels, *index.shape[1:])
    return found * inside.unsqueeze(1).to(input.dtype)


def _check(input: Tensor, grid: Tensor, mode: str, padding_mode: str) -> None:
    if mode not in ("bilinear", "nearest"):
        if mode == "bicubic":
            raise NotImplementedInWend("grid_sample: mode 'bicubic' is not available")
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    if input.dim() != 4 or grid.dim() != 4:
        raise NotImplementedInWend(
            "grid_sample: takes input (N, C, H, W) and grid (N, H', W', 2), got "
            f"{tuple(input.shape)} and {tuple(grid.shape)}"
        )
    if input.shape[0] != grid.shape[0] or grid.shape[-1] != 2:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size and grid to have "
            f"size 2 in last dimension, but got input with sizes {list(input.shape)} and grid "
            f"with sizes {list(grid.shape)}"
        )


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """y[n, :, h, w] = input[n] at grid[n, h, w] = (x, y) in [-1, 1].

    input: (N, C, H, W)   grid: (N, H', W', 2)   ->   y: (N, C, H', W')
    padding_mode: values outside: 'zeros', 'border' (the nearest pixel), 'reflection'
    """
    _check(input, grid, mode, padding_mode)
    if align_corners is None:
        warnings.warn(_DEFAULT_CHANGED.format(name="grid_sample"), stacklevel=2)
    corners = bool(align_corners)
    height, width = input.shape[2:]
    x = _padded(_pixels(grid[..., 0], width, corners), width, padding_mode, corners)
    y = _padded(_pixels(grid[..., 1], height, corners), height, padding_mode, corners)
    if mode == "nearest":
        return _pick(input, x.detach().round(), y.detach().round())
    left, top = x.detach().floor(), y.detach().floor()
    right_part, low_part = (x - left).unsqueeze(1), (y - top).unsqueeze(1)
    upper = _pick(input, left, top) * (1 - right_part) + _pick(input, left + 1, top) * right_part
    lower = (
        _pick(input, left, top + 1) * (1 - right_part)
        + _pick(input, left + 1, top + 1) * right_part
    )
    return upper * (1 - low_part) + lower * low_part
