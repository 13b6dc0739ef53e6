"""Pointwise ops composed of the elementwise primitives, and the names that stand for several."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from wend.base import dtypes
from wend.base.errors import ArgumentError, DTypeError
from wend.core.primitive import Sample, composite, ops, overload
from wend.core.symbolic import category_of
from wend.ops import arithmetic, rounding, selection
from wend.ops.elementwise import V, is_number, promoted

Samples = Iterator[Sample]


def _publish(name: str, *forms: Any) -> None:
    """One public name, as function, method and in-place method, for several forms of call."""
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
    "input: operand, other: operand, *, alpha: scalar",
    grad_name="AddBackward0",
    samples=_scaled_samples,
)
def add_scaled(input: V, other: V, alpha: V) -> V:
    """y = input + alpha * other. Raises DTypeError for a float alpha of ints."""
    return ops.add(input, _scaled("add", input, other, alpha))


@composite(
    "input: operand, other: operand, *, alpha: scalar",
    grad_name="SubBackward0",
    samples=_scaled_samples,
)
def sub_scaled(input: V, other: V, alpha: V) -> V:
    """y = input - alpha * other. Raises DTypeError for a float alpha of ints."""
    return ops.sub(input, _scaled("sub", input, other, alpha))


def _scale_first_samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.normal(size=(3, 4)), 2, rng.normal(size=(4,)))


@composite("input, alpha: scalar, other", grad_name="AddBackward0", samples=_scale_first_samples)
def add_alpha_first(input: V, alpha: V, other: V) -> V:
    """y = input + alpha * other, in the order of arguments of old PyTorch programs."""
    return ops.add(input, _scaled("add", input, other, alpha))


def _rsub_samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(4,)))
    yield Sample(rng.normal(size=(3, 4)), 2, alpha=3)


@composite(
    "input: operand, other: operand, alpha: scalar = 1",
    functions=("rsub",),
    grad_name="RsubBackward1",
    samples=_rsub_samples,
)
def rsub(input: V, other: V, alpha: V) -> V:
    """y = other - alpha * input."""
    return ops.sub(other, _scaled("rsub", other, input, alpha))


_publish("add", arithmetic.Add, add_scaled, add_alpha_first)
_publish("sub", arithmetic.Sub, sub_scaled)
_publish("subtract", arithmetic.Sub, sub_scaled)

# -- division with a rounding mode ---------------------------------------------------------------


def _rounded_samples(rng: np.random.Generator) -> Samples:
    for mode in ("floor", "trunc", None):
        x, other = rng.uniform(-9, 9, size=(3, 4)), rng.uniform(1, 4, size=(4,))
        yield Sample(x, other, rounding_mode=mode)
    yield Sample(rng.uniform(-9, 9, size=(5,)), 2.0, rounding_mode="floor")


@composite(
    "input: operand, other: operand, *, rounding_mode: attr",
    grad_name="DivBackward2",
    samples=_rounded_samples,
)
def div_rounded(input: V, other: V, rounding_mode: str | None) -> V:
    """y = input / other, rounded: rounding_mode None, "trunc" (towards zero) or "floor"."""
    if rounding_mode is None:
        return ops.div(input, other)
    if rounding_mode not in ("trunc", "floor"):
        raise ArgumentError(
            "div: expected rounding_mode to be one of None, 'trunc', or 'floor' "
            f"but found {rounding_mode!r}"
        )
    divide = ops.floor_divide if rounding_mode == "floor" else ops.div_trunc
    return divide(input, other)


_publish("div", arithmetic.Div, div_rounded)
_publish("divide", arithmetic.Div, div_rounded)
_publish("true_divide", arithmetic.Div)

# -- rounding to decimals ------------------------------------------------------------------------


def _decimals_samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.normal(size=(3, 4)), decimals=2)
    yield Sample(rng.normal(size=(4,)) * 100, decimals=-1)
    yield Sample(rng.normal(size=()), decimals=0)


@composite("input, *, decimals: int", grad_name="RoundBackward1", samples=_decimals_samples)
def round_decimals(input: V, decimals: int) -> V:
    """y = input rounded to so many decimals (tens, hundreds... if negative), halves to even."""
    if decimals == 0:
        return ops.round(input)
    if input.dtype.category < dtypes.FLOAT:
        raise DTypeError(f"round: decimals are not implemented for {input.dtype}")
    ten = float(10 ** abs(decimals))
    if decimals < 0:
        return ops.round(input / ten) * ten
    return ops.round(input * ten) / ten


_publish("round", rounding.Round, round_decimals)

# -- clamp ---------------------------------------------------------------------------------------


def _tensor_number_samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.normal(size=(3, 4)), rng.uniform(-2, -1, size=(4,)), 1.0)


def _number_tensor_samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.normal(size=(3, 4)), -1.0, rng.uniform(1, 2, size=(3, 1)))


@composite(
    "input, min: tensor, max: scalar",
    grad_name="ClampBackward0",
    samples=_tensor_number_samples,
)
def clamp_tensor_number(input: V, min: V, max: V) -> V:
    """y = min(max(input, min), max)."""
    return ops.clamp(ops.clamp(input, min=min), max=max)


@composite(
    "input, min: scalar, max: tensor",
    grad_name="ClampBackward0",
    samples=_number_tensor_samples,
)
def clamp_number_tensor(input: V, min: V, max: V) -> V:
    """y = min(max(input, min), max)."""
    return ops.clamp(ops.clamp(input, min=min), max=max)


# Tensors first: a 0-d tensor would be read where a number is asked for.
_CLAMPS = (selection.ClampTensor, clamp_tensor_number, clamp_number_tensor, selection.Clamp)
_publish("clamp", *_CLAMPS)
_publish("clip", *_CLAMPS)


def _bound_samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.normal(size=(3, 4)), 0.5)
    yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(4,)))


@composite(
    "input, min: operand",
    functions=("clamp_min",),
    methods=("clamp_min",),
    inplace=True,
    samples=_bound_samples,
)
def clamp_min(input: V, min: V) -> V:
    """y = max(input, min)."""
    return ops.clamp(input, min=min)


@composite(
    "input, max: operand",
    functions=("clamp_max",),
    methods=("clamp_max",),
    inplace=True,
    samples=_bound_samples,
)
def clamp_max(input: V, max: V) -> V:
    """y = min(input, max)."""
    return ops.clamp(input, max=max)


# -- products and interpolation ------------------------------------------------------------------


def _three_samples(rng: np.random.Generator) -> Samples:
    for shapes in (((3, 4), (3, 4), (3, 4)), ((3, 1), (4,), ()), ((0, 2), (2,), (1, 1))):
        yield Sample(*(rng.uniform(0.5, 2.0, size=shape) for shape in shapes))


def _valued_samples(rng: np.random.Generator) -> Samples:
    yield from _three_samples(rng)
    yield Sample(*(rng.uniform(0.5, 2.0, size=(2, 3)) for _ in range(3)), value=2)


def _value_first_samples(rng: np.random.Generator) -> Samples:
    x, a, b = (rng.uniform(0.5, 2.0, size=(2, 3)) for _ in range(3))
    yield Sample(x, 3, a, b)


@composite("input, tensor1, tensor2, *, value: scalar = 1", samples=_valued_samples)
def addcmul(input: V, tensor1: V, tensor2: V, value: V) -> V:
    """y = input + value * tensor1 * tensor2."""
    return input + tensor1 * tensor2 * value


@composite("input, tensor1, tensor2, *, value: scalar = 1", samples=_valued_samples)
def addcdiv(input: V, tensor1: V, tensor2: V, value: V) -> V:
    """y = input + value * tensor1 / tensor2. Raises DTypeError for ints."""
    if promoted(tensor1, tensor2).category < dtypes.FLOAT:
        raise DTypeError("addcdiv: integer division is not supported; convert to a float dtype")
    return input + tensor1 / tensor2 * value


# The order of arguments of old PyTorch programs.
_VALUE_FIRST = "input, value: scalar, tensor1, tensor2"


@composite(_VALUE_FIRST, grad_name="AddcmulBackward0", samples=_value_first_samples)
def addcmul_value_first(input: V, value: V, tensor1: V, tensor2: V) -> V:
    """y = input + value * tensor1 * tensor2."""
    return ops.addcmul(input, tensor1, tensor2, value=value)


@composite(_VALUE_FIRST, grad_name="AddcdivBackward0", samples=_value_first_samples)
def addcdiv_value_first(input: V, value: V, tensor1: V, tensor2: V) -> V:
    """y = input + value * tensor1 / tensor2."""
    return ops.addcdiv(input, tensor1, tensor2, value=value)


_publish("addcmul", addcmul, addcmul_value_first)
_publish("addcdiv", addcdiv, addcdiv_value_first)


def _lerp_samples(rng: np.random.Generator) -> Samples:
    yield from _three_samples(rng)
    yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(4,)), 0.25)


@composite(
    "input, end, weight: operand",
    functions=("lerp",),
    methods=("lerp",),
    inplace=True,
    samples=_lerp_samples,
)
def lerp(input: V, end: V, weight: V) -> V:
    """y = input + weight * (end - input)."""
    return input + (end - input) * weight


# -- functions of one tensor ---------------------------------------------------------------------


def _one_sample(rng: np.random.Generator) -> Samples:
    for shape in ((3, 4), (), (0, 2)):
        yield Sample(rng.normal(size=shape))


def _probability_samples(rng: np.random.Generator) -> Samples:
    for shape in ((3, 4), ()):
        yield Sample(rng.uniform(0.05, 0.95, size=shape))
    yield Sample(rng.uniform(0, 1, size=(8,)), eps=0.2)


@composite(
    "input",
    functions=("deg2rad",),
    methods=("deg2rad",),
    inplace=True,
    grad_name="Deg2RadBackward0",
    samples=_one_sample,
)
def deg2rad(input: V) -> V:
    """y = input * pi / 180."""
    return input * (math.pi / 180)


@composite(
    "input",
    functions=("rad2deg",),
    methods=("rad2deg",),
    inplace=True,
    grad_name="Rad2DegBackward0",
    samples=_one_sample,
)
def rad2deg(input: V) -> V:
    """y = input * 180 / pi."""
    return input * (180 / math.pi)


@composite(
    "input, eps: scalar? = None",
    functions=("logit",),
    methods=("logit",),
    inplace=True,
    samples=_probability_samples,
)
def logit(input: V, eps: V) -> V:
    """y = log(input / (1 - input)); input is clamped to [eps, 1 - eps] first if eps is given."""
    if input.dtype.category < dtypes.FLOAT:
        input = ops.cast(input, dtypes.get_default_dtype())
    if eps is not None:
        input = ops.clamp(input, eps, 1 - eps)
    return ops.log(input / (1 - input))


@composite("input", functions=("sinc",), methods=("sinc",), inplace=True, samples=_one_sample)
def sinc(input: V) -> V:
    """y = sin(pi input) / (pi input), 1 at 0."""
    origin = input == 0
    angle = ops.where(origin, 1, input * math.pi)
    return ops.where(origin, 1, ops.sin(angle) / angle)


def _nan_samples(rng: np.random.Generator) -> Samples:
    yield Sample(np.array([1.5, np.nan, np.inf, -np.inf]))
    yield Sample(np.array([1.5, np.nan, np.inf, -np.inf]), 1.0, 2.0, -3)


@composite(
    "input, nan: scalar? = None, posinf: scalar? = None, neginf: scalar? = None",
    functions=("nan_to_num",),
    methods=("nan_to_num",),
    inplace=True,
    samples=_nan_samples,
)
def nan_to_num(input: V, nan: V, posinf: V, neginf: V) -> V:
    """y = input, NaN replaced by nan (0), inf and -inf by posinf, neginf (the dtype's limits)."""
    if input.dtype.category < dtypes.FLOAT:
        return ops.clone(input)
    limits = dtypes.finfo(input.dtype)
    result = ops.where(ops.isnan(input), 0 if nan is None else nan, input)
    result = ops.where(input == math.inf, limits.max if posinf is None else posinf, result)
    return ops.where(input == -math.inf, limits.min if neginf is None else neginf, result)


@composite("input", functions=("isposinf",), methods=("isposinf",), samples=_one_sample)
def isposinf(input: V) -> V:
    """y = input is +inf."""
    return input == math.inf


@composite("input", functions=("isneginf",), methods=("isneginf",), samples=_one_sample)
def isneginf(input: V) -> V:
    """y = input is -inf."""
    return input == -math.inf


@composite("input", functions=("isreal",), methods=("isreal",), samples=_one_sample)
def isreal(input: V) -> V:
    """y = True: every tensor here is real."""
    return ops.fill_like(input, 0) == 0


# -- functions of two tensors --------------------------------------------------------------------


def _two_samples(rng: np.random.Generator) -> Samples:
    for a, b in (((3, 4), (4,)), ((), (2,)), ((0, 2), (1, 2))):
        yield Sample(rng.uniform(0.5, 2.0, size=a), rng.uniform(0.5, 2.0, size=b))


def _number_samples(rng: np.random.Generator) -> Samples:
    yield from _two_samples(rng)
    yield Sample(rng.uniform(0.5, 2.0, size=(3,)), 2.0)
    yield Sample(1.5, rng.uniform(0.5, 2.0, size=(3,)))


def _as_tensor(operand: V, dtype: dtypes.DType) -> V:
    return ops.full((), operand, dtype=dtype) if is_number(operand) else operand


@composite(
    "input: operand, other: operand",
    functions=("xlogy",),
    methods=("xlogy",),
    inplace=True,
    samples=_number_samples,
)
def xlogy(input: V, other: V) -> V:
    """y = input * log(other); 0 where input is 0, unless other is NaN."""
    common = promoted(input, other)
    x, base = _as_tensor(input, common), _as_tensor(other, common)
    nothing = ops.logical_and(x == 0, ops.logical_not(ops.isnan(base)))
    return ops.where(nothing, 0, x * ops.log(ops.where(nothing, 1, base)))


@composite("input, other", functions=("logaddexp2",), methods=("logaddexp2",), samples=_two_samples)
def logaddexp2(input: V, other: V) -> V:
    """y = log2(2 ** input + 2 ** other), without overflow in between."""
    return ops.logaddexp(input * math.log(2), other * math.log(2)) / math.log(2)


@composite(
    "input, other", functions=("ldexp",), methods=("ldexp",), inplace=True, samples=_two_samples
)
def ldexp(input: V, other: V) -> V:
    """y = input * 2 ** other."""
    return input * ops.pow(2.0, other)


@composite(
    "input: operand, exponent: operand",
    functions=("float_power",),
    methods=("float_power",),
    inplace=True,
    grad_name="PowBackward1",
    samples=_number_samples,
)
def float_power(input: V, exponent: V) -> V:
    """y = input ** exponent, computed in float64."""
    base = input if is_number(input) else ops.cast(input, dtypes.float64)
    power = exponent if is_number(exponent) else ops.cast(exponent, dtypes.float64)
    return ops.pow(base, power)


def _heaviside_samples(rng: np.random.Generator) -> Samples:
    yield Sample(np.array([-1.5, 0.0, 2.0]), np.array(0.5))
    yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(4,)))


@composite(
    "input, values",
    functions=("heaviside",),
    methods=("heaviside",),
    inplace=True,
    samples=_heaviside_samples,
)
def heaviside(input: V, values: V) -> V:
    """y = 0, values or 1, as input is negative (or NaN), zero or positive. No gradient."""
    if input.dtype is not values.dtype:
        raise DTypeError(
            f"heaviside: input and values must have one dtype, not {input.dtype} and {values.dtype}"
        )
    step = ops.cast(input.detach() > 0, input.dtype)
    return ops.where(input.detach() == 0, values.detach(), step)


def _close_samples(rng: np.random.Generator) -> Samples:
    x = np.array([1.0, np.nan, np.inf, 2.0, -np.inf])
    y = np.array([1.0 + 1e-9, np.nan, np.inf, 2.1, np.inf])
    yield Sample(x, y)
    yield Sample(x, y, rtol=0.1, equal_nan=True)
    yield Sample(x, y[:1], 0.0, 1.5)


@composite(
    "input, other, rtol: scalar = 1e-05, atol: scalar = 1e-08, equal_nan: bool = False",
    functions=("isclose",),
    methods=("isclose",),
    samples=_close_samples,
)
def isclose(input: V, other: V, rtol: V, atol: V, equal_nan: bool) -> V:
    """y = |input - other| <= atol + rtol * |other|; equal infinities are close.

    Raises DTypeError if the dtypes differ.
    """
    if input.dtype is not other.dtype:
        raise DTypeError(f"isclose: {input.dtype} did not match {other.dtype}")
    close = input == other
    if equal_nan and input.dtype.category >= dtypes.FLOAT:
        close = ops.logical_or(close, ops.logical_and(ops.isnan(input), ops.isnan(other)))
    if input.dtype in (dtypes.bool_, dtypes.uint8):  # differences below 0 would wrap
        input, other = ops.cast(input, dtypes.int64), ops.cast(other, dtypes.int64)
    distance = ops.abs(input - other)
    near = ops.logical_and(distance <= ops.abs(other * rtol) + atol, ops.isfinite(distance))
    return ops.logical_or(close, near)
