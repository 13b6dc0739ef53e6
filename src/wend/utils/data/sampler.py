"""Samplers: in which order, or in which batches, the samples of a data set come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

from wend._engine.base.errors import ArgumentError, ArgumentTypeError, NotImplementedInWend
from wend._engine.core._hot import Tensor
from wend._frontend.random import Generator
from wend.utils.data._utils import seam

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """An order of indices (or of lists of indices): a subclass defines ``__iter__``.

    Each call of ``__iter__`` is an epoch. ``__len__`` is needed for ``len(loader)`` only.
    """

    def __init__(self, data_source: object = None) -> None:
        """Do nothing; older programs pass a data set."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedInWend(f"{type(self).__name__}.__iter__ is not defined")


class SequentialSampler(Sampler[int]):
    """The indices 0, 1, 2, ..."""

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """The indices in a fresh random order each epoch; with replacement, independent draws.

    num_samples: how many indices an epoch has; by default as many as there are samples. Without
    replacement a larger number goes through the data in several shuffles.
    generator: source of randomness; by default a new generator, seeded from the default.
    """

    data_source: Sized
    replacement: bool

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise ArgumentTypeError(f"RandomSampler: replacement must be a bool: {replacement!r}")
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples
        count = self.num_samples
        if not isinstance(count, int) or count <= 0:
            raise ArgumentError(
                f"RandomSampler: num_samples must be a positive int, not {count!r}"
                + ("; the data set is empty" if num_samples is None else "")
            )

    @property
    def num_samples(self) -> int:
        """The number of indices of an epoch."""
        # Asked anew each time: a data set may grow.
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count, wanted = len(self.data_source), self.num_samples
        source = self.generator
        if source is None:
            source = seam.generator(seam.new_seed())
        while wanted > 0:
            if self.replacement:
                drawn = seam.integers(count, min(wanted, 1024), source)
            else:
                drawn = seam.permutation(count, source)[:wanted]
            yield from drawn
            wanted -= len(drawn)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices, in a fresh random order each epoch."""

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        for i in seam.permutation(len(self.indices), self.generator):
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with chances in proportion to the weights.

    weights: (n,) non-negative and finite, at least one positive; without replacement, at least
    num_samples of them positive. The sum need not be 1.
    Raises ArgumentError for other weights.
    """

    weights: Tensor
    num_samples: int
    replacement: bool

    def __init__(
        self,
        weights: Sequence[float] | Tensor,
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ArgumentError(
                f"WeightedRandomSampler: num_samples must be a positive int, not {num_samples!r}"
            )
        if not isinstance(replacement, bool):
            raise ArgumentError(
                f"WeightedRandomSampler: replacement must be a bool, not {replacement!r}"
            )
        values = seam.to_array(weights) if seam.is_tensor(weights) else weights
        self._weights = np.array(values, dtype=np.float64)
        _check_weights(self._weights, num_samples, replacement)
        self.weights = seam.from_array(self._weights.copy())
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        if self.replacement:
            # The last sum is scaled to 1 exactly, and draws lie below 1: the search stays inside.
            sums = np.cumsum(self._weights)
            draws = seam.uniforms(self.num_samples, self.generator)
            chosen = np.searchsorted(sums / sums[-1], draws, side="right")
        else:
            # Exponential clocks: the first clocks to ring are a draw without replacement
            # (Efraimidis and Spirakis: Weighted random sampling with a reservoir; IPL 2006).
            draws = seam.uniforms(len(self._weights), self.generator)
            with np.errstate(divide="ignore", invalid="ignore"):
                rings = -np.log1p(-draws) / self._weights
            rings[self._weights == 0] = np.inf
            chosen = np.argsort(rings, kind="stable")[: self.num_samples]
        yield from chosen.tolist()

    def __len__(self) -> int:
        return self.num_samples


def _check_weights(weights: np.ndarray, wanted: int, replacement: bool) -> None:
    name = "WeightedRandomSampler"
    if weights.ndim != 1:
        raise ArgumentError(f"{name}: weights must have one dim, not shape {weights.shape}")
    bad = np.flatnonzero(~np.isfinite(weights) | (weights < 0))
    if len(bad):
        raise ArgumentError(
            f"{name}: weights must be finite and not negative; "
            f"weights[{bad[0]}] is {weights[bad[0]]}"
        )
    positive = int(np.count_nonzero(weights))
    with np.errstate(over="ignore"):
        total = weights.sum()
    if positive == 0 or not np.isfinite(total):
        raise ArgumentError(f"{name}: the sum of the weights is {total}")
    if not replacement and wanted > positive:
        raise ArgumentError(
            f"{name}: {wanted} samples without replacement cannot be drawn from "
            f"{positive} positive weights"
        )


class BatchSampler(Sampler[list[int]]):
    """Another sampler's indices, in lists of ``batch_size``.

    drop_last: leave out the last list if not full.
    """

    sampler: Iterable[Any]
    batch_size: int
    drop_last: bool

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ArgumentError(
                f"BatchSampler: batch_size must be a positive int, not {batch_size!r}"
            )
        if not isinstance(drop_last, bool):
            raise ArgumentError(f"BatchSampler: drop_last must be a bool, not {drop_last!r}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        extra = 0 if self.drop_last else self.batch_size - 1
        return (count + extra) // self.batch_size
