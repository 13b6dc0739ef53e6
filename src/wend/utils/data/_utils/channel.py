"""Carrying batches from a worker to the main process.

A message is pickled with its arrays apart. Small arrays stay in the pickle; large arrays are
written into memory without a name, whose file descriptor goes through the socket. Memory without a
name cannot leak: the kernel frees it with the last descriptor, however the processes end.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import pickle
import socket
import weakref
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from wend._engine.base.system import system
from wend._engine.core._hot import Tensor
from wend.utils.data._utils import seam

SMALL = 1 << 15  # bytes; a smaller array travels inside the pickle
ALIGNMENT = 64
# Each mapped segment holds a descriptor until the last tensor on it goes; a program that keeps many
# batches must not run out of descriptors. Beyond this many, segments are copied and closed at once.
MOST_MAPPED = 128

_mapped: set[object] = set()


class _Pickler(pickle.Pickler):
    """Pickles tensors as arrays: values, and neither history nor pending work."""

    def reducer_override(self, value: object) -> Any:
        if seam.is_tensor(value) and not getattr(value, "is_nested", False):
            return _rebuilt, (seam.to_array(value),)
        return NotImplemented


def _rebuilt(array: np.ndarray) -> Tensor:
    return seam.from_array(array)


def send(connection: Connection, message: object) -> None:
    """Send a whole message.

    Raises any error of pickling, and then nothing has been sent; OSError if the receiver is gone.
    """
    buffers: list[memoryview] = []
    file = io.BytesIO()
    _Pickler(file, 5, buffer_callback=lambda buffer: _keep(buffer, buffers)).dump(message)
    offsets, size = _offsets(buffers)
    payload = file.getvalue()
    if not buffers:
        connection.send_bytes(pickle.dumps(None) + payload)
        return
    segment = system.unnamed_file("wend-batch")
    try:
        for buffer, start in zip(buffers, offsets, strict=True):
            _write(segment, buffer, start)
        os.truncate(segment, size)
        layout = [(start, buffer.nbytes) for buffer, start in zip(buffers, offsets, strict=True)]
        connection.send_bytes(pickle.dumps((size, layout)) + payload)
        _send_descriptor(connection, segment)
    finally:
        os.close(segment)


def receive(connection: Connection) -> Any:
    """Return the next message. Raises EOFError or OSError if the sender is gone."""
    file = io.BytesIO(connection.recv_bytes())
    shared = pickle.load(file)
    if shared is None:
        return pickle.load(file)
    size, layout = shared
    memory = _opened(_receive_descriptor(connection), size)
    return pickle.load(file, buffers=[memory[start : start + count] for start, count in layout])


def _keep(buffer: pickle.PickleBuffer, buffers: list[memoryview]) -> bool:
    """Take a large buffer out of the pickle; tell the pickler whether to write it itself."""
    if not system.sends_files():
        return True
    with memoryview(buffer) as view:
        if view.nbytes < SMALL:
            return True
    buffers.append(buffer.raw())
    return False


def _offsets(buffers: list[memoryview]) -> tuple[list[int], int]:
    """Return where each buffer starts in the segment, and the segment's size."""
    offsets, end = [], 0
    for buffer in buffers:
        offsets.append(end)
        end += -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT
    return offsets, end


def _write(segment: int, buffer: memoryview, start: int) -> None:
    # Written, not copied into a mapping: where memory is short this raises OSError, that kills.
    done = 0
    while done < buffer.nbytes:
        done += os.pwrite(segment, buffer[done:], start + done)


def _opened(segment: int, size: int) -> memoryview:
    """Return the segment's memory, writeable, and close the descriptor."""
    try:
        if len(_mapped) >= MOST_MAPPED:
            return _view(_copied(segment, size))
        memory = mmap.mmap(segment, size)
    finally:
        os.close(segment)
    # The array is the anchor of all views; when the array goes, mmap and the descriptor go.
    anchor = np.frombuffer(memory, dtype=np.uint8)
    mark = object()
    _mapped.add(mark)
    weakref.finalize(anchor, _mapped.discard, mark).atexit = False
    return _view(anchor)


def _view(array: Any) -> memoryview:
    return memoryview(array)


def _copied(segment: int, size: int) -> np.ndarray:
    copy = np.empty(size, dtype=np.uint8)
    target, done = _view(copy), 0
    while done < size:
        count = system.read_at(segment, target[done:], done)
        if count == 0:
            raise EOFError("a worker's segment is shorter than announced")
        done += count
    return copy


def _send_descriptor(connection: Connection, descriptor: int) -> None:
    with socket.socket(fileno=os.dup(connection.fileno())) as own:
        socket.send_fds(own, [b"d"], [descriptor])


def _receive_descriptor(connection: Connection) -> int:
    with socket.socket(fileno=os.dup(connection.fileno())) as own:
        mark, descriptors, _, _ = socket.recv_fds(own, 1, 1, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
    if not mark:
        raise EOFError("a worker ended while it sent a batch")
    if not descriptors:  # the kernel drops descriptors that the process has no room for
        raise OSError(errno.EMFILE, "too many open files to take a batch from a worker")
    return descriptors[0]
