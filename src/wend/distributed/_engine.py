"""Collectives in program order: one channel for each group, with a thread where work overlaps.

A blocking collective runs in the caller if nothing of the group is under way. Else the collective
waits for its turn in the thread of the group's channel, which starts at the first need. Each group
has a thread: ranks may begin collectives of two groups in different orders.

Before the data moves, the ranks compare a number that stands for the collective and the types, and
little data travels with the number: see `Greeting`. If the numbers differ, all ranks tell their
calls, and raise CollectiveMismatch.
"""

from __future__ import annotations

import json
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from wend._engine.base.errors import GraphError, WendError
from wend._engine.core.provenance import Site, user_site
from wend.distributed._wire._faults import CollectiveMismatch
from wend.distributed._wire._transport import (
    Array,
    Greeting,
    Request,
    Signature,
    Transport,
    title_of,
)
from wend.distributed._work import Work

__all__ = ["Channel", "Pending", "Signature", "pending"]


class Pending(NamedTuple):
    """A collective that is under way in this process.

    group: the group's name   number: of the collective in this group, from 1
    name: of the function, with types and sizes   line: of the user's program
    seconds: since the call   running: whether its turn has come
    """

    group: str
    number: int
    name: str
    line: str
    seconds: float
    running: bool


_channels: weakref.WeakSet[Channel] = weakref.WeakSet()


class _Lineage:
    """forks: how many forks lie between the first process and this one."""

    forks = 0


def _note_fork() -> None:
    _Lineage.forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def pending() -> list[Pending]:
    """The collectives and messages under way in this process, by group, in program order.

    May be called in any thread, also while the main thread waits in MPI.
    """
    now = time.monotonic()
    entries = []
    for channel in list(_channels):
        with channel.lock:
            works = [*channel.works, *channel.messages]
        for work in works:
            line = str(Site(*work.site))
            running = work in channel.messages or work is works[0]
            entries.append(
                Pending(channel.name, work.number, work.title(), line, now - work.since, running)
            )
    return entries


class Turn:
    """A blocking collective in its caller's thread, as `pending` and the channel's thread see it.

    Much less than a `Work`, which takes as long to make as a small message takes.
    """

    __slots__ = ("number", "signature", "since", "site")

    here = True

    def __init__(self, number: int, signature: Signature, site: tuple[Any, int]) -> None:
        self.number, self.signature, self.site = number, signature, site
        self.since = time.monotonic()

    def title(self) -> str:
        """The call: name(types and sizes)."""
        return title_of(self.signature)


class Channel:
    """The collectives of a group, in sequence.

    line: the transport of collectives
    name: the group's name
    """

    def __init__(self, line: Transport, name: str) -> None:
        self.line, self.name = line, name
        self.number = 0
        self.works: deque[Work | Turn] = deque()
        self.messages: set[Work] = set()
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.thread: threading.Thread | None = None
        self.closed = False
        self.forks = _Lineage.forks
        self.greeting = Greeting(line)
        _channels.add(self)

    def check(self, name: str) -> None:
        """Raise GraphError in a process that was forked, and after the end of the group."""
        if self.forks != _Lineage.forks:
            raise GraphError(
                f"{name}: this process was forked from the process that has the process group; "
                "communicate in the process that called init_process_group"
            )
        if self.closed:
            raise GraphError(f"{name}: the process group has been destroyed")

    def run(
        self,
        signature: Signature,
        call: Callable[[Any], Any],
        finish: Callable[[Any], Any] | None = None,
        background: bool = False,
        result: object = None,
        little: tuple[Array | None] | None = None,
    ) -> Work:
        """Have a collective done; returns when done, or at once with `background`.

        call(line): moves the data, in any thread; touches arrays alone
        finish(result of `call`): writes results into tensors, in the thread that first waits
        result: the tensors that `Work.result` and the future give
        little: in all ranks, the array that this rank sends along with the greeting, if any; the
            line of `call` is then `Greeting.data`
        Raises CollectiveMismatch if ranks have called different things.
        """
        self.check(signature[0])
        work = Work(self, signature, call, finish, user_site(), result)
        work.little = little
        return self.submit(work, background)

    def submit(self, work: Work, background: bool) -> Work:
        """Have a work done; returns when done, or at once with `background`."""
        work.among = None if self.line.rescue is None else self.line.members
        with self.lock:
            self.number += 1
            work.number = self.number
            here = not self.works and not (background and self.line.threads)
            self.works.append(work)
            work.here = here
            if not here:
                self._wake()
        if not here:
            if not background:
                work.wait()
            return work
        self._do(work)
        if not background:
            work.settle()
        return work

    def now(
        self, signature: Signature, call: Callable[[Any], Any], little: tuple[Array | None] | None
    ) -> Any:
        """As `run` without `background`, but returns what `call` has returned."""
        self.check(signature[0])
        among = None if self.line.rescue is None else self.line.members
        works, site = self.works, user_site()
        with self.lock:
            first = not works
            if first:
                self.number += 1
                works.append(Turn(self.number, signature, site))
        if not first:
            return self.run(signature, call, little=little).found
        try:
            return self._move(signature, call, little, among)
        except WendError as error:
            if error.site is None:
                error.site = Site(*site)
            raise
        finally:
            works.popleft()
            if self.thread is not None:  # which may be waiting for its turn
                with self.lock:
                    self.changed.notify_all()

    def begin(self, work: Work, request: Request) -> Work:
        """Note a message between two ranks as under way, until somebody has waited for the end."""
        work.request = request
        with self.lock:
            self.messages.add(work)
        return work

    def _wake(self) -> None:
        """Let the thread look for work; the lock is held."""
        if self.thread is None:
            self.thread = threading.Thread(
                target=self._work_off, name=f"collectives of {self.name}", daemon=True
            )
            self.thread.start()
        self.changed.notify_all()

    def _work_off(self) -> None:
        """The thread: do works in their order, but for those that callers do by themselves."""
        while True:
            with self.lock:
                while (work := self._next()) is None:
                    if self.closed and not self.works:
                        return
                    self.changed.wait()
            self._do(work)
            del work

    def _next(self) -> Work | None:
        """The work whose turn has come, if it is left to the thread; the lock is held."""
        first = self.works[0] if self.works else None
        return first if isinstance(first, Work) and not first.here else None

    def _do(self, work: Work) -> None:
        """Do a work whose turn has come; an error is kept in the work."""
        try:
            work.found = self._move(work.signature, work.call, work.little, work.among)
        except BaseException as error:
            # The `Work` of the collective keeps the error, and `wait` raises the error.
            work.error = error
        with self.lock:
            self.works.popleft()
            work.call = work.little = None
            work.done = True
            if self.thread is not None:  # else nobody waits
                self.changed.notify_all()
        work.tell()

    def _move(
        self,
        signature: Signature,
        call: Callable[[Any], Any] | None,
        little: tuple[Array | None] | None,
        among: tuple[int, ...] | None,
    ) -> Any:
        """Compare the calls of all ranks, and move the data; the collective's turn has come.

        among: the processes at the time of the call, if some may be lost; None if not
        """
        greeting = self.greeting
        if not greeting.agrees(signature, None if little is None else little[0]):
            raise self.disagreement(signature[0], title_of(signature))
        if call is None or among is None:
            return None if call is None else call(self.line if little is None else greeting.data)
        self.line.called_among = among
        try:
            return call(self.line if little is None else greeting.data)
        finally:
            self.line.called_among = None

    def disagreement(self, name: str, here: str) -> CollectiveMismatch:
        """The error that tells the calls of all ranks; made by all ranks at once.

        here: this rank's call, or finding
        """
        work = self.works[0]
        calls = gather_bytes(self.line, json.dumps([here, str(Site(*work.site))]).encode())
        lines = []
        for rank, call in enumerate(calls):
            title, place = json.loads(call)
            lines.append(f"  rank {rank}: {title}, at {place}")
        return CollectiveMismatch(
            f"{name}: the ranks of group {self.name!r} do not agree on collective {work.number}:\n"
            + "\n".join(lines)
            + "\nAll ranks of a group must call the same collectives in the same order, with "
            "tensors of the same type and size"
        )

    def close(self) -> None:
        """End the channel, after the collectives that have been begun."""
        with self.lock:
            self.closed = True
            self.changed.notify_all()
            thread = self.thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()


def gather_bytes(line: Transport, mine: bytes) -> list[bytes]:
    """The bytes of all ranks, in the order of ranks."""
    sizes = np.empty(line.size, np.int64)
    line.all_gather(np.array([len(mine)], np.int64), sizes, [1] * line.size)
    counts = [int(n) for n in sizes]
    out = np.empty(sum(counts), np.uint8)
    line.all_gather(np.frombuffer(mine, np.uint8), out, counts)
    messages, place = [], 0
    for count in counts:
        messages.append(out[place : place + count].tobytes())
        place += count
    return messages
