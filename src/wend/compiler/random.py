"""Random numbers inside generated loops: those of `wend.ops.philox`, word for word.

Each lane has a position (offset + i, int64, which wraps) and computes the block of four words that
its number is in; the loop may go through the positions in any order.  float32 normal numbers are
computed in float64, as the reference has it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from wend.base import dtypes
from wend.base.dtypes import DType
from wend.base.random_state import (
    PHILOX_M0,
    PHILOX_M1,
    PHILOX_ROUNDS,
    PHILOX_W0,
    PHILOX_W1,
)
from wend.compiler.formulas import Operand, where
from wend.compiler.mathlib.trigonometric import sine_after_quarters
from wend.ops.philox import BITS32, BITS64, NORMAL32, NORMAL64
from wend.ops.random import DIGITS

if TYPE_CHECKING:
    from wend.compiler.instructions import Value, VectorBuilder

_LOW: Final = 0xFFFFFFFF
_Words = tuple[Operand, Operand, Operand, Operand]


def _block(index: Operand, seed: Operand, kind: int) -> _Words:
    """The four words (0 <= word < 2**32, in int64) of these blocks."""
    # Only the low halves count; what is in the high ones goes when a product takes the low ones.
    c0, c1 = index, index.logical_shift(32)
    c2, c3 = index.constant(kind), index.constant(0)
    k0, k1 = seed, seed.logical_shift(32)
    for _ in range(PHILOX_ROUNDS):
        p0, p1 = (c0 & _LOW) * PHILOX_M0, (c2 & _LOW) * PHILOX_M1
        c0, c1 = p1.logical_shift(32) ^ (c1 ^ k0), p1
        c2, c3 = p0.logical_shift(32) ^ (c3 ^ k1), p0
        k0, k1 = k0 + PHILOX_W0, k1 + PHILOX_W1
    return c0 & _LOW, c1 & _LOW, c2 & _LOW, c3 & _LOW


def _operands(b: VectorBuilder, seed: Value, position: Value) -> tuple[Operand, Operand]:
    for given in (seed, position):
        if given.dtype is not dtypes.int64:
            raise TypeError(f"random numbers: seed and position are int64, not {given.dtype}")
    return Operand(b, seed), Operand(b, position)


def _word(seed: Operand, position: Operand) -> Operand:
    """The 32-bit word at each position."""
    words = _block(position.logical_shift(2), seed, BITS32)
    upper = (position & 2).differs(0)
    odd = (position & 1).differs(0)
    return where(odd, where(upper, words[3], words[1]), where(upper, words[2], words[0]))


def _long_word(seed: Operand, position: Operand, kind: int = BITS64) -> Operand:
    """The 64-bit word at each position."""
    words = _block(position.logical_shift(1), seed, kind)
    odd = (position & 1).differs(0)
    return where(odd, words[2], words[0]) | where(odd, words[3], words[1]) << 32


def _unit(word: Operand) -> Operand:
    """Uniform in [0, 1) of float64, from 64-bit words."""
    return word.logical_shift(11).to(dtypes.float64) * 2.0**-53


def random_bits(b: VectorBuilder, seed: Value, position: Value) -> Value:
    """Uniform over all int64; seed and position: int64."""
    return _long_word(*_operands(b, seed, position)).value


def uniform(b: VectorBuilder, seed: Value, position: Value, dtype: DType) -> Value:
    """Uniform in [0, 1), of the digits of the dtype."""
    key, at = _operands(b, seed, position)
    if dtype is dtypes.float64:
        return _unit(_long_word(key, at)).value
    digits = DIGITS[dtype]
    word = _word(key, at).logical_shift(32 - digits).to(dtypes.int32)
    return (word.to(dtypes.float32) * 2.0**-digits).to(dtype).value


def standard_normal(b: VectorBuilder, seed: Value, position: Value, dtype: DType) -> Value:
    """Standard normal numbers, by Box and Muller's method."""
    key, at = _operands(b, seed, position)
    pair = at.logical_shift(1)
    if dtype is dtypes.float64:
        words = _block(pair, key, NORMAL64)
        radius = 1.0 - _unit(words[0] | words[1] << 32)
        turn = _unit(words[2] | words[3] << 32)
    else:
        words = _block(pair.logical_shift(1), key, NORMAL32)
        odd = (pair & 1).differs(0)
        radius = (where(odd, words[2], words[0]) + 1).to(dtypes.float64) * 2.0**-32
        turn = where(odd, words[3], words[1]).to(dtypes.float64) * 2.0**-32
    length = (radius.call("log") * -2.0).sqrt()
    # Even positions are the cosine, a quarter turn before the sine.
    wave = sine_after_quarters(turn * (2.0 * math.pi), (at & 1) ^ 1)
    return (length * wave).to(dtype).value


def random_integers(
    b: VectorBuilder, seed: Value, position: Value, low: Value, high: Value, dtype: DType
) -> Value:
    """Uniform over low <= y < high (int64), as the dtype. That low < high the caller checks."""
    word = _long_word(*_operands(b, seed, position))
    start, end = Operand(b, low), Operand(b, high)
    span = end - start
    kind = b.type_of(dtypes.int64)
    rest = word.made(b.text.let(f"urem {kind} {word.value.name}, {span.value.name}"), word.dtype)
    return (rest + start).to(dtype).value
