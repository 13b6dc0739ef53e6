"""Angles beyond a million, less multiples of pi / 2: by whole numbers of 64 bits, on accelerators.

An angle is m * 2**e with a whole m of 53 bits. Only 192 bits of 2 / pi count: earlier bits add
multiples of 4 to the product, later bits next to nothing. After M. Payne and R. Hanek,
"Radian reduction for trigonometric functions", SIGNUM Newsletter 18, 1983.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from wend._engine.base import dtypes
from wend._engine.compiler.llvm_ir.operand import Operand, where
from wend._engine.compiler.mathlib.parts import two_product, two_sum

# fmt: off
#: 64 zeros and the binary digits of 2 / pi, in words of 64 bits, for the largest float64.
_DIGITS: Final = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041,
    0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
)
# fmt: on
_LOW: Final = 0xFFFFFFFF
_HALF_PI: Final = (float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.1a62633145c07p-54"))
#: The least angle has this power of 2 as its last bit: see `nearest_quadrant`.
_BEFORE: Final = 62


def nearest_quadrant(a: Operand) -> tuple[Operand, Operand, Operand]:
    """(n, r, s) with a = n pi / 2 + r + s: r is the rounded rest, s what the rounding lost.

    a: a finite float64 of at least 2**19     n: an int of which the last two bits hold
    """
    bits = a.bits()
    exponent = bits.logical_shift(52) - 1075
    mantissa = bits & ((1 << 52) - 1) | 1 << 52
    words = _digits_from(exponent + _BEFORE)
    product = _product([part for word in reversed(words) for part in (word & _LOW, _high(word))],
                       [mantissa & _LOW, _high(mantissa)])  # fmt: skip
    low, middle, high = (product[k] | product[k + 1] << 32 for k in range(0, len(product), 2))
    # Two bits before the point; the digits behind it as a signed number, which rounds to nearest.
    turns = high.logical_shift(62)
    first = high << 2 | middle.logical_shift(62)
    second = middle << 2 | low.logical_shift(62)
    n = turns + first.logical_shift(63)
    total, rest = two_sum(
        (first >> 32).to(dtypes.float64) * 2.0**-32, (first & _LOW).to(dtypes.float64) * 2.0**-64
    )
    rest = rest + (_high(second).to(dtypes.float64) * 2.0**-96)
    rest = rest + (second & _LOW).to(dtypes.float64) * 2.0**-128
    total, rest = two_sum(total, rest)
    r, lost = two_product(total, _HALF_PI[0])
    r, s = two_sum(r, total.fma(_HALF_PI[1], rest.fma(_HALF_PI[0], lost)))
    return n, r, s


def _high(word: Operand) -> Operand:
    return word.logical_shift(32)


def _digits_from(first: Operand) -> list[Operand]:
    """The three words of `_DIGITS` that begin at a bit."""
    words = [first.constant(word) for word in _DIGITS]
    for k in reversed(range(5)):  # by 16 words, 8, 4, 2, and 1
        moves = (first & 64 << k).differs(0)
        count = min(len(words), 3 + (1 << k))
        words = [
            where(moves, words[j + (1 << k)], words[j]) if j + (1 << k) < len(words) else words[j]
            for j in range(count)
        ]
    by = first & 63
    return [
        here << by | there.logical_shift(1).logical_shift(63 - by)
        for here, there in pairwise(words)
    ]


def _product(x: list[Operand], y: list[Operand]) -> list[Operand]:
    """The lowest words of a product, as many as x has; words of 32 bits, lowest first."""
    total = [word.constant(0) for word in x]
    for k, factor in enumerate(y):
        carry = factor.constant(0)
        for j in range(len(x) - k):
            word = x[j] * factor + total[j + k] + carry
            total[j + k], carry = word & _LOW, _high(word)
    return total
