"""conv1d, conv2d, conv3d and their transposes, in terms of `convolve` and its adjoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.errors import DTypeError, ShapeError
from wend._engine.core.kinds import Size, Sizes, Tensor
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import hints
from wend._engine.ops.gradient_nodes import NodeBuilder, NodeOperand
from wend._engine.ops.neural.conv import onnx_convolution
from wend._engine.ops.numeric import NUMERIC, require
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue


def per_dim(op: str, name: str, argument: Any, nd: int) -> tuple[Any, ...]:
    """An entry per spatial dim of an argument that may be a single number for all.

    Raises ShapeError for any other number of entries.
    """
    entries = (argument,) if isinstance(argument, int) else tuple(argument)
    if len(entries) == 1:
        return entries * nd
    if len(entries) != nd:
        raise ShapeError(
            f"{op}: {name} must be an int or have {nd} entries, but it has {len(entries)}: "
            f"{hints(entries)}"
        )
    return entries


def as_batch(
    op: str, x: Tensor, nd: int, channels: bool = True, refusal: type[Exception] = ShapeError
) -> tuple[Any, bool]:
    """(x with a batch dim, whether x had a batch dim). Raises `refusal` for any other rank."""
    rank = nd + channels
    if len(x.shape) == rank + 1:
        return x, True
    if len(x.shape) == rank:
        return ops.unsqueeze(x, 0), False
    raise refusal(
        f"{op}: expected {rank}D (unbatched) or {rank + 1}D (batched) input, but got input of "
        f"shape {hints(x.shape)}"
    )


def _check(op: str, x: Tensor, weight: Tensor, bias: Tensor | None, filters: Size, nd: int) -> None:
    require(op, NUMERIC, x.dtype)
    if len(weight.shape) != nd + 2:
        raise ShapeError(
            f"{op}: expected a {nd + 2}D weight, but got weight of shape {hints(weight.shape)}"
        )
    for name, other in (("weight", weight), ("bias", bias)):
        if other is not None and other.dtype is not x.dtype:
            raise DTypeError(
                f"{op}: input type ({x.dtype}) and {name} type ({other.dtype}) should be the same"
            )
    if bias is not None and (len(bias.shape) != 1 or bias.shape[0] != filters):
        raise ShapeError(
            f"{op}: given weight of shape {hints(weight.shape)}, expected bias to be "
            f"1-dimensional with {filters} elements, but got bias of shape {hints(bias.shape)}"
        )


def _check_steps(op: str, stride: Sizes, dilation: Sizes) -> None:
    if any(n <= 0 for n in stride):
        raise ShapeError(f"{op}: non-positive stride is not supported: {stride}")
    if any(n <= 0 for n in dilation):
        raise ShapeError(f"{op}: dilation should be greater than zero: {dilation}")


def _check_groups(op: str, channels: Size, groups: Size, what: str) -> None:
    if groups <= 0:
        raise ShapeError(f"{op}: groups must be greater than zero, but got {groups}")
    if channels % groups != 0:
        raise ShapeError(
            f"{op}: {what} channels ({channels}) must be divisible by groups ({groups})"
        )


def _padding(
    op: str, padding: Sizes | str, kernel: Sequence[Any], stride: Sizes, dilation: Sizes
) -> tuple[Any, ...]:
    """Padding at the low ends, then at the high ends."""
    nd = len(kernel)
    if padding == "valid":
        return (0,) * (2 * nd)
    if padding == "same":
        if any(s != 1 for s in stride):
            raise ShapeError(f"{op}: padding='same' is not supported for strided convolutions")
        total = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        low = [t // 2 for t in total]
        return (*low, *(t - lo for t, lo in zip(total, low, strict=True)))
    if isinstance(padding, str):
        raise ShapeError(f"{op}: invalid padding string {padding!r}; use 'same', 'valid' or ints")
    entries = per_dim(op, "padding", padding, nd)
    if any(p < 0 for p in entries):
        raise ShapeError(f"{op}: negative padding is not supported: {hints(entries)}")
    return entries * 2


def _finish(y: Tensor, bias: Tensor | None, nd: int, batched: bool) -> Tensor:
    if bias is not None:
        y = ops.add(y, ops.reshape(bias, (bias.shape[0], *(1,) * nd)))
    return y if batched else ops.squeeze(y, 0)


def _convolution(
    op: str, nd: int, x: Tensor, weight: Tensor, bias: Tensor | None, *how: Any
) -> Tensor:
    stride, padding, dilation, groups = how
    x, batched = as_batch(op, x, nd)
    _check(op, x, weight, bias, weight.shape[0], nd)
    stride = per_dim(op, "stride", stride, nd)
    dilation = per_dim(op, "dilation", dilation, nd)
    _check_steps(op, stride, dilation)
    _check_groups(op, weight.shape[0], groups, "output")
    if x.shape[1] != weight.shape[1] * groups:
        raise ShapeError(
            f"{op}: given groups={groups}, weight of size {hints(weight.shape)}, expected input "
            f"of shape {hints(x.shape)} to have {weight.shape[1] * groups} channels, but got "
            f"{x.shape[1]} channels instead"
        )
    ends = _padding(op, padding, weight.shape[2:], stride, dilation)
    _check_extents(op, x, weight, ends, dilation)
    y = ops.convolve(x, weight, ends, stride, dilation, groups)
    return _finish(y, bias, nd, batched)


def _check_extents(
    op: str, x: Tensor, weight: Tensor, ends: Sequence[Any], dilation: Sizes
) -> None:
    nd = len(dilation)
    padded = [n + lo + hi for n, lo, hi in zip(x.shape[2:], ends[:nd], ends[nd:], strict=True)]
    for n, k, d in zip(padded, weight.shape[2:], dilation, strict=True):
        if n < d * (k - 1) + 1:
            raise ShapeError(
                f"{op}: calculated padded input size per channel: "
                f"({' x '.join(map(str, padded))}). Kernel size: "
                f"({' x '.join(map(str, weight.shape[2:]))}), dilation: {dilation}. Kernel size "
                "can't be greater than actual input size"
            )


def _transposed(
    op: str, nd: int, x: Tensor, weight: Tensor, bias: Tensor | None, *how: Any
) -> Tensor:
    stride, padding, output_padding, groups, dilation = how
    x, batched = as_batch(op, x, nd)
    _check(op, x, weight, bias, weight.shape[1] * groups if len(weight.shape) > 1 else 0, nd)
    stride = per_dim(op, "stride", stride, nd)
    dilation = per_dim(op, "dilation", dilation, nd)
    extra = per_dim(op, "output_padding", output_padding, nd)
    low = per_dim(op, "padding", padding, nd)
    _check_steps(op, stride, dilation)
    _check_groups(op, x.shape[1], groups, "input")
    if x.shape[1] != weight.shape[0]:
        raise ShapeError(
            f"{op}: given transposed=True, weight of size {hints(weight.shape)}, expected input "
            f"of shape {hints(x.shape)} to have {weight.shape[0]} channels, but got {x.shape[1]} "
            "channels instead"
        )
    size = []
    for i, (n, k) in enumerate(zip(x.shape[2:], weight.shape[2:], strict=True)):
        if low[i] < 0:
            raise ShapeError(f"{op}: negative padding is not supported: {hints(low)}")
        if extra[i] < 0 or (extra[i] >= stride[i] and extra[i] >= dilation[i]):
            raise ShapeError(
                f"{op}: output padding must be smaller than either stride or dilation, but got "
                f"output_padding: {hints(extra)}, stride: {stride}, dilation: {dilation}"
            )
        size.append((n - 1) * stride[i] - 2 * low[i] + dilation[i] * (k - 1) + extra[i] + 1)
        if size[i] <= 0:
            raise ShapeError(
                f"{op}: given input size per channel: {hints(x.shape[2:])}: calculated output "
                f"size per channel {size[i]} in dim {i} is too small"
            )
    # Output padding reveals more of the part that padding cropped at the high end.
    high = tuple(p - e for p, e in zip(low, extra, strict=True))
    y = ops.convolve_input(x, weight, tuple(size), (*low, *high), stride, dilation, groups)
    return _finish(y, bias, nd, batched)


def _nodes(n: NodeBuilder, nd: int, x: NodeOperand, weight: object, bias: object) -> object:
    if x.rank > nd + 1:
        return n.Convolution(x, weight, bias)
    return n.Squeeze1(n.Convolution(n.Unsqueeze(x), weight, bias))


def _define(nd: int) -> None:
    """Make conv{nd}d and conv_transpose{nd}d."""
    space = ("L", "HW", "DHW")[nd - 1]
    forward, backward = f"conv{nd}d", f"conv_transpose{nd}d"

    def conv(input: Tensor, weight: Tensor, bias: Tensor | None, *how: Any) -> Tensor:
        return _convolution(forward, nd, input, weight, bias, *how)

    def conv_transpose(input: Tensor, weight: Tensor, bias: Tensor | None, *how: Any) -> Tensor:
        return _transposed(backward, nd, input, weight, bias, *how)

    dims = ", ".join(space)
    conv.__doc__ = f"""y[n, f] = sum over c of x[n, c] correlated with weight[f, c], plus bias[f].

    input: (N, C, {dims}) or (C, {dims})   weight: (F, C/groups, *K)   bias: (F,)
    stride, dilation: int or {nd} ints     padding: those, 'same' or 'valid'
    Raises ShapeError if channels, bias or extents do not fit or sizes are below 1.
    """
    conv_transpose.__doc__ = f"""The adjoint of conv{nd}d with the same weight, plus bias.

    input: (N, C, {dims}) or (C, {dims})   weight: (C, F/groups, *K)   bias: (F,)
    ->   (N, F, *S): S = (n - 1) * stride - 2 * padding + dilation * (k - 1) + output_padding + 1
    Raises ShapeError if channels, bias or extents do not fit or sizes are out of range.
    """
    composite(
        "input, weight, bias: tensor? = None, stride: ints = 1, padding: attr = 0, "
        "dilation: ints = 1, groups: size = 1",
        name=forward,
        onnx=_onnx,
        functions=(forward,),
        functional=(forward,),
        grad_nodes=lambda n, x, weight, bias, *_: _nodes(n, nd, x, weight, bias),
        supports=NUMERIC,
        format_of="any",
        samples=lambda rng: _conv_samples(rng, nd),
    )(conv)
    composite(
        "input, weight, bias: tensor? = None, stride: ints = 1, padding: ints = 0, "
        "output_padding: sizes = (0,), groups: size = 1, dilation: ints = 1",
        name=backward,
        functions=(backward,),
        functional=(backward,),
        grad_nodes=lambda n, x, weight, bias, *_: _nodes(n, nd, x, weight, bias),
        supports=NUMERIC,
        format_of="any",
        samples=lambda rng: _transposed_samples(rng, nd),
    )(conv_transpose)


def _onnx(
    self: Any, g: OnnxBuilder, x: OnnxValue, weight: OnnxValue, bias: OnnxValue | None, groups: Size
) -> Any:
    nd = weight.rank - 2
    if bias is None or x.rank != nd + 2:
        return NotImplemented
    stride = per_dim(self.name, "stride", self.stride, nd)
    dilation = per_dim(self.name, "dilation", self.dilation, nd)
    ends = _padding(self.name, self.padding, weight.shape[2:], stride, dilation)
    return onnx_convolution(g, (x, weight, bias), ends, stride, dilation, groups)


def _conv_samples(rng: np.random.Generator, nd: int) -> Iterator[Sample]:
    def arrays(*shapes: tuple[int, ...]) -> list[Any]:
        return [rng.normal(size=shape) for shape in shapes]

    size = (5, 4, 3)[:nd]
    yield Sample(*arrays((2, 3, *size), (4, 3, *(2,) * nd), (4,)))
    yield Sample(*arrays((3, *size), (4, 3, *(2,) * nd)))
    yield Sample(*arrays((2, 4, *size), (4, 2, *(3,) * nd), (4,)), stride=2, padding=1, groups=2)
    yield Sample(*arrays((2, 3, *size), (3, 1, *(2,) * nd)), dilation=2, padding=1, groups=3)
    yield Sample(*arrays((1, 2, *size), (2, 2, *(2,) * nd), (2,)), padding="same")
    yield Sample(*arrays((1, 2, *size), (2, 2, *(1,) * nd), (2,)), padding="valid")
    yield Sample(*arrays((0, 2, *size), (2, 2, *(2,) * nd), (2,)))


def _transposed_samples(rng: np.random.Generator, nd: int) -> Iterator[Sample]:
    def arrays(*shapes: tuple[int, ...]) -> list[Any]:
        return [rng.normal(size=shape) for shape in shapes]

    size = (3, 2, 2)[:nd]
    yield Sample(*arrays((2, 3, *size), (3, 2, *(2,) * nd), (2,)))
    yield Sample(*arrays((3, *size), (3, 2, *(2,) * nd)))
    yield Sample(
        *arrays((2, 4, *size), (4, 2, *(3,) * nd), (4,)),
        stride=2,
        padding=1,
        output_padding=1,
        groups=2,
    )
    yield Sample(*arrays((1, 2, *size), (2, 1, *(2,) * nd)), dilation=2)
    yield Sample(*arrays((0, 2, *size), (2, 2, *(2,) * nd)))


for _nd in (1, 2, 3):
    _define(_nd)
