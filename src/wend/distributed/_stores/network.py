"""TCPStore: a store over a network, whose processes know each other by a token.

Where WEND_STORE_TOKEN (or WEND_TOKEN) is set, a connection begins with proofs of the token: see
`launcher/_doors.py`. `wend launch` sets the variable for the ranks. Then frames follow: a length,
which is bounded, and JSON.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from datetime import timedelta
from typing import Any, Final

from wend.distributed._stores.tables import DEFAULT, OPERATIONS, Store, Table
from wend.distributed._wire._faults import DistNetworkError, DistStoreError, StoreRefused
from wend.distributed.launcher._doors import (
    TOKEN,
    Door,
    RefusedError,
    TlsFiles,
    enter,
    own_token,
    receive_exactly,
    watch_peer,
)

__all__ = ["MOST_FRAME", "TOKEN", "TCPStore", "own_token"]

MOST_FRAME: Final = 64 << 20  # bytes of a request or an answer
#: How a connection ends, and how requests fail that no store of Wend's makes.
_NO_REQUEST: Final = (
    OSError, DistStoreError, ValueError, TypeError, LookupError, AttributeError,
)  # fmt: skip


def send_frame(link: Any, value: object) -> None:
    """Send JSON with its length before; bytes are told as {"$": text}.

    Raises DistStoreError for more than MOST_FRAME bytes.
    """
    data = json.dumps(value, default=lambda b: {"$": b.decode("latin1")}).encode()
    if len(data) > MOST_FRAME:
        raise DistStoreError(
            f"TCPStore: a request or answer of {len(data)} bytes, and {MOST_FRAME} are the most; "
            "send large data by collectives"
        )
    link.sendall(struct.pack("!Q", len(data)) + data)


def receive_frame(link: Any) -> Any:
    """The value of `send_frame`.

    Raises ConnectionError for anything else, before memory is taken.
    """
    (count,) = struct.unpack("!Q", receive_exactly(link, 8))
    if count > MOST_FRAME:
        raise ConnectionError(f"a frame of {count} bytes, and {MOST_FRAME} are the most")
    data = receive_exactly(link, count)
    try:
        return json.loads(data, object_hook=_with_bytes)
    except (ValueError, AttributeError, RecursionError) as error:
        raise ConnectionError("what has come is no frame of a store") from error


def _with_bytes(table: dict[str, Any]) -> Any:
    return table["$"].encode("latin1") if set(table) == {"$"} else table


class _Server(threading.Thread):
    """Answers the processes that use a TCPStore, a thread for each."""

    def __init__(self, listener: socket.socket) -> None:
        super().__init__(daemon=True, name="TCPStore")
        self.listener = listener
        self.door = Door(listener, own_token(), TlsFiles.of(os.environ))
        self.table: Table = {}
        self.lock = threading.Lock()

    def run(self) -> None:
        while True:
            try:
                link = self.door.guest()
            except OSError:  # closed: the store has ended
                return
            threading.Thread(target=self._answer, args=(link,), daemon=True).start()

    def _answer(self, link: Any) -> None:
        held: Table = {}
        with link:
            try:
                watch_peer(link, strict=False)
                while True:
                    operation, args = receive_frame(link)
                    if operation == "hold":
                        held[args[0]] = args[1]
                    with self.lock:
                        answer = OPERATIONS[operation](self.table, *args)
                    send_frame(link, answer)
            except _NO_REQUEST:
                # The peer is gone, or its message is no request: the connection
                # ends, which that process is told by.
                pass  # the process has gone, or is told by the end of the connection
        with self.lock:
            for key, value in held.items():
                if self.table.get(key) == value:  # else another process has set the key meanwhile
                    del self.table[key]


class TCPStore(Store):
    """A store over a network: a process has the keys, and answers all.

    host_name, port: where the first process listens; port 0 lets the system choose
    world_size: the number of processes, which the first waits for with `wait_for_workers`
    is_master: whether this process has the keys
    Where WEND_STORE_TOKEN is set, all processes need the same value. Without the variable whoever
    reaches the port may use the store, as in PyTorch. WEND_TLS_CERT, WEND_TLS_KEY and WEND_TLS_CA
    name files for TLS.

    Raises DistNetworkError (a RuntimeError) if nobody listens there in time, or if the process that
    has the keys cannot listen there; StoreRefused, a kind of it, for tokens that differ.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = DEFAULT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        self.host, self.timeout, self.world_size = host_name, timeout, world_size
        self._lock = threading.Lock()
        self._server: _Server | None = None
        if is_master:
            port = self._listen(port, master_listen_fd)
        self.port = port
        self._link = self._connect()
        if world_size is not None and world_size > 0:
            self._do("add", "workers", 1)
            if wait_for_workers and is_master:
                self._await_workers(world_size)

    def _listen(self, port: int, descriptor: int | None) -> int:
        if descriptor is not None:
            listener = socket.socket(fileno=descriptor)
        else:
            try:
                listener = socket.create_server((self.host, port), backlog=1024)
            except OSError as error:
                raise DistNetworkError(
                    f"TCPStore: cannot listen at {self.host}:{port}: {error}; pass a name or an "
                    "IPv4 address of this machine, and a free port"
                ) from error
        self._server = _Server(listener)
        self._server.start()
        return int(listener.getsockname()[1])

    def _connect(self) -> Any:
        end = time.monotonic() + self.timeout.total_seconds()
        tls = TlsFiles.of(os.environ)
        while True:
            try:
                link = enter((self.host, self.port), own_token(), tls, TOKEN, 5.0)
            except RefusedError as error:
                raise StoreRefused(f"TCPStore: {error}") from error
            except OSError as error:
                if time.monotonic() > end:
                    raise DistNetworkError(
                        f"TCPStore: nobody listens at {self.host}:{self.port} after "
                        f"{self.timeout.total_seconds()} s: {error}"
                    ) from error
                time.sleep(0.05)
                continue
            watch_peer(link, strict=False)
            return link

    def _await_workers(self, count: int) -> None:
        end = time.monotonic() + self.timeout.total_seconds()
        while int(self._do("get", "workers")) < count:
            if time.monotonic() > end:
                raise DistStoreError(f"TCPStore: not all {count} workers have come in time")
            time.sleep(0.01)

    def _do(self, operation: str, *args: object) -> Any:
        with self._lock:
            try:
                send_frame(self._link, [operation, args])
                return receive_frame(self._link)
            except OSError as error:
                raise DistNetworkError(
                    f"TCPStore: the process at {self.host}:{self.port} does not answer: {error}"
                ) from error

    def num_keys(self) -> int:
        """The number of keys, those of the store itself included."""
        return super().num_keys()

    def close(self) -> None:
        """End the connection, and the answers to all if this process has the keys."""
        self._link.close()
        if self._server is not None:
            self._server.door.close()
