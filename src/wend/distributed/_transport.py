"""The moves of data that a group needs, on flat arrays: the interface of whatever carries them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["Request", "Transport"]

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

    def took_part(self) -> int:
        """The number of ranks whose values are in the last result."""
        return self.size

    @abstractmethod
    def all_reduce(self, x: Array, out: Array, op: str) -> None:
        """out = the reduction of all x."""

    def agrees(self, number: Array) -> bool:
        """Whether all ranks give the same: a number and its negative, as int64."""
        found = np.empty_like(number)
        self.all_reduce(number, found, "min")
        return bool(found[0] == number[0] and found[1] == number[1])

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
