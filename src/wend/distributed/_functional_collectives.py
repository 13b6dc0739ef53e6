"""Collectives that return new tensors, under the names of PyTorch's compiled programs.

Gradients flow through sums and means. Results are there at once: `wait_tensor` does nothing.
"""

from __future__ import annotations

from typing import Any

from wend._engine.base.errors import ArgumentError, ShapeError
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend.distributed import _collectives as plain
from wend.distributed._group import ProcessGroup, resolve, state
from wend.distributed._messages import P2POp, batch_isend_irecv, irecv, isend
from wend.distributed._reduction import RedOpType
from wend.distributed._subgroups import new_group
from wend.distributed.nn import functional

__all__ = [
    "all_gather_into_tensor_coalesced",
    "all_gather_single",
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced",
    "wait_tensor",
]

_OPS = {kind.name.lower(): kind for kind in RedOpType}


def _group_of(argument: object) -> ProcessGroup:
    """The group that is given as a group, its name, a list of ranks, a mesh, or (mesh, dim)."""
    if isinstance(argument, str):
        for group in state.groups:
            if argument in (group.group_name, group.group_desc):
                return group
        raise ArgumentError(f"group: there is no group {argument!r}")
    if isinstance(argument, tuple) and len(argument) == 2 and hasattr(argument[0], "get_group"):
        return resolve(argument[0].get_group(argument[1]))
    if isinstance(argument, (list, tuple)):
        ranks = [r for row in argument for r in (row if isinstance(row, (list, tuple)) else [row])]
        if ranks == list(resolve(None).ranks):
            return resolve(None)
        for group in state.groups:
            if list(group.ranks) == ranks:
                return group
        return new_group(ranks, use_local_synchronization=True)
    return resolve(argument)


def _op_of(name: str, word: str) -> RedOpType:
    op = _OPS.get(word.lower()) if isinstance(word, str) else None
    if op is None:
        raise ArgumentError(f"{name}: reduceOp must be one of {', '.join(_OPS)}, got {word!r}")
    return op


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor: results are there at once."""
    return tensor


def broadcast(self: Tensor, src: int, group: object, tag: str = "") -> Tensor:
    """The tensor of rank `src` of the world."""
    return functional.broadcast(self, src, _group_of(group))


def all_reduce(self: Tensor, reduceOp: str, group: object, tag: str = "") -> Tensor:
    """The reduction of all ranks' tensors; reduceOp: 'sum', 'avg', 'max' and so on."""
    op, process_group = _op_of("all_reduce", reduceOp), _group_of(group)
    if op in (RedOpType.SUM, RedOpType.AVG):
        return functional.all_reduce(self, op, process_group)
    output = self.detach().clone()
    plain.all_reduce(output, op, process_group)
    return output


def all_gather_tensor(self: Tensor, gather_dim: int, group: object, tag: str = "") -> Tensor:
    """The tensors of all ranks, joined along a dim."""
    parts = functional.all_gather(self.contiguous(), _group_of(group))
    return ops.cat(list(parts), gather_dim)  # type: ignore[no-any-return]


def reduce_scatter_tensor(
    self: Tensor, reduceOp: str, scatter_dim: int, group: object, tag: str = ""
) -> Tensor:
    """This rank's part along a dim of the reduction of all ranks' tensors.

    Raises ShapeError unless the number of ranks divides the size of the dim.
    """
    op, process_group = _op_of("reduce_scatter_tensor", reduceOp), _group_of(group)
    size = self.shape[scatter_dim]
    if size % process_group.size():
        raise ShapeError(
            f"reduce_scatter_tensor: input dimension {scatter_dim} ({size} must be a multiple of "
            f"group_size {process_group.size()})"
        )
    parts = [part.contiguous() for part in self.chunk(process_group.size(), scatter_dim)]
    if op in (RedOpType.SUM, RedOpType.AVG):
        return functional.reduce_scatter(parts[process_group.own], parts, op, process_group)
    output = parts[process_group.own].detach().clone()
    plain.reduce_scatter(output, parts, op, process_group)
    return output


def all_to_all_single(
    self: Tensor,
    output_split_sizes: list[int] | None,
    input_split_sizes: list[int] | None,
    group: object,
    tag: str = "",
) -> Tensor:
    """The parts along dim 0 that all ranks have for this rank."""
    shape = list(self.shape)
    if output_split_sizes is not None:
        shape[0] = sum(output_split_sizes)
    out = self.new_empty(shape)
    return functional.all_to_all_single(
        out, self, output_split_sizes, input_split_sizes, _group_of(group)
    )


def permute_tensor(self: Tensor, src_dst: list[int], group: object, tag: str = "") -> Tensor:
    """The tensor of the rank that sends to this rank; rank i of the group sends to src_dst[i]."""
    process_group = _group_of(group)
    if sorted(src_dst) != list(range(process_group.size())):
        raise ArgumentError(f"permute_tensor: {src_dst} does not name each rank once")
    sent, received = [0] * process_group.size(), [0] * process_group.size()
    sent[src_dst[process_group.own]] = self.shape[0]
    received[src_dst.index(process_group.own)] = self.shape[0]
    return all_to_all_single(self, received, sent, process_group)


def all_reduce_coalesced(
    self: list[Tensor], reduceOp: str, group: object, tag: str = ""
) -> list[Tensor]:
    """`all_reduce` of each tensor."""
    return [all_reduce(x, reduceOp, group) for x in self]


def all_gather_into_tensor_coalesced(
    self: list[Tensor], group: object, tag: str = ""
) -> list[Tensor]:
    """`all_gather_tensor` of each tensor, along dim 0."""
    return [all_gather_tensor(x, 0, group) for x in self]


def reduce_scatter_tensor_coalesced(
    inputs: list[Tensor], reduceOp: str, scatter_dim: list[int], group: object, tag: str = ""
) -> list[Tensor]:
    """`reduce_scatter_tensor` of each tensor, along a dim for each."""
    return [
        reduce_scatter_tensor(x, reduceOp, d, group)
        for x, d in zip(inputs, scatter_dim, strict=True)
    ]


def all_gather_tensor_inplace(
    output_tensor: Tensor,
    input_tensor: Tensor,
    group: object = None,
    async_op: bool = False,
    tag: str = "",
    gather_dim: int = 0,
) -> Tensor:
    """`all_gather_tensor`, written into a tensor."""
    return output_tensor.copy_(all_gather_tensor(input_tensor, gather_dim, group))


def all_reduce_inplace(
    tensor: Tensor, op: str = "sum", group: object = None, async_op: bool = False, tag: str = ""
) -> Tensor:
    """`all_reduce`, written into the tensor."""
    return tensor.copy_(all_reduce(tensor, op, group))


def reduce_scatter_tensor_inplace(
    output: Tensor,
    input: Tensor,
    op: str = "sum",
    group: object = None,
    async_op: bool = False,
    scatter_dim: int = 0,
    tag: str = "",
) -> Tensor:
    """`reduce_scatter_tensor`, written into a tensor."""
    return output.copy_(reduce_scatter_tensor(input, op, scatter_dim, group))


def all_to_all_inplace(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    async_op: bool = False,
    tag: str = "",
) -> Tensor:
    """`all_to_all_single`, written into a tensor."""
    return output.copy_(all_to_all_single(input, output_split_sizes, input_split_sizes, group))


def all_gather_inplace(
    tensor_list: list[Tensor],
    tensor: Tensor,
    group: object = None,
    async_op: bool = False,
    tag: str = "",
) -> list[Tensor]:
    """The tensors of all ranks, written into a list of tensors."""
    parts = functional.all_gather(tensor.contiguous(), _group_of(group))
    return [to.copy_(part) for to, part in zip(tensor_list, parts, strict=True)]


def batch_p2p_ops_inplace(
    op_list: list[str],
    peer_list: list[int],
    tag_list: list[int],
    tensors: list[Tensor],
    group_name: object,
) -> list[Tensor]:
    """Several messages at once, 'isend' or 'irecv' each; returns the tensors when all have come."""
    process_group = _group_of(group_name)
    kinds = {"isend": isend, "irecv": irecv}
    messages = [
        P2POp(kinds[op], tensor, group=process_group, tag=tag, group_peer=peer)
        for op, peer, tag, tensor in zip(op_list, peer_list, tag_list, tensors, strict=True)
    ]
    for work in batch_isend_irecv(messages):
        work.wait()
    return tensors


all_gather_single = all_gather_tensor_autograd = all_gather_single_autograd = all_gather_tensor
all_gather_single_coalesced = all_gather_into_tensor_coalesced
reduce_scatter_single = reduce_scatter_tensor_autograd = reduce_scatter_tensor
reduce_scatter_single_autograd = reduce_scatter_tensor
reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
all_to_all_single_autograd = all_to_all_single
