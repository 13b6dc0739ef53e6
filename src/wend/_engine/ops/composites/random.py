"""Random numbers of many kinds, composed of uniform and normal numbers; dropout.

Composites take (seed, offset) as run-time scalars.  `draw` and the functions below it take both
from a random state: the given state, or the current state (the fiber's, or the process's).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wend._engine.base.dtypes import DType, float32, float64
from wend._engine.base.errors import DTypeError, ValueRefused
from wend._engine.base.random_state import RandomState, current
from wend._engine.core import _hot
from wend._engine.core.kinds import Scalar, Size, Sizes, Tensor
from wend._engine.core.primitive import PublicOp, Sample, composite, ops
from wend._engine.ops.numeric import FLOATING, is_half
from wend._engine.ops.sugar import sugar

_SEEDED = "seed: scalar, offset: scalar"


def state_of(generator: Any) -> RandomState:
    """The random state behind a generator argument; None means the current state."""
    if generator is None:
        return current()
    state: RandomState = getattr(generator, "_state", generator)
    return state


def draw(
    op: PublicOp[Tensor],
    size: Sizes,
    *parameters: Scalar,
    generator: object = None,
    dtype: DType | None = None,
) -> Tensor:
    """op(size, *parameters, seed, offset): a draw at positions that no other draw will use."""
    seed, offset = state_of(generator).reserve(math.prod(size))
    return op(size, *parameters, seed, offset, dtype=dtype)


def draw_per_element(
    op: Callable[..., Any], x: Tensor, *parameters: Scalar, generator: object = None
) -> Any:
    """op(x, *parameters, seed, offset): a draw per element of x."""
    if _hot.has_override(x):

        def drawn(x: Any) -> Any:
            return draw_per_element(op, x, *parameters, generator=generator)

        return _hot.slot("torch_function")(drawn, (x,), {})
    seed, offset = state_of(generator).reserve(math.prod(x.shape))
    return op(x, *parameters, seed, offset)


def _wide(dtype: DType | None) -> DType:
    return float32 if dtype is None or is_half(dtype) else dtype


def _sized_samples(*parameters: float) -> Callable[..., Any]:
    def samples(rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((2, 3), *parameters, 7, 4)
        yield Sample((0,), *parameters, 7, 4)
        yield Sample((5,), *parameters, -9, 2**40, dtype=float64)

    return samples


def _sized(
    name: str, parameters: str, doc: str, *sample: float, grad_name: str = ""
) -> Callable[[Callable[..., Any]], Any]:
    """A composite draw: the body gets (size, parameters, seed, offset, compute dtype)."""

    def bind(body: Callable[..., Tensor]) -> Callable[..., Any]:
        def rule(size: Size, *rest: Any) -> Tensor:
            *numbers, dtype = rest
            y = body(size, *numbers, _wide(dtype))
            return y if dtype is None else ops.cast(y, dtype)

        rule.__doc__ = doc
        rule.__module__ = __name__
        listed = f"{parameters}, " if parameters else ""
        return composite(
            f"size: sizes, {listed}{_SEEDED}, *, dtype: dtype = None",
            name=name,
            samples=_sized_samples(*sample),
            random=True,
            grad_name=grad_name,
        )(rule)

    return bind


def _positive_unit(size: Sizes, seed: Scalar, offset: Scalar, dtype: DType) -> Tensor:
    """Uniform in (0, 1]: the logarithm is finite."""
    return ops.sub(1, ops.uniform(size, seed, offset, dtype=dtype))


@_sized(
    "uniform_between",
    "low: scalar, high: scalar",
    "y: uniform in [low, high).",
    -1.0,
    2.0,
    grad_name="UniformBackward0",
)
def _uniform_between(
    size: Sizes, low: Scalar, high: Scalar, seed: Scalar, offset: Scalar, dtype: DType
) -> Tensor:
    u = ops.uniform(size, seed, offset, dtype=dtype)
    # Where rounding would reach the high end, the low end is as good.
    y = ops.add(ops.mul(u, high - low), low)
    return ops.where(ops.eq(y, ops.full((), high, dtype=dtype)), low, y)


@_sized("normal", "mean: scalar, std: scalar", "y: normal with this mean and deviation.", 1.0, 2.0)
def _normal(
    size: Sizes, mean: Scalar, std: Scalar, seed: Scalar, offset: Scalar, dtype: DType
) -> Tensor:
    return ops.add(ops.mul(ops.standard_normal(size, seed, offset, dtype=dtype), std), mean)


@_sized("exponential_draw", "rate: scalar", "y: exponential: -log(1 - u) / rate.", 1.5)
def _exponential(size: Sizes, rate: Scalar, seed: Scalar, offset: Scalar, dtype: DType) -> Tensor:
    return ops.div(ops.neg(ops.log(_positive_unit(size, seed, offset, dtype))), rate)


@_sized(
    "cauchy_draw", "median: scalar, sigma: scalar", "y: Cauchy: median + sigma * tan(pi * u).",
    0.0, 2.0,
)  # fmt: skip
def _cauchy(
    size: Sizes, median: Scalar, sigma: Scalar, seed: Scalar, offset: Scalar, dtype: DType
) -> Tensor:
    u = ops.sub(ops.uniform(size, seed, offset, dtype=dtype), 0.5)
    return ops.add(ops.mul(ops.tan(ops.mul(u, math.pi)), sigma), median)


@_sized("log_normal_draw", "mean: scalar, std: scalar", "y: exp of normal numbers.", 0.5, 1.0)
def _log_normal(
    size: Sizes, mean: Scalar, std: Scalar, seed: Scalar, offset: Scalar, dtype: DType
) -> Tensor:
    z = ops.standard_normal(size, seed, offset, dtype=dtype)
    return ops.exp(ops.add(ops.mul(z, std), mean))


@_sized("geometric_draw", "p: scalar", "y: geometric: trials up to the first success, from 1.", 0.3)
def _geometric(size: Sizes, p: Scalar, seed: Scalar, offset: Scalar, dtype: DType) -> Tensor:
    u = _positive_unit(size, seed, offset, dtype)
    fail = ops.log1p(ops.neg(ops.full((), p, dtype=dtype)))
    return ops.maximum(ops.ceil(ops.div(ops.log(u), fail)), 1)


@_sized("bernoulli_numbers", "p: scalar", "y: 1 with probability p, else 0.", 0.3)
def _bernoulli_numbers(
    size: Sizes, p: Scalar, seed: Scalar, offset: Scalar, dtype: DType
) -> Tensor:
    return ops.cast(ops.lt(ops.uniform(size, seed, offset, dtype=float32), p), dtype)


@_sized("random_order", "", "y: a random order of 0 .. size[0] - 1: the order of random keys.")
def _random_order(size: Sizes, seed: Scalar, offset: Scalar, dtype: DType) -> Tensor:
    return ops.argsort(ops.random_bits(size, seed, offset), 0)


# --- a draw per element --------------------------------------------------------------------------


def _probability_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.uniform(0, 1, size=(2, 3)), 7, 4)
    yield Sample(rng.uniform(0, 1, size=()), 7, 4)
    yield Sample(rng.uniform(0, 1, size=(0,)), 7, 4)


@composite(
    samples=_probability_samples,
    supports=FLOATING,
    random=True,
)
def bernoulli_draw(input: Tensor, seed: Scalar, offset: Scalar) -> Tensor:
    """y[i] = 1 with probability x[i], else 0, in the dtype of x. Raises DTypeError for ints."""
    if not input.dtype.is_floating_point:
        raise DTypeError(f"bernoulli: takes probabilities of a float type, not {input.dtype}")
    u = ops.uniform(input.shape, seed, offset, dtype=_wide(input.dtype))
    return ops.cast(ops.lt(u, input), input.dtype)


def _dropout_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.normal(size=(3, 4)), 0.4, 1 / 0.6, 7, 4)
    yield Sample(rng.normal(size=()), 0.4, 1 / 0.6, 7, 4)
    yield Sample(rng.normal(size=(0, 3)), 0.4, 1 / 0.6, 7, 4)


@composite(
    grad_name="NativeDropoutBackward0",
    supports=FLOATING,
    random=True,
    samples=_dropout_samples,
    grad_nodes=lambda n, x, *_: n.Mul(x, None),
    format_of="pointwise",
)
def dropout_draw(input: Tensor, p: Scalar, scale: Scalar, seed: Scalar, offset: Scalar) -> Tensor:
    """y[i] = x[i] * scale with probability 1 - p, else 0. Raises DTypeError for ints."""
    if input.dtype.category < 2:
        raise DTypeError(f"dropout: takes float and complex tensors, not {input.dtype}")
    keep = ops.ge(ops.uniform(input.shape, seed, offset, dtype=float32), p)
    return ops.mul(ops.mul(input, ops.cast(keep, input.dtype)), scale)


@sugar(functions=("dropout",))
def dropout(input: Tensor, p: float = 0.5, train: bool = True, *, generator: Any = None) -> Any:
    """y = x * mask / (1 - p), each element of the mask 0 with probability p; y = x if not train.

    Raises ValueRefused unless 0 <= p <= 1.
    """
    if not 0.0 <= p <= 1.0:
        raise ValueRefused(f"dropout: probability has to be between 0 and 1, but got {p}")
    if not train or p == 0.0:
        return input
    scale = 0.0 if p == 1.0 else 1.0 / (1.0 - p)
    return draw_per_element(ops.dropout_draw, input, float(p), scale, generator=generator)
