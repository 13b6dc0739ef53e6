"""Statistics and norms, composed of reductions.

Sums of float16 and bfloat16 are taken in float32 and rounded once, at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.dtypes import FLOAT, DType, bool_, finfo, float32, float64, int64
from wend._engine.base.errors import ArgumentTypeError, DTypeError, ShapeError
from wend._engine.base.shapes import normalize_dims
from wend._engine.core.kinds import Attr, Dim, Dims, Scalar, Tensor
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import numel, sym_max
from wend._engine.ops.numeric import INEXACT, accumulator, is_half
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.reduce import require_elements, restore
from wend._engine.ops.sugar import with_out


def reduced_axes(dim: Any, rank: int, op: str) -> tuple[int, ...]:
    """The axes that `dim` names, ascending; None and () mean all, as in PyTorch."""
    if dim is None or dim == ():
        return tuple(range(rank))
    axes = normalize_dims(dim, rank, op)
    return tuple(sorted(axes)) if rank else ()


def count_of(x: Tensor, axes: tuple[int, ...]) -> Any:
    """How many elements are folded into each result."""
    return numel(tuple(x.shape[a] for a in axes))


def summed(x: Tensor, axes: tuple[int, ...], keepdim: bool) -> Tensor:
    """Sum over exactly these axes: none at all for ()."""
    return ops.sum(x, axes, keepdim) if axes else x


def widened(x: Tensor) -> Tensor:
    """float16 and bfloat16 as float32, everything else unchanged."""
    return ops.cast(x, float32) if is_half(x.dtype) else x


def _require_float(op: str, what: str, dtype: DType) -> None:
    if dtype.category < FLOAT:
        raise DTypeError(
            f"{op}: could not infer output dtype. {what} dtype must be either a floating point or "
            f"complex dtype. Got: {dtype}; pass dtype= or convert the input with .float()"
        )


def _reduction_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(2, 3, 4))
    yield Sample(x)
    yield Sample(x, 1)
    yield Sample(x, (0, -1), keepdim=True)
    yield Sample(x[:, :1], 1)
    yield Sample(np.asarray(1.5))
    yield Sample(x[:0], 2)


def _mean_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from _reduction_samples(rng)
    yield Sample(rng.normal(size=(2, 3)), 1, dtype=float64)


def _onnx_mean(self: Any, g: OnnxBuilder, x: OnnxValue) -> Any:
    out = self.dtype or x.dtype
    if out.category != FLOAT or not x.shape:
        return NotImplemented
    dims = normalize_dims(self.dim or None, x.rank, "mean")
    wide = g.cast(g.cast(x, out), accumulator(out))
    return g.cast(g.node("ReduceMean", wide, g.sizes(dims), keepdims=int(self.keepdim)), out)


@composite(
    onnx=_onnx_mean,
    functions=("mean",),
    methods=("mean",),
    grad_name_along="MeanBackward1",
    samples=_mean_samples,
    supports=INEXACT,
)
def mean(
    input: Tensor, dim: Dims | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """y = sum of x over `dim` / number of elements summed.

    Raises DTypeError for bool and ints, unless a floating dtype is given.
    """
    out = dtype or input.dtype
    _require_float("mean", "Input" if dtype is None else "Optional", out)
    axes = reduced_axes(dim, len(input.shape), "mean")
    x = widened(ops.cast(input, out))
    return ops.cast(ops.div(summed(x, axes, keepdim), count_of(x, axes)), out)


def _without_nan(x: Tensor) -> Tensor:
    """x, with 0 for NaN. The gradient is multiplied by 0 there: infinity becomes NaN."""
    missing = ops.isnan(x)
    present = ops.cast(ops.logical_not(missing), x.dtype)
    return ops.graft(ops.where(missing, 0, ops.stop_gradient(x)), x * present)


@composite(
    functions=("nansum",),
    methods=("nansum",),
    samples=_mean_samples,
)
def nansum(
    input: Tensor, dim: Dims | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """y = sum of x over `dim`, NaN counted as 0. Raises DTypeError for complex."""
    if input.dtype.is_complex:
        raise DTypeError("nansum: does not support complex inputs")
    x = input
    if x.dtype.is_floating_point:
        x = _without_nan(x)
    return ops.sum(x, dim, keepdim, dtype=dtype)


@composite(
    functions=("nanmean",),
    methods=("nanmean",),
    samples=_mean_samples,
    supports=INEXACT,
    grad_nodes=lambda n, x, *_: n.Div(n.Nansum(x), None),
)
def nanmean(
    input: Tensor, dim: Dims | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """y = mean over `dim` of the elements that are not NaN. Raises DTypeError for bool and ints."""
    if input.dtype.category < FLOAT:
        raise DTypeError(
            f"nanmean: expected input to have floating point or complex dtype but got {input.dtype}"
        )
    out = dtype or input.dtype
    axes = reduced_axes(dim, len(input.shape), "nanmean")
    x = widened(ops.cast(input, out))
    total = summed(_without_nan(x), axes, keepdim)
    count = summed(ops.cast(ops.logical_not(ops.isnan(x)), int64), axes, keepdim)
    return ops.cast(ops.div(total, count), out)


def _count_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.integers(-1, 2, size=(3, 4))
    yield Sample(x)
    yield Sample(x, 1)
    yield Sample(x.astype(float), (0, 1))
    yield Sample(np.asarray(2))
    yield Sample(x[:0], 0)


@composite(
    functions=("count_nonzero",),
    methods=("count_nonzero",),
    samples=_count_samples,
)
def count_nonzero(input: Tensor, dim: Dims | None = None) -> Tensor:
    """y = number of elements over `dim` that are not 0 (int64)."""
    truth = input if input.dtype is bool_ else ops.ne(input, 0)
    return ops.sum(truth, dim)


def _logsumexp_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(2, 3, 4))
    yield Sample(x, 1)
    yield Sample(x, (0, -1), True)
    yield Sample(x * 1000, -1)
    yield Sample(x[:, :0], 1)
    yield Sample(x[:0], 1)
    yield Sample(np.asarray(1.5), 0)


@composite(
    functions=("logsumexp",),
    methods=("logsumexp",),
    samples=_logsumexp_samples,
)
def logsumexp(input: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    """y = log(sum of exp(x) over `dim`), without overflow; -inf over nothing."""
    x = widened(input if input.dtype.category >= FLOAT else ops.cast(input, float32))
    out = input.dtype if input.dtype.category >= FLOAT else float32
    if dim is None:
        raise ArgumentTypeError("logsumexp: argument 'dim' must be a tuple of ints, not None")
    axes = reduced_axes(dim, len(x.shape), "logsumexp")
    if not x.shape:
        return ops.cast(ops.squeeze(ops.logsumexp(ops.unsqueeze(x, 0), 0, True), 0), out)
    if any(x.shape[a] == 0 for a in axes):
        return ops.cast(ops.log(summed(ops.exp(x), axes, keepdim)), out)
    top = ops.amax(ops.detach(ops.real(x) if x.dtype.is_complex else x), axes, True)
    # Where the greatest is +-inf or NaN, subtracting it would turn everything to NaN.  Beside +inf
    # powers of finite elements must not be infinite.
    top = ops.clamp(top, max=finfo(top.dtype).max)
    top = ops.where(top > -math.inf, top, 0)
    total = ops.log(summed(ops.exp(ops.sub(x, top)), axes, True))
    y = ops.add(total, top)
    if not keepdim:
        y = ops.squeeze(y, axes)
    return ops.cast(y, out)


# --- variance ------------------------------------------------------------------------------


def _spread(
    op: str, x: Tensor, dim: Any, unbiased: Any, keepdim: bool, correction: Any
) -> tuple[Tensor, Tensor]:
    """(variance, mean) over `dim`, both with the reduced dims kept iff keepdim.

    var(x, False) means unbiased=False: a bool in the place of dim is PyTorch's second overload.
    """
    if isinstance(dim, bool):
        if unbiased is not None:
            raise ArgumentTypeError(
                f"{op}: argument 'dim' must be int or a tuple of ints, not bool"
            )
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise ArgumentTypeError(f"{op}: give 'unbiased' or 'correction', not both")
    if x.dtype.category < FLOAT:
        raise DTypeError(f"{op}: only supports floating point and complex dtypes, not {x.dtype}")
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    axes = reduced_axes(dim, len(x.shape), op)
    n = count_of(x, axes)
    wide = widened(x)
    center = ops.div(summed(wide, axes, True), n)
    if x.dtype.is_complex:
        deviation = ops.sub(wide, center)
        total = summed(ops.real(ops.mul(deviation, ops.conj(deviation))), axes, True)
    else:
        total = summed(ops.squared_deviation(wide, center), axes, True)
        # The rest that rounding left in the mean: 0 in exact arithmetic, and so is its derivative.
        rest = summed(ops.detach(ops.sub(wide, center)), axes, True)
        total = ops.sub(total, ops.div(ops.mul(rest, rest), n))
        total = ops.where(ops.lt(total, 0), 0, total)
    if not keepdim and axes:
        total = ops.squeeze(total, axes)
    variance = ops.div(total, sym_max(0, n - correction))
    if not keepdim and axes:
        center = ops.squeeze(center, axes)
    return variance, ops.cast(center, x.dtype)


def _narrow(y: Tensor, dtype: DType) -> Tensor:
    return ops.cast(y, dtype.to_real())


def _spread_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from _reduction_samples(rng)
    x = rng.normal(size=(2, 5))
    yield Sample(x, False)
    yield Sample(x, 1, False)
    yield Sample(x, 0, True, True)
    yield Sample(x, dim=1, correction=0)
    yield Sample(x, (0, 1), correction=3)
    yield Sample(x, correction=0.5)
    yield Sample(x, unbiased=False)


@composite(functions=("var",), methods=("var",), samples=_spread_samples, supports=INEXACT)
def var(
    input: Tensor,
    dim: Attr = None,
    unbiased: Attr = None,
    keepdim: bool = False,
    *,
    correction: Scalar | None = None,
) -> Tensor:
    """y = sum((x - mean)**2) / max(0, n - correction) over `dim`.

    correction: 1 by default; unbiased=False means 0. Raises DTypeError for bool and ints.
    """
    variance, _ = _spread("var", input, dim, unbiased, keepdim, correction)
    return _narrow(variance, input.dtype)


@composite(functions=("std",), methods=("std",), samples=_spread_samples, supports=INEXACT)
def std(
    input: Tensor,
    dim: Attr = None,
    unbiased: Attr = None,
    keepdim: bool = False,
    *,
    correction: Scalar | None = None,
) -> Tensor:
    """y = sqrt(var(x)); the gradient at 0 is 0. See var."""
    variance, _ = _spread("std", input, dim, unbiased, keepdim, correction)
    return _narrow(root(variance), input.dtype)


@composite(functions=("var_mean",), result=tuple, samples=_spread_samples, supports=INEXACT)
def var_mean(
    input: Tensor,
    dim: Attr = None,
    unbiased: Attr = None,
    keepdim: bool = False,
    *,
    correction: Scalar | None = None,
) -> tuple[Tensor, ...]:
    """(var(x), mean(x)) over `dim`."""
    variance, center = _spread("var_mean", input, dim, unbiased, keepdim, correction)
    return _narrow(variance, input.dtype), center


@composite(functions=("std_mean",), result=tuple, samples=_spread_samples, supports=INEXACT)
def std_mean(
    input: Tensor,
    dim: Attr = None,
    unbiased: Attr = None,
    keepdim: bool = False,
    *,
    correction: Scalar | None = None,
) -> tuple[Tensor, ...]:
    """(std(x), mean(x)) over `dim`."""
    variance, center = _spread("std_mean", input, dim, unbiased, keepdim, correction)
    return _narrow(root(variance), input.dtype), center


def root(square: Tensor) -> Tensor:
    """Square root whose gradient at 0 is 0, not infinite."""
    nothing = ops.eq(square, 0)
    return ops.where(nothing, 0, ops.sqrt(ops.where(nothing, 1, square)))


# --- norms ---------------------------------------------------------------------------------


def _power_sum(x: Tensor, p: float, axes: tuple[int, ...], keepdim: bool) -> Tensor:
    """(sum of |x|**p) ** (1/p), with gradient 0 where the norm is 0, and at x = 0 for p < 1."""
    size = ops.abs(x)
    if p < 1:  # of an infinite slope
        nothing = ops.eq(x, 0)
        power = ops.pow(ops.where(nothing, 1, size), p)
        power = ops.where(nothing, 0.0 if p > 0 else math.inf, power)
    else:
        power = ops.pow(size, p)
    total = summed(power, axes, keepdim)
    edge = ops.eq(total, 0)
    if p < 0:
        edge = ops.logical_or(edge, ops.eq(total, math.inf))
    at_edge = ops.pow(ops.detach(total), 1 / p)
    return ops.where(edge, at_edge, ops.pow(ops.where(edge, 1, total), 1 / p))


def extreme_size(
    x: Tensor, fold: Any, axes: tuple[int, ...], keepdim: bool, shared: bool = True
) -> Tensor:
    """The greatest or least |x|; the gradient goes to elements that equal it or are NaN.

    shared: each such element gets a part of the gradient, and not the whole
    """
    size = ops.abs(x)
    if not axes:
        return size
    known = ops.stop_gradient(size)
    y = fold(known, axes, True)
    hit = ops.logical_or(ops.eq(known, y), ops.isnan(known))
    slope = summed(ops.where(hit, size, 0), axes, True)
    y = ops.graft(y, ops.div(slope, summed(hit, axes, True)) if shared else slope)
    return y if keepdim else ops.squeeze(y, axes)


def norm_of(op: str, x: Tensor, p: Any, dim: Any, keepdim: bool, dtype: DType | None) -> Tensor:
    """The p-norm of the elements of x over `dim`; see vector_norm."""
    if x.dtype.category < FLOAT:
        raise DTypeError(
            f"{op}: Expected a floating point or complex tensor as input. Got {x.dtype}; "
            "convert it with .float()"
        )
    if isinstance(p, bool) or not isinstance(p, (int, float)):
        raise ShapeError(f"{op}: Order {p} not supported: the order of a norm is a number")
    out = (dtype or x.dtype).to_real()
    x = widened(x if dtype is None else ops.cast(x, dtype))
    axes = reduced_axes(dim, len(x.shape), op)
    if p < 0 or p == math.inf:
        require_elements(op, x.shape, axes, dim is None or dim == ())
    if p == 2:
        square = ops.mul(x, x)
        if x.dtype.is_complex:
            square = ops.real(ops.mul(x, ops.conj(x)))
        y = root(summed(square, axes, keepdim))
    elif p == 1:
        y = summed(ops.abs(x), axes, keepdim)
    elif p == 0:
        size = ops.abs(x)
        y = summed(ops.where(ops.isnan(size), 1, ops.abs(ops.sign(size))), axes, keepdim)
    elif math.isinf(p):
        y = extreme_size(x, ops.amax if p > 0 else ops.amin, axes, keepdim)
    else:
        y = _power_sum(x, float(p), axes, keepdim)
    return ops.cast(y, out)


def _norm_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(2, 3, 4))
    yield Sample(x)
    for p in (2, 1, math.inf, -math.inf, 3, 2.5, -1):
        yield Sample(x, p, 1)
    yield Sample(x, 0, (0, -1), True)
    yield Sample(np.zeros((2, 3)), 2, 1)
    yield Sample(x[:, :0], 2, 1)
    yield Sample(np.asarray(-1.5), 2)
    yield Sample(x[:, :1], 2, 1, True)


@composite(
    samples=_norm_samples,
    supports=INEXACT,
    grad_name="LinalgVectorNormBackward0",
)
def vector_norm(
    input: Tensor,
    ord: Attr = 2,
    dim: Dims | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """y = (sum of |x|**ord over `dim`) ** (1/ord); max, min for +-inf; how many are not 0 for 0.

    The gradient is 0 where the norm has a kink. Raises DTypeError for bool and ints; DimError or
    ShapeError for a negative or infinite order over an empty dim.
    """
    return norm_of("vector_norm", input, ord, dim, keepdim, dtype)


@composite(
    functions=("norm",),
    methods=("norm",),
    samples=_norm_samples,
    supports=INEXACT,
    grad_name="LinalgVectorNormBackward0",
)
def norm(
    input: Tensor,
    p: Attr = "fro",
    dim: Dims | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """y = p-norm of the elements of x over `dim`; 'fro' is 2, 'nuc' the sum of singular values.

    See vector_norm.
    """
    if p == "nuc":
        x = input if dtype is None else ops.cast(input, dtype)
        axes = reduced_axes(dim, len(x.shape), "norm")
        if len(axes) != 2:
            raise ArgumentTypeError(f"norm: 'nuc' is for two dims, not {len(axes)}")
        front = tuple(i for i in range(len(x.shape)) if i not in axes)
        y = ops.sum(ops.linalg_svdvals(ops.permute(x, front + axes)), -1)
        return restore(y, axes, False) if keepdim else y
    return norm_of("norm", input, 2 if p is None or p == "fro" else p, dim, keepdim, dtype)


def _norm_by_position(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`torch.norm` takes `out` and `dtype` by position, `Tensor.norm` only `dtype`."""
    if len(args) == 5 and isinstance(args[4], DType):
        if "dtype" in kwargs:
            raise ArgumentTypeError("norm() got multiple values for argument 'dtype'")
        return norm(*args[:4], **kwargs, dtype=args[4])
    return with_out(norm, 4, args, kwargs, "dtype")


norm.general = _norm_by_position


def _dist_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x, y = rng.normal(size=(2, 3)), rng.normal(size=(3,))
    for p in (2, 1, math.inf, 3, 0):
        yield Sample(x, y, p)
    yield Sample(x, x)


@composite(
    functions=("dist",),
    methods=("dist",),
    samples=_dist_samples,
    supports=INEXACT,
)
def dist(input: Tensor, other: Tensor, p: Attr = 2) -> Tensor:
    """y = p-norm of all elements of x - other."""
    return norm_of("dist", ops.sub(input, other), p, None, False, None)


def _aminmax_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(2, 3, 4))
    yield Sample(x)
    yield Sample(x, dim=1)
    yield Sample(x, dim=-1, keepdim=True)
    yield Sample(np.asarray(1.5))


@composite(
    functions=("aminmax",),
    methods=("aminmax",),
    result=("min", "max"),
    samples=_aminmax_samples,
)
def aminmax(
    input: Tensor, *, dim: Dim | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """(min, max) of x along `dim`, or of all elements of x.

    Raises DimError or ShapeError over an empty dim.
    """
    dims = None if dim is None else (dim,)
    axes = reduced_axes(dims, len(input.shape), "aminmax")
    require_elements("aminmax", input.shape, axes, dim is None)
    return ops.amin(input, dims, keepdim), ops.amax(input, dims, keepdim)
