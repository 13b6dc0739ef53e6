"""Messages between two ranks: send and receive, at once or in the background."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.core._hot import Tensor
from wend._engine.core.provenance import user_site
from wend.distributed._collectives import member, place_in
from wend.distributed._group import AnyGroup, ProcessGroup, resolve
from wend.distributed._wire._arrays import blank, check_tensor, describe, read, write
from wend.distributed._wire._transport import Request, Signature, Transport
from wend.distributed._work import Work

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]

#: The greatest tag: MPI promises 32 767, of which the last two are used for barriers.
MOST = 32765


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: AnyGroup = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Begin to send a tensor to rank `dst` of the world, or rank `group_dst` of the group.

    The tensor may be written to at once: the message has the present elements.
    tag: of the message; a receiver takes messages of its tag alone
    Raises ArgumentError (a ValueError) for this rank, for no member, and for a tag beyond 32 765.
    """
    process_group = member("isend", group)
    if process_group is None:
        return None
    check_tensor("isend", "tensor", tensor)
    to = _peer("isend", process_group, "destination", dst, group_dst)
    x = read(tensor)
    if tensor.value.buffer is not None and _known_outside(tensor):
        x = x.copy()
    return _begin(
        process_group, ("isend", f"to {to}", describe(tensor)), tag,
        lambda line: line.send(x, to, tag), None, tensor,
    )  # fmt: skip


def _known_outside(tensor: Tensor) -> bool:
    """Whether the memory of a tensor may be written to from outside while a message is sent."""
    alias = tensor.alias
    root = tensor if alias is None or alias.base is None else alias.base
    storage = None if root.alias is None else root.alias.storage
    return storage is not None and storage.shared is not None


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: AnyGroup = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Begin to receive a tensor from a rank; without a rank, from whichever sends first.

    The tensor has the message once `Work.wait` has returned.
    Raises ArgumentError (a ValueError) for this rank, for no member, and for a tag beyond 32 765.
    """
    process_group = member("irecv", group)
    if process_group is None:
        return None
    check_tensor("irecv", "tensor", tensor)
    source = None
    if src is not None or group_src is not None:
        source = _peer("irecv", process_group, "source", src, group_src)
    out = blank(tensor)
    where = "any rank" if source is None else source
    return _begin(
        process_group, ("irecv", f"from {where}", describe(tensor)), tag,
        lambda line: line.receive(out, source, tag),
        lambda _: write(tensor, out, irecv), tensor,
    )  # fmt: skip


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: AnyGroup = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to a rank; returns when the message is on its way. See `isend`."""
    process_group = member("send", group)
    if process_group is None:
        return
    work = isend(tensor, dst, process_group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: AnyGroup = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive a tensor from a rank, or from any; returns the sender's number in the world.

    -1 if this process is no member of the group. Raises as `irecv`, and DistBackendError for a
    message that is larger than the tensor.
    """
    process_group = member("recv", group)
    if process_group is None:
        return -1
    work = irecv(tensor, src, process_group, tag, group_src)
    if work is None:
        return -1
    return process_group.ranks[work.source_rank()]


def _peer(name: str, group: ProcessGroup, word: str, rank: int | None, place: int | None) -> int:
    """The partner's number in the group. Raises ArgumentError (a ValueError) for this rank."""
    partner = place_in(group, name, rank, place)
    if partner == group.own:
        raise ArgumentError(
            f"{name}: Invalid {word} rank: {word} rank should not be the same as the rank of the "
            "current process."
        )
    return partner


def _begin(
    group: ProcessGroup,
    signature: Signature,
    tag: int,
    begin: Callable[[Transport], Request],
    finish: Callable[[Any], None] | None,
    tensor: Tensor,
) -> Work:
    """Begin a message, which the group's channel knows of until it has come."""
    if type(tag) is not int or not 0 <= tag <= MOST:
        raise ArgumentError(
            f"{signature[0]}: the tag must be a number from 0 to {MOST}, got {tag!r}"
        )
    channel = group.line()
    channel.check(signature[0])
    work = Work(channel, signature, None, finish, user_site(), tensor)
    return channel.begin(work, begin(channel.line))


class P2POp:
    """A message for `batch_isend_irecv`: `isend` or `irecv`, a tensor, and the partner's rank.

    Raises ArgumentError (a ValueError) for another function, ArgumentTypeError for no tensor.
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: AnyGroup = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ArgumentError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        check_tensor("P2POp", "tensor", tensor)
        self.op, self.tensor, self.tag = op, tensor, tag
        self.group = resolve(group)
        self.group_peer = place_in(self.group, "P2POp", peer, group_peer)
        self.peer = self.group.ranks[self.group_peer]

    def __repr__(self) -> str:
        return f"P2POp({self.op.__name__}, {describe(self.tensor)}, peer={self.peer})"


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin several messages; returns their works, in the order of the list.

    Receives begin first, so that partners that send to each other do not wait.
    Raises ArgumentError (a ValueError) for an empty list, or for messages of several groups.
    """
    if not isinstance(p2p_op_list, list) or not all(isinstance(p, P2POp) for p in p2p_op_list):
        raise ArgumentTypeError(
            "batch_isend_irecv: Invalid ``p2p_op_list``. Each op is expected to be of type "
            "``torch.distributed.P2POp``."
        )
    if not p2p_op_list:
        raise ArgumentError("batch_isend_irecv: the list is empty")
    if len({id(p.group) for p in p2p_op_list}) > 1:
        raise ArgumentError("batch_isend_irecv: All ops need to use the same group.")
    works: dict[int, Work | None] = {}
    for k in sorted(range(len(p2p_op_list)), key=lambda k: p2p_op_list[k].op is isend):
        p = p2p_op_list[k]
        place = {"group_dst" if p.op is isend else "group_src": p.group_peer}
        works[k] = p.op(p.tensor, group=p.group, tag=p.tag, **place)
    works_in_order = [works[k] for k in range(len(p2p_op_list))]
    return [work for work in works_in_order if work is not None]
