"""Differences of neighbours, sums of trapezoids, and a few matrices made of vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.dtypes import FLOAT, bool_, int64, uint8
from wend._engine.base.errors import DTypeError, ShapeError, ValueRefused
from wend._engine.base.shapes import normalize_dim, normalize_dims
from wend._engine.core.kinds import Operand, Scalar, Size, Tensor
from wend._engine.core.op_facts import ANY_DTYPE
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import hints
from wend._engine.ops.elementwise.family import is_number
from wend._engine.ops.gradient_nodes import NodeBuilder, NodeOperand
from wend._engine.ops.placing import full_beside
from wend._engine.ops.sugar import sugar
from wend._engine.ops.views.slicing import real_dim


def _neighbours(x: Tensor, dim: int) -> tuple[Any, Any]:
    """(x without the first slice, x without the last slice) along a dim."""
    n = x.shape[dim]
    return ops.slice(x, dim, 1, n), ops.slice(x, dim, 0, n - 1)


def _diff_nodes(
    n: NodeBuilder,
    x: NodeOperand,
    times: int,
    dim: int,
    before: NodeOperand | None,
    after: NodeOperand | None,
) -> object:
    parts = [part for part in (before, x, after) if part is not None]
    y = n.Cat(*parts) if len(parts) > 1 else x
    for _ in range(times):
        y = n.Sub(n.Slice(y), n.Slice(y))
    return y


def _sums(n: Any, y: Any) -> Any:
    """The nodes of the sums of neighbours."""
    return n.Add(n.Slice(y), n.Slice(y))


def _diff_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(3, 5))
    yield Sample(x)
    yield Sample(x, 2, 0)
    yield Sample(x, 7)
    yield Sample(x, 1, -1, x[:, :1], x[:, :2])
    yield Sample(np.array([True, True, False]))
    yield Sample(x, 0)


@composite(
    functions=("diff",),
    methods=("diff",),
    samples=_diff_samples,
    supports=ANY_DTYPE,
    grad_nodes=_diff_nodes,
)
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """y[i] = x[i + 1] - x[i] along `dim`, n times over; of bool: whether they differ.

    x: prepend, input and append, in a row. Raises ShapeError for a 0-d input or n < 0.
    """
    if not len(input.shape):
        raise ShapeError("diff: expects input to be at least one-dimensional")
    if n < 0:
        raise ShapeError(f"diff: order must be non-negative but got {n}")
    dim = normalize_dim(dim, len(input.shape), "diff")
    if n == 0:
        return ops.clone(input)  # as in PyTorch, without prepend and append
    parts = [part for part in (prepend, input, append) if part is not None]
    x = ops.cat(parts, dim) if len(parts) > 1 else input
    for _ in range(n):
        if x.shape[dim] == 0:
            break
        later, earlier = _neighbours(x, dim)
        x = ops.logical_xor(later, earlier) if x.dtype is bool_ else later - earlier
    return x


def _trapezoids(op: str, y: Tensor, widths: Any, dim: int) -> Any:
    """The areas between neighbours; widths: a number, or positions as a tensor."""
    later, earlier = _neighbours(y, dim)
    if is_number(widths):
        return (later + earlier) * (widths / 2.0)
    rank = len(y.shape)
    if len(widths.shape) == 1:
        if widths.shape[0] != y.shape[dim]:
            raise ShapeError(
                f"{op}: there must be one x value for each sample point: x has shape "
                f"{hints(widths.shape)}, y {hints(y.shape)}, dim {dim}"
            )
        places = tuple(-1 if d == dim else 1 for d in range(rank))
        widths = ops.reshape(widths, places)
    step, before = _neighbours(widths, dim - rank + len(widths.shape))
    return (step - before) * (later + earlier) / 2.0


def _trapezoid_samples(rng: np.random.Generator) -> Iterator[Sample]:
    y = rng.normal(size=(3, 4))
    yield Sample(y)
    yield Sample(y, np.array([0.0, 1.0, 3.0, 3.5]))
    yield Sample(y, np.abs(y), dim=1)
    yield Sample(y, np.array([0.0, 1.0, 3.0]), dim=0)


def _spacing_samples(rng: np.random.Generator) -> Iterator[Sample]:
    y = rng.normal(size=(3, 4))
    yield Sample(y, dx=0.5)
    yield Sample(y, dx=2, dim=0)


def _trapezoid(op: str, y: Tensor, widths: Operand, dim: int) -> Tensor:
    dim = real_dim(dim, len(y.shape), op)
    if y.shape[dim] == 0:
        rest = tuple(n for d, n in enumerate(y.shape) if d != dim)
        return full_beside(y, rest, 0)
    return ops.sum(_trapezoids(op, y, widths, dim), dim)


@composite(
    name="trapezoid_at",
    samples=_trapezoid_samples,
    grad_nodes=lambda n, y, x, _: (
        n.Div1(n.Sum1(n.Mul(_sums(n, y), None)))
        if x is not None
        else n.Mul1(n.Sub(n.Sum1(y), n.Mul1(n.Add(n.Select(y), n.Select(y)))))
    ),
)
def trapezoid_at(y: Tensor, x: Tensor | None = None, *, dim: int = -1) -> Tensor:
    """The area under y over positions x (by default 0, 1, 2, ...) by the trapezoidal rule."""
    return _trapezoid("trapezoid", y, 1.0 if x is None else x, dim)


@composite(
    name="trapezoid_spaced",
    samples=_spacing_samples,
    grad_nodes=lambda n, y, *_: n.Mul1(n.Sub(n.Sum1(y), n.Mul1(n.Add(n.Select(y), n.Select(y))))),
)
def trapezoid_spaced(y: Tensor, *, dx: Scalar, dim: int = -1) -> Tensor:
    """The area under y at positions dx apart by the trapezoidal rule."""
    return _trapezoid("trapezoid", y, dx, dim)


def _cumulative(y: Tensor, widths: Operand, dim: int) -> Tensor:
    dim = real_dim(dim, len(y.shape), "cumulative_trapezoid")
    return ops.cumsum(_trapezoids("cumulative_trapezoid", y, widths, dim), dim)


@composite(
    name="cumulative_trapezoid_at",
    samples=_trapezoid_samples,
    grad_nodes=lambda n, y, x, _: (
        n.Div1(n.Cumsum(n.Mul(_sums(n, y), None)))
        if x is not None
        else n.Cumsum(n.Mul1(_sums(n, y)))
    ),
)
def cumulative_trapezoid_at(y: Tensor, x: Tensor | None = None, *, dim: int = -1) -> Tensor:
    """The areas under y up to each position but the first, by the trapezoidal rule."""
    return _cumulative(y, 1.0 if x is None else x, dim)


@composite(
    name="cumulative_trapezoid_spaced",
    samples=_spacing_samples,
    grad_nodes=lambda n, y, *_: n.Cumsum(n.Mul1(_sums(n, y))),
)
def cumulative_trapezoid_spaced(y: Tensor, *, dx: Scalar, dim: int = -1) -> Tensor:
    """As `cumulative_trapezoid_at`, at positions dx apart."""
    return _cumulative(y, dx, dim)


@sugar(functions=("trapezoid", "trapz"))
def trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Operand | None = None, dim: int = -1
) -> Tensor:
    """The area under y along `dim` by the trapezoidal rule, at positions x or dx (1) apart."""
    if dx is not None:
        return ops.trapezoid_spaced(y, dx=dx, dim=dim)
    return ops.trapezoid_at(y, x, dim=dim)


@sugar(functions=("cumulative_trapezoid",))
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1
) -> Tensor:
    """The areas under y along `dim` up to each position but the first."""
    if dx is not None:
        return ops.cumulative_trapezoid_spaced(y, dx=dx, dim=dim)
    return ops.cumulative_trapezoid_at(y, x, dim=dim)


@composite(
    functions=("trace",),
    methods=("trace",),
    samples=lambda rng: iter([Sample(rng.normal(size=(3, 4))), Sample(rng.normal(size=(0, 2)))]),
    supports=ANY_DTYPE,
)
def trace(input: Tensor) -> Tensor:
    """The sum of the main diagonal of a matrix. Raises ShapeError unless input is 2-d."""
    if len(input.shape) != 2:
        raise ShapeError(f"trace: expected a matrix, but got shape {hints(input.shape)}")
    return ops.sum(ops.diagonal(input))


@sugar(functions=("vander",))
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """y[i, j] = x[i] ** (N - 1 - j), or x[i] ** j if increasing. Raises ShapeError unless 1-d."""
    if len(x.shape) != 1:
        raise ShapeError(f"vander: x must be a one-dimensional tensor, not {hints(x.shape)}")
    columns = x.shape[0] if N is None else N
    if columns < 0:
        raise ShapeError(f"vander: N must be non-negative, and is {columns}")
    if x.dtype.category < FLOAT:
        x = ops.cast(x, int64)
    rows = ops.expand(ops.unsqueeze(x, 1), (x.shape[0], max(columns - 1, 0)))
    ones = full_beside(x, (x.shape[0], min(columns, 1)), 1)
    powers = ops.cat([ones, ops.cumprod(rows, 1)], 1)
    return powers if increasing else ops.flip(powers, (1,))


@sugar(functions=("adjoint",))
def adjoint(input: Tensor) -> Tensor:
    """A view of the last two dims swapped, conjugated where complex."""
    return input.mH


# -- estimates of derivatives ----------------------------------------------------------------------


@sugar(functions=("gradient",))
def gradient(
    input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1
) -> tuple[Any, ...]:
    """Estimates of the derivatives along the dims `dim` (all by default), a tensor for each.

    spacing: the distance of neighbours, or a list: of distances per dim, or of coordinates, a 1-D
    tensor per dim. Inside central differences, exact to second order; at both ends one-sided
    ones, exact to order `edge_order` (1 or 2). Raises ShapeError, DTypeError, ValueRefused.
    """
    op = "gradient"
    if input.dtype in (bool_, uint8):
        raise DTypeError(f"{op}: does not support {input.dtype} input")
    if edge_order not in (1, 2):
        raise ValueRefused(f"{op}: only supports edge_order=1 and edge_order=2, not {edge_order}")
    rank = len(input.shape)
    listed = range(rank) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = normalize_dims(tuple(listed), rank, op)
    several = isinstance(spacing, (list, tuple))
    steps = list(spacing) if several else [1 if spacing is None else spacing] * len(axes)
    if len(steps) != len(axes):
        raise ShapeError(
            f"{op}: expected spacing to be unspecified, a scalar, or a list of as many entries as "
            f"dims ({len(axes)}), but got {len(steps)} entries"
        )
    for axis in axes:
        if input.shape[axis] <= edge_order:
            raise ShapeError(
                f"{op}: each dimension size must be at least edge_order+1 = {edge_order + 1}, but "
                f"the input has shape {hints(input.shape)}"
            )
    return tuple(
        _derivative(input, axis, step, edge_order) for axis, step in zip(axes, steps, strict=True)
    )


def _derivative(x: Tensor, dim: int, step: Any, edge_order: int) -> Tensor:
    """The estimate along a dim; step: a number, a 0-d tensor, or coordinates."""
    n = x.shape[dim]
    if is_number(step) or not len(step.shape):
        gaps = None
    else:
        if len(step.shape) != 1:
            raise ShapeError(
                "gradient: expected each element of spacing to have one dimension, but got an "
                f"element with {len(step.shape)} dimensions"
            )
        if step.shape[0] != n:
            raise ShapeError(
                f"gradient: the coordinates of dim {dim} must be {hints((n,))[0]} numbers, not "
                f"{hints(step.shape)[0]}"
            )
        later, earlier = _neighbours(step, 0)
        behind = (1,) * (len(x.shape) - 1 - dim)
        gaps = ops.reshape(later - earlier, (n - 1, *behind))

    def at(place: Size) -> Tensor:
        return ops.slice(x, dim, place, place + 1)

    def gap(place: Size) -> Any:
        return step if gaps is None else ops.slice(gaps, 0, place, place + 1)

    if edge_order == 1:
        left, right = (at(1) - at(0)) / gap(0), (at(n - 1) - at(n - 2)) / gap(n - 2)
    else:
        left = _one_sided(at(0), at(1), at(2), gap(0), gap(1))
        right = _one_sided(at(n - 1), at(n - 2), at(n - 3), -gap(n - 2), -gap(n - 3))
    before, after = ops.slice(x, dim, 0, n - 2), ops.slice(x, dim, 2, n)
    if gaps is None:
        inner = (after - before) / (2 * step)
    else:
        low, high = ops.slice(gaps, 0, 0, n - 2), ops.slice(gaps, 0, 1, n - 1)
        inner = after * (low / (high * (low + high))) - before * (high / (low * (low + high)))
        inner = inner + ops.slice(x, dim, 1, n - 1) * ((high - low) / (low * high))
    return ops.cat([left, inner, right], dim)


def _one_sided(a: Tensor, b: Tensor, c: Tensor, first: Any, second: Any) -> Any:
    """The derivative at a, from values in a row; first, second: the ways from a to b, b to c."""
    slope, further = (b - a) / first, (c - b) / second
    return slope + (slope - further) * first / (first + second)
