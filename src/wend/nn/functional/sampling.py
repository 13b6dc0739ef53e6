"""Images sampled at places of a grid (Jaderberg et al., 2015)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from wend._engine.base.errors import ArgumentError
from wend._engine.base.tracebacks import short_errors
from wend._engine.ops.composites.layers.sampling import MODES, PADDING_MODES
from wend._frontend.toolkit import Tensor, ops

__all__ = ["affine_grid", "grid_sample"]

_DEFAULT_CHANGED = (
    "Default {name} and {name}_grid behavior has changed to align_corners=False since 1.3.0. "
    "Please specify align_corners=True if the old behavior is desired. "
    "See the documentation of {name} for details."
)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid of an affine map of places in [-1, 1].

    theta: (N, 2, 3)   size: (N, C, H, W)      ->   (N, H, W, 2)
    theta: (N, 3, 4)   size: (N, C, D, H, W)   ->   (N, D, H, W, 3)
    """
    if align_corners is None:
        warnings.warn(_DEFAULT_CHANGED.format(name="affine"), stacklevel=2)
    if not theta.is_floating_point():
        raise ArgumentError(f"Expected theta to have floating point type, but got {theta.dtype}")
    nd = len(size) - 2
    if nd not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {tuple(size)}."
        )
    if theta.dim() != 3 or tuple(theta.shape[1:]) != (nd, nd + 1):
        raise ArgumentError(
            f"Expected a batch of {nd}D affine matrices of shape Nx{nd}x{nd + 1} for size "
            f"{tuple(size)}. Got {tuple(theta.shape)}."
        )
    if min(size) <= 0:
        raise ArgumentError(f"Expected non-zero, positive output size. Got {tuple(size)}")
    return ops.affine_grid_generator(theta, tuple(size), bool(align_corners))  # type: ignore[no-any-return]


@short_errors
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """y[n, :, *o] = input[n] at the place grid[n, *o] in [-1, 1], the last dim first.

    input: (N, C, H, W) or (N, C, D, H, W)   grid: (N, *O, 2 or 3)   ->   y: (N, C, *O)
    mode: 'bilinear' (in three dims trilinear), 'nearest', 'bicubic' (two dims alone)
    padding_mode: values outside: 'zeros', 'border' (the nearest pixel), 'reflection'
    """
    if mode not in MODES:
        raise ArgumentError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in PADDING_MODES:
        raise ArgumentError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    if align_corners is None:
        warnings.warn(_DEFAULT_CHANGED.format(name="grid_sample"), stacklevel=2)
    modes = MODES.index(mode), PADDING_MODES.index(padding_mode)
    return ops.grid_sampler(input, grid, *modes, bool(align_corners))  # type: ignore[no-any-return]
