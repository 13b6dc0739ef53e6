"""Getting the samples of a batch from a data set, in a worker or in the main process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from wend._engine.base.errors import ArgumentError, ExecutionError
from wend.utils.data._utils.collate import UnlikeSamples, default_collate


class StreamEnd(Exception):
    """The stream of an IterableDataset is over."""


class Stopped(Exception):
    """Fetching was given up between two samples: nobody wants the batch any more."""


class MapFetcher:
    """Fetches by index.

    batched: whether a request is a list of indices, to be collated, or a single index.
    stopping: asked before each sample; once the answer is yes, Stopped is raised.
    """

    def __init__(
        self,
        dataset: Any,
        batched: bool,
        collate_fn: Callable[[Any], Any],
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.dataset, self.batched, self.collate_fn = dataset, batched, collate_fn
        self.stopping = stopping

    def fetch(self, request: Any) -> Any:
        """Return the batch for a list of indices, or the sample for an index."""
        if not self.batched:
            return self.collate_fn(self._sample(request))
        gather = getattr(self.dataset, "_collated", None)
        if gather is not None and self.collate_fn is default_collate:
            batch = gather(request)
            if batch is not None:
                return batch
        samples = self._samples(request)
        try:
            return self.collate_fn(samples)
        except UnlikeSamples as error:
            if len(samples) != len(request):
                raise
            raise error.with_indices(list(request)) from None

    def _samples(self, indices: Sequence[Any]) -> list[Any]:
        if not callable(getattr(self.dataset, "__getitems__", None)):
            return [self._sample(index) for index in indices]
        samples: list[Any] = self.dataset.__getitems__(indices)
        return samples

    def _sample(self, index: Any) -> Any:
        if self.stopping():
            raise Stopped
        try:
            return self.dataset[index]
        except StopIteration as error:
            # Passed on, the error would end the loop over the loader without a word.
            raise ExecutionError(f"dataset[{index!r}] raised StopIteration") from error


class StreamFetcher:
    """Fetches the next samples of a stream, whatever the request's entries are."""

    def __init__(
        self,
        dataset: Any,
        batched: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.batched, self.collate_fn, self.drop_last = batched, collate_fn, drop_last
        self.stopping = stopping
        self.samples: Iterator[Any] = iter(dataset)
        self.over = False

    def fetch(self, request: Any) -> Any:
        """Return a batch of len(request) samples, or a single sample. Raises StreamEnd after the
        last.

        The last batch may be smaller, or is left out with drop_last.
        """
        if self.over:
            raise StreamEnd
        samples = []
        for _ in request if self.batched else (None,):
            if self.stopping():
                raise Stopped
            try:
                samples.append(next(self.samples))
            except StopIteration:  # the end of an iterable dataset
                self.over = True
                break
        if not samples or (self.drop_last and self.batched and len(samples) < len(request)):
            raise StreamEnd
        return self.collate_fn(samples if self.batched else samples[0])


def make_fetcher(
    dataset: Any,
    stream: bool,
    batched: bool,
    collate_fn: Callable[[Any], Any],
    drop_last: bool,
    stopping: Callable[[], bool] = lambda: False,
) -> MapFetcher | StreamFetcher:
    """Return the fetcher for this kind of data set."""
    if stream:
        return StreamFetcher(dataset, batched, collate_fn, drop_last, stopping)
    if not hasattr(dataset, "__getitem__"):
        raise ArgumentError(f"DataLoader: {type(dataset).__name__} has no __getitem__")
    return MapFetcher(dataset, batched, collate_fn, stopping)
