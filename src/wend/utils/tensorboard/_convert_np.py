"""Tensors and numbers as NumPy arrays, in the forms that TensorBoard knows."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from wend._engine.base.errors import ArgumentError, DTypeNotImplemented
from wend._engine.core._hot import Tensor

Array = np.ndarray[Any, Any]
#: Data that `make_np` takes.
Data: TypeAlias = Tensor | Array | np.generic | list[Any] | complex | str


def make_np(x: Data) -> Array:
    """Return the data of a tensor, array, list or number as an array of at least one dim.

    Halves become float32, which TensorBoard reads.
    Raises DTypeNotImplemented for any further kind of object.
    """
    if isinstance(x, list):
        return np.array([_plain(item) for item in x])
    if isinstance(x, (Tensor, np.ndarray)) or np.isscalar(x):
        return np.atleast_1d(_plain(x))
    raise DTypeNotImplemented(
        f"tensorboard: a {type(x).__name__} is no tensor, array, list or number"
    )


def _plain(x: Any) -> Any:
    """A tensor as an array; anything else unchanged."""
    if not isinstance(x, Tensor):
        return x
    array = np.asarray(x.detach().cpu())
    if array.dtype.kind == "V" or array.dtype == np.float16:
        return array.astype(np.float32)
    return array


def in_order(array: Array, names: str, wanted: str) -> Array:
    """Return an array with dims named `names` in the order `wanted`, both in capitals.

    A missing channel dim is added.  Raises ArgumentError where names and dims do not fit.
    """
    names = names.upper()
    if len(set(names)) != len(names) or len(names) != array.ndim:
        raise ArgumentError(
            f"tensorboard: dataformats={names!r} does not name the {array.ndim} dims of shape "
            f"{tuple(array.shape)} once each"
        )
    missing = [name for name in wanted if name not in names]
    if set(names) - set(wanted) or missing not in ([], ["C"]):
        raise ArgumentError(f"tensorboard: dataformats={names!r}: takes the letters of {wanted}")
    for name in missing:
        array, names = array[..., None], names + name
    return np.transpose(array, [names.index(name) for name in wanted])


def as_bytes(image: Array) -> Array:
    """Return an image or video as uint8: floats from 0 to 1 become 0 to 255."""
    if image.dtype == np.uint8:
        return image
    return (image * 255.0).clip(0, 255).astype(np.uint8)


def make_grid(images: Array, columns: int | None = None) -> Array:
    """Return (N, C, H, W) images side by side, as (H, W, C); gray images become coloured."""
    n, channels, height, width = images.shape
    if channels == 1:
        images = np.repeat(images, 3, axis=1)
        channels = 3
    columns = min(n, 8) if columns is None else columns
    rows = -(-n // columns)
    grid = np.zeros((channels, height * rows, width * columns), images.dtype)
    for k in range(n):
        y, x = height * (k // columns), width * (k % columns)
        grid[:, y : y + height, x : x + width] = images[k]
    return grid.transpose(1, 2, 0)
