"""Pointwise ops composed of the elementwise primitives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base import dtypes
from wend._engine.base.errors import DTypeError, ShapeError, ValueRefused
from wend._engine.core.kinds import Attr, Operand, Scalar, Tensor
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.ops.composites.forms import publish
from wend._engine.ops.elementwise.family import ANY_NUMBER, V, is_number, promoted
from wend._engine.ops.gradient_nodes import NodeBuilder
from wend._engine.ops.numeric import INEXACT, require

Samples = Iterator[Sample]

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


@composite(samples=_valued_samples)
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1) -> V:
    """y = input + value * tensor1 * tensor2."""
    return input + tensor1 * tensor2 * value


@composite(samples=_valued_samples)
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1) -> V:
    """y = input + value * tensor1 / tensor2. Raises DTypeError for ints."""
    if promoted(tensor1, tensor2).category < dtypes.FLOAT:
        raise DTypeError("addcdiv: integer division is not supported; convert to a float dtype")
    return input + tensor1 / tensor2 * value


# The order of arguments of old PyTorch programs.


@composite(grad_name="AddcmulBackward0", samples=_value_first_samples)
def addcmul_value_first(input: Tensor, value: Scalar, tensor1: Tensor, tensor2: Tensor) -> V:
    """y = input + value * tensor1 * tensor2."""
    return ops.addcmul(input, tensor1, tensor2, value=value)


@composite(grad_name="AddcdivBackward0", samples=_value_first_samples)
def addcdiv_value_first(input: Tensor, value: Scalar, tensor1: Tensor, tensor2: Tensor) -> V:
    """y = input + value * tensor1 / tensor2."""
    return ops.addcdiv(input, tensor1, tensor2, value=value)


publish("addcmul", addcmul, addcmul_value_first)
publish("addcdiv", addcdiv, addcdiv_value_first)


def _lerp_samples(rng: np.random.Generator) -> Samples:
    yield from _three_samples(rng)
    yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(4,)), 0.25)


@composite(
    functions=("lerp",),
    methods=("lerp",),
    inplace=True,
    samples=_lerp_samples,
    grad_nodes=lambda n, x, end, weight: None if is_number(weight) else n.Lerp1(x, end, weight),
)
def lerp(input: Tensor, end: Tensor, weight: Operand) -> V:
    """y = input + weight * (end - input), counted from the end that is nearer."""
    require("lerp", INEXACT, input.dtype)
    if end.dtype is not input.dtype:
        raise DTypeError(f"lerp: end must be of input's dtype {input.dtype}, not {end.dtype}")
    start, stop = ops.stop_gradient(input), ops.stop_gradient(end)
    share = weight if is_number(weight) else ops.stop_gradient(weight)
    way = stop - start
    at = ops.full((), share, dtype=way.dtype) if is_number(share) else share
    y = ops.where(ops.lt(ops.abs(at), 0.5), start + way * share, stop - way * (1 - share))
    return ops.graft(y, input + weight * (end - input))  # the same slope, whichever end is nearer


# -- functions of a tensor -----------------------------------------------------------------------


def _one_sample(rng: np.random.Generator) -> Samples:
    for shape in ((3, 4), (), (0, 2)):
        yield Sample(rng.normal(size=shape))


@composite(
    functions=("positive",),
    methods=("positive",),
    grad_name="AliasBackward0",
    samples=_one_sample,
)
def positive(input: Tensor) -> V:
    """y = input. Raises DTypeError for bools."""
    if input.dtype is dtypes.bool_:
        raise DTypeError("positive: the `+` operator on a bool tensor is not supported")
    return ops.identity(input)


@composite(
    functions=("deg2rad",),
    methods=("deg2rad",),
    inplace=True,
    grad_name="Deg2RadBackward0",
    samples=_one_sample,
)
def deg2rad(input: Tensor) -> V:
    """y = input * pi / 180."""
    return input * (math.pi / 180)


@composite(
    functions=("rad2deg",),
    methods=("rad2deg",),
    inplace=True,
    grad_name="Rad2DegBackward0",
    samples=_one_sample,
)
def rad2deg(input: Tensor) -> V:
    """y = input * 180 / pi."""
    return input * (180 / math.pi)


@composite(functions=("sinc",), methods=("sinc",), inplace=True, samples=_one_sample)
def sinc(input: Tensor) -> V:
    """y = sin(pi input) / (pi input), 1 at 0."""
    origin = input == 0
    angle = ops.where(origin, 1, input * math.pi)
    return ops.where(origin, 1, ops.sin(angle) / angle)


@composite(samples=_one_sample)
def ndtr(input: Tensor) -> V:
    """y = the normal distribution's function: (1 + erf(input / sqrt(2))) / 2."""
    return ops.erfc(input * -math.sqrt(0.5)) / 2


def _gamma_samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.uniform(2, 5, size=(3, 4)), 3)
    yield Sample(rng.uniform(2, 5, size=()), 1)


@composite(
    functions=("mvlgamma",),
    methods=("mvlgamma",),
    inplace=True,
    samples=_gamma_samples,
)
def mvlgamma(input: Tensor, p: int) -> V:
    """y = the logarithm of the multivariate gamma function of dimension p >= 1."""
    if p < 1:
        raise ShapeError(f"mvlgamma: p has to be greater than or equal to 1, not {p}")
    parts = [ops.lgamma(input - 0.5 * i) for i in range(p)]
    return sum(parts[1:], parts[0]) + p * (p - 1) / 4 * math.log(math.pi)


def _nan_samples(rng: np.random.Generator) -> Samples:
    yield Sample(np.array([1.5, np.nan, np.inf, -np.inf]))
    yield Sample(np.array([1.5, np.nan, np.inf, -np.inf]), 1.0, 2.0, -3)


@composite(
    functions=("nan_to_num",),
    methods=("nan_to_num",),
    inplace=True,
    samples=_nan_samples,
)
def nan_to_num(
    input: Tensor,
    nan: Scalar | None = None,
    posinf: Scalar | None = None,
    neginf: Scalar | None = None,
) -> V:
    """y = input, NaN replaced by nan (0), inf and -inf by posinf, neginf (the dtype's limits)."""
    if input.dtype.category < dtypes.FLOAT:
        return ops.clone(input)
    limits = dtypes.finfo(input.dtype)
    result = ops.where(ops.isnan(input), 0 if nan is None else nan, input)
    result = ops.where(input == math.inf, limits.max if posinf is None else posinf, result)
    return ops.where(input == -math.inf, limits.min if neginf is None else neginf, result)


@composite(functions=("isposinf",), methods=("isposinf",), samples=_one_sample)
def isposinf(input: Tensor) -> V:
    """y = input is +inf."""
    return input == math.inf


@composite(functions=("isneginf",), methods=("isneginf",), samples=_one_sample)
def isneginf(input: Tensor) -> V:
    """y = input is -inf."""
    return input == -math.inf


@composite(functions=("isreal",), methods=("isreal",), samples=_one_sample, supports=ANY_NUMBER)
def isreal(input: Tensor) -> V:
    """y = True where the imaginary part is 0, as that of a real number is."""
    if input.dtype.is_complex:
        return ops.imag(input) == 0
    return ops.fill_like(input, 0) == 0


# -- functions of two tensors --------------------------------------------------------------------


def _two_samples(rng: np.random.Generator) -> Samples:
    for a, b in (((3, 4), (4,)), ((), (2,)), ((0, 2), (1, 2))):
        yield Sample(rng.uniform(0.5, 2.0, size=a), rng.uniform(0.5, 2.0, size=b))


def _number_samples(rng: np.random.Generator) -> Samples:
    yield from _two_samples(rng)
    yield Sample(rng.uniform(0.5, 2.0, size=(3,)), 2.0)
    yield Sample(1.5, rng.uniform(0.5, 2.0, size=(3,)))


def _in_dtype(operand: V, dtype: dtypes.DType) -> V:
    """The operand as a tensor that has at least the precision of `dtype`."""
    if is_number(operand):
        return ops.full((), operand, dtype=dtype)
    return ops.cast(operand, dtype) if dtype.category >= dtypes.FLOAT else operand


def _divided_samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.integers(-20, 20, (3, 4)), rng.integers(-20, 20, (4,)))


@composite(functions=("lcm",), methods=("lcm",), inplace=True, samples=_divided_samples)
def lcm(input: Tensor, other: Tensor) -> V:
    """y = the least common multiple of ints, at least 0; 0 if either is 0."""
    divisor = ops.gcd(input, other)
    parts = ops.div(input, ops.where(divisor == 0, 1, divisor), rounding_mode="trunc")
    return ops.abs(parts * other)


@composite(functions=("logaddexp2",), methods=("logaddexp2",), samples=_two_samples)
def logaddexp2(input: Tensor, other: Tensor) -> V:
    """y = log2(2 ** input + 2 ** other), without overflow in between."""
    x, y = (_in_dtype(each, promoted(input, other)) * math.log(2) for each in (input, other))
    return ops.logaddexp(x, y) / math.log(2)


@composite(functions=("ldexp",), methods=("ldexp",), inplace=True, samples=_two_samples)
def ldexp(input: Tensor, other: Tensor) -> V:
    """y = input * 2 ** other."""
    if other.dtype.category < dtypes.FLOAT:
        other = _in_dtype(other, promoted(input, other))
    return input * ops.pow(2.0, other)


_WIDEST = (dtypes.float64, dtypes.complex128)


def _float_power_nodes(n: NodeBuilder, x: object, exponent: object) -> object:
    def wide(v: Any) -> Any:
        return v if is_number(v) or v.dtype in _WIDEST else n.ToCopy(v)

    if is_number(exponent):
        return n.Pow(wide(x))
    return n.Pow2(wide(exponent)) if is_number(x) else n.Pow1(wide(x), wide(exponent))


@composite(
    functions=("float_power",),
    methods=("float_power",),
    inplace=True,
    grad_name="PowBackward1",
    samples=_number_samples,
    supports=ANY_NUMBER,
    grad_nodes=_float_power_nodes,
)
def float_power(input: Operand, exponent: Operand) -> V:
    """y = input ** exponent, computed in float64, or in complex128 if either is complex."""
    wide = _WIDEST[promoted(input, exponent).is_complex]
    base = input if is_number(input) else ops.cast(input, wide)
    power = exponent if is_number(exponent) else ops.cast(exponent, wide)
    return ops.pow(base, power)


def _heaviside_samples(rng: np.random.Generator) -> Samples:
    yield Sample(np.array([-1.5, 0.0, 2.0]), np.array(0.5))
    yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(4,)))


@composite(
    functions=("heaviside",),
    methods=("heaviside",),
    inplace=True,
    samples=_heaviside_samples,
)
def heaviside(input: Tensor, values: Tensor) -> V:
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
    functions=("isclose",),
    methods=("isclose",),
    samples=_close_samples,
)
def isclose(
    input: Tensor, other: Tensor, rtol: Attr = 1e-05, atol: Attr = 1e-08, equal_nan: bool = False
) -> V:
    """y = |input - other| <= atol + rtol * |other|; equal infinities are close.

    Raises DTypeError if the dtypes differ, ValueRefused for a negative tolerance.
    """
    for word, tolerance in (("rtol", rtol), ("atol", atol)):
        if not tolerance >= 0:  # NaN as well
            raise ValueRefused(
                f"isclose: {word} must be greater than or equal to zero, but got {tolerance}"
            )
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
