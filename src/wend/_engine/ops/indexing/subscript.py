"""`x[key]` and `x[key] = value` on tensors: the plans of `indexing.py` carried out.

`getitem` gives views as long as the key has no tensors; `setitem` gives the new value of x as a
whole, for the handle that the caller rebinds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wend._engine.base.devices import CPU
from wend._engine.base.dtypes import DType, bool_, int64
from wend._engine.base.errors import ArgumentTypeError, DTypeError, IndexOutOfRange, ShapeError
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import Primitive, ops
from wend._engine.core.symbolic import hints
from wend._engine.ops.elementwise.family import is_number
from wend._engine.ops.indexing.keys import Plan, Source, Step, Values, plan_of, read_key
from wend._engine.ops.indexing.search import held, mask_now
from wend._engine.ops.placing import beside, full_beside
from wend._engine.ops.sugar import sugar
from wend._engine.ops.views.family import Alias
from wend._engine.ops.views.reshapes import Unsqueeze
from wend._engine.ops.views.scatters import ASSIGNED, SelectScatter, SliceScatter
from wend._engine.ops.views.slicing import Select, Slice, counted_index, replaced, slice_bounds

_select, _slice = Select.function, Slice.function
_unsqueeze, _alias = Unsqueeze.function, Alias.function


def getitem(x: Tensor, key: object) -> Any:
    """x[key]. Raises IndexOutOfRange, DimError, ArgumentError, ArgumentTypeError."""
    kind = type(key)
    if kind is int and len(x.shape):
        try:
            return _select(x, 0, key)
        except IndexOutOfRange as error:
            raise _renamed(error) from None
    structure, values = read_key(key)
    plan = plan_of(structure, len(x.shape))
    whole = x
    try:
        # Called from this very frame: a step's site is looked for from the innermost frame outward.
        for op, dim, (start, end, by) in plan.steps:
            if op == "select":
                x = _select(x, dim, values[start])
            elif op == "slice":
                x = _slice(
                    x,
                    dim,
                    None if start is None else values[start],
                    None if end is None else values[end],
                    1 if by is None else values[by],
                )
            else:
                x = _unsqueeze(x, dim) if op == "unsqueeze" else _alias(x)
    except IndexOutOfRange as error:
        raise _located(plan, whole, values, error) from None
    if plan.sources:
        values = _beside(x, values)
        mask = _only_mask(plan.sources, values)
        picked = None if mask is None else _where_true(x, mask, plan.sources[0].dim)
        if picked is None:
            picked = ops.index(x, index_tensors(plan.sources, x, values), plan.dims)
        return picked
    return x


def _beside(x: Tensor, values: Values) -> Values:
    """The values with all tensors on the device of x: indices and masks may lie on the CPU."""
    if x.value.type.device is CPU:
        return values
    return [beside(x, v) if isinstance(v, Tensor) else v for v in values]


def _run(step: Step, x: Tensor, values: Values) -> Any:
    """The view of a step."""
    if step.op == "select":
        return _select(x, step.dim, values[step.slots[0]])
    if step.op == "slice":
        return _slice(x, step.dim, *_slice_of(step, values))
    return _unsqueeze(x, step.dim) if step.op == "unsqueeze" else _alias(x)


def _slice_of(step: Step, values: Values) -> tuple[Any, Any, Any]:
    """(start, end, step) of a slice: None, None and 1 where left out."""
    start, end, by = (None if slot is None else values[slot] for slot in step.slots)
    return start, end, 1 if by is None else by


def _renamed(error: IndexOutOfRange) -> IndexOutOfRange:
    return IndexOutOfRange(str(error.args[0]).replace("select:", "getitem:", 1))


def _located(plan: Plan, x: Tensor, values: Values, error: IndexOutOfRange) -> IndexOutOfRange:
    """The error of a step, with the dim of the tensor that the user indexed."""
    gone, shape = 0, tuple(x.shape)
    for step in plan.steps:
        if step.op == "select":
            index = values[step.slots[0]]
            n = shape[step.dim]
            if not -n <= index < n:
                return IndexOutOfRange(
                    f"getitem: index {index} is out of bounds for dimension {step.dim + gone} "
                    f"with size {n}"
                )
            gone += 1
        elif step.op == "unsqueeze":
            gone -= 1
        shape = _shape_after(step, shape, values)
    return _renamed(error)


def _shape_after(step: Step, shape: tuple[Any, ...], values: Values) -> tuple[Any, ...]:
    """The shape of a view, without recording the view. Raises as the view does."""
    dim = step.dim
    if step.op == "select":
        counted_index("setitem", values[step.slots[0]], shape[dim], dim)
        return (*shape[:dim], *shape[dim + 1 :])
    if step.op == "slice":
        return replaced(shape, dim, slice_bounds("slice", shape[dim], *_slice_of(step, values))[2])
    if step.op == "unsqueeze":
        return (*shape[:dim], 1, *shape[dim:])
    return shape


def _shape_at(plan: Plan, x: Tensor, values: Values) -> tuple[Any, ...]:
    """The shape of a plan's views of x. Raises IndexOutOfRange."""
    shape = tuple(x.shape)
    try:
        for step in plan.steps:
            shape = _shape_after(step, shape, values)
    except IndexOutOfRange as error:
        raise _located(plan, x, values, error) from None
    return shape


def check_key(x: Tensor, key: object) -> None:
    """Raise IndexOutOfRange if a key's numbers or slices do not fit x."""
    structure, values = read_key(key)
    _shape_at(plan_of(structure, len(x.shape)), x, values)


# --- tensors in keys ------------------------------------------------------------


def index_tensors(sources: tuple[Source, ...], x: Tensor, values: Values) -> list[Any]:
    """The index tensors of a plan; masks become the positions of True elements.

    Waits for the number of True elements of each mask. Raises IndexOutOfRange.
    """
    result = []
    columns: list[Any] = []
    for source in sources:
        if source.slot < 0:
            result.append(full_beside(x, (source.column,), 0, int64))
        elif source.column < 0:
            result.append(values[source.slot])
        else:
            if source.column == 0:
                columns = mask_columns(values[source.slot], x, source.dim)
            result.append(columns[source.column])
    return result


def _only_mask(sources: tuple[Source, ...], values: Values) -> Any:
    """Return the mask of a key whose only tensor is a mask; None for other keys."""
    first = sources[0]
    alone = first.slot >= 0 and first.column >= 0 and {s.slot for s in sources} == {first.slot}
    return values[first.slot] if alone else None


def _where_true(x: Tensor, mask: Tensor, dim: int) -> Any:
    """The slices of x where a mask over dims dim, dim + 1, ... is True, in row-major order.

    These dims are taken as a single dim: of that, kernels read slices by an index. Returns None
    where values cannot be had now.
    """
    check_mask(mask, x, dim)
    elements = mask_now(mask)
    if elements is None:
        return None
    places = held(np.flatnonzero(elements))
    return ops.index_true(x, beside(x, places), dim=dim, depth=elements.ndim)


def _put_where_true(x: Tensor, mask: Tensor, dim: int, value: Tensor) -> Any:
    """x, with the slices of value, in order, where a mask over dims dim, dim + 1, ... is True.

    Each place of x looks up its slice: so no place is written to out of order. Returns None where
    values cannot be had now, and for a mask without True, where there is nothing to look up.
    """
    elements = mask_now(mask)
    if elements is None:
        return None
    shape, behind = tuple(x.shape), dim + elements.ndim
    flags = elements.ravel() if elements.dtype == bool else elements.ravel() != 0
    count = int(np.count_nonzero(flags))
    if not count:
        return None
    region = (*shape[:dim], count, *shape[behind:])
    value = _without_leading_ones(value, len(region))
    extents = tuple(value.shape)
    fits = all(m in (1, n) for m, n in zip(reversed(extents), reversed(region), strict=False))
    if len(extents) > len(region) or not fits:
        return None  # the general way words the error
    ranks = held(np.maximum(np.cumsum(flags) - 1, 0).reshape(elements.shape))
    flags = mask if mask.dtype is bool_ else ops.cast(mask, bool_)
    return ops.put_true(x, flags, beside(x, ranks), value, count, dim=dim)


def mask_columns(mask: Tensor, x: Tensor, dim: int) -> list[Any]:
    """The positions where a mask over dims dim, dim + 1, ... of x is True, a tensor a dim."""
    check_mask(mask, x, dim)
    return list(ops.nonzero(mask, as_tuple=True))


def check_mask(mask: Tensor, x: Tensor, dim: int) -> None:
    """Raise IndexOutOfRange unless the mask has the extents of the dims that it covers."""
    for k, n in enumerate(mask.shape):
        if x.shape[dim + k] != n:
            raise IndexOutOfRange(
                f"getitem: the shape of the mask {list(mask.shape)} at index {k} does not match "
                f"the shape of the indexed tensor {list(x.shape)} at index {dim + k}"
            )


# --- x[key] = value -------------------------------------------------------------


#: The op that `x[i] = row` records.
_ROW = SelectScatter.named(ASSIGNED, ("T", "T", "I"), dim=0)


def setitem(x: Tensor, key: object, value: Any) -> Any:
    """The value of x after `x[key] = value`.

    value: a tensor that broadcasts to x[key], or a number; cast to x's dtype (a tensor for places
    of index tensors must have that dtype). Raises as getitem; ShapeError, DTypeError.
    """
    if type(key) is int and _hot.current_trace().symbolic is None:
        type_ = _hot.refreshed(x).type
        dims = type_.dims
        if dims and -dims[0] <= key < dims[0]:
            # The case of a loop that fills a tensor: there is nothing to work out.
            if type(value) is float:
                value = full_beside(x, dims[1:], value)
                return _hot.record_list(_ROW, [x, value], [key])
            if type(value) is Tensor:
                row = _hot.refreshed(value).type
                same = row.dtype is type_.dtype and row.device is type_.device
                if same and row.dims == dims[1:]:
                    return _hot.record_list(_ROW, [x, value], [key])
    if not isinstance(value, Tensor) and not is_number(value):
        value = _number(value, x)
    structure, values = read_key(key)
    plan = plan_of(structure, len(x.shape))
    shape, wholes = _shape_at(plan, x, values), [x]
    for step in plan.steps if plan.sources else plan.steps[:-1]:
        wholes.append(_run(step, wholes[-1], values))
    if plan.sources:
        part = _put_tensors(plan.sources, wholes[-1], _beside(x, values), value)
    else:
        part = beside(x, _fitted(value, shape, x.dtype))
        if part is value:
            part = ops.clone(part)
        if not any(step.op in ("select", "slice") for step in plan.steps):
            part = overwritten(wholes[-1], part)
    first = not plan.sources and _hot.current_trace().symbolic is None
    for step, whole in zip(reversed(plan.steps), reversed(wholes[: len(plan.steps)])):
        part = _put_back(step, whole, part, values, first)
        first = first and step.op not in ("select", "slice")
    return part


def overwritten(x: Tensor, value: Tensor) -> Tensor:
    """`value`, which takes the place of all of x; the history of x gets a gradient of zeros."""
    return ops.overwrite(value, x) if value.requires_grad and x.requires_grad else value


def _number(value: Any, x: Tensor) -> Any:
    """A NumPy scalar as a number. Raises ArgumentTypeError for anything but numbers."""
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "shape", None) == () and not hasattr(value, "strides"):
        return item()
    if getattr(value, "shape", None) == () and item is not None:
        return item()
    raise ArgumentTypeError(
        f"setitem: can't assign a {type(value).__name__} to a tensor of {x.dtype}; "
        "make a tensor of it with torch.as_tensor"
    )


def _fitted(value: Any, shape: tuple[Any, ...], dtype: DType) -> Any:
    """value as a tensor of that shape and dtype. Raises ShapeError."""
    if not isinstance(value, Tensor):
        return ops.full(shape, value, dtype=dtype)
    if value.dtype is not dtype:
        value = ops.cast(value, dtype)
    if tuple(value.shape) == shape:
        return value
    value = _without_leading_ones(value, len(shape))
    return ops.expand(value, shape)


def _without_leading_ones(value: Tensor, rank: int) -> Tensor:
    """value without leading dims of extent 1, as many as leave it `rank` dims."""
    shape = tuple(value.shape)
    cut = 0
    while len(shape) - cut > rank and shape[cut] == 1:
        cut += 1
    return ops.reshape(value, shape[cut:]) if cut else value


def _put_back(step: Step, whole: Tensor, part: Tensor, values: Values, first: bool) -> Any:
    """whole, with the part that the step views replaced; first: by the assigned value."""
    dim = step.dim
    if step.op == "select":
        index = values[step.slots[0]]
        if not first:
            return ops.select_scatter(whole, part, dim, index)
        prim: Primitive = SelectScatter.named(ASSIGNED, ("T", "T", "I"), dim=dim)
        return _hot.record_list(prim, [whole, part], [index])
    if step.op == "slice":
        bounds = _slice_of(step, values)
        if not first:
            return ops.slice_scatter(whole, part, dim, *bounds)
        form = ("T", "T", *[None if b is None else "I" for b in bounds])
        prim = SliceScatter.named(ASSIGNED, form, dim=dim)
        return _hot.record_list(prim, [whole, part], [b for b in bounds if b is not None])
    if step.op == "unsqueeze":
        return ops.squeeze(part, dim)
    return part


def _put_tensors(sources: tuple[Source, ...], x: Tensor, values: Values, value: Tensor) -> Tensor:
    """x, with value where the index tensors point."""
    single = not isinstance(value, Tensor) or _numel(value) == 1
    slots = {source.slot for source in sources}
    if single and len(slots) == 1 and sources[0].column >= 0 and sources[0].slot >= 0:
        return _fill_mask(x, values[sources[0].slot], sources[0].dim, value)
    mask = _only_mask(sources, values)
    if mask is not None and value.dtype is x.dtype:
        check_mask(mask, x, sources[0].dim)
        placed: Tensor | None = _put_where_true(x, mask, sources[0].dim, value)
        if placed is not None:
            return placed
    indices = index_tensors(sources, x, values)
    dims = tuple(source.dim for source in sources)
    if not isinstance(value, Tensor):
        value = ops.full((), value, dtype=x.dtype)
    elif not len(value.shape):
        value = ops.cast(value, x.dtype)
    elif value.dtype is not x.dtype:
        raise DTypeError(
            "setitem: index put requires the source and destination dtypes match, got "
            f"{x.dtype} for the destination and {value.dtype} for the source"
        )
    rank = len(x.shape) - len(dims) + max(len(index.shape) for index in indices)
    return ops.index_put(x, indices, _without_leading_ones(value, rank), dims=dims)


def _numel(value: Any) -> int:
    count = 1
    for n in value.shape:
        count *= n
    return count


def _fill_mask(x: Tensor, mask: Tensor, dim: int, value: Tensor) -> Tensor:
    """A single value where a mask is True: needs no positions, and so waits for nothing."""
    check_mask(mask, x, dim)
    behind = len(x.shape) - dim - len(mask.shape)
    mask = mask if mask.dtype is bool_ else ops.cast(mask, bool_)
    if behind:
        mask = ops.reshape(mask, (*mask.shape, *(1,) * behind))
    if isinstance(value, Tensor) and len(value.shape):
        value = ops.reshape(value, ())
    return ops.masked_fill(x, mask, value)


# --- the public index_put -------------------------------------------------------


@sugar(name="index_put_any", functions=("index_put",), methods=("index_put",))
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """input, with input[indices] = values, or += with `accumulate`.

    indices: a tuple of index tensors, masks, or None for a dim that is not indexed
    Raises IndexOutOfRange, ShapeError, DTypeError.
    """
    if not isinstance(indices, (tuple, list)):
        raise ArgumentTypeError(
            f"index_put: indices must be a tuple of tensors, not {type(indices).__name__}"
        )
    tensors: list[Any] = []
    dims: list[int] = []
    dim = 0
    for index in indices:
        if index is None:
            dim += 1
            continue
        if index.dtype is bool_ or index.dtype.name == "uint8":
            columns = mask_columns(beside(input, index), input, dim)
        else:
            columns = [beside(input, index)]
        for column in columns:
            tensors.append(column)
            dims.append(dim)
            dim += 1
    if dim > len(input.shape):
        raise IndexOutOfRange(
            f"index_put: too many indices for tensor of dimension {len(input.shape)} (got {dim})"
        )
    if not tensors:
        raise ShapeError(f"index_put: no index tensors given for input {hints(input.shape)}")
    return ops.index_put(input, tensors, values, accumulate, dims=tuple(dims))
