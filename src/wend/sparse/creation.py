"""Making sparse tensors: of indices and values, of dense tensors, of diagonals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wend._engine.base.dtypes import DType, get_default_dtype, int64
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, GraphError
from wend._engine.base.tracebacks import short_errors
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.creation import Options, as_tensor, is_index, sizes_of
from wend._frontend.formats import layout as Layout
from wend._frontend.formats import (
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from wend._frontend.interop import places as arrays
from wend._frontend.interop.exchange import array_of
from wend.sparse.layouts import BLOCKED, COMPRESSED, Compressed, Coordinates
from wend.sparse.tensor import (
    SparseTensor,
    at_places,
    compress,
    coo,
    empty,
    merged,
    to_coordinates,
    wrap,
)

__all__ = [
    "convert",
    "empty_of_layout",
    "sparse_bsc_tensor",
    "sparse_bsr_tensor",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
    "sparse_mask",
    "spdiags",
]


def _values(op: str, values: object, dtype: DType | None, requires_grad: bool) -> Tensor:
    """The values: a new handle, with the history of the given tensor."""
    elements = as_tensor(values, dtype=dtype)
    if isinstance(elements, SparseTensor):
        raise GraphError(f"{op}: expected values to be a strided tensor, but got {elements.layout}")
    return elements.detach().requires_grad_() if requires_grad else ops.alias(elements)  # type: ignore[no-any-return]


def _indices(values: object) -> Tensor:
    indices = as_tensor(values)
    if indices.numel() == 0 and indices.dtype.category > 1:
        return indices.to(int64)
    if indices.dtype.category == 0 or indices.dtype.category > 2:
        raise ArgumentTypeError(f"sparse: indices must be integers, not {indices.dtype}")
    return indices.detach() if indices.dtype is int64 else indices.detach().to(int64)


@short_errors
def sparse_coo_tensor(
    indices: object = None,
    values: object = None,
    size: Sequence[int] | None = None,
    *,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: object = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """A sparse tensor of coordinates.

    indices: (sparse dims, elements)     values: (elements, *dense dims)     size: of the whole,
    by default as large as the indices ask for. Without values, a tensor without elements.
    Raises RuntimeError where indices, values and size do not fit.
    """
    op = "sparse_coo_tensor"
    options = Options(op, dtype, device, None, requires_grad, pin_memory)
    if values is None:
        if size is None and indices is None:
            raise ArgumentTypeError(f"{op}: give indices and values, or a size")
        extents = sizes_of(op, (indices,), None) if size is None else sizes_of(op, (size,), None)
        like = ops.full((0,), 0, dtype=options.dtype or get_default_dtype())
        zeros = empty(extents, len(extents), like)
        return zeros.requires_grad_() if requires_grad else zeros
    coordinates = _indices(indices)
    if coordinates.dim() != 2:
        if coordinates.numel():
            raise GraphError(
                f"{op}: indices must be sparse_dim x nnz, but got: {coordinates.shape}"
            )
        coordinates = coordinates.reshape(
            max(len(sizes_of(op, (size,))), 1) if size is not None else 1, 0
        )
    elements = _values(op, values, options.dtype, requires_grad)
    if elements.dim() == 0:
        elements = elements.expand(1)
    count = int(coordinates.shape[1])
    if int(elements.shape[0]) != count:
        raise GraphError(
            f"{op}: indices and values must have same nnz, but got nnz from indices: {count}, nnz "
            f"from values: {int(elements.shape[0])}"
        )
    sparse, dense = int(coordinates.shape[0]), tuple(elements.shape)[1:]
    if size is None:
        array = arrays.integers(array_of(coordinates))
        extents = (*[int(row.max()) + 1 if count else 0 for row in array], *dense)
    else:
        extents = sizes_of(op, (size,))
    if len(extents) != sparse + len(dense):
        raise GraphError(
            f"{op}: 'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = "
            f"{len(extents)}, sparse_dim = {sparse}, dense_dim = {len(dense)}"
        )
    if extents[sparse:] != dense:
        raise GraphError(f"{op}: values have size {dense} in dense dims, size is {extents}")
    places = Coordinates(tuple(extents[:sparse]), tensor=coordinates, ordered=bool(is_coalesced))
    places.check(op)
    return wrap(places, elements)


def sparse_compressed_tensor(
    compressed_indices: object,
    plain_indices: object,
    values: object,
    size: Sequence[int] | None = None,
    *,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: object = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:
    """A matrix in a layout of sparse_csr, sparse_csc, sparse_bsr, sparse_bsc.

    compressed_indices: where each row (column) begins, and the end of the last
    plain_indices: the column (row) of each element or block     values: (elements,), or (blocks,
    height, width). Raises RuntimeError where these do not fit.
    """
    if layout not in COMPRESSED:
        raise GraphError(f"sparse_compressed_tensor: {layout} is no compressed layout")
    op = f"{str(layout).removeprefix('torch.')}_tensor"
    options = Options(op, dtype, device, None, requires_grad, pin_memory)
    begins, plain = as_tensor(compressed_indices).detach(), as_tensor(plain_indices).detach()
    elements = _values(op, values, options.dtype, requires_grad)
    blocked = layout in BLOCKED
    if begins.dim() != 1 or plain.dim() != 1 or elements.dim() != (3 if blocked else 1):
        raise GraphError(
            f"{op}: indices of {begins.dim()} and {plain.dim()} dims and values of "
            f"{elements.dim()}: "
            "Wend has single matrices of numbers in compressed layouts, no batches"
        )
    if int(elements.shape[0]) != int(plain.shape[0]) or int(begins.shape[0]) < 1:
        raise GraphError(f"{op}: {int(plain.shape[0])} indices for {int(elements.shape[0])} values")
    block = (int(elements.shape[1]), int(elements.shape[2])) if blocked else (1, 1)
    by_columns = layout in (sparse_csc, sparse_bsc)
    if size is None:
        columns = arrays.integers(array_of(plain))
        grid = (int(begins.shape[0]) - 1, int(columns.max()) + 1 if columns.size else 0)
        rows = grid[::-1] if by_columns else grid
        extents: tuple[int, ...] = (rows[0] * block[0], rows[1] * block[1])
    else:
        extents = sizes_of(op, (size,))
    if len(extents) != 2:
        raise GraphError(f"{op}: a size of two extents is needed, not {extents}")
    places = Compressed(layout, (extents[0], extents[1]), begins, plain, block)
    _check_compressed(op, places)
    return wrap(places, elements)


def _check_compressed(op: str, places: Compressed) -> None:
    begins = arrays.integers(array_of(places.begins))
    size, block = places.size, places.block
    along = 1 if places.by_columns else 0
    count = size[along] // block[along]
    if begins.size != count + 1:
        raise GraphError(
            f"{op}: compressed indices have {begins.size} entries; {count + 1} fit size {size}"
        )
    rising = bool((begins[1:] >= begins[:-1]).all())
    if begins[0] != 0 or begins[-1] != places.count or not rising:
        raise GraphError(
            f"{op}: compressed indices must rise from 0 to the number of values, {places.count}"
        )
    places.coordinates.check(op)


def _of_layout(
    name: str, layout: Layout, compressed: str, plain: str
) -> Callable[..., SparseTensor]:
    def make(*args: Any, **kwargs: Any) -> SparseTensor:
        named = {compressed: "compressed_indices", plain: "plain_indices"}
        arguments = {named.get(key, key): value for key, value in kwargs.items()}
        return sparse_compressed_tensor(*args, **{**arguments, "layout": layout})

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""A matrix in the layout {layout}.

    {compressed}, {plain}, values, size=None, *, dtype, device, requires_grad, check_invariants: as
    in `sparse_compressed_tensor`.
    """
    return short_errors(make)


sparse_csr_tensor = _of_layout("sparse_csr_tensor", sparse_csr, "crow_indices", "col_indices")
sparse_csc_tensor = _of_layout("sparse_csc_tensor", sparse_csc, "ccol_indices", "row_indices")
sparse_bsr_tensor = _of_layout("sparse_bsr_tensor", sparse_bsr, "crow_indices", "col_indices")
sparse_bsc_tensor = _of_layout("sparse_bsc_tensor", sparse_bsc, "ccol_indices", "row_indices")


def empty_of_layout(op: str, extents: tuple[int, ...], layout: Layout, dtype: DType) -> Tensor:
    """A tensor without elements: `torch.zeros(2, 3, layout=torch.sparse_coo)`."""
    like = ops.full((0,), 0, dtype=dtype)
    return convert(empty(extents, len(extents), like), layout, (1, 1))


# -- conversions ---------------------------------------------------------------------------------


def convert(
    x: Tensor,
    layout: Layout | None = None,
    blocksize: Sequence[int] | None = None,
    sparse_dim: int | None = None,
) -> Tensor:
    """A tensor of any layout in another layout.

    sparse_dim: how many dims have indices, for torch.sparse_coo     blocksize: for blocks
    """
    wanted = sparse_coo if layout is None else layout
    if not isinstance(wanted, Layout):
        raise ArgumentTypeError(f"to_sparse: layout must be a layout, not {type(layout).__name__}")
    if wanted is strided:
        return x.to_dense()
    if wanted is sparse_coo:
        if sparse_dim is not None and not 0 <= sparse_dim <= x.dim():
            raise GraphError(f"to_sparse: sparse_dim is {sparse_dim}, of {x.dim()} dims")
        return to_coordinates(x, sparse_dim)
    if wanted in BLOCKED:
        if blocksize is None and not (isinstance(x, SparseTensor) and x.layout is wanted):
            raise GraphError(f"to_sparse: the layout {wanted} needs a blocksize")
        block = None if blocksize is None else (int(blocksize[0]), int(blocksize[1]))
        return x if block is None else compress(x, wanted, block)
    if isinstance(x, SparseTensor) and x.layout is wanted:
        return x
    return compress(x, wanted)


def sparse_mask(input: Tensor, mask: Tensor) -> SparseTensor:
    """The elements of `input` at the places of a sparse mask."""
    if not isinstance(mask, SparseTensor):
        raise GraphError("sparse_mask: the mask must be a sparse tensor")
    return mask.with_values(at_places(input, mask))


def spdiags(
    diagonals: Tensor, offsets: Tensor, shape: Sequence[int], layout: Layout | None = None
) -> Tensor:
    """A sparse matrix of the given diagonals.

    diagonals: (k, m), or (m,)     offsets: of each; above 0 for upper diagonals, which begin with
    the element of the first column, as in SciPy     shape: of the matrix
    Raises RuntimeError for offsets that are not unique.
    """
    rows = diagonals.unsqueeze(0) if diagonals.dim() == 1 else diagonals
    shifts = [int(k) for k in (offsets.reshape(-1) if isinstance(offsets, Tensor) else offsets)]
    n, m = (int(extent) for extent in shape)
    if len(shifts) != int(rows.shape[0]):
        raise GraphError(
            f"spdiags: {int(rows.shape[0])} diagonals and {len(shifts)} offsets do not fit"
        )
    if len(set(shifts)) != len(shifts):
        raise GraphError("spdiags: Offset tensor contains duplicate values")
    if layout not in (None, sparse_coo, sparse_csr, sparse_csc):
        raise GraphError(f"spdiags: Only output layouts (Coo, Csc, or Csr) are supported: {layout}")
    if not all(is_index(extent) for extent in shape):
        raise ArgumentError(f"spdiags: a shape of two ints is needed, not {shape}")
    width = int(rows.shape[1])
    parts, values = [], []
    for number, shift in enumerate(shifts):
        first, last = max(shift, 0), min(n + shift, m, width)
        columns = list(range(first, max(last, first)))
        parts.append(arrays.stacked([[j - shift for j in columns], columns], len(columns)))
        values.append(rows[number, first : max(last, first)])
    matrix = coo(arrays.joined(parts), ops.cat(values), (n, m))
    return matrix if layout in (None, sparse_coo) else convert(merged(matrix), layout)
