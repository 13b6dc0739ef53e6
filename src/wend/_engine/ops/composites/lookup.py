"""Ops whose result's shape depends on values: these wait for a count, then know the shape."""

from __future__ import annotations

from typing import Any

from wend._engine.base.dtypes import BOOL, COMPLEX, FLOAT, bool_, float32, float64, int64
from wend._engine.base.errors import DTypeError, ShapeError
from wend._engine.base.shapes import normalize_dim
from wend._engine.base.tracebacks import short_errors
from wend._engine.core.kinds import Tensor
from wend._engine.core.primitive import ops
from wend._engine.core.symbolic import AnyInt, broadcast_shapes, hints, numel
from wend._engine.ops.elementwise.family import is_number
from wend._engine.ops.indexing.search import places_now
from wend._engine.ops.numeric import require
from wend._engine.ops.placing import beside, full_beside
from wend._engine.ops.sugar import spelled, sugar


def _count(mask: Tensor) -> int:
    """The number of True elements: waits for the value."""
    count: Any = ops.sum(ops.cast(mask, int64)).item()
    return count  # type: ignore[no-any-return]  # while exploring, a number of the graph


def _hit(input: Tensor) -> Tensor:
    """Whether each element is not zero."""
    return input if input.dtype is bool_ else ops.ne(input, 0)


# --- nonzero and masks ----------------------------------------------------------


@sugar(functions=("nonzero",), methods=("nonzero",))
@spelled(out=True)
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """(count, rank) of int64: the positions of the elements that are not zero, in order.

    as_tuple: a tensor per dim instead (a 0-d input counts as 1-d)
    """
    if as_tuple:
        whole = input if len(input.shape) else ops.unsqueeze(input, 0)
        now = places_now(_hit(whole))
        if now is not None:
            return tuple(now)
        places = nonzero(whole)
        return tuple(ops.select(places, 1, d) for d in range(len(whole.shape)))
    hit = _hit(input)
    now = places_now(hit)
    if now is not None:
        return ops.stack(now, 1)
    return ops.nonzero_static(hit, size=_count(hit))


@sugar(functions=("argwhere",), methods=("argwhere",))
def argwhere(input: Tensor) -> Tensor:
    """As `nonzero`."""
    return nonzero(input)  # type: ignore[no-any-return]


@sugar(functions=("masked_select",), methods=("masked_select",))
@spelled(out=True)
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """(count,): the elements of input where mask is True, in row-major order.

    mask: bool; broadcasts with input. Raises DTypeError, ShapeError.
    """
    if mask.dtype is not bool_:
        raise DTypeError(f"masked_select: expected BoolTensor for mask, not {mask.dtype}")
    shape = broadcast_shapes("masked_select", tuple(input.shape), tuple(mask.shape))
    (places,) = nonzero(ops.ravel(ops.expand(mask, shape)), as_tuple=True)
    return ops.index_select(ops.ravel(ops.expand(input, shape)), 0, places)


# --- unique ---------------------------------------------------------------------


def _run_starts(differs: Tensor, n: AnyInt) -> Tensor:
    """Places where runs begin, given whether each element but the first differs from the last."""
    first = full_beside(differs, (1,), True, bool_)
    return ops.cat([first, differs], 0) if n else full_beside(differs, (0,), True, bool_)


def _summary(rows: Tensor, begins: Tensor, n: AnyInt) -> tuple[Any, Any, Any]:
    """(first row of each run, which run each row is in, length of each run)."""
    starts = ops.select(nonzero(begins), 1, 0)
    ends = ops.cat([ops.slice(starts, 0, 1), full_beside(begins, (1,), n, int64)], 0)
    counts = ops.sub(ops.slice(ends, 0, 0, starts.shape[0]), starts)
    runs = ops.sub(ops.cumsum(ops.cast(begins, int64), 0), 1)
    return ops.index_select(rows, 0, starts), runs, counts


def _answer(values: Tensor, inverse: Tensor, counts: Tensor, wants: tuple[bool, bool]) -> Any:
    result = (values, *((inverse,) if wants[0] else ()), *((counts,) if wants[1] else ()))
    return result if len(result) > 1 else values


def _rows_of(op: str, input: Tensor, dim: int | None) -> tuple[Any, AnyInt]:
    """(the elements, or the slices along dim as rows; how many)."""
    if dim is None:
        return ops.ravel(input), numel(input.shape)
    shape = tuple(input.shape)
    dim = normalize_dim(dim, len(shape), op)
    n = shape[dim]
    if numel(shape) == 0 and (n != 0 or sum(m == 0 for m in shape) != 1):
        raise ShapeError(
            f"{op}: there are 0 sized dimensions in {hints(shape)}, and they aren't selected by "
            f"dim {dim}, so unique cannot be applied"
        )
    width = numel(m for d, m in enumerate(shape) if d != dim)
    return ops.reshape(ops.movedim(input, dim, 0), (n, width)), n


def _restored(rows: Tensor, input: Tensor, dim: int | None) -> Tensor:
    """Rows as slices along dim again."""
    if dim is None:
        return rows
    shape = tuple(input.shape)
    dim = normalize_dim(dim, len(shape), "unique")
    rest = tuple(m for d, m in enumerate(shape) if d != dim)
    return ops.movedim(ops.reshape(rows, (rows.shape[0], *rest)), 0, dim)


def _differs(rows: Tensor, n: AnyInt) -> Tensor:
    change = ops.ne(ops.slice(rows, 0, 1), ops.slice(rows, 0, 0, max(n - 1, 0)))
    return change if len(change.shape) == 1 else ops.any(change, 1)


@sugar(functions=("unique",), methods=("unique",))
@short_errors
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The different elements (or slices along `dim`) in order, each once.

    return_inverse: also the number of each element     return_counts: also how often each occurs
    """
    input = ops.detach(input)
    rows, n = _rows_of("unique", input, dim)
    if dim is None:
        ordered, order = ops.sort(rows, 0) if n else (rows, full_beside(input, (0,), 0, int64))
    else:
        order = ops.lexsort_rows(rows)
        ordered = ops.index_select(rows, 0, order)
    begins = _run_starts(_differs(ordered, n), n)
    values, runs, counts = _summary(ordered, begins, n)
    inverse = ops.scatter(full_beside(input, (n,), 0, int64), 0, order, runs)
    if dim is None:
        inverse = ops.reshape(inverse, input.shape)
    return _answer(_restored(values, input, dim), inverse, counts, (return_inverse, return_counts))


@sugar(functions=("unique_consecutive",), methods=("unique_consecutive",))
@short_errors
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first element (or slice along `dim`) of each run of equal elements, in place order."""
    input = ops.detach(input)
    rows, n = _rows_of("unique_consecutive", input, dim)
    begins = _run_starts(_differs(rows, n), n)
    values, runs, counts = _summary(rows, begins, n)
    if dim is None:
        runs = ops.reshape(runs, input.shape)
    return _answer(_restored(values, input, dim), runs, counts, (return_inverse, return_counts))


# --- counting, membership, repeats ----------------------------------------------


@sugar(functions=("bincount",), methods=("bincount",))
@short_errors
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """y[k] = how often k occurs in input, or the sum of the weights there.

    input: 1-d, ints, not negative   ->   y: as many as the greatest element + 1, or minlength
    Raises ShapeError, DTypeError.
    """
    require("bincount", frozenset({"int"}), input.dtype)
    if len(input.shape) != 1:
        raise ShapeError(
            "bincount: only supports 1-d non-negative integral inputs, not "
            f"{input.dtype} of shape {hints(input.shape)}"
        )
    if minlength < 0:
        raise ShapeError(f"bincount: minlength should be >= 0, and is {minlength}")
    n = input.shape[0]
    if weights is not None and hints(weights.shape) != hints(input.shape):
        raise ShapeError(
            "bincount: weights should be 1-d and have the same length as input: "
            f"{hints(weights.shape)} and {hints(input.shape)}"
        )
    size = minlength
    if n:
        if int(ops.min(input)) < 0:
            raise ShapeError("bincount: only supports 1-d non-negative integral inputs")
        size = max(int(ops.max(input)) + 1, minlength)
    index = ops.cast(input, int64)
    if weights is None:
        ones = full_beside(input, (n,), 1, int64)
        return ops.index_add(full_beside(input, (size,), 0, int64), 0, index, ones)
    dtype = float32 if weights.dtype is float32 else float64
    zeros = full_beside(input, (size,), 0, dtype)
    return ops.index_add(zeros, 0, index, ops.cast(ops.detach(weights), dtype))


@sugar(functions=("isin",), methods=("isin",))
@spelled(out=True, element="elements", test_element="test_elements")
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """y = whether each element is among test_elements (invert: is not). Either may be a number."""
    if is_number(test_elements):
        return ops.ne(elements, test_elements) if invert else ops.eq(elements, test_elements)
    if is_number(elements):
        hits = ops.any(ops.eq(test_elements, elements))
        return ops.logical_not(hits) if invert else hits
    n = numel(test_elements.shape)
    if n == 0:
        return full_beside(elements, elements.shape, invert, bool_)
    known = ops.sort(ops.ravel(ops.detach(test_elements)), 0)[0]
    place = ops.minimum(ops.searchsorted(known, ops.detach(elements)), n - 1)
    hits = ops.eq(ops.index(known, [place], (0,)), elements)
    return ops.logical_not(hits) if invert else hits


@sugar(functions=("repeat_interleave",), methods=("repeat_interleave",))
@short_errors
def repeat_interleave(
    input: Any = None,
    repeats: Any = None,
    dim: int | None = None,
    *,
    output_size: int | None = None,
) -> Tensor:
    """input, slice k along `dim` repeated repeats[k] times in a row (by default: of all elements).

    repeats: an int, or a vector of ints; without it, input is that vector and the result says which
    k each place shows     output_size: the sum of repeats, if known: then nothing waits
    Raises ShapeError, DTypeError.
    """
    if input is None:
        input, repeats = repeats, None
    if repeats is None:
        return _repeated_places(input, output_size)  # type: ignore[no-any-return]
    if isinstance(repeats, int):
        return ops.repeat_each(input, repeats, dim)
    if dim is None:
        input, dim = ops.ravel(input), 0
    dim = normalize_dim(dim, len(input.shape), "repeat_interleave")
    if len(repeats.shape) == 0 or (len(repeats.shape) == 1 and repeats.shape[0] == 1):
        n = input.shape[dim] if len(input.shape) else 1
        repeats = ops.expand(ops.reshape(repeats, (1,)), (n,))
    if len(repeats.shape) != 1 or repeats.shape[0] != input.shape[dim]:
        raise ShapeError(
            "repeat_interleave: repeats must have the same size as input along dim, but got "
            f"repeats of shape {hints(repeats.shape)} and dim {dim} of {hints(input.shape)}"
        )
    return ops.index_select(input, dim, _repeated_places(repeats, output_size))


def _repeated_places(repeats: Tensor, output_size: int | None) -> Any:
    """Place k, repeats[k] times, for all k."""
    if len(repeats.shape) != 1 or repeats.dtype.category in (BOOL, FLOAT, COMPLEX):
        raise ShapeError(
            "repeat_interleave: repeats must be 1-d and int32 or int64, not "
            f"{repeats.dtype} of shape {hints(repeats.shape)}"
        )
    if repeats.shape[0] == 0:
        return full_beside(repeats, (0,), 0)
    ends = ops.cumsum(ops.cast(repeats, int64), 0)
    if output_size is None:
        if int(ops.min(repeats)) < 0:
            raise ShapeError("repeat_interleave: repeats can not be negative")
        output_size = int(ops.select(ends, 0, -1))
    place = beside(repeats, ops.arange(0, output_size, 1, output_size, dtype=int64))
    return ops.cast(ops.searchsorted(ends, place, right=True), repeats.dtype)
