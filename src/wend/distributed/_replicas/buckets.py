"""Which gradients travel together: buckets of a dtype, in an order that all ranks share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Bucket", "Place", "buckets_of", "flags_of", "words_of"]

#: Elements to which the parts of a bucket are aligned: kernels read them as vectors.
ALIGNMENT = 16
#: Bytes of a last bucket, at least.
LEAST = 1 << 16


class Place(NamedTuple):
    """A gradient's part of a bucket: elements `begin` to `end`, for parameter number `number`."""

    number: int
    begin: int
    end: int


class Bucket:
    """Gradients that are reduced by a single call.

    places: the gradients in order
    size: the elements of the whole, padding included
    """

    __slots__ = ("dtype", "index", "places", "size")

    def __init__(self, index: int, dtype: np.dtype) -> None:
        self.index = index
        self.dtype = dtype
        self.places: list[Place] = []
        self.size = 0

    @property
    def n_bytes(self) -> int:
        """The bytes of the whole."""
        return self.size * self.dtype.itemsize

    def add(self, number: int, size: int) -> None:
        """Append a gradient of so many elements."""
        self.places.append(Place(number, self.size, self.size + size))
        self.size += -(-size // ALIGNMENT) * ALIGNMENT


def buckets_of(
    numbers: Iterable[int],
    sizes: Sequence[int],
    dtypes: Sequence[np.dtype],
    first_bytes: int,
    most_bytes: int,
) -> list[Bucket]:
    """Return the buckets for these parameters, in this order.

    A bucket is full with `most_bytes`; the first bucket of a dtype with `first_bytes`, so that the
    first call begins early. Buckets are in the order in which they are complete. A rest of less
    than `LEAST` bytes joins the bucket before: a call of its own would cost more than the delay.
    """
    done: list[Bucket] = []
    open_: dict[np.dtype, Bucket] = {}
    limits: dict[np.dtype, int] = {}
    for number in numbers:
        dtype = dtypes[number]
        bucket = open_.get(dtype)
        if bucket is None:
            bucket = open_[dtype] = Bucket(0, dtype)
        bucket.add(number, sizes[number])
        if bucket.n_bytes >= limits.get(dtype, first_bytes):
            limits[dtype] = most_bytes
            done.append(open_.pop(dtype))
    for dtype, rest in open_.items():
        before = [bucket for bucket in done if bucket.dtype == dtype]
        if before and rest.n_bytes < LEAST:
            done.remove(before[-1])
            for place in rest.places:
                before[-1].add(place.number, place.end - place.begin)
            rest = before[-1]
        done.append(rest)
    for index, bucket in enumerate(done):
        bucket.index = index
    return done


def words_of(flags: np.ndarray) -> np.ndarray:
    """Return flags as bits of 64-bit words."""
    bits = np.packbits(np.asarray(flags, bool), bitorder="little")
    words = np.zeros(-(-len(flags) // 64), np.uint64)
    words.view(np.uint8)[: bits.size] = bits
    return words


def flags_of(words: np.ndarray, count: int) -> np.ndarray:
    """Return the first `count` bits of 64-bit words as flags."""
    return np.unpackbits(words.view(np.uint8), count=count, bitorder="little").astype(bool)
