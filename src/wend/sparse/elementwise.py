"""Elementwise ops on sparse tensors: those that keep zeros, sums and products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wend._engine.base.dtypes import DType, promote_types
from wend._engine.base.errors import ArgumentError, GraphError, NotImplementedInWend, ShapeError
from wend._engine.core._hot import Tensor
from wend._engine.core.kinds import Scalar
from wend._engine.core.primitive import ops
from wend._engine.ops.indexing.subscript import index_put
from wend._frontend import random
from wend._frontend.creation import held, sizes_of
from wend._frontend.formats import layout as Layout
from wend._frontend.interop import places as arrays
from wend._frontend.methods import equal as dense_equal
from wend.sparse.creation import empty_of_layout
from wend.sparse.layouts import Coordinates
from wend.sparse.tensor import SparseTensor, at_places, coo, empty, merged, wrap

__all__ = ["added", "multiplied", "of_compressed", "of_values"]

Rule = Callable[..., Any]


def of_values(name: str, linear: bool = False) -> Rule:
    """The rule of an op that keeps zeros: the op on the values.

    linear: f(a + b) = f(a) + f(b), so that equal places need not be added up before
    """

    def apply(input: SparseTensor, *args: object, **kwargs: object) -> SparseTensor:
        x = input if linear or not isinstance(input._places, Coordinates) else input.coalesce()
        function = getattr(ops, name, None) or getattr(Tensor, name)
        return x.with_values(function(x._values_, *args, **kwargs))

    return apply


def of_compressed(name: str) -> Rule:
    """The rule of an op that fills the values of compressed layouts anew."""

    def filled(input: SparseTensor, *args: object, **kwargs: object) -> SparseTensor:
        if isinstance(input._places, Coordinates):
            raise NotImplementedInWend(f"{name}: of sparse tensors, for compressed layouts only")
        function = getattr(ops, name, None) or getattr(random, name)
        return input.with_values(function(input._values_.detach(), *args, **kwargs))

    return filled


def _is_number(x: object) -> bool:
    """Whether an operand is a number, or a dense tensor of no dims."""
    return not isinstance(x, Tensor) or (not isinstance(x, SparseTensor) and x.dim() == 0)


def added(x: SparseTensor, y: SparseTensor, alpha: Scalar = 1) -> SparseTensor:
    """x + alpha * y, both sparse: the elements of both."""
    if tuple(x.shape) != tuple(y.shape):
        raise ShapeError(
            f"add: sparse tensors of shapes {tuple(x.shape)} and {tuple(y.shape)} do not fit"
        )
    dtype = promote_types(x.dtype, y.dtype)
    if x._places is y._places:
        return x.with_values(ops.add(x._values_, y._values_, alpha=alpha))
    if x.sparse_dim() != y.sparse_dim():
        raise ShapeError(
            f"add: tensors with {x.sparse_dim()} and {y.sparse_dim()} sparse dims do not fit"
        )
    right = y.elements if alpha == 1 else ops.mul(y.elements, alpha)
    elements = ops.cat([x.elements.to(dtype), right.to(dtype)])
    array = arrays.joined([x.places.array, y.places.array])
    total = coo(array, elements, x.places.size)
    return merged(total) if x.places.ordered and y.places.ordered else total


def add(input: Any, other: Any, *, alpha: Scalar = 1) -> Tensor:
    """input + alpha * other: of two sparse tensors, or of a dense and a sparse tensor."""
    if isinstance(input, SparseTensor):
        if not isinstance(other, SparseTensor):
            if isinstance(other, Tensor) and other.dim() and not input.is_sparse:
                return input.to_dense().add(other, alpha=alpha)
            raise GraphError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
        if input._places is other._places or (input.is_sparse and other.is_sparse):
            return added(input, other, alpha)
        total = added(merged(input), merged(other), alpha)
        return total if input.is_sparse else total.to_sparse(layout=input.layout)
    if not isinstance(input, Tensor):
        raise GraphError("add: a number and a sparse tensor would make a dense tensor")
    if tuple(input.shape) != tuple(other.shape):
        input = input.expand(other.shape)
    dtype = promote_types(input.dtype, other.dtype)
    base, elements = input.to(dtype), other.elements.to(dtype)
    places = other.places
    if len(places.size) == 1:
        return base.index_add(0, places.row(0), elements, alpha=alpha)
    scaled = elements if alpha == 1 else ops.mul(elements, alpha)
    return index_put(base, tuple(places.rows()), scaled, True)


def sub(input: Any, other: Any, *, alpha: Scalar = 1) -> Tensor:
    """input - alpha * other."""
    return add(input, other, alpha=-alpha)


def rsub(input: Any, other: Any, *, alpha: Scalar = 1) -> Tensor:
    """other - alpha * input."""
    return add(other, input, alpha=-alpha)


def multiplied(x: SparseTensor, y: SparseTensor) -> SparseTensor:
    """x * y, both sparse: the elements at the places that both have."""
    if tuple(x.shape) != tuple(y.shape):
        raise ShapeError(
            f"mul: sparse tensors of shapes {tuple(x.shape)} and {tuple(y.shape)} do not fit"
        )
    x, y = merged(x), merged(y)
    if x._places is y._places:
        return x.with_values(ops.mul(x._values_, y._values_))
    hits, there = arrays.lookup(x.places.array, y.places.array, x.places.size)
    left = ops.index_select(x.elements, 0, held(hits))
    right = ops.index_select(y.elements, 0, held(there))
    return coo(x.places.array[:, hits], ops.mul(left, right), x.places.size, True)


def _numbered(
    function: Callable[..., Tensor], x: SparseTensor, number: Tensor | Scalar
) -> SparseTensor:
    return x.with_values(function(x._values_, number))


def mul(input: Any, other: Any) -> SparseTensor:
    """input * other: the places are those of the sparse operand, or those that both have."""
    if not isinstance(input, SparseTensor):
        input, other = other, input
    if _is_number(other):
        return _numbered(ops.mul, input, other)
    if isinstance(other, SparseTensor):
        product = multiplied(merged(input), merged(other))
        layout = input.layout
        return product if input.is_sparse else product.to_sparse(layout=layout)
    if tuple(other.shape) != tuple(input.shape):
        other = other.expand(input.shape)
    return input.with_values(ops.mul(input._values_, at_places(other, input)))


def div(input: object, other: Tensor | Scalar, *, rounding_mode: str | None = None) -> SparseTensor:
    """input / other, by a number or a tensor of no dims."""
    if not isinstance(input, SparseTensor) or not _is_number(other):
        raise GraphError("div: Sparse division requires a scalar or zero-dim dense tensor divisor")
    if rounding_mode is None:
        return _numbered(ops.div, input, other)
    x = input.coalesce() if input.is_sparse else input
    return x.with_values(ops.div(x._values_, other, rounding_mode=rounding_mode))


def floor_divide(input: object, other: Tensor | Scalar) -> SparseTensor:
    """floor(input / other), by a number."""
    return div(input, other, rounding_mode="floor")


def pow(input: object, exponent: Tensor | Scalar) -> SparseTensor:
    """input ** exponent, a number but 0, at the places of the elements."""
    if isinstance(exponent, Tensor) or not isinstance(input, SparseTensor) or exponent == 0:
        raise GraphError("pow: a sparse tensor is raised to a number other than 0 only")
    x = input.coalesce() if input.is_sparse else input
    return _numbered(ops.pow, x, exponent)


def equal(input: object, other: object) -> bool:
    """Whether two sparse tensors have equal shapes and elements."""
    if not isinstance(input, SparseTensor) or not isinstance(other, SparseTensor):
        return False
    return dense_equal(input.to_dense(), other.to_dense())


def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether the elements of two tensors, zeros included, are close."""
    return bool(input.to_dense().allclose(other.to_dense(), rtol, atol, equal_nan))


def to(input: Tensor, other: Tensor, *args: object, **kwargs: object) -> Tensor:
    """A dense tensor in the dtype of a sparse tensor."""
    return input.to(other.dtype)


def type_as(input: Tensor, other: Tensor) -> Tensor:
    """The tensor in the dtype of another tensor."""
    return input.to(other.dtype)


def zeros_like(
    input: SparseTensor,
    *,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: object = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: object = None,
) -> Tensor:
    """A tensor without elements, of the shape of `input`."""
    zeros = empty_of_layout(
        "zeros_like", tuple(input.shape), layout or input.layout, dtype or input.dtype
    )
    return zeros.requires_grad_() if requires_grad else zeros


def new_zeros(
    input: SparseTensor,
    *size: int | Sequence[int],
    dtype: DType | None = None,
    device: object = None,
    requires_grad: bool = False,
    layout: Layout | None = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor without elements, in the layout of `input`."""
    extents = sizes_of("new_zeros", size)
    zeros = empty_of_layout("new_zeros", extents, layout or input.layout, dtype or input.dtype)
    return zeros.requires_grad_() if requires_grad else zeros


def sparse_resize_(
    input: SparseTensor, size: Sequence[int], sparse_dim: int, dense_dim: int
) -> SparseTensor:
    """Give the tensor larger extents; a tensor without elements may get any size."""
    extents = tuple([int(n) for n in size])
    if len(extents) != sparse_dim + dense_dim:
        raise ArgumentError(f"sparse_resize_: {sparse_dim} + {dense_dim} dims for size {extents}")
    if not input._nnz():
        return input.become("sparse_resize_", empty(extents, sparse_dim, input._values_))
    places = input.coordinates("sparse_resize_")
    if sparse_dim != input.sparse_dim() or extents[sparse_dim:] != tuple(input.shape)[sparse_dim:]:
        raise GraphError("sparse_resize_: the dims of a tensor with elements stay what they are")
    if any(new < old for new, old in zip(extents, places.size)):
        raise GraphError("sparse_resize_: a tensor with elements must not shrink")
    larger = Coordinates(extents[:sparse_dim], tensor=places.tensor, ordered=places.ordered)
    return input.become("sparse_resize_", wrap(larger, input._values_))


def sparse_resize_and_clear_(
    input: SparseTensor, size: Sequence[int], sparse_dim: int, dense_dim: int
) -> SparseTensor:
    """Drop all elements, and give the tensor another size."""
    return sparse_resize_(input.zero_(), size, sparse_dim, dense_dim)


def resize_as_sparse_(input: SparseTensor, the_template: Tensor) -> SparseTensor:
    """Give the tensor the size, and the sparse dims, of another sparse tensor."""
    dims = the_template.sparse_dim(), the_template.dense_dim()
    return sparse_resize_(input, tuple(the_template.shape), *dims)
