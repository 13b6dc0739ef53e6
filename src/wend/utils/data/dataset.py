"""Data sets: something with samples by index, or a stream of samples."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, Protocol, TypeVar, cast

from wend._engine.base.errors import ArgumentError, IndexOutOfRange, NotImplementedInWend
from wend._engine.core._hot import Tensor
from wend._frontend.random import Generator
from wend.utils.data._utils import seam

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Samples(Protocol[T_co]):
    """Anything that gives samples by key: a data set, a list, a tensor."""

    def __getitem__(self, index: Any, /) -> T_co:
        """The sample under a key."""


class Dataset(Generic[T_co]):
    """Samples by key: a subclass defines ``__getitem__`` and, for most uses, ``__len__``.

    An optional ``__getitems__(keys)`` fetches a list of samples at once.
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedInWend(f"{type(self).__name__}.__getitem__ is not defined")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """A stream of samples: a subclass defines ``__iter__``.

    With several workers each has a copy of the data set. ``get_worker_info()`` tells ``__iter__``
    which part of the stream to give, or every sample comes once per worker.
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedInWend(f"{type(self).__name__}.__iter__ is not defined")

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Any, ...]]):
    """Sample i is the tuple of the i-th entries of the tensors.

    tensors: each (n, ...), with the same n. Raises ArgumentError otherwise.
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        sizes = [tensor.size(0) for tensor in tensors]
        if len(set(sizes)) > 1:
            raise ArgumentError(
                f"TensorDataset: the tensors have first dims of {sizes}; they must be equal"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].size(0))

    def _collated(self, indices: Sequence[int]) -> list[Any] | None:
        """Return the collated samples, gathered at once; None if collating might give another
        result."""
        if type(self).__getitem__ is not TensorDataset.__getitem__:
            return None
        if not indices or not self.tensors or not all(type(i) is int for i in indices):
            return None
        if any(tensor.requires_grad for tensor in self.tensors):
            return None
        if not all(-len(self) <= i < len(self) for i in indices):
            return None  # when samples are fetched singly, the error names the index
        return [seam.rows(tensor, indices) for tensor in self.tensors]


class StackDataset(Dataset[Any]):
    """Sample i is the tuple, or with keywords the dict, of the i-th samples of the data sets."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ArgumentError(
                "StackDataset: pass data sets, by position for tuples or by keyword for dicts"
            )
        self.datasets: tuple[Any, ...] | dict[str, Any] = args or kwargs
        lengths = [len(part) for part in self._parts()]
        if len(set(lengths)) > 1:
            raise ArgumentError(f"StackDataset: the data sets have unlike lengths: {lengths}")
        self._length = lengths[0]

    def _parts(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _packed(self, samples: Iterable[Any]) -> tuple[Any, ...] | dict[str, Any]:
        if isinstance(self.datasets, dict):
            return dict(zip(self.datasets, samples, strict=True))
        return tuple(samples)

    def __getitem__(self, index: Any) -> Any:
        return self._packed(part[index] for part in self._parts())

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        columns = [_fetch_all(part, indices) for part in self._parts()]
        return [self._packed(row) for row in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[Any]):
    """The samples of several data sets in a row."""

    datasets: list[Any]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ArgumentError("ConcatDataset: at least one data set is needed")
        if any(isinstance(part, IterableDataset) for part in self.datasets):
            raise ArgumentError("ConcatDataset: streams have no length; use ChainDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Return the running total of the lengths."""
        return list(itertools.accumulate(len(part) for part in sequence))

    @property
    def cummulative_sizes(self) -> list[int]:
        """The former spelling of `cumulative_sizes`: warns."""
        warnings.warn(
            "cummulative_sizes attribute is renamed to cumulative_sizes",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.cumulative_sizes

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            # PyTorch documents ValueError here; for loops over a data set need IndexError.
            raise _BeyondEnd(f"ConcatDataset: index {index} is out of range, length {len(self)}")
        index = index + len(self) if index < 0 else index
        which = bisect.bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - before]


class _BeyondEnd(IndexOutOfRange, ArgumentError):
    """An index beyond a ConcatDataset: an IndexError, and the ValueError that PyTorch raises."""


class ChainDataset(IterableDataset[Any]):
    """The samples of several streams in a row."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for part in self.datasets:
            if not isinstance(part, IterableDataset):
                raise ArgumentError(f"ChainDataset: {type(part).__name__} is not a stream")
            yield from part

    def __len__(self) -> int:
        return sum(len(part) for part in self.datasets)


class Subset(Dataset[T_co]):
    """The samples of a data set at the given indices, in the order of the indices."""

    dataset: Any
    indices: Sequence[Any]

    def __init__(self, dataset: Any, indices: Sequence[Any]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return _fetch_all(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)

    def _collated(self, indices: Sequence[int]) -> list[Any] | None:
        inner = getattr(self.dataset, "_collated", None)
        if inner is None or type(self).__getitem__ is not Subset.__getitem__:
            return None
        if type(self).__getitems__ is not Subset.__getitems__:
            return None
        collated: list[Any] | None = inner([self.indices[i] for i in indices])
        return collated


def _fetch_all(dataset: Any, indices: list[Any]) -> list[Any]:
    """Return the samples at the indices, by ``__getitems__`` if the data set has it."""
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[index] for index in indices]
    samples = dataset.__getitems__(indices)
    if len(samples) != len(indices):
        raise ArgumentError(
            f"{type(dataset).__name__}.__getitems__ returned {len(samples)} samples "
            f"for {len(indices)} indices"
        )
    return list(samples)


def random_split(
    dataset: Dataset[T], lengths: Sequence[float], generator: Generator | None = None
) -> list[Subset[T]]:
    """Split a data set at random into parts of the given lengths.

    lengths: the parts' sizes, which add up to len(dataset); or fractions that add up to 1, each
    rounded down, the remaining samples dealt out in turn from the first part on.
    Raises ArgumentError for lengths of another sum.
    """
    count = len(cast(Sized, dataset))
    sizes = _sizes_of_parts(count, lengths)
    order = seam.permutation(count, generator)
    ends = list(itertools.accumulate(sizes))
    return [Subset(dataset, order[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def _sizes_of_parts(total: int, lengths: Sequence[float]) -> list[int]:
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        if any(not 0 <= fraction <= 1 for fraction in lengths):
            raise ArgumentError(f"random_split: fractions {list(lengths)} must lie in [0, 1]")
        sizes = [math.floor(total * fraction) for fraction in lengths]
        for i in range(total - sum(sizes)):
            sizes[i % len(sizes)] += 1
        for i, size in enumerate(sizes):
            if size == 0:
                warnings.warn(f"random_split: part {i} is empty", stacklevel=3)
        return sizes
    if sum(lengths) != total:
        raise ArgumentError(
            f"random_split: lengths {list(lengths)} add up to {sum(lengths)}, "
            f"and the data set has {total} samples"
        )
    return [int(length) for length in lengths]
