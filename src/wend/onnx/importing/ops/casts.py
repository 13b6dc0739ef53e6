"""Changes of the element type, those to types that Wend lacks included."""

from __future__ import annotations

from typing import Any

import wend
from wend._engine.core._hot import Tensor
from wend.onnx.importing.carried import aware
from wend.onnx.importing.registry import OpNode, op
from wend.onnx.importing.types import (
    ELEMENTS,
    Carried,
    Text,
    check_element,
    element_of,
    plain,
    with_element,
)

#: Integer types that Wend lacks: bits, and whether there is a sign.
SMALL_INTS = {4: (16, False), 12: (32, False), 13: (64, False), 21: (4, False), 22: (4, True)}
SMALL_INTS |= {25: (2, False), 26: (2, True)}
#: Small floats: bits of the fraction, exponent of the least normal number, largest number,
#: whether infinity exists, whether there is a NaN.
SMALL_FLOATS = {
    17: (3, -6, 448.0, False, True),
    18: (3, -7, 240.0, False, True),
    19: (2, -14, 57344.0, True, True),
    20: (2, -15, 57344.0, False, True),
    23: (1, 0, 6.0, False, False),
}


def to_element(
    value: Tensor | Carried, element: int, saturate: bool = True, mode: str = "up"
) -> Tensor | Carried:
    """A value with another element type."""
    x = plain(value)
    if element_of(value) == 13 and element in (1, 10, 11, 16):
        x = _unsigned_float(x)
    if element in SMALL_INTS:
        return with_element(_small_int(x, element), element)
    if element in SMALL_FLOATS:
        return with_element(_small_float(x.float(), element, saturate), element)
    if element == 24:
        return with_element(_power_of_two(x.float(), mode), element)
    dtype = ELEMENTS[element][2]
    if dtype is wend.bool:
        return x != 0
    if not dtype.is_floating_point and x.dtype.is_floating_point:
        return x.to(wend.int64).to(dtype)
    return x.to(dtype)


def _unsigned_float(x: Tensor) -> Tensor:
    """uint64, carried in int64, as float64."""
    return wend.where(x < 0, x.double() + 2.0**64, x.double())


def _small_int(x: Tensor, element: int) -> Tensor:
    """The lowest bits of whole numbers."""
    bits, signed = SMALL_INTS[element]
    whole = x.to(wend.int64)
    if bits < 64:
        whole = whole & ((1 << bits) - 1)
    if signed:
        whole = wend.where(whole >= 1 << (bits - 1), whole - (1 << bits), whole)
    return whole.to(ELEMENTS[element][2])


def _small_float(x: Tensor, element: int, saturate: bool) -> Tensor:
    """The nearest number of a small float type, of two the even number."""
    fraction, least, largest, infinite, has_nan = SMALL_FLOATS[element]
    size = x.abs()
    # The bits give the exponent exactly.
    exponent = ((size.view(wend.int32) >> 23) - 127).clamp(min=least)
    step = wend.exp2((exponent - fraction).float())
    near = wend.round(size / step) * step
    finite = size < float("inf")
    beyond = largest if saturate or not has_nan else float("inf" if infinite else "nan")
    outside = wend.full_like(near, beyond)
    if infinite or not has_nan:
        unbounded = outside
    else:
        unbounded = wend.full_like(near, largest if saturate else float("nan"))
    result = wend.where(near > largest, wend.where(finite, outside, unbounded), near)
    missing = x if has_nan else wend.zeros_like(x)
    result = wend.where(wend.isnan(x), missing, wend.copysign(result, x))
    # The two types without a sign for 0 have none here either.
    return (
        wend.where(result == 0, wend.zeros_like(result), result) if element in (18, 20) else result
    )


def _power_of_two(x: Tensor, mode: str) -> Tensor:
    """A power of two from 2**-127 on near a positive number: the next, the last or the nearest."""
    bits = x.abs().view(wend.int32)
    exponent, fraction = (bits >> 23) - 127, bits & 0x7FFFFF
    least = {"up": 1, "nearest": 0x400000, "down": 0x800000}[mode]
    exponent = wend.where((fraction >= least) & (bits >> 23 > 0), exponent + 1, exponent)
    # In two steps, as 2**-127 itself is less than the least normal number.
    result = wend.exp2((exponent.clamp(max=127) + 1).float()) * 0.5
    return wend.where(wend.isnan(x), x, result)


@aware
@op("Cast")
def cast(node: OpNode, x: Tensor | Carried) -> Tensor | Carried:
    """The input with the element type `to`."""
    element = node.get("to")
    check_element(element, f"the result of {node}")
    return to_element(x, element, bool(node.get("saturate", 1)), node.get("round_mode", "up"))


@aware
@op("CastLike")
def cast_like(node: OpNode, x: Tensor | Carried, like: Tensor | Carried | Text) -> Tensor | Carried:
    """The input with the element type of another value."""
    return to_element(x, element_of(like), bool(node.get("saturate", 1)))


@aware
@op("BitCast")
def bit_cast(node: OpNode, x: Any) -> Tensor | Carried:
    """The bits of the input, read as another element type of the same size."""
    element = node.get("to")
    source = element_of(x)
    wide = {4: wend.int16, 12: wend.int32}
    x = plain(x).to(wide[source]) if source in wide else plain(x)
    if element in wide:
        return to_element(x.view(wide[element]), element)
    return with_element(x.view(ELEMENTS[element][2]), element)
