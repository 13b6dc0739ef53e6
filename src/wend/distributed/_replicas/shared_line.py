"""Reductions of ranks on the same machine, in memory that the ranks share.

MPI and sockets move a large array between two processes in several messages and answers. Each of
them waits until the receiver's thread is on a core. Beside threads that compute on all cores this
takes many times as long as the copies. Here each rank writes an array once, and reads when all
ranks have written. A thread that waits sleeps, and leaves the core to the thread that computes.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import platform
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from wend.distributed._mpi import MpiTransport
from wend.distributed._reduction import FUNCTIONS, fold
from wend.distributed._sockets.carrier import SocketTransport
from wend.distributed._wire._faults import DistBackendError
from wend.distributed._wire._transport import Array, Transport

__all__ = ["SharedLine", "SharedSocketLine", "SharedSums", "shared"]

#: Bytes of a piece, at most; the memory of all ranks holds two pieces of each.
PIECE, ALL_RANKS = 1 << 19, 32 << 20
#: Bytes before the pieces: the count of meetings, and two numbers to be compared.
HEAD = 128
#: Bytes up to which each rank reduces all of a piece; beyond, each rank reduces a part for all.
SMALL = 1 << 13
#: Looks before a thread begins to sleep; then seconds of a sleep, and seconds between looks at MPI.
LOOKS, LEAST_SLEEP, MOST_SLEEP, ALIVE = 20, 2e-5, 1e-3, 0.2
#: Processors on which each core sees the writes of another in their order.
ORDERED = ("x86_64", "AMD64")


class SharedSums(Transport):
    """`all_reduce` and `agrees` in shared memory; all else is as in the line.

    Sums are made in the order of ranks, and are equal in all ranks.
    """

    def share(self, memory: mmap.mmap, piece: int) -> None:
        """Use memory of all ranks from now on."""
        self.piece = piece
        size = self.size * (HEAD + 2 * piece)
        parts = np.frombuffer(memory, np.uint8, size).reshape(self.size, -1)
        self.heads = [memoryview(part[:HEAD].data).cast("q") for part in parts]
        #: By number of the piece, odd or even: the memory of each rank.
        self.areas = [[part[HEAD + k * piece :][:piece] for part in parts] for k in (0, 1)]
        self.met = self.pieces = self.compared = 0

    def look_for_losses(self, rank: int) -> None:
        """Raise DistBackendError if a rank that is waited for has ended."""
        raise NotImplementedError(type(self).__name__)

    def meeting(self, x: Array, out: Array) -> None:
        return None

    def agrees(self, number: Array) -> bool:
        mine = int(number[0])
        self.compared += 1
        place = 1 + self.compared % 2  # ranks may still read the number before
        self.heads[self.rank][place] = mine
        self._meet()
        return all(head[place] == mine for head in self.heads)

    def all_reduce(self, x: Array, out: Array, op: str) -> None:
        most = self.piece // x.itemsize
        function = FUNCTIONS[op]
        for k in range(0, x.size, most):
            self._reduce(x[k : k + most], out[k : k + most], function)

    def _reduce(self, x: Array, out: Array, function: Callable[..., Any]) -> None:
        """out = the reduction of a piece."""
        self.pieces += 1
        areas = [a[: x.nbytes].view(x.dtype) for a in self.areas[self.pieces % 2]]
        areas[self.rank][:] = x
        self._meet()
        if self.size == 2 or x.nbytes <= SMALL:
            fold(areas, out, function)
            return
        bounds = [x.size * r // self.size for r in range(self.size + 1)]
        parts = [slice(a, b) for a, b in pairwise(bounds)]
        mine = parts[self.rank]
        fold([a[mine] for a in areas], out[mine], function)
        areas[self.rank][mine] = out[mine]
        self._meet()
        for rank, part in enumerate(parts):
            if rank != self.rank:
                out[part] = areas[rank][part]

    def _meet(self) -> None:
        """Return when all ranks have called; all then see what each has written before."""
        self.met += 1
        self.heads[self.rank][0] = self.met
        for rank, head in enumerate(self.heads):
            if head[0] < self.met:
                self._wait(head, rank)

    def _wait(self, head: Any, rank: int) -> None:
        """Wait for a rank. Raises DistBackendError where a rank has failed."""
        begun = time.perf_counter()
        asked = begun + ALIVE
        looks = 0
        while head[0] < self.met:
            looks += 1
            if looks <= LOOKS:
                continue
            now = time.perf_counter()
            time.sleep(min(max(LEAST_SLEEP, (now - begun) / 8), MOST_SLEEP))
            if now > asked:
                asked = now + ALIVE
                self.look_for_losses(rank)


class SharedLine(SharedSums, MpiTransport):
    """A communicator of ranks on the same machine."""

    def look_for_losses(self, rank: int) -> None:
        try:
            self.comm.Iprobe()
        except self.failure as error:
            raise DistBackendError(f"all_reduce: MPI has failed: {error}") from error


class SharedSocketLine(SharedSums, SocketTransport):
    """Ranks on the same machine, which sockets connect."""

    def look_for_losses(self, rank: int) -> None:
        mesh, member = self.mesh, self.members[rank]
        with mesh.changed:
            gone = [m for m in (member, *self.members) if m in mesh.lost]
            if member in mesh.ended:
                gone.insert(0, member)
        if gone:
            raise self._gone("all_reduce", gone[0])


def shared(line: Transport) -> Transport:
    """A line of the same ranks that reduces in shared memory, if all are on the same machine.

    Called by all ranks of the line, which ends; else the line itself is returned. A line that goes
    on after a loss stays as it is: what a lost rank has written is not known there.
    """
    by_mpi = isinstance(line, MpiTransport)
    by_sockets = isinstance(line, SocketTransport) and line.rescue is None
    if line.size == 1 or not (by_mpi or by_sockets):
        return line
    piece = min(PIECE, ALL_RANKS // (2 * line.size)) // HEAD * HEAD
    memory = None
    if for_all(line, are_together(line) and platform.machine() in ORDERED):
        memory = common_memory(line, line.size * (HEAD + 2 * piece))
    if memory is None:
        return line
    sums: SharedSums
    if isinstance(line, MpiTransport):
        sums = SharedLine(line.MPI, line.comm)
    else:
        assert isinstance(line, SocketTransport)
        sums = SharedSocketLine(line.mesh, line.members, line.name)
        sums.done = line.done
    sums.share(memory, piece)
    return sums


def are_together(line: Transport) -> bool:
    """Whether all ranks see the same processes: the same machine, and the same container."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            words = f"{file.read()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # the kernel does not tell: no rank is known to be beside this rank
        words = os.urandom(16).hex()
    mine = np.frombuffer(hashlib.blake2b(words.encode(), digest_size=8).digest(), np.int64)
    least, most = np.empty_like(mine), np.empty_like(mine)
    line.all_reduce(mine, least, "min")
    line.all_reduce(mine, most, "max")
    return bool(least[0] == most[0])


def for_all(line: Transport, answer: bool) -> bool:
    """Whether the answer is yes in all ranks."""
    minimum = np.empty(1, np.int64)
    line.all_reduce(np.array([answer], np.int64), minimum, "min")
    return bool(minimum[0])


def common_memory(line: Transport, size: int) -> mmap.mmap | None:
    """Zeros that all ranks of a line can read and write, or None for all ranks.

    The first rank has a file without a name, which the system deletes with the last process.
    """
    mark = os.urandom(16)
    file, memory = -1, None
    try:
        if line.rank == 0:
            file = os.memfd_create("wend")
            os.truncate(file, size + len(mark))
            os.pwrite(file, mark, size)
    except (OSError, AttributeError):
        # The system has no files without a name: the ranks send by MPI.
        pass  # there are no such files here, so no rank finds any
    told = np.array([os.getpid(), file, *np.frombuffer(mark, np.int64)], np.int64)
    line.broadcast(told, 0)
    try:
        opened = os.open(f"/proc/{told[0]}/fd/{told[1]}", os.O_RDWR)
        try:
            memory = mmap.mmap(opened, size + len(mark))
        finally:
            os.close(opened)
    except (OSError, ValueError):
        # The ranks' processes may not see each other's files: messages go by MPI.
        pass  # these processes may not see each other
    is_shared = memory is not None and memory[size:] == told[2:].tobytes()
    everywhere = for_all(line, is_shared)
    if file >= 0:
        os.close(file)
    return memory if everywhere else None
