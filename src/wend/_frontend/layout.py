"""Logical strides: where PyTorch would keep the elements, and which `view` they allow.

Data lies wherever the executor likes. The users' side (`stride()`, `is_contiguous()`, the errors of
`view`) follows from the derivation of a handle: a fresh result is row-major, each view op has a
rule from input strides to output strides.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ShapeError
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.core._types import PrimitiveBase
from wend._engine.core.op_facts import OpFacts, TorchCall
from wend._engine.core.primitive import Primitive, ops
from wend._engine.core.symbolic import hint_of
from wend._engine.ops.views.reshapes import Reshape
from wend._frontend import creation, formats
from wend._frontend.aliasing.versions import base_now, stands_for
from wend._frontend.formats import memory_format
from wend._frontend.memory_order import RANKS, in_format, is_channels_last, is_row_major
from wend._frontend.strides import MOST_KEPT, concrete, layout_of


class View(Reshape):
    """y = x in the given shape, sharing x's elements; an extent may be -1.

    Raises ShapeError if the strides of x do not allow the view: use reshape then.
    """

    name = "view"
    torch = TorchCall(
        functions=(), methods=("view",), grad_name="ViewBackward0", spellings={"size": "shape"}
    )
    grad_nodes = None
    facts = OpFacts(must_view=True)


def viewable(prim: PrimitiveBase, x: Tensor, args: tuple[Any, ...]) -> bool:
    """Whether the reshape `prim` of `x` can share x's elements."""
    _hot.refreshed(x)
    strides, _ = layout_of(x)
    return _is_view(prim, tuple(map(hint_of, args or ())), concrete(x.value.type), strides)


@lru_cache(MOST_KEPT)
def _is_view(prim: Any, args: Any, type_: Any, strides: tuple[int, ...]) -> bool:
    arranged = prim.arrange([None], list(args))[1:]
    return prim.strides(tuple(type_.shape), strides, *arranged) is not None


def check_view(prim: Primitive, x: Tensor, args: Any) -> None:
    """Raise as PyTorch's `view` does where the strides do not allow the view."""
    if prim.facts.must_view and not viewable(prim, x, args):
        raise ShapeError(
            f"view: view size is not compatible with input tensor's size and stride (shape "
            f"{tuple(x.shape)}, strides {layout_of(x)[0]}: at least one dimension spans across "
            "two contiguous subspaces). Use .reshape(...) instead."
        )


def _view_of_dtype(positional: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """x.view(dtype): the same memory as elements of another dtype, without gradient.

    Raises ShapeError where elements of another size would not fit the memory.
    """
    more = [*positional[1:], *([keywords["dtype"]] if list(keywords) == ["dtype"] else keywords)]
    asked = more[0] if len(more) == 1 else None
    if formats.is_float8(asked):
        return formats.Float8Package.load().view_of_bits(positional[0], asked)
    if not isinstance(asked, (DType, type)):
        return NotImplemented
    x, dtype = positional[0], creation.checked_dtype("view", asked)
    assert dtype is not None
    result = ops.reinterpret(ops.detach(x), dtype)
    strides, offset = layout_of(x)
    itemsize, wanted = x.dtype.itemsize, dtype.itemsize
    if itemsize == wanted:
        return result
    what = f"to view {x.dtype} as {dtype} (different element sizes), but got"
    *outer, last = strides
    if last != 1:
        raise ShapeError(f"view: self.stride(-1) must be 1 {what} {last}")
    for name, step in (
        ("storage_offset()", offset),
        *((f"stride({d})", s) for d, s in enumerate(outer)),
    ):
        if step * itemsize % wanted:
            raise ShapeError(
                f"view: self.{name} must be divisible by {wanted // itemsize} {what} {step}"
            )
    return result


ops.view.general = _view_of_dtype


def attach_reshape(t: Tensor, x: Tensor, prim: PrimitiveBase, args: tuple[Any, ...]) -> bool:
    """Whether the result of a reshape is to be an alias of the operand."""
    return viewable(prim, x, args)


def is_contiguous(self: Tensor, memory_format: memory_format | None = None) -> bool:
    """Whether the elements lie in row-major (or the given) order without gaps."""
    if memory_format is not None and memory_format in RANKS:
        return is_channels_last(self, memory_format)
    return is_row_major(self)


def _clone_in_format(positional: tuple[Any, ...], keywords: dict[str, Any]) -> Tensor:
    """clone(memory_format=...): a copy marked as lying in the format."""
    memory_format = keywords.get("memory_format")
    if memory_format is None or memory_format is formats.preserve_format:
        return NotImplemented
    rest = {k: v for k, v in keywords.items() if k != "memory_format"}
    return in_format(ops.clone(*positional, **rest), memory_format, "clone", fresh=True)


ops.clone.general = _clone_in_format


def base_of(self: Tensor) -> Tensor | None:
    """The tensor that this tensor is a view of; None for no view."""
    alias = self.alias
    if alias is None or alias.base is None:
        return None
    base = base_now(alias)
    handle = stands_for(base)
    if handle is None:
        return base
    return None if handle is self else handle


def is_view(self: Tensor) -> bool:
    """Whether this tensor is a view of another tensor."""
    return base_of(self) is not None


def stride(self: Tensor, dim: int | None = None) -> Any:
    """Steps in elements from an index to the next, per dim or of a dim."""
    strides, _ = layout_of(self)
    if dim is None:
        return strides
    from wend._engine.base.shapes import normalize_dim

    return strides[normalize_dim(dim, self.dim(), "stride")]


def storage_offset(self: Tensor) -> int:
    """Position of the first element in the storage, in elements."""
    return layout_of(self)[1]


def contiguous(self: Tensor, memory_format: memory_format | None = None) -> Tensor:
    """This tensor if its elements lie in row-major (or the given) order, else a copy that does."""
    if is_contiguous(self, memory_format):
        return self
    return in_format(self, memory_format or formats.contiguous_format, "contiguous")


_hot.set_slot("check_view", check_view)
_hot.set_slot("attach_reshape", attach_reshape)
for _function in (is_contiguous, stride, storage_offset, contiguous):
    setattr(Tensor, _function.__name__, _function)
for _name, _member in {"_base": property(base_of), "_is_view": is_view}.items():
    setattr(Tensor, _name, _member)
