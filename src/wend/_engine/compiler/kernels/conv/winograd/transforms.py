"""The transforms of Winograd's convolutions, F(2, 3) and F(4, 3), of a single line of vectors.

A line of pixels and the three taps of a kernel become as many numbers. Products of these numbers
are joined to outputs (Lavin and Gray, 2015). The gradient of the kernel takes the adjoints. The
numbers of F(2, 3) are a polynomial's values at 0, 1, -1 and infinity. F(4, 3) takes the values at
0, +-1/sqrt(2), +-sqrt(2) and infinity: rounding errors are then about twice those of plain sums.
With 0, +-1, +-2 the errors would be five times as large.

`both_ways` makes a transform of squares of a transform of lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from wend._engine.base import dtypes
from wend._engine.compiler.kernels.matmul.microkernel import TileConfig
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.values import literal

Transform = Callable[[Routine, TileConfig, list[str]], list[str]]

_NEAR, _FAR = 2**-0.5, 2**0.5


def total(f: Routine, shape: TileConfig, x: str, y: str) -> str:
    """x + y, of vectors"""
    return f.let(f"fadd {shape.vector} {x}, {y}")


def difference(f: Routine, shape: TileConfig, x: str, y: str) -> str:
    """x - y, of vectors"""
    return f.let(f"fsub {shape.vector} {x}, {y}")


def _scaled(f: Routine, shape: TileConfig, x: str, factor: float) -> str:
    return f.let(f"fmul {shape.vector} {x}, {_all(shape, factor)}")


def _halved(f: Routine, shape: TileConfig, x: str) -> str:
    half = ", ".join([f"{shape.element} 0.5"] * shape.lanes)
    return f.let(f"fmul {shape.vector} {x}, <{half}>")


def _plus(f: Routine, shape: TileConfig, x: str, factor: float, y: str) -> str:
    """x + factor * y"""
    kind = shape.vector
    many = f"{kind} {y}, {kind} {_all(shape, factor)}, {kind} {x}"
    return f.let(f"call {kind} @llvm.fmuladd.{shape.suffix}({many})")


def _all(shape: TileConfig, factor: float) -> str:
    one = f"{shape.element} {literal(factor, dtypes.float32)}"
    return f"<{', '.join([one] * shape.lanes)}>"


def both_ways(
    f: Routine, shape: TileConfig, transform: Transform, lines: Iterable[Iterable[str]]
) -> Iterator[list[str]]:
    """Transform lines now, and then yield the transform of each line across their results."""
    once = [transform(f, shape, list(line)) for line in lines]
    return (transform(f, shape, list(across)) for across in zip(*once, strict=True))


# -- F(2, 3) --------------------------------------------------------------------------------------

#: The transform of four pixels of a line: each number is a sum or a difference of two pixels.
PAIRS = ((difference, 0, 2), (total, 1, 2), (difference, 2, 1), (difference, 1, 3))


def spread_line_2(f: Routine, shape: TileConfig, x: list[str]) -> list[str]:
    """Transform four pixels of a line: x0 - x2, x1 + x2, x2 - x1, x1 - x3."""
    return [combine(f, shape, x[i], x[j]) for combine, i, j in PAIRS]


def spread_taps_2(f: Routine, shape: TileConfig, x: list[str]) -> list[str]:
    """Transform three taps of a line: x0, (x0 + x1 + x2) / 2, (x0 - x1 + x2) / 2, x2."""
    ends = _halved(f, shape, total(f, shape, x[0], x[2]))
    middle = _halved(f, shape, x[1])
    return [x[0], total(f, shape, ends, middle), difference(f, shape, ends, middle), x[2]]


def join_line_2(f: Routine, shape: TileConfig, x: list[str]) -> list[str]:
    """Make two neighbouring outputs of four sums: x0 + x1 + x2, x1 - x2 - x3."""
    return [
        total(f, shape, total(f, shape, x[0], x[1]), x[2]),
        difference(f, shape, difference(f, shape, x[1], x[2]), x[3]),
    ]


def spread_outputs_2(f: Routine, shape: TileConfig, x: list[str]) -> list[str]:
    """The adjoint of `join_line_2`: x0, x0 + x1, x0 - x1, -x1."""
    return [
        x[0],
        total(f, shape, x[0], x[1]),
        difference(f, shape, x[0], x[1]),
        f.let(f"fneg {shape.vector} {x[1]}"),
    ]


def join_taps_2(f: Routine, shape: TileConfig, x: list[str]) -> list[str]:
    """The adjoint of `spread_taps_2`: x0 + (x1 + x2) / 2, (x1 - x2) / 2, (x1 + x2) / 2 + x3."""
    middle = _halved(f, shape, total(f, shape, x[1], x[2]))
    return [
        total(f, shape, x[0], middle),
        _halved(f, shape, difference(f, shape, x[1], x[2])),
        total(f, shape, middle, x[3]),
    ]


# -- F(4, 3) --------------------------------------------------------------------------------------


def spread_taps_4(f: Routine, shape: TileConfig, x: list[str]) -> list[str]:
    """Transform three taps of a line into six numbers."""
    numbers = [x[0]]
    for point, over in ((_NEAR, -2 / 3), (_FAR, 1 / 6)):
        even = _scaled(f, shape, _plus(f, shape, x[0], point * point, x[2]), over)
        numbers += [_plus(f, shape, even, side * point * over, x[1]) for side in (1, -1)]
    return [*numbers, x[2]]


def spread_line_4(f: Routine, shape: TileConfig, x: list[str]) -> list[str]:
    """Transform six pixels of a line into six numbers, in the order of the points."""
    numbers = [_plus(f, shape, total(f, shape, x[0], x[4]), -2.5, x[2])]
    for point, other in ((_NEAR, _FAR), (_FAR, _NEAR)):
        even, odd = (_plus(f, shape, x[k + 2], -other * other, x[k]) for k in (2, 1))
        numbers += [_plus(f, shape, even, side * point, odd) for side in (1, -1)]
    return [*numbers, _plus(f, shape, total(f, shape, x[1], x[5]), -2.5, x[3])]


def join_line_4(f: Routine, shape: TileConfig, x: list[str]) -> list[str]:
    """Make four neighbouring outputs of six sums."""
    even, odd = join_even_4(f, shape, x[:5]), join_odd_4(f, shape, x[1:])
    return [even[0], odd[0], even[1], odd[1]]


def join_even_4(f: Routine, shape: TileConfig, x: list[str]) -> list[str]:
    """Make the first and the third of four neighbours, from all sums but the last."""
    near, far = total(f, shape, x[1], x[2]), total(f, shape, x[3], x[4])
    return [
        total(f, shape, total(f, shape, x[0], near), far),
        _plus(f, shape, _scaled(f, shape, near, _NEAR**2), _FAR**2, far),
    ]


def join_odd_4(f: Routine, shape: TileConfig, x: list[str]) -> list[str]:
    """Make the second and the fourth of four neighbours, from all sums but the first."""
    slope, steep = difference(f, shape, x[0], x[1]), difference(f, shape, x[2], x[3])
    return [
        _plus(f, shape, _scaled(f, shape, slope, _NEAR), _FAR, steep),
        _plus(f, shape, _plus(f, shape, x[4], _NEAR**3, slope), _FAR**3, steep),
    ]
