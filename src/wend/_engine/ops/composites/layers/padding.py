"""Padding that repeats the input: reflect, replicate, circular; and the public `pad`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.errors import NotImplementedInWend, ShapeError
from wend._engine.core.kinds import Size, Sizes, Tensor
from wend._engine.core.op_facts import ANY_DTYPE
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import hints, sym_max, sym_min
from wend._engine.ops.sugar import sugar
from wend._engine.ops.views.family import Shape
from wend._engine.ops.views.strided import arange


def _check_pads(op: str, shape: Shape, pad: Sizes) -> None:
    """Raise ShapeError or NotImplementedInWend unless pads and input fit, as in PyTorch."""
    if len(pad) % 2:
        raise ShapeError(f"{op}: padding length must be divisible by 2, and pad is {hints(pad)}")
    dims = len(pad) // 2
    if not 1 <= dims <= 3 or len(shape) - dims not in (1, 2):
        raise NotImplementedInWend(
            f"{op}: padding size {len(pad)} is not supported for {len(shape)}D input tensor; "
            "supported for non-constant padding: 2 pads of a 2D or 3D input, 4 of a 3D or 4D one, "
            "6 of a 4D or 5D one"
        )


def _pads_of(shape: Shape, pad: Sizes) -> Iterator[tuple[int, Any, Any]]:
    """(dim, before, after) for each padded dim, last dim first."""
    for k in range(len(pad) // 2):
        yield len(shape) - 1 - k, pad[2 * k], pad[2 * k + 1]


def _padded_extent(op: str, shape: Shape, dim: int, before: Size, after: Size) -> Any:
    extent = shape[dim] + before + after
    if extent < 0:
        raise ShapeError(
            f"{op}: pads {before} and {after} of dim {dim} of extent {shape[dim]} leave an extent "
            f"of {extent}"
        )
    return extent


def _samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.normal(size=(2, 5)), (2, 1))
    yield Sample(rng.normal(size=(2, 3, 4)), (1, 2, 2, 0))
    yield Sample(rng.normal(size=(1, 2, 3, 4)), (0, 3, -1, 2))
    yield Sample(rng.normal(size=(2, 2, 3, 2, 4)), (1, 1, 1, 0, 2, 1))


@composite(
    samples=_samples,
    supports=ANY_DTYPE,
    grad_nodes=lambda n, x, pad: getattr(n, f"ReflectionPad{len(pad) // 2}D")(x),
    format_of="first",
)
def reflection_pad(input: Tensor, pad: Sizes) -> Tensor:
    """y = input mirrored at both ends, the end elements not repeated; negative pads cut off.

    Raises ShapeError unless each pad is smaller than the extent.
    """
    _check_pads("reflection_pad", input.shape, pad)
    for dim, before, after in _pads_of(input.shape, pad):
        n = input.shape[dim]
        if before >= n or after >= n:
            raise ShapeError(
                "reflection_pad: padding size should be less than the corresponding input "
                f"dimension, but got: padding ({before}, {after}) at dimension {dim} of input "
                f"{hints(input.shape)}"
            )
        count = _padded_extent("reflection_pad", input.shape, dim, before, after)
        place = ops.abs(arange(count) - before)
        place = (n - 1) - ops.abs((n - 1) - place)
        input = ops.index_select(input, dim, place)
    return input


@composite(
    samples=_samples,
    supports=ANY_DTYPE,
    grad_nodes=lambda n, x, pad: getattr(n, f"ReplicationPad{len(pad) // 2}D")(x),
    format_of="first",
)
def replication_pad(input: Tensor, pad: Sizes) -> Tensor:
    """y = input with the end elements repeated; negative pads cut off.

    Raises ShapeError for an empty dim.
    """
    _check_pads("replication_pad", input.shape, pad)
    for dim, before, after in _pads_of(input.shape, pad):
        n = input.shape[dim]
        if n == 0:
            raise ShapeError(
                f"replication_pad: dim {dim} of input {hints(input.shape)} has no element to repeat"
            )
        count = _padded_extent("replication_pad", input.shape, dim, before, after)
        place = ops.minimum(ops.maximum(arange(count) - before, 0), n - 1)
        input = ops.index_select(input, dim, place)
    return input


@composite(samples=_samples, supports=ANY_DTYPE)
def circular_pad(input: Tensor, pad: Sizes) -> Tensor:
    """y = input continued periodically; negative pads cut off.

    Raises ShapeError for a pad beyond the extent.
    """
    _check_pads("circular_pad", input.shape, pad)
    for dim, before, after in _pads_of(input.shape, pad):
        n = input.shape[dim]
        if before > n or after > n:
            raise ShapeError(
                "circular_pad: padding value causes wrapping around more than once: padding "
                f"({before}, {after}) at dimension {dim} of input {hints(input.shape)}"
            )
        _padded_extent("circular_pad", input.shape, dim, before, after)
        input = _wrapped(input, dim, n, before, after)
    return input


def _wrapped(x: Tensor, dim: int, n: Size, before: Size, after: Size) -> Tensor:
    """x with the end put in front and the start behind, along a dim."""
    # The part that negative pads cut off is gone before the rest is continued.
    first, last = sym_max(-before, 0), sym_min(n + after, n)
    head = ops.slice(x, dim, last - sym_max(before, 0), last)
    body = ops.slice(x, dim, first, last)
    tail = ops.slice(x, dim, first, first + sym_max(after, 0))
    return ops.cat([head, body, tail], dim)


_MODES = {"reflect": "reflection_pad", "replicate": "replication_pad", "circular": "circular_pad"}


@sugar(name="pad_mode")
def pad_mode(input: Tensor, pad: Sizes, mode: str = "constant", value: Any = None) -> Any:
    """`nn.functional.pad`: input with pad[0] and pad[1] elements around the last dim, and so on.

    mode: constant (with `value`, 0 by default), reflect, replicate or circular
    """
    if mode == "constant":
        return ops.pad(input, pad, 0 if value is None else value)
    if mode not in _MODES:
        raise NotImplementedInWend(
            f"pad: unrecognised padding mode {mode!r}; there are constant, {', '.join(_MODES)}"
        )
    if value is not None and value != 0:
        raise NotImplementedInWend(f"pad: padding mode {mode!r} doesn't take in value argument")
    return getattr(ops, _MODES[mode])(input, pad)
