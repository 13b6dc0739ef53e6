"""Lowering of ops without operands: draws of random numbers, and counting."""

from __future__ import annotations

from functools import cache
from typing import Any

from wend._engine.base import dtypes
from wend._engine.compiler.codegen import philox
from wend._engine.compiler.codegen.scalar_ops import convertible
from wend._engine.compiler.ir.loops import MAP, Emit, Op, shared
from wend._engine.compiler.lower.lowering import Lowering
from wend._engine.compiler.lower.registry import lowers
from wend._engine.core.graph import Node
from wend._engine.ops.creation import Arange
from wend._engine.ops.random import Draw, Normal, RandomIntegers, Uniform

EMPTY_RANGE = "an empty range to draw from"


@lowers(Draw)
def draw(low: Lowering, node: Node) -> bool:
    """uniform, standard_normal, random_bits, random_integers: a number for each element."""
    f = low.function
    out = node.outputs[0]
    dtype, space = f.dtypes[out], f.shape(out)
    if not convertible(dtype):
        return False
    n = len(space)  # the args that say how many come first
    op = Op(MAP, node, node.outputs, [], space, tuple(range(n)), None, node.args)
    op.counted = True
    if isinstance(node.prim, RandomIntegers):
        if any(node.prim.categories[n + k] != dtypes.INT for k in range(2)):
            return False
        op.emit = _integers(n, dtype)
        f.nonempty.append(space)
    else:
        op.emit = _numbers(node.prim, n, dtype)
    f.add(op)
    return True


def _place(code: Any, k: int) -> tuple[str, Any]:
    """The names of seed and first position; or the seed's, and the position of each lane."""
    seed, offset, count = code.word(k), code.word(k + 1), code.count()
    if isinstance(count, str):
        return seed, code.b.text.let(f"add i64 {offset}, {count}")
    return seed, code.b.add(code.b.spread(offset, dtypes.int64), count)


@cache
def _numbers(prim: Any, n: int, dtype: Any) -> Emit:
    """Return the rule of a draw of numbers. n: the run-time numbers before the seed"""
    if isinstance(prim, Uniform):
        run, single = philox.uniform_run, philox.uniform
    else:
        run, single = philox.standard_normal_run, philox.standard_normal

    def emit(code: Any, operands: list[Any]) -> Any:
        b = code.b
        seed, position = _place(code, n)
        if not isinstance(prim, (Uniform, Normal)):
            return philox.random_bits(b, b.spread(seed, dtypes.int64), _each(b, position))
        if isinstance(position, str):
            return run(b, seed, position, dtype)
        return single(b, b.spread(seed, dtypes.int64), position, dtype)

    return shared(emit)


def _each(b: Any, position: Any) -> Any:
    """The position of each lane, as int64."""
    if not isinstance(position, str):
        return position
    return b.add(b.spread(position, dtypes.int64), philox.counted(b))


@cache
def _integers(n: int, dtype: Any) -> Emit:
    """Return the rule of a draw of integers. n: the run-time numbers before the bounds"""

    def emit(code: Any, operands: list[Any]) -> Any:
        b = code.b
        seed, position = _place(code, n + 2)
        first, last = code.number(n), code.number(n + 1)
        b.require(b.lt(first, last), EMPTY_RANGE)
        key = b.spread(seed, dtypes.int64)
        # Where nothing can be drawn no quotient is taken either.
        safe = b.select(b.lt(first, last), last, b.add(first, b.number(1, dtypes.int64)))
        return philox.random_integers(b, key, _each(b, position), first, safe, dtype)

    return shared(emit)


@lowers(Arange)
def counting(low: Lowering, node: Node) -> bool:
    """arange: each element follows from the place."""
    f = low.function
    out = node.outputs[0]
    dtype = f.dtypes[out]
    if dtypes.COMPLEX in node.prim.categories:
        return False
    space = f.shape(out)
    op = Op(MAP, node, node.outputs, [], space, (0,), _counted(dtype), node.args, cheap=True)
    op.placed = True
    f.add(op)
    return True


@cache
def _counted(dtype: Any) -> Emit:
    """Return the rule of `arange`."""
    wide = dtypes.float64 if dtype.category == dtypes.FLOAT else dtypes.int64

    def emit(code: Any, operands: list[Any]) -> Any:
        b = code.b
        start, step = (b.convert(code.number(k), wide) for k in (0, 2))
        place = b.convert(code.place(0), wide)
        return b.convert(b.add(start, b.mul(place, step)), dtype)

    return shared(emit)
