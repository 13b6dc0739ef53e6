"""Batch normalization whose mean and variance are those of the batches of all ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from wend._engine.base.errors import ArgumentError
from wend._engine.core import _hot
from wend._engine.core.primitive import ops
from wend._frontend.autograd.function import Function
from wend._frontend.autograd.grad_modes import no_grad
from wend._frontend.toolkit import Tensor, tensor
from wend.distributed._group import AnyGroup, ProcessGroup

__all__ = ["normalize"]


class _GatherRows(Function):
    """The rows of all ranks, (ranks, n); backward, the sum of all ranks' gradients of this row."""

    @staticmethod
    def forward(ctx: Any, row: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        mine = np.ascontiguousarray(_hot.ensure(_hot.value_of(row.detach())))
        ranks = group.size()

        def call(line: Any) -> np.ndarray:
            out = np.empty(ranks * mine.size, mine.dtype)
            line.all_gather(mine, out, [mine.size] * ranks)
            return out

        what = ("SyncBatchNorm", str(mine.dtype), f"[{mine.size}]")
        rows = group.line().run(what, call).found
        return tensor(rows.reshape(ranks, mine.size))

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        mine = np.ascontiguousarray(_hot.ensure(_hot.value_of(g.detach()))).reshape(-1)

        def call(line: Any) -> np.ndarray:
            out = np.empty_like(mine)
            line.all_reduce(mine, out, "sum")
            return out

        what = ("SyncBatchNorm backward", str(mine.dtype), f"[{mine.size}]")
        gradients = ctx.group.line().run(what, call).found
        return tensor(gradients.reshape(ctx.group.size(), -1)[ctx.group.rank()]), None


def normalize(
    group: AnyGroup,
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Any,
    weight: Tensor | None,
    bias: Tensor | None,
    momentum: float,
    eps: float,
) -> Any:
    """y = (x - mean) / sqrt(var + eps) * weight + bias, with the statistics of all ranks.

    x: (N, C, ...), where N may differ from rank to rank, and be 0
    running_mean, running_var: (C,), moved towards the statistics; or None
    Raises ArgumentError (a ValueError) if all ranks together have a single value per channel.
    """
    dtype = x.dtype
    wide = x.float() if dtype.itemsize == 2 else x
    channels = x.shape[1]
    dims = [d for d in range(x.dim()) if d != 1]
    shape = [1, channels] + [1] * (x.dim() - 2)
    n = x.numel() // max(channels, 1)
    total = wide.sum(dims)
    own_mean = total / max(n, 1)
    squares = (wide - own_mean.reshape(shape)).pow(2).sum(dims)
    counted = tensor([float(n)]).to(wide.dtype)
    rows = _GatherRows.apply(ops.cat([total, squares, counted], 0), group)
    counts = rows[:, 2 * channels :].detach()
    count = float(counts.sum())
    if count <= 1:
        raise ArgumentError(
            f"SyncBatchNorm: expected more than 1 value per channel when training, and all ranks "
            f"together have {int(count)}; this rank's input is {list(x.shape)}"
        )
    totals, squared = rows[:, :channels], rows[:, channels : 2 * channels]
    mean = totals.sum(0) / count
    apart = totals / counts.clamp(min=1) - mean
    var = (squared + counts * apart.pow(2)).sum(0) / count
    if running_mean is not None:
        with no_grad():
            running_mean.lerp_(mean.detach().to(running_mean.dtype), momentum)
            unbiased = var.detach() * (count / (count - 1))
            running_var.lerp_(unbiased.to(running_var.dtype), momentum)
    scale = (var + eps).rsqrt()
    if weight is not None:
        scale = scale * weight
    y = (wide - mean.reshape(shape)) * scale.reshape(shape)
    if bias is not None:
        y = y + bias.reshape(shape)
    return y.to(dtype)
