"""Random numbers inside generated loops: the numbers of `wend._engine.ops.philox`, word for word.

Each lane has a position (offset + i, int64, which wraps), and computes the block of four words that
contains its number. So a loop may go through the positions in any order. float32 normal numbers are
computed in float64, as in the reference.
"""

from __future__ import annotations

import math
from typing import Final

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.base.random_state import (
    PHILOX_M0,
    PHILOX_M1,
    PHILOX_ROUNDS,
    PHILOX_W0,
    PHILOX_W1,
)
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.llvm_ir.operand import Operand, where
from wend._engine.compiler.llvm_ir.text import Module, Text
from wend._engine.compiler.llvm_ir.values import SsaValue, register_type
from wend._engine.compiler.mathlib.trigonometric import sine_and_cosine
from wend._engine.ops.philox import BITS32, BITS64, NORMAL32, NORMAL64
from wend._engine.ops.random import DIGITS

_LOW: Final = 0xFFFFFFFF
_Words = tuple[Operand, Operand, Operand, Operand]


def _block(index: Operand, seed: Operand, kind: int) -> _Words:
    """The four words (0 <= word < 2**32, in int64) of the blocks `index`."""
    # Only the low halves count; products take the low halves, and so drop the high halves.
    c0, c1 = index, index.logical_shift(32)
    c2, c3 = index.constant(kind), index.constant(0)
    k0, k1 = seed, seed.logical_shift(32)
    for _ in range(PHILOX_ROUNDS):
        p0, p1 = (c0 & _LOW) * PHILOX_M0, (c2 & _LOW) * PHILOX_M1
        c0, c1 = p1.logical_shift(32) ^ (c1 ^ k0), p1
        c2, c3 = p0.logical_shift(32) ^ (c3 ^ k1), p0
        k0, k1 = k0 + PHILOX_W0, k1 + PHILOX_W1
    return c0 & _LOW, c1 & _LOW, c2 & _LOW, c3 & _LOW


def _operands(b: VectorBuilder, seed: SsaValue, position: SsaValue) -> tuple[Operand, Operand]:
    for operand in (seed, position):
        if operand.dtype is not dtypes.int64:
            raise TypeError(f"random numbers: seed and position are int64, not {operand.dtype}")
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
    """Uniform float64 numbers in [0, 1), from 64-bit words."""
    return word.logical_shift(11).to(dtypes.float64) * 2.0**-53


def random_bits(b: VectorBuilder, seed: SsaValue, position: SsaValue) -> SsaValue:
    """Uniform numbers over all int64.

    seed, position: int64 values. Raises TypeError for other dtypes.
    """
    return _long_word(*_operands(b, seed, position)).value


def uniform(b: VectorBuilder, seed: SsaValue, position: SsaValue, dtype: DType) -> SsaValue:
    """Uniform numbers in [0, 1), with as many digits as the dtype has."""
    key, at = _operands(b, seed, position)
    if dtype is dtypes.float64:
        return _unit(_long_word(key, at)).value
    return _from_bits(_word(key, at).to(dtypes.int32), dtype)


def _from_bits(word: Operand, dtype: DType) -> SsaValue:
    """Uniform numbers in [0, 1), from 32-bit words (int32)."""
    digits = DIGITS[dtype]
    shifted = word.logical_shift(32 - digits)
    return (shifted.to(dtypes.float32) * 2.0**-digits).to(dtype).value


def uniform_run(b: VectorBuilder, seed: str, start: str, dtype: DType) -> SsaValue:
    """`uniform` at the positions start, start + 1, ..., a position for each lane.

    With the permutations of AVX-512, 16 lanes share the blocks of their numbers: twice as quick.

    seed, start: names of i64
    """
    shared = dtype is not dtypes.float64 and b.lanes == 16 and b.target.has("avx512f")
    if shared:
        return _from_bits(Operand(b, b.value(_sixteen_words(b, seed, start))), dtype)
    key, first = b.spread(seed, dtypes.int64), b.spread(start, dtypes.int64)
    return uniform(b, key, b.add(first, counted(b)), dtype)


def counted(b: VectorBuilder, dtype: DType = dtypes.int64) -> SsaValue:
    """The numbers 0, 1, 2, ..., a number for each lane."""
    kind = register_type(dtype)
    if b.lanes == 1:
        return b.number(0, dtype)
    return b.value(f"<{', '.join(f'{kind} {i}' for i in range(b.lanes))}>", dtype)


def _sixteen_words(b: VectorBuilder, seed: str, start: str) -> str:
    """The 32-bit words at 16 neighbouring positions, as a vector of i32."""
    text = b.text
    eight = VectorBuilder(text, b.module, 8, b.target)
    first = eight.spread(text.let(f"lshr i64 {start}, 2"), dtypes.int64)
    index = Operand(eight, eight.add(first, counted(eight)))
    words = _block(index, Operand(eight, eight.spread(seed, dtypes.int64)), BITS32)
    lower, upper = words[0] | words[1] << 32, words[2] | words[3] << 32
    rows = []
    for begin in (0, 4):  # block after block: four each
        order = ", ".join(f"i32 {i}, i32 {i + 8}" for i in range(begin, begin + 4))
        row = text.let(
            f"shufflevector <8 x i64> {lower.value.name}, <8 x i64> {upper.value.name}, "
            f"<8 x i32> <{order}>"
        )
        rows.append(text.let(f"bitcast <8 x i64> {row} to <16 x i32>"))
    skip = text.let(f"trunc i64 {start} to i32")
    skip = b.spread(text.let(f"and i32 {skip}, 3"), dtypes.int32).name
    places = b.add(b.value(skip), counted(b, dtypes.int32)).name
    return text.let(
        f"call <16 x i32> @llvm.x86.avx512.vpermi2var.d.512(<16 x i32> {rows[0]}, "
        f"<16 x i32> {places}, <16 x i32> {rows[1]})"
    )


def standard_normal(b: VectorBuilder, seed: SsaValue, position: SsaValue, dtype: DType) -> SsaValue:
    """Standard normal numbers, by Box and Muller's method."""
    key, at = _operands(b, seed, position)
    sine, cosine = _waves(key, at.logical_shift(1), dtype is dtypes.float64)
    return where((at & 1).equals(0), cosine, sine).to(dtype).value


def _waves(seed: Operand, pair: Operand, double: bool) -> tuple[Operand, Operand]:
    """The numbers at the odd and at the even positions of these pairs, in float64."""
    if double:
        words = _block(pair, seed, NORMAL64)
        radius = 1.0 - _unit(words[0] | words[1] << 32)
        turn = _unit(words[2] | words[3] << 32)
    else:
        words = _block(pair.logical_shift(1), seed, NORMAL32)
        odd = (pair & 1).differs(0)
        radius = (where(odd, words[2], words[0]) + 1).to(dtypes.float64) * 2.0**-32
        turn = where(odd, words[3], words[1]).to(dtypes.float64) * 2.0**-32
    length = (radius.call("log") * -2.0).sqrt()
    sine, cosine = sine_and_cosine(turn * (2.0 * math.pi))
    return length * sine, length * cosine


def standard_normal_run(b: VectorBuilder, seed: str, start: str, dtype: DType) -> SsaValue:
    """`standard_normal` at the positions start, start + 1, ..., a position for each lane.

    Lanes that begin at an even position (as all draws do) share their pairs: twice as quick.

    seed, start: names of i64
    """
    kind = b.type_of(dtype)
    name = f"wend.standard_normal_run.{dtype.abbr}x{b.lanes}"

    def definition(module: Module) -> str:
        text = Text()
        inside = VectorBuilder(text, module, b.lanes, b.target)
        whole = b.lanes > 1
        if whole:
            odd = text.let("trunc i64 %start to i1")
            text.line(f"br i1 {odd}, label %alone, label %paired")
            text.label("paired")
            text.line(f"ret {kind} {_pairs(inside, dtype)}")
            text.label("alone")
        key, first = (inside.spread(v, dtypes.int64) for v in ("%seed", "%start"))
        single = standard_normal(inside, key, inside.add(first, counted(inside)), dtype)
        # A call costs little beside two hundred instructions, and a loop has five copies of it:
        # LLVM would take five times as long.
        return (
            f"define private {kind} @{name}(i64 %seed, i64 %start) noinline nounwind {{\n"
            f"{text.render()}\n  ret {kind} {single.name}\n}}"
        )

    b.module.need(name, definition)
    return b.value(b.text.let(f"call {kind} @{name}(i64 {seed}, i64 {start})"), dtype)


def _pairs(b: VectorBuilder, dtype: DType) -> str:
    """The numbers from an even position on: cosine and sine of half as many pairs as lanes."""
    text, half = b.text, b.lanes // 2
    narrow = VectorBuilder(text, b.module, half, b.target)
    first = narrow.spread(text.let("lshr i64 %start, 1"), dtypes.int64)
    pair = Operand(narrow, narrow.add(first, counted(narrow)))
    key = Operand(narrow, narrow.spread("%seed", dtypes.int64))
    sine, cosine = _waves(key, pair, dtype is dtypes.float64)
    kind = narrow.type_of(dtype)
    even, odd = (x.to(dtype).value.name for x in (cosine, sine))
    if half == 1:
        vector = text.let(f"insertelement <2 x {kind}> poison, {kind} {even}, i64 0")
        return text.let(f"insertelement <2 x {kind}> {vector}, {kind} {odd}, i64 1")
    order = ", ".join(f"i32 {i}, i32 {i + half}" for i in range(half))
    return text.let(f"shufflevector {kind} {even}, {kind} {odd}, <{b.lanes} x i32> <{order}>")


def random_integers(
    b: VectorBuilder,
    seed: SsaValue,
    position: SsaValue,
    low: SsaValue,
    high: SsaValue,
    dtype: DType,
) -> SsaValue:
    """Uniform numbers y with low <= y < high (int64), as the dtype.

    The caller checks that low < high.
    """
    word = _long_word(*_operands(b, seed, position))
    start, end = Operand(b, low), Operand(b, high)
    span = end - start
    kind = b.type_of(dtypes.int64)
    rest = word.made(b.text.let(f"urem {kind} {word.value.name}, {span.value.name}"), word.dtype)
    return (rest + start).to(dtype).value
