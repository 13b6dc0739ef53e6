"""A connection between each two processes of a run, and threads that take all that comes.

Messages are kept until somebody asks. So a sender never waits for a process that sends too.
"""

from __future__ import annotations

import hmac
import json
import os
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from wend.distributed._wire._faults import DistNetworkError

__all__ = ["Mesh", "PeerLost", "connect"]

_HEADER: Final = struct.Struct("!QqQ")  # context, tag, bytes that follow
_HELLO: Final = struct.Struct("!Q")
_LONGEST_HELLO: Final = 4096
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
    """

    def __init__(self, own: int, links: dict[int, socket.socket]) -> None:
        self.own, self.links = own, links
        self.changed = threading.Condition()
        self.inbox: dict[Key, deque[bytearray]] = {}
        #: Processes that have ended: as planned, or lost.
        self.ended: set[int] = set()
        self.lost: set[int] = set()
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
                self.links[peer].sendall(_HEADER.pack(context, tag, view.nbytes))
                if view.nbytes:
                    self.links[peer].sendall(view)
        except OSError as error:
            with self.changed:
                if peer not in self.ended:
                    self.lost.add(peer)
                self.changed.notify_all()
            raise PeerLost(peer) from error

    # -- receiving --------------------------------------------------------------------------

    def _read(self, peer: int, link: socket.socket) -> None:
        """Take all that a process sends: the body of a thread."""
        header = bytearray(_HEADER.size)
        while _fill(link, header):
            context, tag, size = _HEADER.unpack(header)
            data = bytearray(size)
            if not _fill(link, data):
                break
            with self.changed:
                if context == _GOODBYE:
                    self.ended.add(peer)
                    self.changed.notify_all()
                elif context not in self.over:
                    self._keep((context, tag, peer), data)
        with self.changed:
            if peer not in self.ended and not self.closed:
                self.lost.add(peer)
            self.changed.notify_all()
        with self._sending[peer]:
            self._end_direction(peer)

    def _keep(self, key: Key, data: bytearray) -> None:
        self.inbox.setdefault(key, deque()).append(data)
        self.changed.notify_all()

    def find(self, context: int, tag: int, peer: int) -> bytearray | None:
        """The next bytes of a process, if any have come; the lock is held."""
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


def _fill(link: socket.socket, data: bytearray) -> bool:
    """Fill an array from a connection; False at its end."""
    view, place = memoryview(data), 0
    while place < len(data):
        try:
            count = link.recv_into(view[place:])
        except OSError:  # the connection is gone: waiting threads are told
            return False
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

    places: address and port at which each process listens
    token: tells this run from others; whoever reads the store knows the token, too
    seconds: for all connections together
    Raises DistNetworkError if a process does not answer in time, or ends meanwhile.
    """
    links: dict[int, socket.socket] = {}
    end = time.monotonic() + seconds

    def left() -> float:
        rest = end - time.monotonic()
        if rest <= 0:
            raise TimeoutError("timed out")
        return rest

    try:
        for peer in sorted(places):
            if peer < own:
                links[peer] = socket.create_connection(places[peer], left())
                hello = json.dumps([own, token]).encode()
                links[peer].sendall(_HELLO.pack(len(hello)) + hello)
        while len(links) < len(places) - 1:
            rest = left()
            if not _calls(listener, links, rest):
                continue
            link, _ = listener.accept()
            greeted = _greeted(link, token, rest)
            if greeted is None or greeted in links or greeted not in places:
                link.close()
            else:
                links[greeted] = link
    except OSError as error:
        for link in links.values():
            link.close()
        missing = sorted(set(places) - set(links) - {own})
        raise DistNetworkError(
            f"init_process_group: rank {own} has no connection with ranks {missing}: {error}"
        ) from error
    for link in links.values():
        link.settimeout(None)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Mesh(own, links)


def _calls(listener: socket.socket, links: dict[int, socket.socket], seconds: float) -> bool:
    """Wait until something comes; whether a process calls. Raises ConnectionError at an end."""
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        for peer, link in links.items():
            selector.register(link, selectors.EVENT_READ, peer)
        ready = [key.data for key, _ in selector.select(seconds)]
    for peer in ready:
        if peer is not None and not links[peer].recv(1, socket.MSG_PEEK):
            raise ConnectionError(f"rank {peer} has ended")
    if ready and None not in ready:
        time.sleep(_PAUSE)  # a process that has all its connections sends already
    return None in ready


def _greeted(link: socket.socket, token: str, seconds: float) -> int | None:
    """The number of the process that has connected; None for a stranger."""
    link.settimeout(min(seconds, 10.0))
    size = bytearray(_HELLO.size)
    if not _fill(link, size) or _HELLO.unpack(size)[0] > _LONGEST_HELLO:
        return None
    text = bytearray(_HELLO.unpack(size)[0])
    if not _fill(link, text):
        return None
    try:
        number, said = json.loads(text)
        return int(number) if hmac.compare_digest(str(said), token) else None
    except (ValueError, TypeError):  # a stranger has connected: the connection is closed
        return None
