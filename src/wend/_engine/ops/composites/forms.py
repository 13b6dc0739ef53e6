"""Names that stand for several forms of call: add, sub, div, pow, round, clamp."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base import dtypes
from wend._engine.base.errors import (
    ArgumentTypeError,
    DTypeError,
    DTypeNotImplemented,
    ExecutionError,
    ValueRefused,
)
from wend._engine.core import _hot
from wend._engine.core.kinds import Attr, Operand, Scalar, Tensor
from wend._engine.core.primitive import Composite, Sample, composite, ops, overload
from wend._engine.core.symbolic import category_of
from wend._engine.ops.composites.reduce import widened
from wend._engine.ops.elementwise import arithmetic, rounding, selection
from wend._engine.ops.elementwise.family import REAL, V, is_number, promoted, tensor_of

Samples = Iterator[Sample]


def publish(name: str, *forms: Any) -> None:
    """A public name, as function, method and in-place method, for several forms of call."""
    overload(name, *forms, functions=(name,), methods=(name,), inplace=True)


# -- add and sub with a factor -------------------------------------------------------------------


def _scaled(name: str, input: V, other: V, alpha: V) -> V:
    """alpha * other, in the dtype of input + other."""
    common, category = promoted(input, other), category_of(alpha)
    if category >= dtypes.FLOAT and common.category < dtypes.FLOAT:
        raise DTypeError(
            f"{name}: for integral input tensors, argument alpha must not be a floating point "
            "number"
        )
    if category == dtypes.BOOL and common is not dtypes.bool_:
        raise DTypeError(f"{name}: a boolean alpha is only supported for boolean results")
    if is_number(other):
        return other * alpha
    if common is dtypes.bool_:
        return ops.logical_and(other, ops.full((), alpha, dtype=dtypes.bool_))
    return ops.mul(other if other.dtype is common else ops.cast(other, common), alpha)


def _scaled_samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(4,)), alpha=2)
    yield Sample(rng.normal(size=(2, 1)), rng.normal(size=()), alpha=-3)


@composite(
    grad_name="AddBackward0",
    samples=_scaled_samples,
    of_number=tensor_of,
)
def add_scaled(input: Operand, other: Operand, *, alpha: Scalar) -> V:
    """y = input + alpha * other. Raises DTypeError for a float alpha of ints."""
    return ops.add(input, _scaled("add", input, other, alpha))


@composite(
    grad_name="SubBackward0",
    samples=_scaled_samples,
    of_number=tensor_of,
)
def sub_scaled(input: Operand, other: Operand, *, alpha: Scalar) -> V:
    """y = input - alpha * other. Raises DTypeError for a float alpha of ints."""
    return ops.sub(input, _scaled("sub", input, other, alpha))


def _scale_first_samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.normal(size=(3, 4)), 2, rng.normal(size=(4,)))


@composite(grad_name="AddBackward0", samples=_scale_first_samples)
def add_alpha_first(input: Tensor, alpha: Scalar, other: Tensor) -> V:
    """y = input + alpha * other, in the order of arguments of old PyTorch programs."""
    return ops.add(input, _scaled("add", input, other, alpha))


@composite(grad_name="SubBackward0", samples=_scale_first_samples)
def sub_alpha_first(input: Tensor, alpha: Scalar, other: Tensor) -> V:
    """y = input - alpha * other, in the order of arguments of old PyTorch programs."""
    return ops.sub(input, _scaled("sub", input, other, alpha))


def _subtract_samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.normal(size=(3, 4)), 3, 2)


@composite(
    grad_name="SubBackward1",
    samples=_subtract_samples,
)
def subtract_scaled(input: Operand, other: Scalar, alpha: Scalar) -> V:
    """y = input - alpha * other for numbers, which `subtract` takes by position."""
    return ops.sub(input, _scaled("subtract", input, other, alpha))


def _rsub_samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(4,)))
    yield Sample(rng.normal(size=(3, 4)), 2, alpha=3)


@composite(
    functions=("rsub",),
    grad_name="RsubBackward1",
    samples=_rsub_samples,
    grad_nodes=lambda n, x, other, _: None if is_number(other) else n.Rsub(x, other),
)
def rsub(input: Operand, other: Operand, alpha: Scalar = 1) -> V:
    """y = other - alpha * input."""
    return ops.sub(other, _scaled("rsub", other, input, alpha))


publish("add", arithmetic.Add, add_scaled, add_alpha_first)
publish("sub", arithmetic.Sub, sub_scaled, sub_alpha_first)
publish("subtract", arithmetic.Sub, sub_scaled, subtract_scaled)

# -- division with a rounding mode ---------------------------------------------------------------


def _rounded_samples(rng: np.random.Generator) -> Samples:
    for mode in ("floor", "trunc", None):
        x, other = rng.uniform(-9, 9, size=(3, 4)), rng.uniform(1, 4, size=(4,))
        yield Sample(x, other, rounding_mode=mode)
    yield Sample(rng.uniform(-9, 9, size=(5,)), 2.0, rounding_mode="floor")


@composite(
    grad_name="DivBackward2",
    samples=_rounded_samples,
    grad_nodes=lambda n, x, other, _: n.Div2(x, other),
    of_number=tensor_of,
)
def div_rounded(input: Operand, other: Operand, *, rounding_mode: Attr) -> V:
    """y = input / other, rounded: rounding_mode None, "trunc" (towards zero) or "floor"."""
    if rounding_mode is None:
        return ops.div(input, other)
    if rounding_mode not in ("trunc", "floor"):
        raise ValueRefused(
            "div: expected rounding_mode to be one of None, 'trunc', or 'floor' "
            f"but found {rounding_mode!r}"
        )
    divide = ops.floor_divide if rounding_mode == "floor" else ops.div_trunc
    return divide(input, other)


publish("div", arithmetic.Div, div_rounded)
publish("divide", arithmetic.Div, div_rounded)
publish("true_divide", arithmetic.Div)

# -- rounding to decimals ------------------------------------------------------------------------


def _decimals_samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.normal(size=(3, 4)), decimals=2)
    yield Sample(rng.normal(size=(4,)) * 100, decimals=-1)
    yield Sample(rng.normal(size=()), decimals=0)


@composite(grad_name="RoundBackward1", samples=_decimals_samples)
def round_decimals(input: Tensor, *, decimals: int) -> V:
    """y = input rounded to so many decimals (tens, hundreds... if negative), halves to even."""
    if decimals == 0:
        return ops.round(input)
    if input.dtype.category < dtypes.FLOAT:
        raise DTypeNotImplemented(f"round: decimals are not implemented for {input.dtype}")
    ten, x = float(10 ** abs(decimals)), widened(input)
    y = ops.round(x / ten) * ten if decimals < 0 else ops.round(x * ten) / ten
    return y if y.dtype is input.dtype else ops.cast(y, input.dtype)


publish("round", rounding.Round, round_decimals)

# -- clamp ---------------------------------------------------------------------------------------


def _tensor_number_samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.normal(size=(3, 4)), rng.uniform(-2, -1, size=(4,)), 1.0)


def _number_tensor_samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.normal(size=(3, 4)), -1.0, rng.uniform(1, 2, size=(3, 1)))


@composite(
    grad_name="ClampBackward0",
    samples=_tensor_number_samples,
)
def clamp_tensor_number(input: Tensor, min: Tensor, max: Scalar) -> V:
    """y = min(max(input, min), max)."""
    return ops.clamp(ops.clamp(input, min=min), max=max)


@composite(
    grad_name="ClampBackward0",
    samples=_number_tensor_samples,
)
def clamp_number_tensor(input: Tensor, min: Scalar, max: Tensor) -> V:
    """y = min(max(input, min), max)."""
    return ops.clamp(ops.clamp(input, min=min), max=max)


# Tensors first: a 0-d tensor would be read where a number is asked for.
_CLAMPS = (selection.ClampTensor, clamp_tensor_number, clamp_number_tensor, selection.Clamp)
publish("clamp", *_CLAMPS)
publish("clip", *_CLAMPS)


def _bound_samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.normal(size=(3, 4)), 0.5)
    yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(4,)))


@composite(
    functions=("clamp_min",),
    methods=("clamp_min",),
    inplace=True,
    samples=_bound_samples,
    grad_nodes=lambda n, x, low: None if is_number(low) else n.ClampMin1(x, low),
)
def clamp_min(input: Tensor, min: Operand) -> V:
    """y = max(input, min)."""
    return ops.clamp(input, min=min)


@composite(
    functions=("clamp_max",),
    methods=("clamp_max",),
    inplace=True,
    samples=_bound_samples,
    grad_nodes=lambda n, x, high: None if is_number(high) else n.ClampMax1(x, high),
)
def clamp_max(input: Tensor, max: Operand) -> V:
    """y = min(input, max)."""
    return ops.clamp(input, max=max)


# -- powers that need no power ---------------------------------------------------------------------

_EXPONENTS = (2, 3, 4, -1, -2, 0.5, -0.5)


@classmethod  # type: ignore[misc]
def _intern_special(cls: Any, attrs: dict[str, Any], form: tuple[Any, ...]) -> Any:
    """Refuse the exponents that the general op is for: the next form of `pow` takes these."""
    exponent = attrs["exponent"]
    if type(exponent) is not bool and (
        type(exponent) not in (int, float) or exponent not in _EXPONENTS
    ):
        raise ArgumentTypeError(f"pow: exponent {exponent!r} is not among {_EXPONENTS}")
    return Composite.intern.__func__(cls, attrs, form)  # type: ignore[attr-defined]


def _special_samples(rng: np.random.Generator) -> Samples:
    for exponent in _EXPONENTS:
        yield Sample(rng.uniform(0.5, 2.0, size=(3, 4)), exponent)
    yield Sample(rng.uniform(0.5, 2.0, size=()), 2.0)
    yield Sample(rng.uniform(0.5, 2.0, size=(3,)), True)
    yield Sample(rng.uniform(0.5, 2.0, size=(3,)), False)


@composite(
    grad_name="PowBackward0",
    samples=_special_samples,
    supports=REAL,
    intern=_intern_special,
)
def pow_special(input: Tensor, exponent: Attr) -> V:
    """y = input ** exponent, for exponents that need only products, quotients and roots.

    exponent: an entry of _EXPONENTS, or a bool: masks have no further powers.

    Raises ArgumentError for ints to a negative int.
    """
    if exponent is True:
        return ops.clone(input)
    if exponent is False:
        known = input.dtype is not dtypes.bool_
        return arithmetic.Pow.function(input, 0) if known else ops.fill_like(input, True)
    common = promoted(input, exponent)
    x = input if input.dtype is common else ops.cast(input, common)
    if exponent == 0.5:
        return ops.sqrt(x)
    if exponent == -0.5:
        return ops.rsqrt(x)
    if exponent < 0:
        if common.category < dtypes.FLOAT:
            raise ExecutionError("pow: Integers to negative integer powers are not allowed.")
        y = ops.reciprocal(x)
        return y if exponent == -1 else ops.square(y)
    square = ops.square(x)
    if exponent == 2:
        return square
    return square * x if exponent == 3 else ops.square(square)


publish("pow", pow_special, arithmetic.Pow)
_hot.set_operator("__pow__", ops.pow)
_hot.set_operator("__ipow__", _hot.Tensor.pow_)
