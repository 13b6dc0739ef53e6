"""Ops that move or pick elements of sparse tensors: places change, and values follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from wend._engine.base.errors import GraphError, IndexOutOfRange, NotImplementedInWend, ShapeError
from wend._engine.base.shapes import normalize_dim
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.creation import as_tensor, held
from wend._frontend.interop import places as arrays
from wend._frontend.interop.exchange import array_of
from wend._frontend.interop.places import Array
from wend.sparse.layouts import BLOCKED, Compressed
from wend.sparse.tensor import SparseTensor, coo, merged, wrap

__all__ = ["select"]


def _picked(
    x: SparseTensor, numbers: Array, rows: list[Any], size: tuple[int, ...], ordered: bool
) -> SparseTensor:
    """Some elements of `x`, at new places."""
    elements = ops.index_select(x.elements, 0, held(arrays.integers(numbers)))
    return coo(arrays.stacked(rows, numbers.size), elements, size, ordered)


def permute(input: SparseTensor, *dims: Any) -> SparseTensor:
    """The tensor with its dims in another order; sparse dims stay in front."""
    axes = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    order = [normalize_dim(d, input.dim(), "permute") for d in axes]
    if sorted(order) != list(range(input.dim())):
        raise ShapeError(f"permute: {order} is no order of {input.dim()} dims")
    places = input._places
    if isinstance(places, Compressed):
        if order == [0, 1]:
            return input
        values = input._values_.transpose(1, 2) if places.layout in BLOCKED else input._values_
        return wrap(places.turned(), values)
    sparse = len(places.size)
    if any(d >= sparse for d in order[:sparse]):
        raise GraphError("permute: a sparse dim and a dense dim cannot change places")
    values = input._values_
    if order[sparse:] != list(range(sparse, input.dim())):
        values = values.permute(0, *[d - sparse + 1 for d in order[sparse:]])
    if order[:sparse] == list(range(sparse)):
        return input.with_values(values)
    return coo(
        places.array[order[:sparse]], values, tuple([places.size[d] for d in order[:sparse]])
    )


def transpose(input: SparseTensor, dim0: int, dim1: int) -> SparseTensor:
    """The tensor with two dims swapped."""
    order = list(range(input.dim()))
    a, b = (normalize_dim(d, input.dim(), "transpose") for d in (dim0, dim1))
    order[a], order[b] = b, a
    return permute(input, order)


def t(input: SparseTensor) -> SparseTensor:
    """The transposed matrix; a vector as it is."""
    if input.dim() > 2:
        raise ShapeError(f"t: a matrix is needed, and this tensor has {input.dim()} dims")
    return transpose(input, 0, 1) if input.dim() == 2 else input


def reverse_dims(input: SparseTensor) -> SparseTensor:
    """The tensor with its dims in reverse order: `x.T`."""
    return permute(input, list(range(input.dim()))[::-1])


def unsqueeze(input: SparseTensor, dim: int) -> SparseTensor:
    """The tensor with a dim of size 1 before `dim`."""
    at = normalize_dim(dim, input.dim() + 1, "unsqueeze")
    places = input.places
    sparse = len(places.size)
    if at > sparse:
        return input.with_values(input._values_.unsqueeze(at - sparse + 1))
    rows: list[Any] = list(places.array)
    rows.insert(at, 0)
    size = (*places.size[:at], 1, *places.size[at:])
    return coo(arrays.stacked(rows, places.count), input._values_, size, places.ordered)


def squeeze(input: SparseTensor, dim: Any = None) -> Tensor:
    """The tensor without dims of size 1, or without `dim` if that is of size 1."""
    axes = range(input.dim()) if dim is None else dim if isinstance(dim, (list, tuple)) else [dim]
    for d in sorted((normalize_dim(d, input.dim(), "squeeze") for d in axes), reverse=True):
        if int(input.shape[d]) == 1:
            input = select(input, d, 0)
    return input


def select(input: SparseTensor, dim: int, index: int) -> Tensor:
    """The part at an index along a dim; dense where no sparse dim is left."""
    at = normalize_dim(dim, input.dim(), "select")
    extent, place = int(input.shape[at]), int(index)
    if not -extent <= place < extent:
        raise IndexOutOfRange(f"select: index {place} is out of range for a dim of size {extent}")
    place %= extent
    places = input.places
    sparse = len(places.size)
    if at >= sparse:
        return input.with_values(input._values_.select(at - sparse + 1, place))
    hits = (places.array[at] == place).nonzero()[0]
    if sparse == 1:
        return ops.index_select(input.elements, 0, held(hits)).sum(0)
    rows = [places.array[d][hits] for d in range(sparse) if d != at]
    size = (*places.size[:at], *places.size[at + 1 :])
    return _picked(input, hits, rows, size, places.ordered)


def narrow(input: SparseTensor, dim: int, start: int, length: int) -> SparseTensor:
    """`length` entries along a dim, from `start` on."""
    at = normalize_dim(dim, input.dim(), "narrow")
    extent, first = int(input.shape[at]), int(start)
    first += extent if first < 0 else 0
    if not 0 <= first <= first + length <= extent:
        raise ShapeError(f"narrow: {length} from {first} on, of a dim of size {extent}")
    places = input.places
    sparse = len(places.size)
    if at >= sparse:
        return input.with_values(input._values_.narrow(at - sparse + 1, first, length))
    along = places.array[at]
    hits = ((along >= first) & (along < first + length)).nonzero()[0]
    rows = [places.array[d][hits] - (first if d == at else 0) for d in range(sparse)]
    size = (*places.size[:at], length, *places.size[at + 1 :])
    return _picked(input, hits, rows, size, places.ordered)


def slice_rule(
    input: SparseTensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> SparseTensor:
    """The entries from `start` to `end` along a dim."""
    return _sliced(input, normalize_dim(dim, input.dim(), "slice"), slice(start, end, step))  # type: ignore[no-any-return]


def movedim(input: SparseTensor, source: Any, destination: Any) -> SparseTensor:
    """The tensor with dims moved to other places."""
    many = isinstance(source, (list, tuple))
    sources, places = (source, destination) if many else ([source], [destination])
    moved = [normalize_dim(d, input.dim(), "movedim") for d in sources]
    order = [d for d in range(input.dim()) if d not in moved]
    targets = [normalize_dim(d, input.dim(), "movedim") for d in places]
    for at, d in sorted(zip(targets, moved, strict=True)):
        order.insert(at, d)
    return permute(input, order)


def expand(input: SparseTensor, *size: int | Sequence[int], implicit: bool = False) -> SparseTensor:
    """The tensor itself, if the size is the tensor's own; other sizes are refused."""
    wanted = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    if tuple(input.shape) != wanted:
        raise GraphError("expand is unsupported for Sparse tensors")
    return input


def index_select(input: SparseTensor, dim: int, index: Tensor) -> SparseTensor:
    """The entries that `index` names along a dim, in that order."""
    at = normalize_dim(dim, input.dim(), "index_select")
    places = input.places
    sparse = len(places.size)
    wanted = index.reshape(-1)
    if at >= sparse:
        return input.with_values(ops.index_select(input._values_, at - sparse + 1, wanted))
    named = arrays.integers(array_of(wanted))
    outside = arrays.first_outside(named[None], (int(input.shape[at]),))
    if outside is not None:
        raise IndexOutOfRange(
            f"index_select: index {outside[1]} is out of range for a dim of size "
            f"{int(input.shape[at])}"
        )
    numbers, new = arrays.matches(places.array[at], named)
    rows = [new if d == at else places.array[d][numbers] for d in range(sparse)]
    size = (*places.size[:at], named.size, *places.size[at + 1 :])
    selection = _picked(input, numbers, rows, size, False)
    return merged(selection) if places.ordered else selection


def cat(tensors: Iterable[SparseTensor], dim: int = 0) -> SparseTensor:
    """Tensors of equal sparse dims joined along a dim."""
    parts: list[SparseTensor] = list(tensors)
    if not all(isinstance(x, SparseTensor) for x in parts):
        raise GraphError("cat: sparse and dense tensors cannot be joined")
    first = parts[0]
    at = normalize_dim(dim, first.dim(), "cat")
    sparse = first.sparse_dim()
    for x in parts:
        shapes = [tuple(y.shape)[:at] + tuple(y.shape)[at + 1 :] for y in (x, first)]
        if x.sparse_dim() != sparse or x.dim() != first.dim() or shapes[0] != shapes[1]:
            raise ShapeError(
                f"cat: shapes {tuple(first.shape)} and {tuple(x.shape)} do not fit along dim {at}"
            )
    total = sum(int(x.shape[at]) for x in parts)
    columns, elements, before = [], [], 0
    for x in parts:
        array, values = x.places.array, x.elements
        extent = int(x.shape[at])
        if at < sparse:
            array = arrays.stacked(
                [row + (before if d == at else 0) for d, row in enumerate(array)], x.places.count
            )
        else:
            padding = [0, 0] * (first.dim() - at - 1) + [before, total - before - extent]
            values = ops.pad(values, padding)
        columns.append(array)
        elements.append(values)
        before += extent
    size = list(first.places.size)
    if at < sparse:
        size[at] = total
    whole = coo(arrays.joined(columns), ops.cat(elements), tuple(size))
    return merged(whole) if all(x.places.ordered for x in parts) else whole


def stack(tensors: Iterable[SparseTensor], dim: int = 0) -> SparseTensor:
    """Tensors of equal shapes side by side along a new dim."""
    parts = list(tensors)
    if len({tuple(x.shape) for x in parts}) > 1:
        raise ShapeError("stack: the tensors have different shapes")
    return cat([unsqueeze(x, dim) for x in parts], dim)


def unbind(input: SparseTensor, dim: int = 0) -> tuple[Any, ...]:
    """The parts along a dim."""
    return tuple([select(input, dim, i) for i in range(int(input.shape[dim]))])


def getitem(x: SparseTensor, key: Any) -> Tensor:
    """x[key]: ints, slices without a step, None, ..., and indices along a dim."""
    items = list(key) if isinstance(key, tuple) else [key]
    named = sum(item is not None and item is not Ellipsis for item in items)
    if Ellipsis in [item for item in items if not isinstance(item, Tensor)]:
        at = next(k for k, item in enumerate(items) if item is Ellipsis)
        items[at : at + 1] = [slice(None)] * (x.dim() - named)
    if named > x.dim():
        raise IndexOutOfRange(f"too many indices for tensor of dimension {x.dim()}")
    dim = 0
    result: Any = x
    for item in items:
        if item is None:
            result = result.unsqueeze(dim)
            dim += 1
        elif isinstance(item, slice):
            result = _sliced(result, dim, item)
            dim += 1
        elif isinstance(item, (list, Tensor)) and not _is_int(item):
            chosen = as_tensor(item)
            if chosen.dtype.category == 0:
                chosen = chosen.nonzero().reshape(-1)
            if chosen.dim() != 1:
                raise NotImplementedInWend("getitem: sparse tensors take indices of 1 dim")
            result = result.index_select(dim, chosen)
            dim += 1
        else:
            result = result.select(dim, int(item))
    return result


def _is_int(item: object) -> bool:
    return isinstance(item, Tensor) and item.dim() == 0 and item.dtype.category == 1


def _sliced(x: Any, dim: int, item: slice) -> Any:
    start, stop, step = item.indices(int(x.shape[dim]))
    if step != 1:
        raise NotImplementedInWend("getitem: slices of sparse tensors have no step")
    if (start, stop) == (0, int(x.shape[dim])):
        return x
    return x.narrow(dim, start, max(stop - start, 0))
