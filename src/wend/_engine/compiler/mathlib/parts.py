"""Common parts of the functions: powers of 2, sums and products of floats, loops, branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from wend._engine.base import dtypes
from wend._engine.compiler.llvm_ir.operand import Operand, where


class FloatFormat(NamedTuple):
    """A float type: digits after the point, exponent's bias, and the number that rounds to ints."""

    digits: int
    bias: int
    magic: float  # 1.5 * 2**digits: a small whole number shows in the last bits of the sum
    tiny: float  # the smallest normal number
    root_half: int  # bits of sqrt(1/2)


_SINGLE: Final = FloatFormat(23, 127, 1.5 * 2.0**23, 2.0**-126, 0x3F3504F3)
_DOUBLE: Final = FloatFormat(52, 1023, 1.5 * 2.0**52, 2.0**-1022, 0x3FE6A09E667F3BCD)


def layout(x: Operand) -> FloatFormat:
    """The layout of x's type."""
    return _DOUBLE if x.is_double else _SINGLE


def wide(x: Operand) -> Operand:
    """x as float64."""
    return x.to(dtypes.float64)


def whole_bits(n: Operand) -> Operand:
    """Whole numbers (floats) as ints in the low bits; the high bits are anything."""
    return (n + layout(n).magic).bits()


def power_of_two(n: Operand) -> Operand:
    """2 ** n of whole n, a normal number."""
    form = layout(n)
    return ((whole_bits(n) << form.digits) + (form.bias << form.digits)).from_bits()


def scaled(y: Operand, n: Operand) -> Operand:
    """y * 2 ** n of whole n, rounded once; the result may overflow or become subnormal."""
    if (product := y.b.scale_by_power(y.value, n.value)) is not None:
        return Operand(y.b, product)
    half = (n * 0.5).floor()
    return y * power_of_two(half) * power_of_two(n - half)


def nearest(x: Operand, factor: float) -> Operand:
    """x * factor as the nearest whole number, of which layout(x).digits - 1 binary digits hold."""
    magic = layout(x).magic
    return x.fma(factor, magic) - magic


def power_nearest(x: Operand, factor: float, raised: int = 0) -> tuple[Operand, Operand]:
    """(n, 2**(n + raised)) of n = x * factor as the nearest whole number.

    The power must be a normal number; or 0, where the exponent is 1 below the least exponent.
    """
    form = layout(x)
    magic = form.magic + form.bias + raised  # so that the last bits are the exponent's
    held = x.fma(factor, magic)
    return held - magic, (held.bits() << form.digits).from_bits()


def powers_nearest(
    x: Operand, factor: float, least: float, less: float = 0.0
) -> tuple[Operand, Operand, Operand]:
    """(n, a, b) of n = x * factor as the nearest whole number: a * b = 2**(n - less).

    b is a normal number, and so is a; but a is 0 where x * factor / 2 is nearest `least`.
    """
    form = layout(x)
    magic = form.magic + 2 * form.bias - less
    held, half = x.fma(factor, magic), x.fma(factor * 0.5, form.magic - least)
    a = (half.bits() << form.digits).from_bits()
    b = (held.bits() - half.bits() << form.digits).from_bits()
    return held - magic, a, b


def is_ordinary(x: Operand) -> Operand:
    """Whether x is finite, above 0 and not subnormal: an addition and a comparison."""
    form = layout(x)
    bits = 8 * x.dtype.itemsize
    lowest = 1 << form.digits
    # Ordinary numbers are moved to the lowest ints.
    return x.bits() + ((1 << bits - 1) - lowest) < -2 * lowest


def split(x: Operand) -> tuple[Operand, Operand]:
    """(m, e) with x = m * 2**e, sqrt(1/2) <= m < sqrt(2), e a whole float; for finite x > 0."""
    form = layout(x)
    small = x < form.tiny
    m, e = split_ordinary(where(small, x * 2.0**form.digits, x))
    return m, where(small, e - float(form.digits), e)


def split_ordinary(x: Operand) -> tuple[Operand, Operand]:
    """`split` where x is not subnormal."""
    form = layout(x)
    bits = x.bits()
    exponent = bits - form.root_half >> form.digits
    m = (bits - (exponent << form.digits)).from_bits()
    # An int of few bits becomes a float through the bits of `magic`.
    e = (exponent + x.constant(form.magic).bits()).from_bits() - form.magic
    return m, e


def quotient(x: Operand, a: float, b: Operand) -> Operand:
    """x / (a + b) of a sum neither tiny nor huge, as if the sum were exact."""
    inverse = 1.0 / (b + a)
    q = x * inverse
    rest = (-q).fma(b, q.fma(-a, x))
    return rest.fma(inverse, q)


def ratio(x: Operand, y: Operand) -> Operand:
    """x / y of a y neither tiny nor huge, by the processor's estimate of 1 / y if there is any."""
    estimate = y.b.estimate_reciprocal(y.value)
    if estimate is None:
        return x / y
    inverse = Operand(y.b, estimate)
    q = x * inverse
    return (-q).fma(y, x).fma(inverse, q)


def two_sum(a: Operand, b: Operand) -> tuple[Operand, Operand]:
    """(s, t) with s + t = a + b exactly, s the rounded sum; |a| >= |b| or a == 0."""
    s = a + b
    return s, (a - s) + b


def two_product(a: Operand, b: Operand | float) -> tuple[Operand, Operand]:
    """(p, t) with p + t = a * b exactly, p the rounded product."""
    p = a * b
    return p, a.fma(b, -p)


def rarely(condition: Operand, usual: Operand, other: Callable[[], Operand]) -> Operand:
    """`usual`, or `other()` where the condition holds; computed only if any lane needs this."""
    b = usual.b
    some = _any_lane(condition)
    before, rare, after = (b.text.fresh(hint) for hint in ("usual", "rare", "after"))
    b.text.line(f"br label {before}")
    b.text.label(before)
    b.text.line(f"br i1 {some}, label {rare}, label {after}")
    b.text.label(rare)
    mixed = where(condition, other(), usual)
    last = b.text.fresh("mixed")
    b.text.line(f"br label {last}")
    b.text.label(last)
    b.text.line(f"br label {after}")
    b.text.label(after)
    kind = b.type_of(usual.dtype)
    name = b.text.let(f"phi {kind} [{usual.value.name}, {before}], [{mixed.value.name}, {last}]")
    return usual.made(name, usual.dtype)


def repeat(
    state: list[Operand],
    going: Callable[[list[Operand]], Operand],
    body: Callable[[list[Operand]], list[Operand]],
) -> list[Operand]:
    """state = body(state) while going(state) holds of some lane; body leaves finished lanes be."""
    b = state[0].b
    entry, head, inside, after = (b.text.fresh(h) for h in ("entry", "head", "inside", "after"))
    for label in (entry, head):
        b.text.line(f"br label {label}")
        b.text.label(label)
    at = len(b.text.lines)
    names = [b.text.fresh() for _ in state]
    current = [x.made(name, x.dtype) for x, name in zip(state, names, strict=True)]
    some = _any_lane(going(current))
    b.text.line(f"br i1 {some}, label {inside}, label {after}")
    b.text.label(inside)
    new = body(current)
    last = b.text.fresh("last")
    b.text.line(f"br label {last}")
    b.text.label(last)
    b.text.line(f"br label {head}")
    b.text.label(after)
    b.text.lines[at:at] = [
        f"  {name} = phi {b.type_of(x.dtype)} [{x.value.name}, {entry}], [{y.value.name}, {last}]"
        for name, x, y in zip(names, state, new, strict=True)
    ]
    return current


def _any_lane(condition: Operand) -> str:
    """An i1: whether the condition holds of some lane."""
    b = condition.b
    if b.lanes == 1:
        return b.text.let(f"freeze i1 {condition.value.name}")
    kind = b.vector("i1")
    return b.text.let(f"call i1 @llvm.vector.reduce.or.v{b.lanes}i1({kind} {condition.value.name})")
