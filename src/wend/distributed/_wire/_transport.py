"""The moves of data that a group needs, on flat arrays: the interface of whatever carries them.

Each collective begins with a number that ranks compare. Little data travels along: see `Greeting`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wend._engine.base.dtypes import DType

__all__ = ["Gathered", "Greeting", "Request", "Signature", "Transport", "title_of"]

Array = Any  # a flat, contiguous NumPy array


class Request(ABC):
    """A message that is under way."""

    @abstractmethod
    def test(self) -> bool:
        """Whether the message has been sent, or has come."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until the message has been sent, or has come."""

    @property
    @abstractmethod
    def source(self) -> int:
        """The rank that a message has come from."""


class Transport(ABC):
    """Moves of arrays between the ranks of a group; each call is made by all ranks of the group.

    Arrays are flat and contiguous, and of one type in all ranks. Counts are numbers of elements,
    for each rank. `op` is a name of `_reduction.MPI_NAMES`. Several threads may move messages at a
    time; all else is called by a single thread. A failure is raised as DistBackendError.
    """

    rank: int
    size: int
    #: Whether threads beside the main thread may call.
    threads: bool
    #: Agrees with the living ranks after a loss; None where a loss is an error.
    rescue: Any = None
    #: The processes of the ranks; of interest with `rescue` alone.
    members: tuple[int, ...] = ()
    #: Those at the time of the call that is under way; None where nobody has told.
    called_among: tuple[int, ...] | None = None

    def took_part(self) -> int:
        """The number of ranks whose values are in the last result."""
        return self.size

    @abstractmethod
    def all_reduce(self, x: Array, out: Array, op: str) -> None:
        """out = the reduction of all x."""

    def agrees(self, number: Array) -> bool:
        """Whether all ranks give the same: a number and its negative, as int64."""
        minimum = np.empty_like(number)
        self.all_reduce(number, minimum, "min")
        return bool(minimum[0] == number[0] and minimum[1] == number[1])

    @abstractmethod
    def reduce(self, x: Array, out: Array | None, op: str, root: int) -> None:
        """out = the reduction of all x, at the root alone."""

    @abstractmethod
    def reduce_scatter(self, x: Array, out: Array, counts: Sequence[int], op: str) -> None:
        """out = this rank's part of the reduction of all x."""

    @abstractmethod
    def broadcast(self, x: Array, root: int) -> None:
        """x = the root's x."""

    @abstractmethod
    def all_gather(self, x: Array, out: Array, counts: Sequence[int]) -> None:
        """out = all x, end to end."""

    def meeting(self, x: Array, out: Array) -> Callable[[], None] | None:
        """A function that gathers the bytes x of all ranks in out, as often as it is called.

        None where a meeting takes longer than `agrees`.
        """
        return None

    @abstractmethod
    def gather(self, x: Array, out: Array | None, counts: Sequence[int], root: int) -> None:
        """out = all x, end to end, at the root alone."""

    @abstractmethod
    def scatter(self, x: Array | None, out: Array, counts: Sequence[int], root: int) -> None:
        """out = this rank's part of the root's x."""

    @abstractmethod
    def all_to_all(
        self, x: Array, sent: Sequence[int], out: Array, received: Sequence[int]
    ) -> None:
        """out = the parts that all ranks have for this rank."""

    @abstractmethod
    def barrier(self) -> None:
        """Return when all ranks have called."""

    @abstractmethod
    def send(self, x: Array, to: int, tag: int) -> Request:
        """Begin to send x."""

    @abstractmethod
    def receive(self, x: Array, source: int | None, tag: int) -> Request:
        """Begin to fill x by a message of a rank, or of any rank."""

    @abstractmethod
    def part(self, ranks: Sequence[int], tag: int) -> Transport:
        """A transport of some ranks of this group, in that order; called by these ranks alone."""

    @abstractmethod
    def free(self) -> None:
        """End this transport."""


# -- the message that begins a collective ---------------------------------------------------

#: A collective's name and all that must be equal in all ranks; a number stands for elements.
Signature = tuple[str, *tuple[str | int, ...]]

#: The most bytes of data in a rank's message, and in those of all ranks.
MOST, MOST_OF_ALL = 1024, 8192
#: The most ranks that send each other data with their greetings.
MANY = 16
#: Data lies behind the number, in whole words.
_WORD = 8

_numbers: dict[Signature, int] = {}


def title_of(signature: Signature) -> str:
    """A signature as a call: name(rest)."""
    words = [f"{part} elements" if isinstance(part, int) else part for part in signature]
    return f"{words[0]}({', '.join(words[1:])})"


def number_of(signature: Signature) -> int:
    """A number of 56 bits that stands for a signature."""
    number = _numbers.get(signature)
    if number is None:
        if len(_numbers) > 10_000:
            _numbers.clear()
        digest = hashlib.blake2b(title_of(signature).encode(), digest_size=7).digest()
        number = _numbers[signature] = int.from_bytes(digest, "little")
    return number


class Gathered:
    """The data of all ranks, which has come with their greetings; moves as `Transport` has them.

    rank: this rank's number   size: of the group
    """

    def __init__(self, rank: int, size: int, room: int) -> None:
        self.rank, self.size = rank, size
        self.mine = np.zeros(_WORD + room, np.uint8)
        self.all = np.zeros((size, _WORD + room), np.uint8)
        self._views: dict[tuple[Any, int], tuple[Array, list[Array]]] = {}

    def _view(self, dtype: DType, count: int) -> tuple[Array, list[Array]]:
        """This rank's message and those of all, as arrays of this type and size."""
        views = self._views.get((dtype, count))
        if views is None:
            if len(self._views) > 1000:
                self._views.clear()
            part = slice(_WORD, _WORD + count * dtype.itemsize)
            rows = [row[part].view(dtype) for row in self.all]
            views = self._views[dtype, count] = self.mine[part].view(dtype), rows
        return views

    def fill(self, x: Array) -> None:
        """Put a flat array into this rank's next message."""
        self._view(x.dtype, x.size)[0][...] = x

    def rows(self, x: Array) -> list[Array]:
        """The data of all ranks, of the size of this rank's x; must be copied at once."""
        return self._view(x.dtype, x.size)[1]

    def broadcast(self, x: Array, root: int) -> None:
        """x = the root's x."""
        if root != self.rank:
            x[...] = self.rows(x)[root]

    def all_gather(self, x: Array, out: Array, counts: Sequence[int]) -> None:
        """out = all x, end to end."""
        rows = [self._view(out.dtype, n)[1][rank] for rank, n in enumerate(counts)]
        np.concatenate(rows, out=out)

    def gather(self, x: Array, out: Array | None, counts: Sequence[int], root: int) -> None:
        """out = all x, end to end, at the root alone."""
        if out is not None:
            self.all_gather(x, out, counts)

    def scatter(self, x: Array | None, out: Array, counts: Sequence[int], root: int) -> None:
        """out = this rank's part of the root's x."""
        begin = sum(counts[: self.rank]) * out.itemsize + _WORD
        out[...] = self.all[root, begin : begin + out.nbytes].view(out.dtype)


class Greeting:
    """Compares the calls of a group's ranks, before each collective.

    room: bytes that a rank may send along, the same in all ranks; 0 in large groups, where
        messages of all to all would take longer than `Transport.agrees`
    data: what has come along
    """

    def __init__(self, line: Transport) -> None:
        room = min(MOST, MOST_OF_ALL // line.size) // _WORD * _WORD if line.size <= MANY else 0
        self.line = line
        self.data = data = Gathered(line.rank, line.size, room)
        self._number = data.mine.data[:_WORD].cast("q")
        self._numbers = data.all.reshape(-1).data.cast("q")
        self._places = range(0, len(self._numbers), (_WORD + room) // _WORD)
        self._meet = line.meeting(data.mine, data.all.reshape(-1)) if room else None
        self.room = room if self._meet is not None else 0
        self._pair = np.empty(2, np.int64)

    def agrees(self, signature: Signature, x: Array | None) -> bool:
        """Whether all ranks have called with this signature. x: a flat array to be sent along"""
        number = number_of(signature)
        if self._meet is None:
            self._pair[:] = number, -number
            return self.line.agrees(self._pair)
        if x is not None:
            self.data.fill(x)
        self._number[0] = number
        self._meet()
        numbers = self._numbers
        for place in self._places:  # noqa: SIM110  a generator takes longer
            if numbers[place] != number:
                return False
        return True
