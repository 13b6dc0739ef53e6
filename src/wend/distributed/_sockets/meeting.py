"""How processes without MPI meet: by a store, or by the launcher."""

from __future__ import annotations

import atexit
import json
import os
import queue
import secrets
import socket
import sys
import time
from datetime import timedelta
from itertools import count
from typing import Any, Final
from weakref import WeakKeyDictionary

from wend.distributed._sockets.carrier import WORLD, SocketTransport
from wend.distributed._sockets.mesh import Mesh, connect
from wend.distributed._sockets.rescue import Rescue
from wend.distributed._stores.network import TCPStore
from wend.distributed._stores.tables import FileStore
from wend.distributed._wire._faults import DistBackendError, DistNetworkError, StoreRefused
from wend.distributed.launcher import _rank
from wend.distributed.rendezvous import rendezvous

__all__ = ["meet_by_launcher", "meet_by_store"]

_BACKLOG: Final = 512
_CONNECT_SECONDS: Final = 10.0  # for all connections of processes that have met a moment ago
_MET_SECONDS: Final = 60.0  # the same after a meeting by a store, of many machines perhaps
_PAUSE: Final = 0.1  # seconds until a process looks for the next store at an address
#: Stores by address, with the number of meetings: the first process keeps a store to its end.
_known: dict[str, list[Any]] = {}
#: The number of meetings by stores that programs have made.
_turns: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


class OtherRunError(DistNetworkError):
    """A store serves an earlier run, or has just ended."""


def meet_by_store(
    url: str, store: object, rank: int, size: int, timeout: timedelta
) -> SocketTransport:
    """All processes that use an address or a store. Raises DistNetworkError after the time."""
    address = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    place = address if url.startswith("env") else url
    if store is None:
        mesh = _meet_at(place, url, rank, size, timeout)
    else:
        turn = _turns.get(store, 0)
        _turns[store] = turn + 1
        mesh = _meet(store, turn, rank, size, timeout)
    _end_with_the_process(mesh)
    return SocketTransport(mesh, range(size), WORLD)


def _meet_at(place: str, url: str, rank: int, size: int, timeout: timedelta) -> Mesh:
    """Connections with all processes that use an address.

    A process that is started again may find the store of the run before, until that run has ended.
    Such a process looks for the next store at the same address.
    """
    end = time.monotonic() + timeout.total_seconds()
    while True:
        left = timedelta(seconds=max(end - time.monotonic(), 0.0))
        store = None
        try:
            store, turn = _next_at(place, url, rank, size, left)
            mesh = _meet(store, turn, rank, size, left)
        except DistNetworkError as error:
            again = isinstance(error, OtherRunError) or _may_start_again()
            by_network = store is None or isinstance(_inner(store), TCPStore)
            if rank == 0 or not (again and by_network) or time.monotonic() > end:
                raise
        else:
            if isinstance(store, FileStore):
                store.close()  # the last process takes the file away
                del _known[place]
            return mesh
        if store is not None:
            store.close()
            del _known[place]
        time.sleep(_PAUSE)


def _next_at(place: str, url: str, rank: int, size: int, timeout: timedelta) -> tuple[Any, int]:
    """The store of an address, and the number of the next meeting there."""
    if place not in _known:
        try:
            store, _, _ = next(iter(rendezvous(url, rank, size, timeout=timeout)))
        except StoreRefused:
            raise
        except DistNetworkError as error:
            raise OtherRunError(str(error)) from error
        _known[place] = [store, 0]
    known = _known[place]
    known[1] += 1
    return known[0], known[1] - 1


def _meet(store: Any, turn: int, rank: int, size: int, timeout: timedelta) -> Mesh:
    """Connections with all processes of a meeting.

    Each process says where it listens. Rank 0 tells all when all have said so.

    Raises OtherRunError if rank 0 has told of another process as this rank.
    """
    inner = _inner(store)
    reached = inner.host if isinstance(inner, TCPStore) else "127.0.0.1"
    start = f"wend/{turn}"
    with _listener(reached) as listener:
        own = [*listener.getsockname(), secrets.token_hex(8)]
        say = store.hold if isinstance(inner, TCPStore) else store.set
        say(f"{start}/{rank}", json.dumps(own))
        if rank == 0:
            keys = [f"{start}/{k}" for k in range(size)]
            store.wait(keys, timeout)
            rows = [json.loads(store.get(key)) for key in keys]
            store.set(f"{start}/world", json.dumps([secrets.token_hex(), rows]))
        store.wait([f"{start}/world"], timeout)
        token, rows = json.loads(store.get(f"{start}/world"))
        if rows[rank] != own:
            raise OtherRunError(
                f"init_process_group: rank {rank}: the processes of another run have met here; "
                "use a new file or store for each run, and let all processes of a run end"
            )
        places = {k: (host, port) for k, (host, port, _) in enumerate(rows)}
        seconds = min(timeout.total_seconds(), _MET_SECONDS)
        return connect(rank, listener, places, token, seconds)


def _inner(store: object) -> Any:
    """The store below stores that add prefixes."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return store


def _may_start_again() -> bool:
    """Whether the launcher starts processes that fail again: rank 0 may be about to come back."""
    return int(os.environ.get("TORCHELASTIC_MAX_RESTARTS") or 0) > 0


def meet_by_launcher(number: int, timeout: timedelta, shrunk: Any) -> SocketTransport:
    """All ranks of a launcher that live; `shrunk(before, now)` is told when a rank is lost.

    number: of this rank at the start
    """
    meeting = Meeting()
    seconds = min(timeout.total_seconds(), _CONNECT_SECONDS)
    for epoch in count():
        listener = _listener(meeting.reached)
        answer = meeting.meet(epoch, {"place": listener.getsockname()})
        rows = {int(key): row for key, row in answer["rows"].items()}
        if not all("place" in row for row in rows.values()):
            raise meeting.give_up("init_process_group: a rank was lost at the beginning")
        places = {key: (row["place"][0], row["place"][1]) for key, row in rows.items()}
        try:
            mesh = connect(number, listener, places, f"{answer['token']} {epoch}", seconds)
            break
        except DistNetworkError:
            # A rank was lost between the meeting and the connections: the ranks meet again.
            continue  # a rank was lost meanwhile: those that live meet again
    meeting.mesh = mesh
    rescue = Rescue(mesh, sorted(places), meeting, shrunk, epoch)
    line = SocketTransport(mesh, sorted(places), WORLD, rescue)
    _end_with_the_process(mesh, line)
    mesh.at_end.append(meeting.end)
    return line


class Meeting:
    """Asks the launcher which ranks live, and what each of them has said."""

    def __init__(self) -> None:
        channel = _rank.channel()
        if channel is None:
            raise DistBackendError("init_process_group: there is no launcher to ask for ranks")
        self.channel = channel
        self.answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.mesh: Mesh | None = None
        channel.listeners.append(self._hear)
        #: An address in the network of the run.
        self.reached = os.environ.get("MASTER_ADDR", "127.0.0.1")

    def _hear(self, message: dict[str, Any]) -> None:
        if message["say"] == "world":
            self.answers.put(message)
        elif message["say"] == "lost" and self.mesh is not None:  # the network may not tell so soon
            self.mesh.lose(message["rank"], True)

    def end(self) -> None:
        """Hear the launcher no more."""
        if self._hear in self.channel.listeners:
            self.channel.listeners.remove(self._hear)

    def meet(self, epoch: int, row: dict[str, Any]) -> dict[str, Any]:
        """Wait until all living ranks have said their row; returns the launcher's answer."""
        self.channel.send(say="meet", epoch=epoch, row=row)
        while True:
            answer = self.answers.get()
            if answer["epoch"] == epoch:
                return answer

    def give_up(self, text: str) -> DistBackendError:
        """The error where the living ranks cannot go on; the launcher ends all ranks."""
        self.channel.send(say="cannot")
        error = DistBackendError(text)
        error.from_another_rank = True  # type: ignore[attr-defined]
        return error


def _listener(reached: str) -> socket.socket:
    """A socket at a free port, of the address by which this machine reaches a known machine.

    Raises DistNetworkError if the machine has no IPv4 address, or there is no way.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((reached or "127.0.0.1", 9))  # sends nothing
        except OSError as error:
            raise DistNetworkError(
                f"init_process_group: no way to {reached}: {error}; let MASTER_ADDR be a name or "
                "an IPv4 address of the first machine"
            ) from error
        return socket.create_server((probe.getsockname()[0], 0), backlog=_BACKLOG)


def _end_with_the_process(mesh: Mesh, line: SocketTransport | None = None) -> None:
    """Say goodbye when the process ends: without a goodbye, a process counts as lost."""
    mesh.last = line
    has_failed, watch_no_more = _rank.watch_failure()

    def end() -> None:
        if not _rank.is_leaving() and not has_failed():
            mesh.close()

    atexit.register(end)
    util = sys.modules.get("multiprocessing.util")
    finalizer = None
    if util is not None:  # processes of multiprocessing skip atexit
        finalizer = util.Finalize(None, end, exitpriority=20)

    def undo() -> None:
        watch_no_more()
        if finalizer is not None:
            finalizer.cancel()
        atexit.unregister(end)

    mesh.at_end.append(undo)
