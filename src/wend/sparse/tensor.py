"""The sparse tensor: a dense tensor of values, and the places where the values lie.

Gradients are those of the values: an op on a sparse tensor is a few recorded ops on dense tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from wend._engine.base.dtypes import DType, can_cast, int64
from wend._engine.base.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    GraphError,
    ShapeError,
)
from wend._engine.core import _hot, _types
from wend._engine.core._hot import Tensor, Value
from wend._engine.core.primitive import ops
from wend._engine.ops.indexing.subscript import index_put
from wend._frontend.aliasing.rebinding import check_writable
from wend._frontend.creation import held
from wend._frontend.formats import layout as Layout
from wend._frontend.formats import sparse_coo, sparse_csr
from wend._frontend.interop import places as arrays
from wend._frontend.interop.exchange import array_of
from wend._frontend.interop.places import Array
from wend._frontend.toolkit import assign, parse_to
from wend.sparse.layouts import BLOCKED, BY_COLUMNS, Compressed, Coordinates, layout_of

__all__ = ["SparseTensor", "coo", "wrap"]

NO_VALUE = (
    "a sparse tensor has no dense value here: take values(), or make the tensor dense by to_dense()"
)


class SparseTensor(Tensor):
    """Values at some places of a tensor; all else is 0. See `wend.sparse`."""

    #: Gradients of this class are added by operators, and are not the core's.
    made_of_parts = True

    value: Value
    _places: Coordinates | Compressed
    _values_: Tensor

    # -- parts ------------------------------------------------------------------------------

    @property
    def places(self) -> Coordinates:
        """Where the elements lie, in the order of `elements`."""
        places = self._places
        return places if isinstance(places, Coordinates) else places.coordinates

    @property
    def elements(self) -> Tensor:
        """The values with a single dim for the places: (elements, *dense dims)."""
        values = self._values_
        return values.reshape(-1) if self.layout in BLOCKED else values

    def compressed(self, name: str, by_columns: bool) -> Compressed:
        """The compressed places.  Raises RuntimeError for another layout."""
        places = self._places
        if not isinstance(places, Compressed) or places.by_columns is not by_columns:
            kind = "column" if by_columns else "row"
            raise GraphError(
                f"{name} expected sparse {kind} compressed tensor layout but got {self.layout}"
            )
        return places

    def coordinates(self, name: str) -> Coordinates:
        """The coordinates.  Raises RuntimeError for a compressed layout."""
        places = self._places
        if not isinstance(places, Coordinates):
            raise GraphError(
                f"{name} expected sparse coordinate tensor layout but got {self.layout}"
            )
        return places

    def _merged_places(self, name: str) -> Coordinates:
        places = self.coordinates(name)
        if not places.ordered:
            raise GraphError(
                f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first"
            )
        return places

    def indices(self) -> Tensor:
        """The places: (sparse dims, elements).  Raises RuntimeError unless coalesced."""
        return self._merged_places("indices").tensor

    def values(self) -> Tensor:
        """The values: (elements, *dense dims).  Raises RuntimeError unless coalesced."""
        if isinstance(self._places, Coordinates):
            self._merged_places("values")
        return ops.alias(self._values_)  # type: ignore[no-any-return]

    def _indices(self) -> Tensor:
        return self.coordinates("_indices").tensor

    def _values(self) -> Tensor:
        return self._values_.detach()

    def _nnz(self) -> int:
        return self._places.count

    def crow_indices(self) -> Tensor:
        """Where each row begins, and the end of the last."""
        return self.compressed("crow_indices", False).begins

    def col_indices(self) -> Tensor:
        """The column of each element, or block."""
        return self.compressed("col_indices", False).plain

    def ccol_indices(self) -> Tensor:
        """Where each column begins, and the end of the last."""
        return self.compressed("ccol_indices", True).begins

    def row_indices(self) -> Tensor:
        """The row of each element, or block."""
        return self.compressed("row_indices", True).plain

    def sparse_dim(self) -> int:
        """Number of dims that indices name."""
        return len(self._places.size)

    def dense_dim(self) -> int:
        """Number of dims of each value."""
        return self.dim() - len(self._places.size)

    _dimI = sparse_dim
    _dimV = dense_dim

    def is_coalesced(self) -> bool:
        """Whether the places are in order, and each comes once."""
        return self.coordinates("is_coalesced").ordered

    def _coalesced_(self, coalesced: bool) -> SparseTensor:
        places = self.coordinates("_coalesced_")
        if places.ordered is not coalesced:
            self._places = Coordinates(places.size, tensor=places.tensor, ordered=coalesced)
        return self

    def coalesce(self) -> SparseTensor:
        """The same tensor with the places in order, values of equal places added up."""
        places = self.coordinates("coalesce")
        if places.ordered:
            return self
        return merged(self)

    def parts(self) -> tuple[Tensor, ...]:
        """The dense tensors that this tensor is made of, without history: places, then values."""
        places, values = self._places, self._values_.detach()
        if isinstance(places, Coordinates):
            return places.tensor, values
        return places.begins, places.plain, values

    # -- facts about a tensor ---------------------------------------------------------------

    @property
    def layout(self) -> Layout:
        """torch.sparse_coo, torch.sparse_csr, ..."""
        return layout_of(self._places)

    @property
    def is_sparse(self) -> bool:
        """Whether the layout is torch.sparse_coo."""
        return self.layout is sparse_coo

    @property
    def is_sparse_csr(self) -> bool:
        """Whether the layout is torch.sparse_csr."""
        return self.layout is sparse_csr

    def stride(self, dim: int | None = None) -> Any:
        """Zeros for coordinates, which have no strides.  Raises RuntimeError if compressed."""
        self.coordinates("stride")
        return 0 if dim is not None else (0,) * self.dim()

    def is_contiguous(self, memory_format: object = None) -> bool:
        """False: there is no dense memory."""
        return False

    def contiguous(self, memory_format: object = None) -> SparseTensor:
        """The tensor itself."""
        return self

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the type, as 'torch.sparse.FloatTensor'; with a dtype, a conversion."""
        if dtype is None:
            kind = str(self._values_.type()).removeprefix("torch.")
            return f"torch.sparse.{kind}" if self.is_sparse else f"torch.sparse_csr.{kind}"
        name = dtype if isinstance(dtype, str) else None
        if name is not None and name.startswith("torch.sparse."):
            dtype = "torch." + name.removeprefix("torch.sparse.")
        return self.with_values(self._values_.type(dtype))

    def __repr__(self, *, tensor_contents: object = None) -> str:
        from wend.sparse.printing import text

        return text(self)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        return iter(self.unbind(0))

    def tolist(self) -> Any:
        """The elements, zeros included, as nested lists."""
        return self.to_dense().tolist()

    def item(self) -> Any:
        """The value of the only element.  Raises RuntimeError if there are more."""
        return self.to_dense().item()

    def numpy(self, *, force: bool = False) -> NoReturn:
        """Raises TypeError: an array is dense."""
        raise ArgumentTypeError(
            "can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first."
        )

    def __array__(self, *args: object, **kwargs: object) -> Any:
        return self.numpy()

    # -- the same places, new values ----------------------------------------------------------

    def with_values(self, values: Tensor) -> SparseTensor:
        """A tensor of these places with new values of the same form."""
        return wrap(self._places, values)

    def with_elements(self, elements: Tensor) -> SparseTensor:
        """A tensor of these places with new values, given as `elements` are."""
        return self.with_values(elements.reshape(self._values_.shape))

    def become(self, name: str, other: SparseTensor) -> SparseTensor:
        """Take over another tensor, as an op in place does; `name` is the op's."""
        mine, theirs = self._values_, other._values_
        check_writable(mine, name)
        if theirs.dtype is not mine.dtype:
            if not can_cast(theirs.dtype, mine.dtype):
                raise DTypeError(
                    f"{name}: result type {theirs.dtype} can't be cast to the desired output type "
                    f"{mine.dtype}"
                )
            theirs = theirs.to(mine.dtype)
        if other._places is self._places:
            assign(mine, theirs)
            return self
        leaf = mine.requires_grad and mine.is_leaf
        self.__dict__["_places"] = other._places
        self.__dict__["_values_"] = theirs.detach().requires_grad_() if leaf else theirs
        self.value = other.value
        return self

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """The tensor with another dtype; devices are all the same."""
        copy = kwargs.get("copy", False)
        _, dtype, _ = parse_to(*args, **kwargs)
        if dtype is None or dtype is self.dtype:
            return self.clone() if copy else self
        return self.with_values(self._values_.to(dtype))

    def cpu(self, memory_format: object = None) -> SparseTensor:
        """The tensor itself."""
        return self

    def clone(self, *, memory_format: object = None) -> SparseTensor:
        """A copy; gradients flow back."""
        return self.with_values(self._values_.clone())

    def detach(self) -> SparseTensor:
        """The tensor without history, of the same memory."""
        return self.with_values(self._values_.detach())

    def detach_(self) -> SparseTensor:
        """Cut this tensor from its history."""
        self._values_ = self._values_.detach()
        return self

    @property
    def data(self) -> Any:
        """The tensor without history; assigning takes over places and values."""
        return self.detach()

    @data.setter
    def data(self, other: SparseTensor) -> None:
        flag = self.requires_grad
        self.__dict__.update(_places=other._places, _values_=other._values_.detach())
        self.value = other.value
        if flag:
            self._values_.requires_grad_()

    def copy_(self, src: Tensor, non_blocking: bool = False) -> SparseTensor:
        """Take over places and values of another sparse tensor, in this dtype."""
        if not isinstance(src, SparseTensor):
            raise GraphError("copy_() between dense and sparse Tensors is not implemented!")
        if tuple(src.shape) != tuple(self.shape):
            raise ShapeError(f"copy_: {tuple(src.shape)} does not fit {tuple(self.shape)}")
        return self.become("copy_", src)

    def zero_(self) -> SparseTensor:
        """Drop all elements."""
        values = self._values_
        if isinstance(self._places, Compressed):
            return self.become("zero_", self.with_values(ops.zeros_like(values.detach())))
        return self.become("zero_", empty(tuple(self.shape), self.sparse_dim(), values))

    def to_dense(  # type: ignore[override]
        self, dtype: DType | None = None, *, masked_grad: bool | None = None
    ) -> Tensor:
        """The dense tensor; gradients flow to the values."""
        elements = self.elements if dtype is None else self.elements.to(dtype)
        places = self.places
        zeros = ops.full(tuple(self.shape), 0, dtype=elements.dtype)
        if not places.size:
            return zeros + elements.sum(0)
        if elements.dtype.category == 0:
            ordered = merged(self)
            return index_put(zeros, tuple(ordered.places.rows()), ordered.elements)
        return index_put(zeros, tuple(places.rows()), elements, True)

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        copy = self.with_values(self._values_.detach().clone())
        memo[id(self)] = copy
        return copy.requires_grad_(self.requires_grad) if self.requires_grad else copy

    def __copy__(self) -> SparseTensor:
        return self.with_values(self._values_)

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        values = self._values_.detach()
        places = self._places
        if isinstance(places, Coordinates):
            parts: tuple[Any, ...] = (places.tensor, places.ordered)
        else:
            parts = (places.begins, places.plain, places.block)
        return _restored, (self.layout, places.size, parts, values, self.requires_grad)

    # -- gradients --------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to the values."""
        return bool(self._values_.requires_grad)

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self.requires_grad_(flag)

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        """Make this tensor a leaf that requires grad, or not."""
        self._values_.requires_grad_(requires_grad)
        return self

    @property
    def source(self) -> Tensor:
        """The tensor whose gradient is that of this tensor: the values."""
        return self._values_

    @property
    def is_leaf(self) -> bool:
        """Whether the values have no history."""
        return bool(self._values_.is_leaf)

    @property
    def grad_fn(self) -> Any:
        """The graph node that made the values, or None."""
        return self._values_.grad_fn

    @property
    def grad(self) -> SparseTensor | None:
        """The gradient, sparse and of these places, each once; None if there is none."""
        g = self._values_.grad
        return None if g is None else self.gradient_of(g)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is None:
            self._values_.grad = None
            return
        self._values_.grad = at_places(value, self)

    @grad.deleter
    def grad(self) -> None:
        self._values_.grad = None

    def gradient_of(self, g: Tensor) -> SparseTensor:
        """The gradient of this tensor, given that of the values: equal for equal places."""
        if not isinstance(self._places, Coordinates) or self._places.ordered:
            return self.with_values(g)
        ordered, inverse, _ = self._places.merged()
        if inverse is None:
            return wrap(ordered, g)
        return wrap(
            ordered, ops.index_select(g, 0, held(arrays.one_of_each(inverse, ordered.count)))
        )

    def gradient_of_source(self, g: Tensor) -> Tensor:
        """The gradient of the values, given that of this tensor, dense or sparse."""
        return at_places(g, self)

    def retain_grad(self) -> None:
        """Keep the gradient of this tensor although it has a history."""
        self._values_.retain_grad()

    def register_hook(self, hook: Callable[[Any], Any]) -> Any:
        """Call hook(gradient) with the sparse gradient; a sparse result replaces the gradient."""

        def on_values(g: Tensor) -> Tensor | None:
            replacement = hook(self.gradient_of(g))
            return None if replacement is None else at_places(replacement, self)

        return self._values_.register_hook(on_values)

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Sequence[Tensor] | Tensor | None = None,
    ) -> None:
        """Gradients of the leaves, given the gradient of this tensor (dense or sparse)."""
        if gradient is not None:
            gradient = at_places(gradient, self)
        self._values_.backward(gradient, retain_graph, create_graph, inputs)


# -- making --------------------------------------------------------------------------------------


def wrap(places: Coordinates | Compressed, values: Tensor) -> SparseTensor:
    """The sparse tensor of these places and values."""
    handle: SparseTensor = _hot.native_new(SparseTensor)
    blocked = isinstance(places, Compressed) and places.layout in BLOCKED
    dense = tuple(values.shape)[3 if blocked else 1 :]
    type_ = _types.intern_type((*places.size, *dense), values.dtype, values.device)
    value = _hot.symbolic_value(type_, -1, 0)
    value.error = GraphError(NO_VALUE)
    handle.value = value
    handle.__dict__.update(_places=places, _values_=values)
    return handle


def coo(array: Array, values: Tensor, size: tuple[int, ...], ordered: bool = False) -> SparseTensor:
    """A tensor of coordinates.  array: (sparse dims, elements)   size: of the sparse dims"""
    return wrap(Coordinates(size, array, ordered=ordered), values)


def empty(size: tuple[int, ...], sparse_dims: int, like: Tensor) -> SparseTensor:
    """A tensor without elements, of the dtype of `like`."""
    values = ops.full((0, *size[sparse_dims:]), 0, dtype=like.dtype)
    return coo(arrays.stacked([0] * sparse_dims, 0), values, size[:sparse_dims], True)


def _restored(
    layout: Layout,
    size: Any,
    parts: tuple[Any, ...],
    values: Tensor,
    requires_grad: bool,
) -> SparseTensor:
    if layout is sparse_coo:
        tensor = wrap(Coordinates(tuple(size), tensor=parts[0], ordered=parts[1]), values)
    else:
        tensor = wrap(Compressed(layout, tuple(size), *parts), values)
    return tensor.requires_grad_() if requires_grad else tensor


def merged(x: SparseTensor) -> SparseTensor:
    """The tensor as coalesced coordinates."""
    places = x.places
    if places.ordered and x.is_sparse:
        return x
    ordered, inverse, repeated = places.merged()
    elements = x.elements
    if inverse is not None and not repeated:
        elements = ops.index_select(elements, 0, held(arrays.one_of_each(inverse, ordered.count)))
    elif inverse is not None:
        zeros = ops.full((ordered.count, *elements.shape[1:]), 0, dtype=elements.dtype)
        if elements.dtype.category == 0:
            counts = ops.index_add(
                ops.cast(zeros, int64), 0, held(inverse), ops.cast(elements, int64)
            )
            elements = ops.ne(counts, 0)
        else:
            elements = ops.index_add(zeros, 0, held(inverse), elements)
    return wrap(ordered, elements)


def at_places(dense: Tensor, like: SparseTensor) -> Tensor:
    """The elements of a tensor (dense or sparse) at the places of `like`, in the form of values."""
    if tuple(dense.shape) != tuple(like.shape):
        raise ShapeError(
            f"sparse: a tensor of shape {tuple(dense.shape)} for one of {tuple(like.shape)}"
        )
    if isinstance(dense, SparseTensor):
        if dense._places is like._places:
            return dense._values_
        source = merged(dense)
        hits, there = arrays.lookup(like.places.array, source.places.array, like.places.size)
        picked = ops.index_select(source.elements, 0, held(there))
        zeros = ops.full((like.places.count, *picked.shape[1:]), 0, dtype=picked.dtype)
        elements = ops.index_copy(zeros, 0, held(hits), picked)
    elif not like.places.size:
        elements = dense.unsqueeze(0).expand(like.places.count, *dense.shape)
    else:
        elements = dense[tuple(like.places.rows())]
    return elements.reshape(like._values_.shape)


def compress(x: Tensor, layout: Layout, block: tuple[int, int] | None = None) -> SparseTensor:
    """A matrix in a compressed layout.  x: dense or sparse, (n, m)

    block: extents of a block, for layouts with blocks.  Raises RuntimeError unless blocks fit.
    """
    if x.dim() != 2:
        raise ShapeError(f"{layout}: a matrix is needed, and this tensor has {x.dim()} dims")
    source = merged(x if isinstance(x, SparseTensor) else _from_dense(x, 2))
    n, m = source.places.size
    if layout in BLOCKED:
        return _in_blocks(source, layout, block or (1, 1))
    rows, columns = source.places.array
    elements = source.elements
    if layout in BY_COLUMNS:
        turned = merged(coo(arrays.stacked([columns, rows], rows.size), elements, (m, n)))
        (rows, columns), elements = turned.places.array, turned.elements
    count = m if layout in BY_COLUMNS else n
    begins = held(arrays.compressed(rows, count))
    return wrap(Compressed(layout, (n, m), begins, held(arrays.integers(columns))), elements)


def _in_blocks(source: SparseTensor, layout: Layout, block: tuple[int, int]) -> SparseTensor:
    (n, m), (high, wide) = source.places.size, block
    if high < 1 or wide < 1 or n % high or m % wide:
        raise ArgumentError(f"{layout}: blocks of {block} do not divide a matrix of {(n, m)}")
    grid = (n // high, m // wide)
    i, j = source.places.array
    by_columns = layout in BY_COLUMNS
    outer = [j // wide, i // high] if by_columns else [i // high, j // wide]
    size = grid[::-1] if by_columns else grid
    places, inverse, _ = arrays.merged(arrays.stacked(outer, i.size), size)
    number = arrays.stacked([0], i.size)[0] + (range(i.size) if inverse is None else inverse)
    shape = (places.shape[1], high, wide)
    spot = held(arrays.integers((number * high + i % high) * wide + j % wide))
    flat = ops.full((shape[0] * high * wide,), 0, dtype=source.dtype)
    values = ops.index_copy(flat, 0, spot, source.elements).reshape(shape)
    begins = held(arrays.compressed(places[0], size[0]))
    plain = held(arrays.integers(places[1]))
    return wrap(Compressed(layout, (n, m), begins, plain, block), values)


def _from_dense(x: Tensor, sparse_dims: int) -> SparseTensor:
    """The elements of a dense tensor that are not 0, as coordinates of its first dims."""
    array = arrays.nonzero(array_of(x), sparse_dims)
    places = Coordinates(tuple(x.shape)[:sparse_dims], array, ordered=True)
    elements = x[tuple(places.rows())] if sparse_dims else x.unsqueeze(0)
    return wrap(places, elements)


def to_coordinates(x: Tensor, sparse_dims: int | None = None) -> SparseTensor:
    """A tensor, dense or of any layout, as coordinates of its first dims."""
    if not isinstance(x, SparseTensor):
        return _from_dense(x, x.dim() if sparse_dims is None else sparse_dims)
    if x.is_sparse:
        return x
    return merged(x)
