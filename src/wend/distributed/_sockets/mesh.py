"""A connection between each two processes of a run, and threads that take all that comes.

Messages are kept until somebody asks. So a sender never waits for a process that sends too.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from wend.distributed._stores.network import TOKEN, own_token
from wend.distributed._wire._faults import DistNetworkError
from wend.distributed.launcher._doors import (
    Door,
    TlsFiles,
    enter,
    key_of,
    receive_exactly,
    socket_of,
    watch_peer,
)

__all__ = ["Mesh", "PeerLost", "connect"]

_HEADER: Final = struct.Struct("!QqQ")  # context, tag, bytes that follow
_HELLO: Final = struct.Struct("!Q")
_TOGETHER: Final = 1 << 14  # bytes up to which header and data are sent at once
_SILENT: Final = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN)
_PAUSE: Final = 0.001  # seconds until connections are looked at again
_GOODBYE: Final = 0  # the context of a word that a process ends as planned
Key = tuple[int, int, int]  # context, tag, process


class PeerLost(Exception):
    """A process that is waited for has ended; raised and caught in this folder."""

    def __init__(self, member: int) -> None:
        super().__init__(f"process {member} has ended")
        self.member = member


class Mesh:
    """The connections of a process.

    own: the number of this process   links: sockets, by the number of the process behind
    places: address and port of each process, for errors
    """

    def __init__(
        self,
        own: int,
        links: dict[int, Any],
        places: Mapping[int, tuple[str, int]] = MappingProxyType({}),
    ) -> None:
        self.own, self.links, self.places = own, links, places
        self.changed = threading.Condition()
        self.inbox: dict[Key, deque[Any]] = {}
        #: Processes that have ended: as planned, or lost.
        self.ended: set[int] = set()
        self.lost: set[int] = set()
        #: Lost processes whose machine does not answer.
        self.silent: set[int] = set()
        #: Contexts of which nothing is awaited any more.
        self.over: set[int] = set()
        self.closed = False
        #: The line of all processes, which all wait at in the end.
        self.last: Any = None
        #: Called when the mesh has been closed.
        self.at_end: list[Callable[[], None]] = []
        self.owner = os.getpid()
        #: Processes of which a direction of the connection has ended.
        self._half_closed: set[int] = set()
        self._sending = {peer: threading.Lock() for peer in links}
        for peer, link in links.items():
            name = f"messages of process {peer}"
            threading.Thread(target=self._read, args=(peer, link), name=name, daemon=True).start()

    def fate_of(self, peer: int) -> str:
        """Words for errors: where a lost process was, and how the process was lost."""
        host = self.places.get(peer, ("127.", 0))[0]
        where = "" if host.startswith("127.") else f" on {host}"
        return f"{where} does not answer" if peer in self.silent else f"{where} has ended"

    # -- sending ----------------------------------------------------------------------------

    def send(self, peer: int, context: int, tag: int, data: Any) -> None:
        """Send bytes to a process. Raises PeerLost if the process has ended."""
        view = memoryview(data).cast("B")
        if peer == self.own:
            with self.changed:
                self._keep((context, tag, peer), bytearray(view))
            return
        try:
            with self._sending[peer]:
                header = _HEADER.pack(context, tag, view.nbytes)
                if view.nbytes <= _TOGETHER:
                    self.links[peer].sendall(header + view)
                else:
                    self.links[peer].sendall(header)
                    self.links[peer].sendall(view)
        except OSError as error:
            self.lose(peer, error.errno in _SILENT)
            raise PeerLost(peer) from error

    def lose(self, peer: int, is_silent: bool) -> None:
        """Note that a process is lost, if it has not ended as planned; waiting threads are told."""
        with self.changed:
            if peer not in self.ended and not self.closed:
                self.lost.add(peer)
                if is_silent:
                    self.silent.add(peer)
            self.changed.notify_all()

    # -- receiving --------------------------------------------------------------------------

    def _read(self, peer: int, link: Any) -> None:
        """Take all that a process sends: the body of a thread."""
        is_silent = False
        try:
            self._take_from(peer, link)
        except OSError as error:  # the connection is gone: threads that wait are told
            is_silent = error.errno in _SILENT
        self.lose(peer, is_silent)
        with self._sending[peer]:
            self._end_direction(peer)

    def _take_from(self, peer: int, link: Any) -> None:
        header = bytearray(_HEADER.size)
        while _fill(link, memoryview(header)):
            context, tag, size = _HEADER.unpack(header)
            data = memoryview(np.empty(size, np.uint8).data)
            if not _fill(link, data):
                return
            with self.changed:
                if context == _GOODBYE:
                    self.ended.add(peer)
                    self.changed.notify_all()
                elif context not in self.over:
                    self._keep((context, tag, peer), data)

    def _keep(self, key: Key, data: memoryview | bytearray) -> None:
        self.inbox.setdefault(key, deque()).append(data)
        self.changed.notify_all()

    def find(self, context: int, tag: int, peer: int) -> Any:
        """The next bytes of a process, or None if none have come; the lock is held."""
        key = (context, tag, peer)
        queue = self.inbox.get(key)
        if queue is None:
            return None
        data = queue.popleft()
        if not queue:
            del self.inbox[key]
        return data

    def source_of(self, context: int, tag: int, peers: Any) -> int | None:
        """A process whose bytes have come, or None; the lock is held."""
        return next((peer for peer in peers if (context, tag, peer) in self.inbox), None)

    def forget(self, contexts: set[int]) -> None:
        """Drop all that has come, or will come, in these contexts; the lock is held."""
        self.over |= contexts
        for key in [key for key in self.inbox if key[0] in contexts]:
            del self.inbox[key]

    # -- the end ----------------------------------------------------------------------------

    def close(self) -> None:
        """Tell all processes that this process ends as planned."""
        if self.closed or self.owner != os.getpid():
            return
        if self.last is not None and threading.current_thread() is threading.main_thread():
            self.last.barrier()
        self.closed = True
        for peer, link in self.links.items():
            try:
                with self._sending[peer]:
                    link.sendall(_HEADER.pack(_GOODBYE, 0, 0))
                    link.shutdown(socket.SHUT_WR)
            except OSError:  # the peer has ended before: no goodbye is needed
                continue  # gone before
            finally:
                with self._sending[peer]:
                    self._end_direction(peer)
        while self.at_end:
            self.at_end.pop()()

    def _end_direction(self, peer: int) -> None:
        """Close the connection when both directions have ended; the lock of `send` is held."""
        if peer in self._half_closed:
            self.links[peer].close()
        self._half_closed.add(peer)


def _fill(link: Any, view: memoryview) -> bool:
    """Fill memory from a connection; False at the end. Raises OSError."""
    place = 0
    while place < len(view):
        count = link.recv_into(view[place:])
        if not count:
            return False
        place += count
    return True


def connect(
    own: int,
    listener: socket.socket,
    places: dict[int, tuple[str, int]],
    token: str,
    seconds: float,
) -> Mesh:
    """Connections with all processes of the run: made to lower numbers, taken from higher numbers.

    listener: is closed in the end   places: address and port at which each process listens
    token: tells this run from others; proofs need the token of the store too, which is not sent
    seconds: for all connections together
    Raises DistNetworkError if a process does not answer in time, or ends meanwhile.
    """
    links: dict[int, Any] = {}
    end = time.monotonic() + seconds
    key, tls = key_of(own_token(), token), TlsFiles.of(os.environ)
    door = Door(listener, key, tls)

    def left() -> float:
        rest = end - time.monotonic()
        if rest <= 0:
            raise TimeoutError("timed out")
        return rest

    try:
        for peer in sorted(places):
            if peer < own:
                links[peer] = enter(places[peer], key, tls, TOKEN, left())
                links[peer].sendall(_HELLO.pack(own))
        while len(links) < len(places) - 1:
            if not _calls(door, links, left()):
                continue
            link = door.guest()
            (number,) = _HELLO.unpack(receive_exactly(link, _HELLO.size, end))
            link.settimeout(None)
            if number in links or number not in places:
                link.close()
            else:
                links[number] = link
    except OSError as error:
        for link in links.values():
            link.close()
        missing = sorted(set(places) - set(links) - {own})
        where = ", ".join(f"{places[k][0]}:{places[k][1]}" for k in missing)
        raise DistNetworkError(
            f"init_process_group: rank {own} has no connection with ranks {missing} at {where}: "
            f"{error}"
        ) from error
    finally:
        door.close()
    for link in links.values():
        watch_peer(link, strict=False)
    return Mesh(own, links, places)


def _calls(door: Door, links: dict[int, Any], seconds: float) -> bool:
    """Wait until something comes; whether a process calls. Raises ConnectionError at an end."""
    with selectors.DefaultSelector() as selector:
        selector.register(door, selectors.EVENT_READ)
        for peer, link in links.items():
            selector.register(link, selectors.EVENT_READ, peer)
        ready = [key.data for key, _ in selector.select(seconds)]
    for peer in ready:
        if peer is not None and not socket_of(links[peer]).recv(1, socket.MSG_PEEK):
            raise ConnectionError(f"rank {peer} has ended")
    if ready and None not in ready:
        time.sleep(_PAUSE)  # a process that has all its connections sends already
    return None in ready
