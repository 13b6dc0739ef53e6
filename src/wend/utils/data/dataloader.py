"""DataLoader: batches of a data set's samples, in an order, by worker processes if asked."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wend._engine.base.devices import accelerator_kind
from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.base.system import system
from wend._frontend.devices.pinned import marked_all
from wend._frontend.random import Generator
from wend.utils.data._utils import seam
from wend.utils.data._utils.collate import default_collate, default_convert
from wend.utils.data._utils.info import get_worker_info
from wend.utils.data._utils.iterate import LoaderPass, LocalPass, WorkerPass
from wend.utils.data.dataset import IterableDataset, Samples
from wend.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    from wend.utils.data._utils.workers import Pool

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_BaseDataLoaderIter = LoaderPass
_SingleProcessDataLoaderIter = LocalPass
_MultiProcessingDataLoaderIter = WorkerPass
T_co = TypeVar("T_co", covariant=True)
FIXED = {"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"}


class _InfiniteConstantSampler(Sampler[None]):
    """Requests for a stream, which needs no indices."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[T_co]):
    """Iterates over batches of a data set.

    dataset: samples by index (with __getitem__ and __len__), or an IterableDataset.
    batch_size: samples a batch; None gives single samples, uncollated.
    shuffle: a fresh random order each epoch, drawn from ``generator``.
    sampler: the order of the indices; batch_sampler: lists of indices, instead of all of the above.
    num_workers: processes that fetch ahead; 0 fetches in this process.
    collate_fn: makes a batch of a list of samples; default_collate if not given.
    pin_memory: mark the tensors as pinned, if an accelerator is there, which reads all memory of
        the processor as it is.     pin_memory_device: ignored.
    drop_last: leave out a last batch that is not full.
    timeout: seconds to wait for a worker's batch; 0 waits as long as the worker lives.
    worker_init_fn: called with the worker's number in each worker, after seeding.
    multiprocessing_context: a start method's name or a context; forks by default where that is
        safe, and starts fresh processes elsewhere.
    prefetch_factor: batches that each worker fetches ahead; 2 by default.
    persistent_workers: keep the workers between epochs.
    in_order: give out batches in the order of requests, not of arrival.

    Workers send arrays, never pending values; a batch's history ends in the worker. An exception in
    a worker is raised here with the original type, naming worker and traceback; a worker that dies
    raises WorkerDied, a RuntimeError.
    Raises ArgumentError (a ValueError) for options that contradict each other.
    """

    dataset: Any
    batch_size: int | None
    num_workers: int
    drop_last: bool
    sampler: Any
    batch_sampler: Any
    prefetch_factor: int | None
    generator: Generator | None
    timeout: float
    pin_memory: bool
    pin_memory_device: str
    worker_init_fn: Callable[[int], Any] | None
    in_order: bool
    collate_fn: Callable[[list[Any]], Any]
    persistent_workers: bool

    def __init__(
        self,
        dataset: Samples[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: str | BaseContext | None = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset, self.generator = dataset, generator
        self.num_workers, self.timeout = num_workers, timeout
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.worker_init_fn, self.in_order = worker_init_fn, in_order
        self.persistent_workers = persistent_workers
        self.multiprocessing_context = multiprocessing_context
        self._stream = isinstance(dataset, IterableDataset)
        self._set_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.collate_fn = collate_fn or (default_collate if self._batched else default_convert)
        self._announced: int | None = None
        self._pool: Pool | None = None  # of persistent workers
        self._epoch = 0
        self._made = True

    def _set_order(
        self,
        batch_size: int | None,
        shuffle: bool | None,
        sampler: Sampler[Any] | Iterable[Any] | None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None,
        drop_last: bool,
    ) -> None:
        """Check the options for the order of batches and samples, and keep them."""
        if self._stream:
            options = {"shuffle": shuffle, "sampler": sampler, "batch_sampler": batch_sampler}
            for name, value in options.items():
                if value not in (None, False):
                    raise ArgumentError(
                        f"DataLoader: {name} is for data sets with indices, and "
                        f"{type(self.dataset).__name__} is a stream; order it in its __iter__"
                    )
        if sampler is not None and shuffle:
            raise ArgumentError("DataLoader: sampler sets the order; leave shuffle out")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ArgumentError(
                    "DataLoader: batch_sampler sets order and batches; leave out batch_size, "
                    "shuffle, sampler and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ArgumentError("DataLoader: drop_last needs a batch_size")
        if sampler is None:
            sampler = self._default_sampler(bool(shuffle))
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler

    def _default_sampler(self, shuffle: bool) -> Sampler[Any]:
        if self._stream:
            return _InfiniteConstantSampler()
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)
        return SequentialSampler(self.dataset)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED and getattr(self, "_made", False):
            raise ArgumentError(f"DataLoader: {name} cannot be changed; make another loader")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> BaseContext | None:
        """The context that workers are started from, or None for the default."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: str | BaseContext | None) -> None:
        if context is not None:
            context = _context(context, self.num_workers)
        self._context = context

    @property
    def _batched(self) -> bool:
        return self.batch_sampler is not None

    # PyTorch's name; programs that copy a loader ask for this attribute.
    _auto_collation = _batched

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._batched else self.sampler

    def _fetching(self) -> tuple[Any, bool, bool, Callable[[Any], Any], bool]:
        return self.dataset, self._stream, self._batched, self.collate_fn, self.drop_last

    def __len__(self) -> int:
        """Return the number of batches.

        Raises TypeError for a stream, or a sampler, without a length.
        """
        if not self._stream:
            return len(self._index_sampler)
        count = len(self.dataset)
        size = self.batch_size or 1
        length = count // size if self.drop_last else -(-count // size)
        self._announced = length
        return length

    def __iter__(self) -> Iterator[Any]:
        # Drawn in any case: the order of a shuffle does not depend on the number of workers.
        seed = seam.new_seed(self.generator)
        batches = self._batches(seed)
        return map(marked_all, batches) if self.pin_memory and accelerator_kind() else batches

    def _batches(self, seed: int) -> Iterator[Any]:
        """A pass over the data."""
        if self.num_workers == 0:
            return LocalPass(self)
        if not self.persistent_workers:
            return WorkerPass(self, self._new_pool(seed), 1)
        if self._pool is None or self._pool.closed or self._pool.owner != os.getpid():
            self._pool = self._new_pool(seed)
        self._epoch += 1
        return WorkerPass(self, self._pool, self._epoch)

    def _new_pool(self, seed: int) -> Pool:
        # Loaded with the first workers: most programs import the loader and never start a worker.
        from wend.utils.data._utils import workers

        job = workers.Job(
            *self._fetching(), self.worker_init_fn, self.num_workers, seed, os.getpid()
        )
        return workers.Pool(job, self._context or _default_context())

    def check_worker_number_rationality(self) -> None:
        """Warn if there are more workers than processors that this process may use."""
        usable = system.processors()
        if self.num_workers > usable:
            warnings.warn(
                f"DataLoader: {self.num_workers} workers share {usable} processors",
                stacklevel=2,
            )

    def __getstate__(self) -> dict[str, Any]:
        # A copy starts workers of its own.
        return {**vars(self), "_pool": None}


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    if not isinstance(num_workers, int) or isinstance(num_workers, bool):
        raise ArgumentTypeError(f"DataLoader: num_workers must be an int, not {num_workers!r}")
    if num_workers < 0:
        raise ArgumentError(f"DataLoader: num_workers is {num_workers}; 0 fetches in this process")
    if timeout < 0:
        raise ArgumentError(f"DataLoader: timeout must not be negative: {timeout}")
    if num_workers == 0:
        for name, is_set in (
            ("prefetch_factor", prefetch_factor is not None),
            ("persistent_workers", persistent_workers),
        ):
            if is_set:
                raise ArgumentError(f"DataLoader: {name} needs num_workers > 0")
    if prefetch_factor is not None and prefetch_factor < 1:
        raise ArgumentError(f"DataLoader: prefetch_factor must be positive: {prefetch_factor}")


def _context(context: str | BaseContext, num_workers: int) -> BaseContext:
    import multiprocessing
    from multiprocessing.context import BaseContext

    if num_workers == 0:
        raise ArgumentError("DataLoader: multiprocessing_context needs num_workers > 0")
    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        if context not in methods:
            raise ArgumentError(
                f"DataLoader: multiprocessing_context {context!r} is not one of {methods}"
            )
        return multiprocessing.get_context(context)
    if not isinstance(context, BaseContext):
        raise ArgumentTypeError(
            "DataLoader: multiprocessing_context must be the name of a start method or a context, "
            f"not {type(context).__name__}"
        )
    return context


def _default_context() -> BaseContext:
    """Return the start method that the program chose; else the system's."""
    import multiprocessing

    chosen = multiprocessing.get_start_method(allow_none=True)
    return multiprocessing.get_context(chosen or system.start_method)
