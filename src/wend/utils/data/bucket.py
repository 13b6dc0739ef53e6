"""Batches whose samples are alike: of equal shape, of about equal length, or equal by any key.

A batch of unlike shapes cannot be stacked, and padding wastes work. The sampler puts each sample
into the bucket of its key and makes every batch from a single bucket.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._frontend.random import Generator
from wend.utils.data._utils import seam
from wend.utils.data.sampler import Sampler

Key = Callable[[Any], Hashable]
NAME = "BucketBatchSampler"


class BucketBatchSampler(Sampler[list[int]]):
    """Batches of indices; all the samples of a batch have the same key.

    dataset: samples by index, with a length.
    batch_size: the largest batch; or a function or mapping from bucket to batch size, so that
        buckets of small samples have large batches.
    key: a function of a sample, or a sequence with the key of each sample (a sequence saves
        loading every sample once); by default the shapes of all the sample's arrays.
    boundaries: ascending numbers. Then keys are numbers, and bucket i holds those from
        boundaries[i - 1] on and below boundaries[i].
    shuffle: shuffle the samples within their buckets, and the order of the batches.
    drop_last: leave out batches that are not full.
    generator: source of the shuffle; by default seeded from the default generator.

    Without a shuffle, samples stay in order within a bucket. A batch comes when a bucket is full,
    and all remaining samples come at the end.

    ``state_dict`` and ``load_state_dict`` continue an epoch where the state was taken.
    Raises ArgumentError and ArgumentTypeError for arguments of any further form.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | Callable[[Any], int] | Mapping[Any, int],
        key: Key | Sequence[Hashable] | None = None,
        *,
        boundaries: Sequence[float] | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
        generator: Generator | None = None,
    ) -> None:
        self.batch_size, self.shuffle, self.drop_last = batch_size, shuffle, drop_last
        self.generator = generator
        self.boundaries: list[float] | None = None if boundaries is None else _ascending(boundaries)
        self.buckets: dict[Any, list[int]] = self._fill(_keys(dataset, key))
        self._sizes = {bucket: self._size_for(bucket) for bucket in self.buckets}
        self._seed: int | None = None  # of the shuffle of the epoch under way
        self._position = 0  # batches of the epoch that were handed out
        self._continued = False

    def _fill(self, keys: Sequence[Hashable]) -> dict[Any, list[int]]:
        """Return the indices of each bucket, in order."""
        buckets: dict[Any, list[int]] = {}
        for index, key in enumerate(keys):
            try:
                bucket = key if self.boundaries is None else self._between(key)
                buckets.setdefault(bucket, []).append(index)
            except TypeError as error:
                wanted = "hashable" if self.boundaries is None else "a number"
                raise ArgumentTypeError(
                    f"{NAME}: the key of sample {index} must be {wanted}, "
                    f"and is {key!r} of type {type(key).__name__}"
                ) from error
        return buckets

    def _between(self, key: Any) -> int:
        assert self.boundaries is not None
        if key != key:
            raise ArgumentError(f"{NAME}: a key is {key!r}, which lies between no boundaries")
        return bisect.bisect_right(self.boundaries, key)

    def _size_for(self, bucket: Hashable) -> int:
        batch_size = self.batch_size
        if isinstance(batch_size, Mapping):
            if bucket not in batch_size:
                raise ArgumentError(f"{NAME}: batch_size has no entry for bucket {bucket!r}")
            size = batch_size[bucket]
        else:
            size = batch_size(bucket) if callable(batch_size) else batch_size
        if isinstance(size, bool) or not hasattr(size, "__index__") or size.__index__() <= 0:
            raise ArgumentError(
                f"{NAME}: batch_size must be a positive int, not {size!r} for bucket {bucket!r}"
            )
        return size.__index__()

    def __len__(self) -> int:
        extra = {bucket: 0 if self.drop_last else size - 1 for bucket, size in self._sizes.items()}
        return sum(
            (len(indices) + extra[bucket]) // self._sizes[bucket]
            for bucket, indices in self.buckets.items()
        )

    def __iter__(self) -> Iterator[list[int]]:
        if self._continued:
            self._continued = False
        else:
            self._seed = seam.new_seed(self.generator) if self.shuffle else None
            self._position = 0
        # The epoch's number of batches so far is an attribute, so that a state can contain the
        # number.
        for batch in self._batches(self._seed)[self._position :]:
            self._position += 1
            yield batch

    def _batches(self, seed: int | None) -> list[list[int]]:
        """Return the batches of the epoch with this seed; None: of the epoch without a shuffle."""
        bucket_of = {i: bucket for bucket, indices in self.buckets.items() for i in indices}
        source = None if seed is None else seam.generator(seed)
        order = range(len(bucket_of))
        waiting: dict[Any, list[int]] = {}
        batches = []
        for index in order if source is None else seam.permutation(len(order), source):
            bucket = bucket_of[index]
            batch = waiting.setdefault(bucket, [])
            batch.append(index)
            if len(batch) == self._sizes[bucket]:
                batches.append(waiting.pop(bucket))
        if not self.drop_last:
            batches += waiting.values()
        if source is None:
            return batches
        # Or every epoch would end with the batches that are not full.
        return [batches[i] for i in seam.permutation(len(batches), source)]

    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        """Return where in which epoch the sampler is.

        consumed: how many batches of this epoch have been used. By default those that were handed
        out, which is the same unless worker processes of a DataLoader fetch ahead.
        """
        position = self._position if consumed is None else consumed
        if not 0 <= position <= len(self):
            raise ArgumentError(f"{NAME}: consumed is {position}, an epoch has {len(self)} batches")
        state = {"seed": self._seed, "position": position, "facts": self._facts()}
        if self.generator is not None:
            state["generator"] = self.generator.get_state()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next ``__iter__`` go on where the state was taken.

        Raises ArgumentError if the state is of a sampler over other buckets.
        """
        facts, own = dict(state["facts"]), self._facts()
        if facts != own:
            unlike = [name for name in own if facts.get(name) != own[name]]
            raise ArgumentError(
                f"{NAME}: the state is of another sampler: "
                + ", ".join(f"{name} was {facts.get(name)}, is {own[name]}" for name in unlike)
            )
        self._seed, self._position = state["seed"], int(state["position"])
        if self.generator is not None and "generator" in state:
            self.generator.set_state(state["generator"])
        # An epoch that is over, or was never begun, is followed by a new epoch.
        begun = self._position > 0 or self._seed is not None
        self._continued = begun and self._position < len(self)

    def _facts(self) -> dict[str, int | bool]:
        """Return the facts that two samplers must share to continue each other's epochs."""
        return {
            "samples": sum(map(len, self.buckets.values())),
            "buckets": len(self.buckets),
            "batches": len(self),
            "shuffle": self.shuffle,
        }


def _ascending(boundaries: Sequence[float]) -> list[float]:
    ascending = list(boundaries)
    if any(not a < b for a, b in itertools.pairwise(ascending)):  # `not <` catches nan as well
        raise ArgumentError(f"{NAME}: boundaries must be ascending: {ascending}")
    return ascending


def _keys(dataset: Any, key: Key | Sequence[Hashable] | None) -> Sequence[Hashable]:
    """Return the key of every sample."""
    count = len(dataset)
    if key is None:
        key = shapes_of
    if callable(key):
        return [key(dataset[i]) for i in range(count)]
    if isinstance(key, np.ndarray) or seam.is_tensor(key):
        key = cast(Sequence[Hashable], cast(Any, key).tolist())
    if not isinstance(key, Sequence):
        raise ArgumentTypeError(
            f"{NAME}: key must be a function of a sample or a sequence of keys, "
            f"not {type(key).__name__}"
        )
    if len(key) != count:
        raise ArgumentError(f"{NAME}: {len(key)} keys were given for {count} samples")
    return key


def shapes_of(sample: Any) -> Hashable:
    """Return the shapes of all the arrays and tensors in a sample, in the sample's structure.

    Numbers and text have the shape (); two samples with equal results can be collated.
    """
    if seam.is_tensor(sample) or isinstance(sample, np.ndarray):
        return tuple(sample.shape)
    if isinstance(sample, Mapping):
        return frozenset((name, shapes_of(value)) for name, value in sample.items())
    if isinstance(sample, Sequence) and not isinstance(sample, (str, bytes)):
        return ("items", *(shapes_of(item) for item in sample))
    return ()
