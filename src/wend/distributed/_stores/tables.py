"""Stores: keys and bytes that processes share, in a process or a file."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from wend._engine.base.system import system
from wend.distributed._wire._faults import DistStoreError, QueueEmptyError

__all__ = ["DEFAULT", "OPERATIONS", "FileStore", "HashStore", "PrefixStore", "Store", "Table"]

DEFAULT = timedelta(seconds=300)
Table = dict[str, bytes]


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


class Store:
    """Keys and bytes that processes share. `get` and `wait` wait for keys that are not there yet.

    Subclasses define `_do`, which changes the table by one of `OPERATIONS` as a whole.
    """

    def __init__(self) -> None:
        self.timeout = DEFAULT

    def _do(self, operation: str, *args: object) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__} is a kind of store; use TCPStore, FileStore or HashStore"
        )

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the time that `get` and `wait` wait for a key."""
        self.timeout = timeout

    def set(self, key: str, value: object) -> None:
        """Set a key's bytes."""
        self._do("set", key, _bytes(value))

    def hold(self, key: str, value: object) -> None:
        """Set a key's bytes, for as long as this process uses a TCPStore; elsewhere as `set`."""
        self._do("hold", key, _bytes(value))

    def get(self, key: str) -> bytes:
        """The bytes of a key, which may be set later. Raises DistStoreError after the time."""
        self.wait([key])
        value: bytes = self._do("get", key)
        return value

    def add(self, key: str, amount: int) -> int:
        """Add to the number of a key, which begins with 0; returns the sum."""
        return int(self._do("add", key, int(amount)))

    def append(self, key: str, value: object) -> None:
        """Put bytes behind those of a key."""
        self._do("append", key, _bytes(value))

    def compare_set(self, key: str, expected_value: object, desired_value: object) -> bytes:
        """Set a key that has the expected bytes, or that is not there and expects none.

        Returns the key's bytes afterwards; the expected ones if the key is not there.
        """
        expected = _bytes(expected_value)
        return bytes(self._do("compare_set", key, expected, _bytes(desired_value)))

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there."""
        return bool(self._do("check", list(keys)))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Return when all keys are there. Raises DistStoreError after the time."""
        limit = (timeout or self.timeout).total_seconds()
        end, looks = time.monotonic() + limit, 0
        while not self.check(keys):
            if time.monotonic() > end:
                raise DistStoreError(
                    f"{type(self).__name__}: wait timeout after {limit} s, keys: {', '.join(keys)}"
                )
            looks += 1
            time.sleep(min(looks * 2e-4, 0.02))

    def delete_key(self, key: str) -> bool:
        """Take a key away; returns whether the key was there."""
        return bool(self._do("delete_key", key))

    def num_keys(self) -> int:
        """The number of keys."""
        return int(self._do("num_keys"))

    def list_keys(self) -> list[str]:
        """All keys."""
        return list(self._do("list_keys"))

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The bytes of keys, which may be set later."""
        self.wait(keys)
        return [self._do("get", key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        """Set keys' bytes."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def queue_push(self, key: str, value: object) -> None:
        """Put bytes at the end of a queue."""
        self._do("queue_push", key, _bytes(value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first bytes of a queue. Raises QueueEmptyError if there are none, or in time."""
        end = time.monotonic() + self.timeout.total_seconds()
        while True:
            value = self._do("queue_pop", key)
            if value is not None:
                return bytes(value)
            if not block or time.monotonic() > end:
                raise QueueEmptyError(f"{type(self).__name__}: the queue {key!r} is empty")
            time.sleep(1e-3)

    def queue_len(self, key: str) -> int:
        """The number of entries of a queue."""
        return int(self._do("queue_len", key))

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Return when `world_size` processes have called with this key."""
        if self.add(f"{key}/arrived", 1) >= world_size:
            self.set(f"{key}/complete", "1")
        self.wait([f"{key}/complete"], timeout)

    def has_extended_api(self) -> bool:
        """True: `append`, `multi_get` and `multi_set` are there."""
        return True

    def clone(self) -> Store:
        """Another handle on the same keys."""
        return self


# -- operations on a table --------------------------------------------------------------------


def _add(table: Table, key: str, amount: int) -> int:
    total = int(table.get(key, b"0")) + amount
    table[key] = str(total).encode()
    return total


def _compare_set(table: Table, key: str, expected: bytes, desired: bytes) -> bytes:
    if key not in table:
        if expected:
            return expected
        table[key] = desired
    elif table[key] == expected:
        table[key] = desired
    return table[key]


def _queue(table: Table, key: str) -> list[str]:
    queue: list[str] = json.loads(table.get(f"queue {key}", b"[]"))
    return queue


def _queue_push(table: Table, key: str, value: bytes) -> None:
    table[f"queue {key}"] = json.dumps([*_queue(table, key), value.decode("latin1")]).encode()


def _queue_pop(table: Table, key: str) -> bytes | None:
    queue = _queue(table, key)
    if not queue:
        return None
    table[f"queue {key}"] = json.dumps(queue[1:]).encode()
    return queue[0].encode("latin1")


def _set(table: Table, key: str, value: bytes) -> None:
    table[key] = value


def _append(table: Table, key: str, value: bytes) -> None:
    table[key] = table.get(key, b"") + value


OPERATIONS: dict[str, Callable[..., Any]] = {
    "set": _set,
    "hold": _set,
    "get": lambda table, key: table[key],
    "add": _add,
    "append": _append,
    "compare_set": _compare_set,
    "check": lambda table, keys: all(key in table for key in keys),
    "delete_key": lambda table, key: table.pop(key, None) is not None,
    "num_keys": len,
    "list_keys": list,
    "queue_push": _queue_push,
    "queue_pop": _queue_pop,
    "queue_len": lambda table, key: len(_queue(table, key)),
}


class HashStore(Store):
    """A store of the threads of a process."""

    def __init__(self) -> None:
        super().__init__()
        self._table: Table = {}
        self._lock = threading.Lock()

    def _do(self, operation: str, *args: object) -> Any:
        with self._lock:
            return OPERATIONS[operation](self._table, *args)


class PrefixStore(Store):
    """A store whose keys get a prefix in another store."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self.prefix, self.underlying_store = prefix, store
        self.timeout = store.timeout

    def _do(self, operation: str, *args: object) -> Any:
        if not args:
            start = f"{self.prefix}/"
            keys = [k for k in self.underlying_store.list_keys() if k.startswith(start)]
            return [k[len(start) :] for k in keys] if operation == "list_keys" else len(keys)
        first, *rest = args
        named = [f"{self.prefix}/{k}" for k in first] if isinstance(first, list) else None
        return self.underlying_store._do(operation, named or f"{self.prefix}/{first}", *rest)


class FileStore(Store):
    """A store in a file that all processes can open.

    world_size: the processes that use the file; the last that ends the store takes the file away
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path, self.world_size = os.fspath(file_name), world_size
        self._do("add", "processes", 1)

    def _do(self, operation: str, *args: object) -> Any:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        with open(descriptor, "r+b") as file, system.locked(file):
            text = file.read()
            table = {k: v.encode("latin1") for k, v in json.loads(text or b"{}").items()}
            if operation in ("num_keys", "list_keys"):
                table.pop("processes", None)
            before = dict(table)
            answer = OPERATIONS[operation](table, *args)
            if table != before:
                file.seek(0)
                file.truncate()
                file.write(json.dumps({k: v.decode("latin1") for k, v in table.items()}).encode())
                file.flush()
        return answer

    def close(self) -> None:
        """End the use of the store by this process."""
        if os.path.exists(self.path) and self._do("add", "processes", -1) <= 0:
            os.unlink(self.path)
