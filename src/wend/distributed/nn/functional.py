"""torch.distributed.nn.functional: collectives through which gradients flow.

Each function returns new tensors, and has a collective as its backward pass: all ranks go backward
through the same calls, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wend._engine.base.errors import GraphError
from wend._engine.core._hot import Tensor
from wend._frontend.autograd.function import Function
from wend._frontend.creation import empty_like, zeros_like
from wend.distributed import _collectives as plain
from wend.distributed._collectives import place_in
from wend.distributed._group import AnyGroup, ProcessGroup, resolve
from wend.distributed._reduction import AnyOp, RedOpType, ReduceOp

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]

_LINEAR = (RedOpType.SUM, RedOpType.AVG)


def _linear(name: str, op: AnyOp) -> Any:
    """The reduction, through which gradients flow. Raises GraphError for any but SUM and AVG."""
    kind = op.op if isinstance(op, ReduceOp) else op
    if kind not in _LINEAR:
        raise GraphError(
            f"{name}: gradients flow through SUM and AVG, not {op}; use torch.distributed.{name} "
            "on tensors without a gradient"
        )
    return kind


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: ProcessGroup, tensor: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        output = tensor.clone()
        plain.broadcast(output, src, group)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        total = _Reduce.apply(ctx.src, RedOpType.SUM, ctx.group, grad)
        own = place_in(ctx.group, "broadcast", ctx.src, None) == ctx.group.own
        return None, None, total if own else zeros_like(total)


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, op: Any, group: ProcessGroup, tensor: Tensor) -> Tensor:
        ctx.dst, ctx.group = dst, group
        ctx.share = 1 if op is RedOpType.SUM else group.size()
        output = tensor.clone()
        plain.reduce(output, dst, op, group)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        back = _Broadcast.apply(ctx.dst, ctx.group, grad)
        return None, None, None, back if ctx.share == 1 else back / ctx.share


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: ProcessGroup, tensor: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        output = tensor.clone()
        plain.all_reduce(output, op, group)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, tensor: Tensor) -> Any:
        ctx.group = group
        outs = [empty_like(tensor) for _ in range(group.size())]
        plain.all_gather(outs, tensor, group)
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        own = empty_like(grads[ctx.group.own])
        return None, _ReduceScatter.apply(RedOpType.SUM, ctx.group, own, *grads)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: ProcessGroup, output: Tensor, *inputs: Tensor) -> Tensor:
        ctx.group, ctx.share = group, 1 if op is RedOpType.SUM else group.size()
        part = empty_like(output)
        plain.reduce_scatter(part, list(inputs), op, group)
        return part

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        grads = _AllGather.apply(ctx.group, grad if ctx.share == 1 else grad / ctx.share)
        return None, None, None, *grads


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, shapes: Any, *inputs: Tensor) -> Any:
        ctx.group, ctx.shapes = group, [tuple(x.shape) for x in inputs]
        outs = [inputs[0].new_empty(shape) for shape in shapes]
        plain.all_to_all(outs, list(inputs), group)
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, *_AllToAll.apply(ctx.group, ctx.shapes, *grads)


class _AllToAllSingle(Function):
    @staticmethod
    def forward(
        ctx: Any, group: ProcessGroup, shape: Sequence[int], received: Any, sent: Any, input: Tensor
    ) -> Tensor:
        ctx.group, ctx.shape, ctx.received, ctx.sent = group, tuple(input.shape), received, sent
        output = input.new_empty(shape)
        plain.all_to_all_single(output, input, received, sent, group)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        back = _AllToAllSingle.apply(ctx.group, ctx.shape, ctx.sent, ctx.received, grad)
        return None, None, None, None, back


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, group: ProcessGroup, tensor: Tensor) -> Any:
        ctx.dst, ctx.group = dst, group
        outs = [zeros_like(tensor) for _ in range(group.size())]
        own = place_in(group, "gather", dst, None) == group.own
        plain.gather(tensor, outs if own else None, dst, group)
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *grads)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: ProcessGroup, *tensors: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        output = zeros_like(tensors[0])
        own = place_in(group, "scatter", src, None) == group.own
        plain.scatter(output, list(tensors) if own else None, src, group)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, *_Gather.apply(ctx.src, ctx.group, grad)


def broadcast(tensor: Tensor, src: int, group: AnyGroup = None) -> Tensor:
    """The tensor of rank `src`, to which all ranks' gradients flow, summed."""
    return _Broadcast.apply(src, resolve(group), tensor)


def gather(tensor: Tensor, dst: int = 0, group: AnyGroup = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks in rank `dst`; zeros elsewhere."""
    return _Gather.apply(dst, resolve(group), tensor)


def scatter(tensors: list[Tensor], src: int = 0, group: AnyGroup = None) -> Tensor:
    """This rank's tensor of the list of rank `src`; lists elsewhere only tell type and size."""
    return _Scatter.apply(src, resolve(group), *tensors)


def reduce(tensor: Tensor, dst: int, op: AnyOp = ReduceOp.SUM, group: AnyGroup = None) -> Tensor:
    """The reduction of all ranks' tensors in rank `dst`; elsewhere the tensor."""
    return _Reduce.apply(dst, _linear("reduce", op), resolve(group), tensor)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: AnyOp = ReduceOp.SUM, group: AnyGroup = None
) -> Tensor:
    """The reduction of all ranks' input_list[this rank]; `output` only tells type and size."""
    kind = _linear("reduce_scatter", op)
    return _ReduceScatter.apply(kind, resolve(group), output, *input_list)


def all_gather(tensor: Tensor, group: AnyGroup = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks, in all ranks; the gradients of all ranks are summed."""
    return _AllGather.apply(resolve(group), tensor)


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: AnyGroup = None
) -> tuple[Tensor, ...]:
    """The tensors that all ranks have for this rank; the output list only tells sizes."""
    shapes = [tuple(x.shape) for x in output_tensor_list]
    return _AllToAll.apply(resolve(group), shapes, *input_tensor_list)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: AnyGroup = None,
) -> Tensor:
    """The parts along dim 0 that all ranks have for this rank; `output` only tells the size."""
    shape = tuple(output.shape)
    return _AllToAllSingle.apply(
        resolve(group), shape, output_split_sizes, input_split_sizes, input
    )


def all_reduce(tensor: Tensor, op: AnyOp = ReduceOp.SUM, group: AnyGroup = None) -> Tensor:
    """The reduction of all ranks' tensors, in all ranks; gradients are reduced alike."""
    return _AllReduce.apply(_linear("all_reduce", op), resolve(group), tensor)
