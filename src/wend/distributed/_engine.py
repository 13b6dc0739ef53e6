"""Collectives in program order: one channel for each group, with a thread where work overlaps.

A blocking collective runs in the caller if nothing of the group is under way. Else the collective
waits for its turn in the thread of the group's channel, which starts at the first need. Each group
has a thread: ranks may begin collectives of two groups in different orders.

Before the data moves, the ranks compare a number that stands for the collective and the types. If
the numbers differ, all ranks tell their calls, and raise CollectiveMismatch.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from wend.base.errors import GraphError, WendError
from wend.core.provenance import Site, user_site
from wend.distributed._faults import CollectiveMismatch
from wend.distributed._transport import Request, Transport
from wend.distributed._work import Work

__all__ = ["Channel", "Pending", "Signature", "pending"]

#: A collective's name and all that must be equal in all ranks, in a form that can be told.
Signature = tuple[str, ...]
_NUMBERS: dict[Signature, Any] = {}


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


def pending() -> list[Pending]:
    """The collectives and messages under way in this process, by group, in program order.

    May be called in any thread, also while the main thread waits in MPI.
    """
    now = time.monotonic()
    found = []
    for channel in list(_channels):
        with channel.lock:
            works = [*channel.works, *channel.messages]
        for work in works:
            line = str(Site(*work.site))
            running = work in channel.messages or work is works[0]
            found.append(
                Pending(channel.name, work.number, work.title(), line, now - work.since, running)
            )
    return found


def number_of(signature: Signature) -> Any:
    """The pair that ranks compare: a number made of the signature, and its negative."""
    found = _NUMBERS.get(signature)
    if found is None:
        if len(_NUMBERS) > 10_000:
            _NUMBERS.clear()
        digest = hashlib.blake2b("\n".join(signature).encode(), digest_size=7).digest()
        number = int.from_bytes(digest, "little")
        found = _NUMBERS[signature] = np.array([number, -number], np.int64)
    return found


class Channel:
    """The collectives of a group, in sequence.

    line: the transport of collectives
    name: the group's name
    """

    def __init__(self, line: Transport, name: str) -> None:
        self.line, self.name = line, name
        self.number = 0
        self.works: deque[Work] = deque()
        self.messages: set[Work] = set()
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.thread: threading.Thread | None = None
        self.closed = False
        self.owner = os.getpid()
        _channels.add(self)

    def check(self, name: str) -> None:
        """Raise GraphError in a process that was forked, and after the end of the group."""
        if self.owner != os.getpid():
            raise GraphError(
                f"{name}: this process was forked from the process that has the process group; "
                "communicate in the process that called init_process_group"
            )
        if self.closed:
            raise GraphError(f"{name}: the process group has been destroyed")

    def run(
        self,
        signature: Signature,
        call: Callable[[Transport], Any],
        finish: Callable[[Any], Any] | None = None,
        background: bool = False,
        result: Any = None,
    ) -> Work:
        """Have a collective done; returns when done, or at once with `background`.

        call(line): moves the data, in any thread; touches arrays alone
        finish(result of `call`): writes results into tensors, in the thread that first waits
        result: the tensors that `Work.result` and the future give
        Raises CollectiveMismatch if ranks have called different things.
        """
        self.check(signature[0])
        return self.submit(Work(self, signature, call, finish, user_site(), result), background)

    def submit(self, work: Work, background: bool) -> Work:
        """Have a work done; returns when done, or at once with `background`."""
        with self.lock:
            self.number += 1
            work.number = self.number
            threaded = self.line.threads
            alone = not self.works
            here = alone and (not background or not threaded)
            self.works.append(work)
            work.here = here
            if not here:
                self._wake()
        if here:
            self._do(work)
        if background:
            return work
        work.wait()
        return work

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
                while not self.works or self.works[0].here:
                    if self.closed and not self.works:
                        return
                    self.changed.wait()
                work = self.works[0]
            self._do(work)
            del work

    def _do(self, work: Work) -> None:
        """Do a work whose turn has come; an error is kept in the work."""
        try:
            self._agree(work.signature)
            call = work.call
            work.found = None if call is None else call(self.line)
        except BaseException as error:
            work.error = error
        with self.lock:
            self.works.popleft()
            work.call = None
            work.done = True
            self.changed.notify_all()
        work.tell()

    def _agree(self, signature: Signature) -> None:
        """Compare the signature with those of all ranks."""
        if not self.line.agrees(number_of(signature)):
            raise self.disagreement(signature[0], title_of(signature))

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


def title_of(signature: Signature) -> str:
    """A signature as a call: name(rest)."""
    return f"{signature[0]}({', '.join(signature[1:])})"


def gather_bytes(line: Transport, mine: bytes) -> list[bytes]:
    """The bytes of all ranks, in the order of ranks."""
    sizes = np.empty(line.size, np.int64)
    line.all_gather(np.array([len(mine)], np.int64), sizes, [1] * line.size)
    counts = [int(n) for n in sizes]
    out = np.empty(sum(counts), np.uint8)
    line.all_gather(np.frombuffer(mine, np.uint8), out, counts)
    found, place = [], 0
    for count in counts:
        found.append(out[place : place + count].tobytes())
        place += count
    return found


def located(error: BaseException, site: Any) -> BaseException:
    """The error with the user's line of the call, where the error is of Wend's kind."""
    if isinstance(error, WendError) and error.site is None:
        error.site = Site(*site)
    return error
