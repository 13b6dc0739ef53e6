"""Philox4x32-10 over whole ranges of positions, in NumPy.

A counter of 128 bits gives four 32-bit words.  Its low 64 bits are the number of the block, the
third word is the kind of draw, the fourth counts retries. Draws of different kinds never share a
word.  Word w of a kind is lane w % 4 of block w // 4.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wend._engine.base.random_state import (
    PHILOX_M0,
    PHILOX_M1,
    PHILOX_ROUNDS,
    PHILOX_W0,
    PHILOX_W1,
)
from wend._engine.ops.numeric import Array

# Kinds of draws: the third word of the counter.
BITS32, BITS64, NORMAL32, NORMAL64, POISSON, GAMMA, BINOMIAL, VON_MISES = range(8)
_MASK = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
# Blocks computed at a time: six arrays of this size stay in the cache.
_CHUNK = 1 << 13


#: Faster ways to fill such arrays, set by the layers above: (out, first, seed, kind, retry).
NATIVE: list[Callable[[Array, int, int, int, int], None]] = []


def blocks(seed: int, first: int, count: int, kind: int, retry: int = 0) -> Array:
    """Blocks first .. first + count - 1 of a kind: uint32 array (count, 4)."""
    out = np.empty((count, 4), np.uint32)
    if NATIVE:
        NATIVE[-1](out, first % 2**64, seed % 2**64, kind, retry)
        return out
    for start in range(0, count, _CHUNK):
        n = min(_CHUNK, count - start)
        # Positions wrap at 64 bits.
        index = np.uint64((first + start) % 2**64) + np.arange(n, dtype=np.uint64)
        out[start : start + n] = _rounds(index, seed, kind, retry)
    return out


def blocks_at(seed: int, index: Array, kind: int, retry: int = 0) -> Array:
    """The blocks of these numbers (uint64, 1-D) of a kind: uint32 array (len(index), 4)."""
    out = np.empty((len(index), 4), np.uint32)
    for start in range(0, len(index), _CHUNK):
        part = index[start : start + _CHUNK]
        out[start : start + len(part)] = _rounds(part, seed, kind, retry)
    return out


def _rounds(index: Array, seed: int, kind: int, retry: int) -> Array:
    c0, c1 = index & _MASK, index >> _HALF
    c2, c3 = np.full_like(index, kind), np.full_like(index, retry)
    k0, k1 = seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF
    for _ in range(PHILOX_ROUNDS):
        p0 = c0 * np.uint64(PHILOX_M0)
        p1 = c2 * np.uint64(PHILOX_M1)
        c0 = (p1 >> _HALF) ^ c1 ^ np.uint64(k0)
        c1 = p1 & _MASK
        c2 = (p0 >> _HALF) ^ c3 ^ np.uint64(k1)
        c3 = p0 & _MASK
        k0 = (k0 + PHILOX_W0) & 0xFFFFFFFF
        k1 = (k1 + PHILOX_W1) & 0xFFFFFFFF
    return np.stack((c0, c1, c2, c3), axis=1).astype(np.uint32)


def words32(seed: int, offset: int, count: int, kind: int = BITS32) -> Array:
    """Words offset .. offset + count - 1, as uint32 (count,)."""
    offset %= 2**64
    first, skip = offset // 4, offset % 4
    whole = blocks(seed, first, (skip + count + 3) // 4, kind)
    return whole.reshape(-1)[skip : skip + count]


def words64(seed: int, offset: int, count: int, kind: int = BITS64) -> Array:
    """64-bit words offset .. offset + count - 1, as uint64 (count,); two to a block."""
    offset %= 2**64
    first, skip = offset // 2, offset % 2
    whole = blocks(seed, first, (skip + count + 1) // 2, kind).astype(np.uint64)
    pairs = whole[:, 0::2] | whole[:, 1::2] << _HALF
    return pairs.reshape(-1)[skip : skip + count]


def unit64(words: Array) -> Array:
    """Uniform in [0, 1), multiples of 2**-53, from 64-bit words."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def normal(seed: int, offset: int, count: int, double: bool) -> Array:
    """Standard normal numbers (float64) by Box and Muller's method.

    Positions 2k and 2k + 1 are the cosine and the sine of the same pair: of two 32-bit words, or of
    two 64-bit words if `double`.
    """
    offset %= 2**64
    first, skip = offset // 2, offset % 2
    pairs = (skip + count + 1) // 2
    draw, kind = (words64, NORMAL64) if double else (words32, NORMAL32)
    words = draw(seed, 2 * first, 2 * pairs, kind).reshape(-1, 2)
    out = np.empty((pairs, 2))
    for start in range(0, pairs, _CHUNK):
        part = words[start : start + _CHUNK]
        if double:
            length = 1.0 - unit64(part[:, 0])
            angle = unit64(part[:, 1])
        else:
            length = part[:, 0].astype(np.float64)
            length += 1.0
            length *= 2.0**-32
            angle = part[:, 1].astype(np.float64)
            angle *= 2.0**-32
        np.log(length, out=length)
        length *= -2.0
        np.sqrt(length, out=length)
        angle *= 2.0 * np.pi
        to = out[start : start + _CHUNK]
        np.multiply(length, np.cos(angle), out=to[:, 0])
        np.multiply(length, np.sin(angle), out=to[:, 1])
    return out.reshape(-1)[skip : skip + count]
