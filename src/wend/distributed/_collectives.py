"""Collectives on tensors. Results are written into the given tensors, as in-place ops write.

Gradients do not flow through these functions: see `wend.distributed.nn`.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from wend._engine.base.errors import ArgumentError, ShapeError
from wend._engine.core._hot import Tensor
from wend._engine.core.provenance import user_level
from wend._frontend.autograd.grad_modes import no_grad
from wend.distributed._engine import Channel
from wend.distributed._group import AnyGroup, ProcessGroup, resolve
from wend.distributed._reduction import AnyOp, Line, RedOpType, ReduceOp, Reduction, reduction_of
from wend.distributed._wire._arrays import (
    blank,
    check_list,
    check_same_type,
    check_tensor,
    count_of,
    read,
    room,
    write,
)
from wend.distributed._wire._transport import Array, Signature, Transport
from wend.distributed._work import Done, Work

__all__ = [
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
]

Call = Callable[[Any], Any]


class _Gathered(threading.local):
    """value: the works of the block in which this thread gathers works, or None."""

    value: list[Work] | None = None


GATHERED = _Gathered()


def member(name: str, group: AnyGroup) -> ProcessGroup | None:
    """The group, or None with a warning where this process is no member."""
    process_group = resolve(group)
    if process_group.own < 0:
        warnings.warn(
            f"Running {name} on global rank that does not belong to the given group.",
            stacklevel=user_level(),
        )
        return None
    return process_group


def place_in(group: ProcessGroup, name: str, rank: int | None, place: int | None) -> int:
    """The number in the group of a member that is named by either of two numbers.

    rank: in the world   place: in the group
    Raises ArgumentError (a ValueError) if both or none are given, or there is no such member.
    """
    if place is not None:
        if rank is not None:
            raise ArgumentError(f"{name}: Can't specify both group_rank and global_rank")
        if not 0 <= place < group.size():
            raise ArgumentError(
                f"{name}: invalid rank {place}: the group has ranks 0 to {group.size() - 1}"
            )
        return int(place)
    if rank is None:
        raise ArgumentError(f"{name}: Must specify global_rank or group_rank")
    number = group.place_of(rank)
    if number < 0:
        raise ArgumentError(
            f"{name}: invalid rank {rank}: the group has the ranks {list(group.ranks)}"
        )
    return number


def perform(
    group: ProcessGroup,
    signature: Signature,
    call: Call,
    finish: Callable[[Any], None] | None,
    async_op: bool,
    result: object,
    sent: tuple[Array | None, int] | None = None,
) -> Work | None:
    """Have the group's channel do a collective; the work if it is asynchronous.

    sent: the array that this rank sends, if any, and the bytes that each rank sends at most;
        few bytes travel with the ranks' greetings. None where the sizes depend on the rank
    """
    gathered, channel = GATHERED.value, group.line()
    little = None if sent is None or sent[1] > channel.greeting.room else sent[:1]
    if gathered is None and not async_op:
        moved = channel.now(signature, call, little)
        if finish is not None:
            finish(moved)
        return None
    work = channel.run(signature, call, finish, True, result, little)
    if gathered is not None:
        gathered.append(work)
    return work if async_op else None


def alone(async_op: bool, result: object, *pairs: tuple[Tensor, Tensor]) -> Work | None:
    """The work of a lone rank, which copies each pair's second tensor to the first."""
    with no_grad():
        for to, source in pairs:
            if to is not source:
                to.copy_(source.reshape(to.shape))
    return Done(result) if async_op else None


def kind_of(tensor: Tensor) -> tuple[str, int]:
    """The part of a signature that stands for a tensor: type and number of elements."""
    type_ = tensor.value.type
    return type_.dtype.name, count_of(type_)


def split(out: Array, counts: Sequence[int]) -> list[Array]:
    """The parts of an array, in sequence."""
    parts, place = [], 0
    for count in counts:
        parts.append(out[place : place + count])
        place += count
    return parts


def joined(arrays: Sequence[Array]) -> Array:
    """Flat arrays of a type, end to end."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def times_factor(tensor: Tensor, rule: Reduction) -> None:
    """A reduction by a lone rank: the product with the factor, if any."""
    if rule.kind is RedOpType.PREMUL_SUM:
        with no_grad():
            tensor.mul_(rule.factor)


def all_reduce(
    tensor: Tensor, op: AnyOp = ReduceOp.SUM, group: AnyGroup = None, async_op: bool = False
) -> Work | None:
    """tensor = the reduction of all ranks' tensors, in all ranks.

    Returns a `Work` with `async_op`, else None. Half precision is summed in float32.
    Raises CollectiveMismatch (a RuntimeError) in all ranks where types, sizes or calls differ,
    DTypeError for a reduction that the type does not have.
    """
    process_group = member("all_reduce", group)
    if process_group is None:
        return None
    check_tensor("all_reduce", "tensor", tensor)
    rule = reduction_of("all_reduce", op, tensor.dtype)
    if process_group.size() == 1:
        times_factor(tensor, rule)
        return alone(async_op, tensor)
    x = read(tensor)

    def call(line: Line) -> Array:
        out = blank(tensor)
        rule.all_reduce(line, x, out)
        return out

    return perform(
        process_group, ("all_reduce", rule.title(), *kind_of(tensor)), call,
        lambda out: write(tensor, out, all_reduce), async_op, tensor, (x, x.nbytes),
    )  # fmt: skip


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: AnyGroup = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """tensor = the tensor of rank `src` of the world, or rank `group_src` of the group.

    Raises ArgumentError (a ValueError) for a rank that is no member, CollectiveMismatch (a
    RuntimeError) in all ranks where types, sizes or calls differ.
    """
    process_group = member("broadcast", group)
    if process_group is None:
        return None
    check_tensor("broadcast", "tensor", tensor)
    root = place_in(process_group, "broadcast", src, group_src)
    if process_group.size() == 1:
        return alone(async_op, tensor)
    signature = ("broadcast", f"from {root}", *kind_of(tensor))
    x = read(tensor) if process_group.own == root else blank(tensor)

    def call(line: Line) -> Array:
        line.broadcast(x, root)
        return x

    def finish(out: Array) -> None:
        if process_group.own != root:
            write(tensor, out, broadcast)

    sent = x if process_group.own == root else None, x.nbytes
    return perform(process_group, signature, call, finish, async_op, tensor, sent)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: AnyGroup = None, async_op: bool = False
) -> Work | None:
    """tensor_list[rank] = the tensor of each rank, in all ranks.

    Sizes may differ from rank to rank, where all ranks give the same sizes in the list.
    Raises ShapeError for a list that does not fit, CollectiveMismatch (a RuntimeError) in all
    ranks where types, sizes or calls differ.
    """
    process_group = member("all_gather", group)
    if process_group is None:
        return None
    outs = check_list("all_gather", "tensor_list", tensor_list)
    check_tensor("all_gather", "tensor", tensor)
    check_same_type("all_gather", [*outs, tensor])
    check_parts("all_gather", "tensor_list", outs, process_group, tensor)
    if process_group.size() == 1:
        return alone(async_op, tensor_list, (outs[0], tensor))
    x, counts = read(tensor), [out.numel() for out in outs]

    def call(line: Line) -> Array:
        out = room(sum(counts), x.dtype)
        line.all_gather(x, out, counts)
        return out

    def finish(out: Array) -> None:
        for to, part in zip(outs, split(out, counts), strict=True):
            write(to, part, all_gather)

    signature = ("all_gather", tensor.dtype.name, told(counts))
    sent = x, max(counts) * x.itemsize
    return perform(process_group, signature, call, finish, async_op, tensor_list, sent)


def told(counts: Sequence[int]) -> str:
    """Numbers of elements, by rank, for a signature."""
    if len(set(counts)) == 1:
        return f"{counts[0]} elements of each of {len(counts)} ranks"
    return f"{list(counts)} elements"


def check_parts(
    name: str, parameter: str, parts: Sequence[Tensor], group: ProcessGroup, own: Tensor | None
) -> None:
    """Raise ShapeError unless there is a part for each rank, of the size of this rank's tensor."""
    if len(parts) != group.size():
        raise ShapeError(
            f"{name}: `{parameter}` has {len(parts)} tensors, and the group has {group.size()} "
            "ranks: one tensor is needed for each rank"
        )
    if own is not None and parts[group.own].numel() != own.numel():
        raise ShapeError(
            f"{name}: `{parameter}` at index {group.own} has shape "
            f"{tuple(parts[group.own].shape)}, and this rank's tensor has {tuple(own.shape)}"
        )


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: AnyGroup = None, async_op: bool = False
) -> Work | None:
    """output_tensor = the tensors of all ranks, end to end or stacked.

    input_tensor: (n, ...)   ->   output_tensor: (ranks * n, ...) or (ranks, n, ...)
    Raises ShapeError for a tensor of another size, CollectiveMismatch (a RuntimeError) in all ranks
    where types, sizes or calls differ.
    """
    process_group = member("all_gather_into_tensor", group)
    if process_group is None:
        return None
    check_tensor("all_gather_into_tensor", "output_tensor", output_tensor)
    check_tensor("all_gather_into_tensor", "input_tensor", input_tensor)
    check_same_type("all_gather_into_tensor", [output_tensor, input_tensor])
    count, ranks = input_tensor.numel(), process_group.size()
    if output_tensor.numel() != count * ranks:
        raise ShapeError(
            f"all_gather_into_tensor: the output has {output_tensor.numel()} elements, and "
            f"{ranks} ranks give {count} elements each: {count * ranks} are needed"
        )
    if ranks == 1:
        return alone(async_op, output_tensor, (output_tensor, input_tensor))
    x = read(input_tensor)

    def call(line: Line) -> Array:
        out = blank(output_tensor)
        line.all_gather(x, out, [count] * ranks)
        return out

    return perform(
        process_group, ("all_gather_into_tensor", *kind_of(input_tensor)), call,
        lambda out: write(output_tensor, out, all_gather_into_tensor), async_op, output_tensor,
        (x, x.nbytes),
    )  # fmt: skip


def all_gather_single(
    output_tensor: Tensor, input_tensor: Tensor, group: AnyGroup = None, async_op: bool = False
) -> Work | None:
    """As `all_gather_into_tensor`."""
    return all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: AnyOp = ReduceOp.SUM,
    group: AnyGroup = None,
    async_op: bool = False,
) -> Work | None:
    """output = the reduction of all ranks' input_list[this rank].

    Sizes may differ from rank to rank, where all ranks give the same sizes in the list.
    Raises ShapeError for a list that does not fit, CollectiveMismatch (a RuntimeError) in all ranks
    where types, sizes or calls differ.
    """
    process_group = member("reduce_scatter", group)
    if process_group is None:
        return None
    check_tensor("reduce_scatter", "output", output)
    parts = check_list("reduce_scatter", "input_list", input_list)
    check_same_type("reduce_scatter", [output, *parts])
    check_parts("reduce_scatter", "input_list", parts, process_group, output)
    counts = [part.numel() for part in parts]
    signature = ("reduce_scatter", output.dtype.name, told(counts))
    return _scatter_reduction(
        reduce_scatter, signature, output, parts, counts, op, process_group, async_op
    )


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: AnyOp = ReduceOp.SUM,
    group: AnyGroup = None,
    async_op: bool = False,
) -> Work | None:
    """output = this rank's part of the reduction of all ranks' inputs.

    input: (ranks * n, ...) or (ranks, n, ...)   ->   output: (n, ...)
    Raises ShapeError for a tensor of another size, CollectiveMismatch (a RuntimeError) in all ranks
    where types, sizes or calls differ.
    """
    process_group = member("reduce_scatter_tensor", group)
    if process_group is None:
        return None
    check_tensor("reduce_scatter_tensor", "output", output)
    check_tensor("reduce_scatter_tensor", "input", input)
    check_same_type("reduce_scatter_tensor", [output, input])
    ranks = process_group.size()
    if output.numel() * ranks != input.numel():
        raise ShapeError(
            f"reduce_scatter_tensor: the input has {input.numel()} elements, and {ranks} ranks "
            f"take {output.numel()} elements each: {output.numel() * ranks} are needed"
        )
    counts = [output.numel()] * ranks
    signature = ("reduce_scatter_tensor", *kind_of(input))
    return _scatter_reduction(
        reduce_scatter_tensor, signature, output, [input], counts, op, process_group, async_op
    )


def reduce_scatter_single(
    output: Tensor,
    input: Tensor,
    op: AnyOp = ReduceOp.SUM,
    group: AnyGroup = None,
    async_op: bool = False,
) -> Work | None:
    """As `reduce_scatter_tensor`."""
    return reduce_scatter_tensor(output, input, op, group, async_op)


def _scatter_reduction(
    function: Callable[..., Any],
    signature: Signature,
    output: Tensor,
    inputs: list[Tensor],
    counts: list[int],
    op: AnyOp,
    group: ProcessGroup,
    async_op: bool,
) -> Work | None:
    """The common end of reductions whose result is shared out."""
    rule = reduction_of(signature[0], op, output.dtype)
    if group.size() == 1:
        done = alone(async_op, output, (output, inputs[0]))
        times_factor(output, rule)
        return done
    x = joined([read(tensor) for tensor in inputs])

    def call(line: Line) -> Array:
        out = blank(output)
        rule.reduce_scatter(line, x, out, counts)
        return out

    return perform(
        group, (signature[0], rule.title(), *signature[1:]), call,
        lambda out: write(output, out, function), async_op, output, (x, x.nbytes),
    )  # fmt: skip


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: AnyOp = ReduceOp.SUM,
    group: AnyGroup = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """tensor = the reduction of all ranks' tensors, in rank `dst`; elsewhere the tensor stays.

    dst: of the world   group_dst: of the group
    Raises CollectiveMismatch (a RuntimeError) in all ranks where types, sizes or calls differ.
    """
    process_group = member("reduce", group)
    if process_group is None:
        return None
    check_tensor("reduce", "tensor", tensor)
    root = place_in(process_group, "reduce", dst, group_dst)
    rule = reduction_of("reduce", op, tensor.dtype)
    if process_group.size() == 1:
        times_factor(tensor, rule)
        return alone(async_op, tensor)
    x = read(tensor)

    def call(line: Line) -> Array | None:
        out = blank(tensor) if process_group.own == root else None
        rule.reduce(line, x, out, root)
        return out

    def finish(out: Array | None) -> None:
        if out is not None:
            write(tensor, out, reduce)

    signature = ("reduce", rule.title(), f"to {root}", *kind_of(tensor))
    return perform(process_group, signature, call, finish, async_op, tensor, (x, x.nbytes))


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: AnyGroup = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """gather_list[rank] = the tensor of each rank, in rank `dst` alone; all are of the same size.

    Raises ArgumentError (a ValueError) if there is a list elsewhere, or none in rank `dst`;
    CollectiveMismatch (a RuntimeError) in all ranks where types, sizes or calls differ.
    """
    process_group = member("gather", group)
    if process_group is None:
        return None
    root, outs = _at_root(
        "gather",
        process_group,
        tensor,
        (dst, group_dst),
        ("gather_list", gather_list, "destination"),
    )
    if process_group.size() == 1:
        return alone(async_op, gather_list, (outs[0], tensor))
    x, counts = read(tensor), [tensor.numel()] * process_group.size()

    def call(line: Line) -> Array | None:
        out = room(sum(counts), x.dtype) if process_group.own == root else None
        line.gather(x, out, counts, root)
        return out

    def finish(out: Array | None) -> None:
        if out is not None:
            for to, part in zip(outs, split(out, counts), strict=True):
                write(to, part, gather)

    signature = ("gather", f"to {root}", *kind_of(tensor))
    return perform(
        process_group, signature, call, finish, async_op, gather_list or [], (x, x.nbytes)
    )


def _at_root(
    name: str,
    group: ProcessGroup,
    tensor: Tensor,
    ranks: tuple[int | None, int | None],
    listed: tuple[str, Any, str],
) -> tuple[int, list[Tensor]]:
    """The root's number in the group, and the list of tensors that it alone gives.

    ranks: the root's numbers in the world and in the group, as given
    listed: the list's parameter, the list, and the word for the root
    Raises ArgumentError (a ValueError) for a list in the wrong ranks, ShapeError for tensors of
    several sizes.
    """
    check_tensor(name, "tensor", tensor)
    root = place_in(group, name, *(ranks if ranks != (None, None) else (0, None)))
    parameter, argument, word = listed
    if group.own != root:
        if argument:
            raise ArgumentError(
                f"{name}: Argument ``{parameter}`` must NOT be specified on non-{word} ranks."
            )
        return root, []
    if argument is None:
        raise ArgumentError(f"{name}: Argument ``{parameter}`` must be specified on {word} rank.")
    tensors = check_list(name, parameter, argument)
    check_same_type(name, [tensor, *tensors])
    if any(t.numel() != tensor.numel() for t in tensors):
        sizes = [tuple(t.shape) for t in tensors]
        raise ShapeError(
            f"{name}: `{parameter}` has the shapes {sizes}, and the tensor has "
            f"{tuple(tensor.shape)}: all ranks move tensors of one size"
        )
    check_parts(name, parameter, tensors, group, tensor)
    return root, tensors


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: AnyGroup = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """tensor = scatter_list[this rank] of rank `src`; all are of the same size.

    Raises ArgumentError (a ValueError) if there is a list elsewhere, or none in rank `src`;
    CollectiveMismatch (a RuntimeError) in all ranks where types, sizes or calls differ.
    """
    process_group = member("scatter", group)
    if process_group is None:
        return None
    root, parts = _at_root(
        "scatter", process_group, tensor, (src, group_src), ("scatter_list", scatter_list, "source")
    )
    if process_group.size() == 1:
        return alone(async_op, tensor, (tensor, parts[0]))
    x = joined([read(part) for part in parts]) if parts else None
    counts = [tensor.numel()] * process_group.size()

    def call(line: Line) -> Array:
        out = blank(tensor)
        line.scatter(x, out, counts, root)
        return out

    return perform(
        process_group, ("scatter", f"from {root}", *kind_of(tensor)), call,
        lambda out: write(tensor, out, scatter), async_op, tensor,
        (x, tensor.value.type.nbytes * process_group.size()),
    )  # fmt: skip


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: AnyGroup = None,
    async_op: bool = False,
) -> Work | None:
    """output_tensor_list[i] = input_tensor_list[this rank] of rank i.

    Raises ShapeError for lists that do not fit, CollectiveMismatch (a RuntimeError) in all ranks
    where sizes sent and expected differ, or types, or calls.
    """
    process_group = member("all_to_all", group)
    if process_group is None:
        return None
    outs = check_list("all_to_all", "output_tensor_list", output_tensor_list)
    parts = check_list("all_to_all", "input_tensor_list", input_tensor_list)
    check_parts("all_to_all", "output_tensor_list", outs, process_group, None)
    check_parts("all_to_all", "input_tensor_list", parts, process_group, None)
    check_same_type("all_to_all", [*outs, *parts])
    if process_group.size() == 1:
        check_parts("all_to_all", "output_tensor_list", outs, process_group, parts[0])
        return alone(async_op, output_tensor_list, (outs[0], parts[0]))
    x = joined([read(part) for part in parts])
    sent, received = [t.numel() for t in parts], [t.numel() for t in outs]

    def finish(out: Array) -> None:
        for to, part in zip(outs, split(out, received), strict=True):
            write(to, part, all_to_all)

    return _exchange(
        "all_to_all", x, sent, received, outs[0].dtype.name, process_group, finish, async_op,
        output_tensor_list,
    )  # fmt: skip


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: AnyGroup = None,
    async_op: bool = False,
) -> Work | None:
    """The i-th part of `output` = this rank's part of the input of rank i; parts along dim 0.

    Without sizes, all parts are equal. Raises ShapeError for sizes that do not fit,
    CollectiveMismatch (a RuntimeError) in all ranks where sizes sent and expected differ,
    or types, or calls.
    """
    process_group = member("all_to_all_single", group)
    if process_group is None:
        return None
    check_tensor("all_to_all_single", "output", output)
    check_tensor("all_to_all_single", "input", input)
    check_same_type("all_to_all_single", [output, input])
    received = _parts_along("output", output, output_split_sizes, process_group.size())
    sent = _parts_along("input", input, input_split_sizes, process_group.size())
    if process_group.size() == 1:
        if received != sent:
            raise ShapeError(
                f"all_to_all_single: the output has {received[0]} elements, the input {sent[0]}"
            )
        return alone(async_op, output, (output, input))
    return _exchange(
        "all_to_all_single", read(input), sent, received, input.dtype.name, process_group,
        lambda out: write(output, out, all_to_all_single), async_op, output,
    )  # fmt: skip


def _parts_along(word: str, tensor: Tensor, sizes: Any, ranks: int) -> list[int]:
    """Elements of each rank's part along dim 0."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if not sizes:
        if rows % ranks:
            raise ShapeError(
                f"all_to_all_single: dim 0 of the {word} has size {rows}, which {ranks} ranks "
                f"do not share evenly; pass {word}_split_sizes"
            )
        return [tensor.numel() // ranks] * ranks
    if len(sizes) != ranks:
        raise ShapeError(
            f"all_to_all_single: Number of tensor splits not equal to group size: "
            f"{word}_split_sizes has {len(sizes)} numbers, and the group has {ranks} ranks"
        )
    if sum(sizes) != rows or min(sizes) < 0:
        raise ShapeError(
            f"all_to_all_single: {word}_split_sizes {list(sizes)} add up to {sum(sizes)}, and "
            f"dim 0 of the {word} has size {rows}"
        )
    row = tensor.numel() // rows if rows else 0
    return [int(size) * row for size in sizes]


def _exchange(
    name: str,
    x: Array,
    sent: list[int],
    received: list[int],
    dtype: str,
    group: ProcessGroup,
    finish: Callable[[Array], None],
    async_op: bool,
    result: object,
) -> Work | None:
    """Parts from all to all. The sizes sent and expected are compared first."""
    line = group.line()

    def call(carrier: Transport) -> Array:
        compare_sizes(line, carrier, name, sent, received)
        out = room(sum(received), x.dtype)
        carrier.all_to_all(x, sent, out, received)
        return out

    return perform(group, (name, dtype), call, finish, async_op, result)


def compare_sizes(
    channel: Channel, carrier: Transport, name: str, sent: list[int], received: list[int]
) -> None:
    """Raise CollectiveMismatch in all ranks, if sizes sent and expected differ."""
    ranks = [1] * carrier.size
    coming = np.empty(carrier.size, np.int64)
    carrier.all_to_all(np.array(sent, np.int64), ranks, coming, ranks)
    wrong = np.array([int(coming.tolist() != received)], np.int64)
    any_wrong = np.empty(1, np.int64)
    carrier.all_reduce(wrong, any_wrong, "max")
    if any_wrong[0]:
        faults = [
            f"rank {rank} sends {n} elements here, and {m} are expected"
            for rank, (n, m) in enumerate(zip(coming.tolist(), received, strict=True))
            if n != m
        ]
        raise channel.disagreement(name, "; ".join(faults) or "all sizes fit here")


def barrier(
    group: AnyGroup = None,
    async_op: bool = False,
    device_ids: Sequence[int] | None = None,
    timeout: timedelta | float | None = None,
) -> Work | None:
    """Return when all ranks of the group have called.

    timeout: with `async_op`, taken by `Work.wait`
    """
    process_group = member("barrier", group)
    if process_group is None:
        return None
    if process_group.size() == 1:
        return alone(async_op, None)
    # Ranks compare calls before anything else, and so wait for all of them.
    return perform(process_group, ("barrier",), lambda line: None, None, async_op, None, (None, 0))


def _all_gather_base(
    output_tensor: Tensor, input_tensor: Tensor, group: AnyGroup = None, async_op: bool = False
) -> Work | None:
    """As `all_gather_into_tensor`."""
    return all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


def _reduce_scatter_base(
    output: Tensor,
    input: Tensor,
    op: AnyOp = ReduceOp.SUM,
    group: AnyGroup = None,
    async_op: bool = False,
) -> Work | None:
    """As `reduce_scatter_tensor`."""
    return reduce_scatter_tensor(output, input, op, group, async_op)
