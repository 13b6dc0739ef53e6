"""Talk between the ranks of a group, beside tensors: facts, failures, whole arrays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from wend.distributed._engine import Channel, gather_bytes
from wend.distributed._group import AnyGroup, ProcessGroup, resolve, state

__all__ = ["Ranks", "ranks_of"]


class Ranks:
    """The ranks of a group, by a channel; a lone rank has none.

    rank: this process's number in the group   size: of the group
    """

    def __init__(self, channel: Channel | None, rank: int, size: int) -> None:
        self.channel, self.rank, self.size = channel, rank, size

    def _check(self, channel: Channel) -> None:
        """Raise DistBackendError if a rank is lost, and with it the parts that it had."""
        line = channel.line
        if line.size != self.size and line.rescue is not None:
            raise line.rescue.give_up(
                f"the parts of a lost rank are lost: {line.size} of {self.size} ranks live; start "
                "again from a checkpoint"
            )

    def tell(self, purpose: str, fact: object) -> list[Any]:
        """The facts of all ranks, in the order of ranks; facts are plain, as JSON knows them."""
        if self.channel is None:
            return [fact]
        self._check(self.channel)
        text = json.dumps(fact).encode()
        texts = self.channel.run(("facts", purpose), lambda line: gather_bytes(line, text)).found
        return [json.loads(text) for text in texts]

    def gather(self, mine: np.ndarray, counts: Sequence[int]) -> np.ndarray:
        """The flat arrays of all ranks, end to end. counts: elements of each"""
        if self.channel is None:
            return mine.copy()
        self._check(self.channel)
        out = np.empty(sum(counts), mine.dtype)
        signature = ("gather of parts", str(mine.dtype), str(list(counts)))
        self.channel.run(signature, lambda line: line.all_gather(mine, out, counts))
        return out

    def broadcast(self, array: np.ndarray, root: int) -> np.ndarray:
        """The root's flat array, written into that of each rank."""
        channel = self.channel
        if channel is not None:
            self._check(channel)
            signature = ("broadcast of a part", str(array.dtype), f"[{array.size}]", f"from {root}")

            def call(line: Any) -> None:
                self._check(channel)  # as ranks have other numbers after a loss
                line.broadcast(array, root)

            channel.run(signature, call)
        return array

    def add(self, value: float, kind: str = "sum") -> float:
        """The sum of a number over all ranks; kind: or "max"."""
        if self.channel is None:
            return value
        self._check(self.channel)
        mine, out = np.array([value], np.float64), np.empty(1, np.float64)
        self.channel.run(("number", kind), lambda line: line.all_reduce(mine, out, kind))
        return float(out[0])


#: Channels made here, by group and purpose.
_made: dict[tuple[int, str], tuple[ProcessGroup, Channel]] = {}


def ranks_of(group: AnyGroup, purpose: str = "", lone: bool = False) -> Ranks:
    """The ranks of a group, by its own channel, or by a channel for a purpose.

    group: None for all ranks; this process alone where there is no default group
    lone: whether this process is meant alone
    All ranks of the group ask for a purpose at the same point of the program.
    """
    if lone or (group is None and state.default is None):
        return Ranks(None, 0, 1)
    process_group = resolve(group)
    if process_group.size() == 1:
        return Ranks(None, 0, 1)
    if not purpose:
        return Ranks(process_group.line(), process_group.own, process_group.size())
    key = id(process_group), purpose
    known = _made.get(key)
    if known is None or known[0] is not process_group or known[1].closed:
        from wend.distributed._replicas.reducer import own_channel

        known = _made[key] = process_group, own_channel(process_group, purpose)
    return Ranks(known[1], process_group.own, process_group.size())
