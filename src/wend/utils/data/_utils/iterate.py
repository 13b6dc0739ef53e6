"""A pass over a loader, in this process or by workers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from wend._engine.base.errors import ExecutionError
from wend._engine.runtime.measure.taps import SOURCES, Taps
from wend.utils.data._utils.fetch import StreamEnd, make_fetcher

if TYPE_CHECKING:
    from wend._engine.runtime.measure.recorder import SliceRecorder
    from wend.utils.data._utils.workers import Pool


class Loader(Protocol):
    """A DataLoader, as the passes over a loader see the loader."""

    num_workers: int
    prefetch_factor: int | None
    in_order: bool
    timeout: float
    persistent_workers: bool
    _announced: int | None

    @property
    def _index_sampler(self) -> Any:
        """The sampler whose entries are requests."""

    def _fetching(self) -> tuple[Any, bool, bool, Callable[[Any], Any], bool]:
        """The arguments of `make_fetcher`."""


class LoaderPass:
    """Common part of both kinds of iterator: the requests, and the count of batches."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.requests: Iterator[Any] = iter(loader._index_sampler)
        self.yielded = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.loader._index_sampler)

    def _count(self) -> None:
        self.yielded += 1
        announced = self.loader._announced
        if announced is None or self.yielded <= announced:
            return
        self.loader._announced = None
        warnings.warn(
            f"DataLoader: the stream's __len__ announced {announced} batches, and it goes on; "
            "with several workers, each must read its own part (see get_worker_info)",
            stacklevel=3,
        )


class LocalPass(LoaderPass):
    """Fetches in this process, when asked."""

    def __init__(self, loader: Loader) -> None:
        super().__init__(loader)
        self.fetcher = make_fetcher(*loader._fetching())

    def __next__(self) -> Any:
        request = next(self.requests)
        try:
            batch = self.fetcher.fetch(request)
        except StreamEnd:
            raise StopIteration from None
        self._count()
        return batch


class WorkerPass(LoaderPass):
    """Lets workers fetch ahead.

    Requests go to the workers in turn, numbered by tickets; batches come back in any order and are
    given out in the order of tickets (or of arrival, with in_order=False).
    """

    def __init__(self, loader: Loader, pool: Pool, epoch: int) -> None:
        super().__init__(loader)
        self.pool, self.epoch = pool, epoch
        self.active = list(range(loader.num_workers))  # whose streams are not over
        self.next_ticket = 0
        self.wanted = 0  # the ticket whose batch is next
        self.asked: dict[int, int] = {}  # ticket -> the worker at work on it
        self.arrived: dict[int, Any] = {}  # ticket -> (kind, value), not given out yet
        self.turn = 0
        self.over = False
        pool.epoch = epoch
        for number in self.active:
            pool.send(number, ("epoch", epoch))
        self._ask()

    def _ask(self) -> None:
        """Give the workers as many requests as allowed."""
        most = (self.loader.prefetch_factor or 2) * len(self.active)
        while self.active and len(self.asked) + len(self.arrived) < most:
            try:
                request = next(self.requests)
            except StopIteration:  # the end of the sampler
                return
            number = self._least_busy()
            self.pool.send(number, ("fetch", self.epoch, self.next_ticket, request))
            self.asked[self.next_ticket] = number
            self.next_ticket += 1

    def _least_busy(self) -> int:
        """Return the next worker in turn; out of order, the worker with the fewest requests."""
        if not self.loader.in_order:
            busy = list(self.asked.values())
            return min(self.active, key=busy.count)
        number = self.active[self.turn % len(self.active)]
        self.turn = self.turn % len(self.active) + 1
        return number

    def __next__(self) -> Any:
        if self.over:
            raise StopIteration
        if self.pool.epoch != self.epoch:
            raise ExecutionError(
                "DataLoader: persistent workers serve one iteration at a time, and a later one "
                "has begun"
            )
        try:
            kind, value = self._next_arrival()
            if kind == "batch":
                self._ask()
        except BaseException:
            # An interrupt may have come in the middle of a message: nothing after it can be read.
            self._finish(broken=True)
            raise
        if kind == "over":
            self._finish()
            raise StopIteration
        if kind == "failure":
            self._finish()
            raise value.exception()
        self._count()
        return value

    def _next_arrival(self) -> tuple[str, Any]:
        """Return ('batch', batch), ('failure', Failure) or ('over', None)."""
        while self.asked or self.arrived:
            ticket = self.wanted if self.loader.in_order else next(iter(self.arrived), None)
            if ticket not in self.arrived:
                if self.loader.in_order and ticket not in self.asked:
                    self.wanted += 1  # the worker's stream was over
                    continue
                self._receive()
                continue
            self.wanted += 1
            return self.arrived.pop(ticket)
        return "over", None

    def _receive(self) -> None:
        timeout = self.loader.timeout or None
        started = time.monotonic()
        left = timeout
        while True:
            messages = self.pool.receive(left)
            fresh = [(n, m) for n, m in messages or () if m[1] == self.epoch]
            for number, (kind, _, ticket, value) in fresh:
                self._accept(number, kind, ticket, value)
            if fresh:
                return
            if timeout is not None:
                left = timeout - (time.monotonic() - started)
                if left <= 0:
                    raise self._late(timeout)

    def _accept(self, number: int, kind: str, ticket: int, value: Any) -> None:
        del self.asked[ticket]
        if kind != "end":
            self.arrived[ticket] = kind, value
        elif number in self.active:
            self.active.remove(number)
            self._ask()

    def _late(self, timeout: float) -> ExecutionError:
        numbers = sorted(set(self.asked.values()))
        return ExecutionError(
            f"DataLoader: no batch within {timeout} seconds from worker"
            f"{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}; "
            "raise timeout, or look for a data set that waits for something"
        )

    def _finish(self, broken: bool = False) -> None:
        self.over = True
        self.asked.clear()
        self.arrived.clear()
        if broken or not self.loader.persistent_workers:
            self.pool.close()


def measure_loaders(recorder: SliceRecorder, taps: Taps) -> None:
    """Have the fetching of batches measured, under PyTorch's names."""

    def maker(name: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
        def make(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
            def measured(batches: LoaderPass) -> Any:
                scope = recorder.enter("user", f"enumerate(DataLoader)#{name}.__next__")
                try:
                    return original(batches)
                finally:
                    recorder.leave(scope)

            return measured

        return make

    taps.replace(LocalPass, "__next__", maker("_SingleProcessDataLoaderIter"))
    taps.replace(WorkerPass, "__next__", maker("_MultiProcessingDataLoaderIter"))


SOURCES.append(measure_loaders)
