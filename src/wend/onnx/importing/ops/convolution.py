"""Convolutions over 1 to 3 dims, transposed convolutions, and those with given offsets."""

from __future__ import annotations

import math
from typing import Any

import wend
import wend.nn.functional as F
from wend._engine.base.errors import NotImplementedInWend
from wend._engine.core._hot import Tensor
from wend.onnx.importing.ops.support import pad_argument, same_padding
from wend.onnx.importing.registry import OpNode, op

_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def convolve(node: OpNode, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A convolution with the attributes of a node."""
    rank = x.ndim - 2
    if rank not in _CONVOLUTIONS:
        raise NotImplementedInWend(f"onnx: {node} over {rank} dims; Wend has 1 to 3")
    strides = node.get("strides", (1,) * rank)
    dilations = node.get("dilations", (1,) * rank)
    kernel = tuple(weight.shape[2:])
    pads = same_padding(node, x.shape[2:], kernel, strides, dilations)
    padding = tuple(pads[:rank])
    if list(padding) != list(pads[rank:]):
        x, padding = F.pad(x, pad_argument(pads)), (0,) * rank
    groups = node.get("group", 1)
    return _CONVOLUTIONS[rank](x, weight, bias, strides, padding, dilations, groups)


@op("Conv")
def conv(node: OpNode, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Sums of products of a window and the weights."""
    return convolve(node, x, weight, bias)


@op("ConvTranspose")
def conv_transpose(node: OpNode, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The transpose of a convolution, cut to the size asked for."""
    rank = x.ndim - 2
    if rank not in _TRANSPOSED:
        raise NotImplementedInWend(f"onnx: {node} over {rank} dims; Wend has 1 to 3")
    strides = node.get("strides", (1,) * rank)
    dilations = node.get("dilations", (1,) * rank)
    extra = node.get("output_padding", (0,) * rank)
    kernel = tuple(weight.shape[2:])
    pads = list(node.get("pads", (0,) * 2 * rank))
    full = [
        (n - 1) * s + (k - 1) * d + 1 for n, k, s, d in zip(x.shape[2:], kernel, strides, dilations)
    ]
    mode, wanted = node.get("auto_pad", "NOTSET"), node.get("output_shape")
    if wanted is None and mode.startswith("SAME"):
        wanted = [n * s for n, s in zip(x.shape[2:], strides)]
    if wanted is not None:
        for i, size in enumerate(tuple(wanted)[-rank:]):
            total = full[i] + extra[i] - size
            less = total // 2
            pads[i] = less if mode == "SAME_UPPER" else total - less
            pads[i + rank] = total - pads[i]
    function = _TRANSPOSED[rank]
    y = function(
        x, weight, None, strides, (0,) * rank, (0,) * rank, node.get("group", 1), dilations
    )
    amounts = [-n for n in pads]
    for i in range(rank):
        amounts[i + rank] += extra[i]
    y = F.pad(y, pad_argument(amounts)) if any(amounts) else y
    return y if bias is None else y + bias.reshape((-1,) + (1,) * rank)


@op("DeformConv")
def deform_conv(
    node: OpNode,
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """A convolution over two dims whose windows are moved by given offsets."""
    n, c, height, width = x.shape
    out, _, kh, kw = weight.shape
    groups, lots = node.get("group", 1), node.get("offset_group", 1)
    sh, sw = node.get("strides", (1, 1))
    dh, dw = node.get("dilations", (1, 1))
    top, left = node.get("pads", (0, 0, 0, 0))[:2]
    oh, ow = offset.shape[2:]
    moved = offset.reshape(n, lots, kh, kw, 2, oh, ow)
    rows = wend.arange(oh).reshape(-1, 1) * sh - top
    columns = wend.arange(ow) * sw - left
    inside_h = (wend.arange(kh) * dh).reshape(-1, 1, 1, 1)
    inside_w = (wend.arange(kw) * dw).reshape(-1, 1, 1)
    y = moved[:, :, :, :, 0] + (inside_h + rows)
    z = moved[:, :, :, :, 1] + (inside_w + columns)
    image = x.reshape(n, lots, c // lots, height * width)
    sampled: Any = 0
    for dy in (0, 1):
        for dx in (0, 1):
            i, j = y.floor() + dy, z.floor() + dx
            share = (1 - (y - i).abs()) * (1 - (z - j).abs())
            there = (i >= 0) & (i < height) & (j >= 0) & (j < width)
            place = i.clamp(0, height - 1) * width + j.clamp(0, width - 1)
            flat = place.to(wend.int64).reshape(n, lots, 1, -1).expand(-1, -1, c // lots, -1)
            values = wend.gather(image, 3, flat)
            sampled = sampled + values * (share * there).reshape(n, lots, 1, -1)
    if mask is not None:
        sampled = sampled * mask.reshape(n, lots, 1, -1)
    patches = sampled.reshape(n, groups, c // groups * kh * kw, oh * ow)
    flat_weight = weight.reshape(groups, out // groups, math.prod(weight.shape[1:]))
    result = wend.matmul(flat_weight, patches).reshape(n, out, oh, ow)
    return result if bias is None else result + bias.reshape(-1, 1, 1)
