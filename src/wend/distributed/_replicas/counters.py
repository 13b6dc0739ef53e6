"""How long gradients were on their way, and how much of that the program has seen."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Counters", "Round"]


class Round:
    """The times of a round, in seconds of `time.perf_counter`.

    moves: (begin, end) of each transfer, in the order of the channel
    waits: (begin, end) of each wait of the program's thread
    late: seconds in which the channel had a transfer to make, and other ranks had not come yet
    """

    __slots__ = ("late", "moves", "owner", "waits")

    def __init__(self) -> None:
        self.owner = threading.get_ident()
        self.moves: list[tuple[float, float]] = []
        self.waits: list[tuple[float, float]] = []
        self.late = 0.0

    def note_move(self, handed: float, begin: float, end: float) -> None:
        """Note a transfer, in the thread that makes the transfers.

        handed: when the program has handed the transfer over
        begin, end: of the transfer itself, which begins when all ranks have come
        The program's thread has waited where there is no other thread.
        """
        free = self.moves[-1][1] if self.moves else handed
        free = max(handed, free)
        self.late += max(0.0, begin - free)
        self.moves.append((begin, end))
        if threading.get_ident() == self.owner:
            self.waits.append((free, end))

    @contextmanager
    def waiting(self, moves: bool = False) -> Iterator[None]:
        """Context: the program's thread waits; with `moves`, for a transfer of its own."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            end = time.perf_counter()
            self.waits.append((begin, end))
            if moves:
                self.moves.append((begin, end))

    @property
    def busy(self) -> float:
        """The seconds of all transfers."""
        return sum([end - begin for begin, end in self.moves])

    @property
    def waited(self) -> float:
        """The seconds in which the program's thread waited, for transfers and for late ranks."""
        return sum([end - begin for begin, end in self.waits])

    @property
    def visible(self) -> float:
        """The seconds of transfers in which the program's thread waited."""
        return sum(
            [
                max(0.0, min(end, waited) - max(begin, wait))
                for begin, end in self.moves
                for wait, waited in self.waits
            ]
        )


class Counters:
    """Sums over all rounds of a reducer; `last` is the last round.

    rounds, buckets, early: rounds; buckets; buckets that were handed over while a flush ran
    n_bytes: of all buckets
    busy, late, waited, visible: seconds, see `Round`
    """

    __slots__ = ("buckets", "busy", "early", "last", "late", "n_bytes", "rounds", "visible",
                 "waited")  # fmt: skip

    def __init__(self) -> None:
        self.rounds = self.buckets = self.early = self.n_bytes = 0
        self.busy = self.late = self.waited = self.visible = 0.0
        self.last = Round()

    def add_bucket(self, n_bytes: int) -> None:
        """Count a bucket that is handed over."""
        self.buckets += 1
        self.n_bytes += n_bytes

    def add(self, last: Round) -> None:
        """Add the times of a round that has ended."""
        self.last = last
        self.busy += last.busy
        self.late += last.late
        self.waited += last.waited
        self.visible += last.visible

    def as_dict(self) -> dict[str, float]:
        """The sums by name; under PyTorch's names nanoseconds, of the last round or the mean."""
        rounds = max(self.rounds, 1)
        named = {
            "backward_comm_time": self.last.busy,
            "backward_compute_comm_overlap_time": self.last.busy - self.last.visible,
            "avg_backward_comm_time": self.busy / rounds,
            "avg_backward_compute_comm_overlap_time": (self.busy - self.visible) / rounds,
        }
        sums = {name: getattr(self, name) for name in self.__slots__ if name != "last"}
        return {
            **sums,
            "num_iterations": self.rounds,
            "num_buckets_reduced": self.buckets,
            **{name: round(1e9 * seconds) for name, seconds in named.items()},
        }
