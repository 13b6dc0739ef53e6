"""torch.nested: making nested tensors, and dense tensors from nested ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wend._engine.base.errors import ArgumentError, ArgumentTypeError, ShapeError
from wend._engine.base.shapes import normalize_dim
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.ops.placing import full_beside
from wend._frontend import creation
from wend._frontend.formats import jagged, strided
from wend.nested.tensor import NestedTensor, Packed, nest, nest_packed

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]


def nested_tensor(
    tensor_list: Sequence[Any],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> NestedTensor:
    """A nested tensor of copies of tensors (or data) of equal rank; without history.

    Raises ShapeError for components of unlike ranks.
    """
    parts = []
    for item in _listed("nested_tensor", tensor_list):
        if isinstance(item, Tensor):
            copy = item.detach().clone()
            parts.append(copy if dtype is None else copy.to(dtype))
        else:
            parts.append(creation.tensor(item, dtype=dtype, device=device))
    nested = _laid_out(nest(_alike(parts)), layout)
    return nested.requires_grad_() if requires_grad else nested


def as_nested_tensor(
    ts: Any, dtype: Any = None, device: Any = None, layout: Any = None
) -> NestedTensor:
    """A nested tensor of these tensors; gradients flow back to the tensors.

    ts: a list, or a dense tensor, whose dim 0 numbers the components
    """
    if isinstance(ts, NestedTensor):
        return ts
    parts = list(ts.unbind(0)) if isinstance(ts, Tensor) else list(_listed("as_nested_tensor", ts))
    parts = [x if isinstance(x, Tensor) else creation.tensor(x, device=device) for x in parts]
    if dtype is not None:
        parts = [x.to(dtype) for x in parts]
    return _laid_out(nest(_alike(parts)), layout)


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """Components that lie in a row in `values`.

    offsets: (B + 1,), begin of each component, and end of the last     lengths: (B,); either may be
    left out     jagged_dim: the nested tensor's ragged dim, 1 by default
    Raises ArgumentError if both are missing, or do not fit the values.
    """
    if offsets is None and lengths is None:
        raise ArgumentError("nested_tensor_from_jagged: give offsets, lengths, or both")
    dim = (1 if jagged_dim is None else normalize_dim(jagged_dim, values.dim() + 1, "jagged")) - 1
    if dim < 0:
        raise ArgumentError("nested_tensor_from_jagged: dim 0, of the components, is not ragged")
    if offsets is None:
        assert lengths is not None
        ends = [int(n) for n in lengths.cumsum(0).tolist()]
        begins = [0, *ends[:-1]][: len(ends)]
    else:
        marks = [int(n) for n in offsets.tolist()]
        begins, ends = marks[:-1], marks[1:]
        if lengths is not None:
            ends = [b + int(n) for b, n in zip(begins, lengths.tolist(), strict=True)]
    total = int(values.shape[dim])
    for begin, end in zip(begins, ends, strict=True):
        if not 0 <= begin <= end <= total:
            raise ArgumentError(
                f"nested_tensor_from_jagged: a component from {begin} to {end}, and the values "
                f"have size {total} along dim {dim}"
            )
    return _laid_out(nest_packed(Packed(values, begins, ends, dim)), jagged)


def narrow(
    tensor: Tensor, dim: int, start: Any, length: Any, layout: Any = strided
) -> NestedTensor:
    """From each tensor[i], the part from start[i] to start[i] + length[i] along dim 1.

    start, length: ints or (B,) tensors     Shares the tensor's data.
    """
    if normalize_dim(dim, tensor.dim(), "narrow") != 1:
        raise ArgumentError("narrow: the dim to be made ragged is 1")
    count, extent = int(tensor.shape[0]), int(tensor.shape[1])
    starts, sizes = _per_component(start, count), _per_component(length, count)
    for begin, size in zip(starts, sizes, strict=True):
        if begin < 0 or size < 0 or begin + size > extent:
            raise ShapeError(
                f"narrow: {size} from {begin} on, of a dim of size {extent}: it does not fit"
            )
    begins = [i * extent + begin for i, begin in enumerate(starts)]
    ends = [begin + size for begin, size in zip(begins, sizes, strict=True)]
    values = tensor.flatten(0, 1)
    return _laid_out(nest_packed(Packed(values, begins, ends, 0)), layout)


def _per_component(numbers: Any, count: int) -> list[int]:
    if isinstance(numbers, Tensor) and numbers.dim() == 1:
        if int(numbers.shape[0]) != count:
            raise ShapeError(f"narrow: {int(numbers.shape[0])} numbers for {count} components")
        return [int(n) for n in numbers.tolist()]
    return [int(numbers)] * count


def to_padded_tensor(input: NestedTensor, padding: float, output_size: Any = None) -> Tensor:
    """A dense tensor: components are filled up with `padding` to the largest size of each dim.

    output_size: the shape wanted.  Raises ShapeError if a component does not fit.
    """
    if not isinstance(input, NestedTensor):
        raise ArgumentTypeError("to_padded_tensor: the input is no nested tensor")
    parts = input.parts
    if not parts:
        raise ShapeError("to_padded_tensor: a nested tensor without components has no size")
    rank = parts[0].dim()
    largest = [max(int(part.shape[k]) for part in parts) for k in range(rank)]
    count = len(parts)
    if output_size is not None:
        wanted = [int(n) for n in output_size]
        if (
            len(wanted) != rank + 1
            or wanted[0] < count
            or any(n < m for n, m in zip(wanted[1:], largest, strict=True))
        ):
            raise ShapeError(
                f"to_padded_tensor: output_size {tuple(wanted)} is less than what the components "
                f"need, {(count, *largest)}"
            )
        largest, count = wanted[1:], wanted[0]
    rows = []
    for part in parts:
        pad: list[int] = []
        for k in reversed(range(rank)):
            pad += [0, largest[k] - int(part.shape[k])]
        rows.append(ops.pad(part, pad, value=padding) if any(pad) else part)
    rows += [full_beside(input, largest, padding)] * (count - len(rows))
    return ops.stack(rows)  # type: ignore[no-any-return]


def masked_select(tensor: Tensor, mask: Tensor) -> NestedTensor:
    """From each tensor[i], the rows (or elements) where mask[i] is true."""
    if tensor.dim() < mask.dim():
        raise ShapeError(
            f"masked_select: a mask of {mask.dim()} dims for a tensor of {tensor.dim()}"
        )
    pairs = zip(tensor.unbind(0), mask.unbind(0), strict=True)
    return _laid_out(nest([x[m] for x, m in pairs]), jagged)


def _listed(name: str, tensors: Any) -> Sequence[Any]:
    if isinstance(tensors, (list, tuple)):
        return tensors
    raise ArgumentTypeError(f"{name}: a list of tensors is needed, not a {type(tensors).__name__}")


def _alike(parts: list[Tensor]) -> list[Tensor]:
    """The tensors, cast to the common dtype."""
    dtypes = {part.dtype for part in parts}
    if len(dtypes) < 2:
        return parts
    common = ops.cat([part.reshape(-1)[:0] for part in parts]).dtype
    return [part.to(common) for part in parts]


def _laid_out(nested: NestedTensor, layout: Any) -> NestedTensor:
    if layout is not None and layout not in (jagged, strided):
        raise ArgumentError(f"nested_tensor: layout is torch.jagged or torch.strided, not {layout}")
    if layout is jagged:
        nested.__dict__["_layout_name"] = jagged
    return nested


NestedTensor.to_padded_tensor = to_padded_tensor
