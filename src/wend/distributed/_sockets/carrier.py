"""Collectives and messages over connections, in the order of ranks: sums are the same in all ranks.

Each rank sends its parts to the ranks that reduce them, and gets the results back. There are no
rings and no trees: the carrier is meant for some dozens of processes.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from wend.distributed._reduction import FUNCTIONS, fold
from wend.distributed._sockets.mesh import Mesh, PeerLost
from wend.distributed._wire._faults import DistBackendError
from wend.distributed._wire._transport import Array, Request, Transport

__all__ = ["WORLD", "SocketTransport"]

#: Bytes up to which each rank sends all to all ranks, instead of parts.
_SMALL: Final = 1 << 15
#: The name of the line of all processes.
WORLD: Final = "world"
_STEPS: Final = 8  # of a collective, at most
_LAST: Final = _STEPS - 1  # the step in which a rank gets a result from a rank that has it
_BEGIN: Final = _STEPS - 2  # the step of an empty message of all to all


def context_of(*words: object) -> int:
    """A number for a purpose, alike in all processes; never that of a goodbye."""
    digest = hashlib.blake2b(repr(words).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") | 1


class SocketTransport(Transport):
    """Some processes of a mesh.

    members: their numbers in the mesh, in the order of ranks   name: alike in all of them
    rescue: agrees with the living ranks after a loss; None where a loss is an error
    """

    threads = True

    def __init__(
        self, mesh: Mesh, members: Sequence[int], name: str, rescue: Any | None = None
    ) -> None:
        self.mesh, self.name, self.rescue = mesh, name, rescue
        self.members = self._at_start = tuple(members)
        self.rank, self.size = self.members.index(mesh.own), len(self.members)
        self._took_part = self.size
        self.done = 0
        self.result: tuple[int, bytes | None] = (self.size, None)
        self.ahead: int | None = None  # a process that has done the collective under way
        self.epoch, self.busy = 0, False
        self._news: tuple[tuple[int, ...], int | None] | None = None
        self._awaited: dict[tuple[int, int], deque[SocketRequest]] = {}
        self._parts: Counter[tuple[Any, ...]] = Counter()
        self._messages = context_of(name, "messages")
        if rescue is not None:
            rescue.add(self)

    def took_part(self) -> int:
        return self._took_part

    def context(self, epoch: int) -> int:
        """The context of collectives between two losses."""
        return context_of(self.name, epoch)

    # -- waiting ----------------------------------------------------------------------------

    def _send(self, rank: int, step: int, data: Array | None = None) -> None:
        tag = (self.done + 1) * _STEPS + step
        self.mesh.send(self.members[rank], self.context(self.epoch), tag, bytes_of(data))

    def _take(self, rank: int, step: int, like: Array | None = None) -> Array:
        """The bytes of a rank, as elements of a type. Raises PeerLost if they cannot come."""
        tag = (self.done + 1) * _STEPS + step
        data = self.await_bytes(self.members[rank], tag)
        return np.frombuffer(data, np.uint8 if like is None else like.dtype)

    def await_bytes(self, peer: int, tag: int) -> Any:
        """The bytes of a process. Raises PeerLost if they cannot come."""
        mesh, context, rescue = self.mesh, self.context(self.epoch), self.rescue
        with mesh.changed:
            while True:
                data = mesh.find(context, tag, peer)
                if data is not None:
                    return data
                if rescue is not None:
                    rescue.look(self)
                for gone in (peer, *self.members):
                    if gone in mesh.lost or (gone == peer and gone in mesh.ended):
                        raise PeerLost(gone)
                mesh.changed.wait()

    def _run(self, name: str, body: Callable[[], None], shared: Array | None) -> None:
        """Do a collective; after a loss again, among the living ranks.

        shared: the array that is alike in all ranks in the end; None if there is none
        """
        try:
            self._do(name, body, shared)
        finally:
            self.busy = False

    def _do(self, name: str, body: Callable[[], None], shared: Array | None) -> None:
        while True:
            try:
                if self.rescue is not None:
                    self.rescue.enter(self)
                    if self.ahead is not None:
                        self._catch_up(name, shared)
                        return
                body()
                self._took_part = self.size
                if self.rescue is None:
                    self.done += 1
                    return
                if self.rescue.complete(self, shared):
                    return
            except PeerLost as lost:
                if self.rescue is None:
                    raise self._gone(name, lost.member) from None
            self.rescue.recover(self.epoch)
            if shared is None:
                raise self.rescue.give_up(
                    f"{name}: a rank is lost, and its values are needed for this collective"
                )

    def _catch_up(self, name: str, shared: Array | None) -> None:
        """Take the result from a rank that had it before the loss."""
        assert self.ahead is not None
        if shared is None:
            raise self.rescue.give_up(f"{name}: the result is lost with a rank")
        data = self.await_bytes(self.ahead, (self.done + 1) * _STEPS + _LAST)
        self._took_part = int.from_bytes(data[:8], "little")
        plain(shared)[:] = np.frombuffer(data, np.uint8, offset=8)
        self.ahead = None
        if not self.rescue.complete(self, shared):
            raise PeerLost(self.members[0])

    # -- after a loss -----------------------------------------------------------------------

    def tell_news(self, rows: dict[int, dict[str, int]]) -> None:
        """Note who lives, and who has done what; a collective under way takes the news later."""
        members = tuple(m for m in self.members if m in rows)
        ahead = [m for m in members if rows[m].get(self.name, 0) > self.done]
        self._news = members, min(ahead, default=None)
        if not self.busy:
            self.take_news()

    def take_news(self) -> None:
        """Go on with the ranks that live."""
        if self._news is not None:
            self.members, self.ahead = self._news
            self._news = None
            self.rank, self.size = self.members.index(self.mesh.own), len(self.members)

    def behind(self, rows: dict[int, dict[str, int]]) -> list[int]:
        """The processes that wait for this process's last result."""
        members = [m for m in self.members if m in rows]
        have = [m for m in members if rows[m].get(self.name, 0) == self.done]
        if min(have) != self.mesh.own:
            return []
        return [m for m in members if rows[m].get(self.name, 0) < self.done]

    def hand_result(
        self, peer: int, epoch: int, number: int, result: tuple[int, bytes | None]
    ) -> None:
        """Send the result of a collective to a process that has not got it."""
        count, data = result
        tag = number * _STEPS + _LAST
        body = count.to_bytes(8, "little") + (data or b"")
        self.mesh.send(peer, self.context(epoch), tag, body)

    def _gone(self, name: str, member: int) -> DistBackendError:
        fate = self.mesh.fate_of(member)
        text = f"{name}: rank {self.place_of(member)}{fate}, and others wait for that rank"
        if self.rescue is not None:
            lost: DistBackendError = self.rescue.give_up(text)
            return lost
        error = DistBackendError(text)
        error.from_another_rank = True  # type: ignore[attr-defined]
        return error

    def place_of(self, member: int) -> int:
        """The rank of a process; of a lost process the rank at the start."""
        members = self.members
        return (members if member in members else self._at_start).index(member)

    def _others(self) -> list[int]:
        """The ranks that follow, in a ring: each rank sends to a different rank first."""
        return [(self.rank + k) % self.size for k in range(1, self.size)]

    def _check(self, name: str, counts: Sequence[int]) -> None:
        if len(counts) == self.size:
            return
        text = f"{name}: there are parts for {len(counts)} ranks, and {self.size} ranks are left"
        raise DistBackendError(text) if self.rescue is None else self.rescue.give_up(text)

    def _counted(self, name: str) -> tuple[int, ...]:
        """The processes among which the caller's root is counted.

        Raises DistBackendError if a rank was lost since the call: ranks that call now may mean
        another root by the same number.
        """
        members = self.members
        if self.called_among is not None and self.called_among != members:
            raise self._renumbered(name)
        return members

    def _begin(self, name: str, counted: tuple[int, ...] | None) -> None:
        """Wait for all ranks, so that no rank gets two collectives ahead; if a loss is no error.

        counted: the processes among which the root is counted; None if any may be left
        """
        if self.rescue is None:
            return
        if counted is not None and self.members != counted:
            raise self._renumbered(name)
        for rank in self._others():
            self._send(rank, _BEGIN)
        for rank in self._others():
            self._take(rank, _BEGIN)

    def _renumbered(self, name: str) -> DistBackendError:
        error: DistBackendError = self.rescue.give_up(
            f"{name}: a rank was lost since the call, and other ranks have new numbers"
        )
        return error

    # -- collectives ------------------------------------------------------------------------

    def all_reduce(self, x: Array, out: Array, op: str) -> None:
        def body() -> None:
            small = x.nbytes <= _SMALL or self.size == 2  # of the ranks that are left
            way = self._all_reduce_small if small else self._all_reduce_parts
            way(x, out, FUNCTIONS[op])

        self._run("all_reduce", body, out)

    def _all_reduce_small(self, x: Array, out: Array, op: Any) -> None:
        for rank in self._others():
            self._send(rank, 0, x)
        operands = [x if r == self.rank else self._take(r, 0, x) for r in range(self.size)]
        fold(operands, out, op)

    def _all_reduce_parts(self, x: Array, out: Array, op: Any) -> None:
        ends = [x.size * k // self.size for k in range(self.size + 1)]
        slices = [slice(a, b) for a, b in pairwise(ends)]
        mine = slices[self.rank]
        for rank in self._others():
            self._send(rank, 0, x[slices[rank]])
        operands = [x[mine] if r == self.rank else self._take(r, 0, x) for r in range(self.size)]
        fold(operands, out[mine], op)
        for rank in self._others():
            self._send(rank, 1, out[mine])
        for rank in self._others():
            out[slices[rank]] = self._take(rank, 1, out)

    def reduce(self, x: Array, out: Array | None, op: str, root: int) -> None:
        counted = self._counted("reduce")

        def body() -> None:
            self._begin("reduce", counted)
            if self.rank != root:
                self._send(root, 0, x)
                return
            assert out is not None
            operands = [x if r == root else self._take(r, 0, x) for r in range(self.size)]
            fold(operands, out, FUNCTIONS[op])

        self._run("reduce", body, None)

    def reduce_scatter(self, x: Array, out: Array, counts: Sequence[int], op: str) -> None:
        def body() -> None:
            self._check("reduce_scatter", counts)
            slices = parts_of(counts)
            for rank in self._others():
                self._send(rank, 0, x[slices[rank]])
            mine = x[slices[self.rank]]
            operands = [mine if r == self.rank else self._take(r, 0, x) for r in range(self.size)]
            fold(operands, out, FUNCTIONS[op])

        self._run("reduce_scatter", body, None)

    def broadcast(self, x: Array, root: int) -> None:
        """x = the root's x; the root waits for all ranks, and so has no second call under way."""
        source = self._counted("broadcast")[root]

        def body() -> None:
            if source not in self.members:
                raise self.rescue.give_up("broadcast: the rank that has the values is lost")
            self._begin("broadcast", None)
            first = self.members.index(source)
            if self.rank != first:
                plain(x)[:] = self._take(first, 0)
                self._send(first, 1)
                return
            for rank in self._others():
                self._send(rank, 0, x)
            for rank in self._others():
                self._take(rank, 1)

        self._run("broadcast", body, x)

    def all_gather(self, x: Array, out: Array, counts: Sequence[int]) -> None:
        def body() -> None:
            self._check("all_gather", counts)
            slices = parts_of(counts)
            for rank in self._others():
                self._send(rank, 0, x)
            out[slices[self.rank]] = x
            for rank in self._others():
                out[slices[rank]] = self._take(rank, 0, out)

        self._run("all_gather", body, out)

    def gather(self, x: Array, out: Array | None, counts: Sequence[int], root: int) -> None:
        counted = self._counted("gather")

        def body() -> None:
            self._begin("gather", counted)
            if self.rank != root:
                self._send(root, 0, x)
                return
            assert out is not None
            for rank, part in enumerate(parts_of(counts)):
                out[part] = x if rank == root else self._take(rank, 0, out)

        self._run("gather", body, None)

    def scatter(self, x: Array | None, out: Array, counts: Sequence[int], root: int) -> None:
        counted = self._counted("scatter")

        def body() -> None:
            self._begin("scatter", counted)
            if self.rank != root:
                out[:] = self._take(root, 0, out)
                return
            assert x is not None
            for rank, part in enumerate(parts_of(counts)):
                if rank == root:
                    out[:] = x[part]
                else:
                    self._send(rank, 0, x[part])

        self._run("scatter", body, None)

    def all_to_all(
        self, x: Array, sent: Sequence[int], out: Array, received: Sequence[int]
    ) -> None:
        def body() -> None:
            self._check("all_to_all", sent)
            theirs, mine = parts_of(sent), parts_of(received)
            for rank in self._others():
                self._send(rank, 0, x[theirs[rank]])
            out[mine[self.rank]] = x[theirs[self.rank]]
            for rank in self._others():
                out[mine[rank]] = self._take(rank, 0, out)

        self._run("all_to_all", body, None)

    def barrier(self) -> None:
        def body() -> None:
            for rank in self._others():
                self._send(rank, 0)
            for rank in self._others():
                self._take(rank, 0)

        self._run("barrier", body, np.empty(0, np.uint8))

    # -- messages ---------------------------------------------------------------------------

    def send(self, x: Array, to: int, tag: int) -> Request:
        member = self.members[to]
        try:
            self.mesh.send(member, self._messages, tag, bytes_of(x))
        except PeerLost:
            raise self._gone("send", member) from None
        return SocketRequest(self, member)

    def receive(self, x: Array, source: int | None, tag: int) -> Request:
        peer = self._next_source(tag) if source is None else self.members[source]
        request = SocketRequest(self, peer, x, tag)
        with self.mesh.changed:
            self._awaited.setdefault((peer, tag), deque()).append(request)
        return request

    def _next_source(self, tag: int) -> int:
        """The process whose message comes next; waits for a message."""
        peer: int = self._message(
            lambda: self.mesh.source_of(self._messages, tag, self.members), None, True
        )
        return peer

    def _message(self, find: Callable[[], Any], peer: int | None, waits: bool) -> Any:
        """The finding of a function, when a message has come; None if not, and nobody waits.

        find: called with the mesh's lock held   peer: whose message; None for any
        After a loss, agrees with the living ranks first, as these wait for this rank too.
        """
        mesh, rescue = self.mesh, self.rescue
        while True:
            with mesh.changed:
                message = find()
                if message is not None:
                    return message
                if rescue is None or not rescue.is_due():
                    if not waits:
                        return None
                    self._check_living(self._living() if peer is None else (peer,))
                    mesh.changed.wait()
                    continue
                epoch = rescue.epoch
            rescue.recover(epoch)

    def _living(self) -> list[int]:
        """The members that the ranks have not agreed to go on without."""
        rescue = self.rescue
        return [m for m in self.members if rescue is None or m in rescue.members]

    def _check_living(self, peers: Sequence[int]) -> None:
        """Raise DistBackendError if no message can come; the mesh's lock is held."""
        lost = [peer for peer in peers if peer in self.mesh.lost]
        others = set(peers) - {self.mesh.own}
        if lost or (others and others <= self.mesh.ended and self.mesh.own not in peers):
            raise self._gone("recv", (lost or sorted(others))[0])

    def take_messages(self, last: SocketRequest, waits: bool) -> bool:
        """Fill arrays in the order in which they were asked for, up to that of a request.

        Returns False if a message has not come, and nobody waits.
        """
        queue = self._awaited[last.peer, last.tag]

        def find() -> Any:
            data = self.mesh.find(self._messages, last.tag, last.peer)
            return None if data is None else (queue.popleft(), data)

        while last.array is not None:
            message = self._message(find, last.peer, waits)
            if message is None:
                return False
            request, data = message
            request.fill(data)
        return True

    # -- parts ------------------------------------------------------------------------------

    def part(self, ranks: Sequence[int], tag: int) -> Transport:
        members = [self.members[rank] for rank in ranks]
        key = (tuple(members), tag)
        self._parts[key] += 1
        name = f"{self.name}/{members}/{tag}/{self._parts[key]}"
        return SocketTransport(self.mesh, members, name, self.rescue)

    def free(self) -> None:
        if self.name == WORLD:
            self.mesh.close()
        if self.rescue is not None:
            self.rescue.remove(self)


class SocketRequest(Request):
    """A message: sent already, or to be taken when it has come.

    peer: where the message goes or comes from   array: to be filled; None for a sent message
    """

    def __init__(
        self, line: SocketTransport, peer: int, array: Array | None = None, tag: int = 0
    ) -> None:
        self.line, self.peer, self.array, self.tag = line, peer, array, tag
        self._source = line.place_of(peer)
        self.fault: DistBackendError | None = None

    def test(self) -> bool:
        return self._take(False)

    def wait(self) -> None:
        self._take(True)

    def _take(self, waits: bool) -> bool:
        if self.array is not None and not self.line.take_messages(self, waits):
            return False
        if self.fault is not None:
            raise self.fault
        return True

    def fill(self, data: Any) -> None:
        """Take the bytes that have come."""
        array, self.array = self.array, None
        assert array is not None
        if len(data) == array.nbytes:
            if len(data):
                plain(array)[:] = np.frombuffer(data, np.uint8)
            return
        self.fault = DistBackendError(
            f"recv: a message of {len(data)} bytes from rank {self.source} has come, and the "
            f"tensor has {array.nbytes} bytes; send and receive tensors of one size"
        )

    @property
    def source(self) -> int:
        return self._source


def plain(x: Array) -> Array:
    """The bytes of a flat array, in the same memory."""
    return x.view(np.uint8)


def bytes_of(x: Array | None) -> Any:
    """The bytes to send for an array."""
    return b"" if x is None or not x.size else plain(x)


def parts_of(counts: Sequence[int]) -> list[slice]:
    """The parts of an array that so many elements each make."""
    slices, place = [], 0
    for count in counts:
        slices.append(slice(place, place + count))
        place += count
    return slices
