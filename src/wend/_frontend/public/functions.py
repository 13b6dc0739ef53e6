"""Functions of `wend` for methods of Tensor, numbers by name, and switches of backends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Unpack

from wend._engine.base import dtypes
from wend._engine.base.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    GraphError,
    ValueRefused,
)
from wend._engine.base.tracebacks import short_errors
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import PUBLIC, ops
from wend._frontend import creation
from wend._frontend.aliasing import rebinding as aliasing

__all__ = [
    "as_strided_",
    "detach_",
    "e",
    "fill",
    "fill_",
    "get_device",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "index_put_",
    "inf",
    "is_conj",
    "is_distributed",
    "is_inference",
    "is_neg",
    "is_signed",
    "nan",
    "newaxis",
    "pi",
    "resize_as_",
    "resize_as_sparse_",
    "resolve_conj",
    "resolve_neg",
    "set_float32_matmul_precision",
    "set_num_interop_threads",
    "zero_",
]

e, inf, nan, pi = math.e, math.inf, math.nan, math.pi
newaxis = None


def _as_function(name: str) -> Callable[..., Any]:
    """The method of that name, as a function whose first argument is `input`."""

    def function(input: Tensor, *args: object, **kwargs: object) -> Any:
        if not isinstance(input, Tensor):
            raise ArgumentTypeError(
                f"{name}: argument 'input' must be Tensor, not {type(input).__name__}"
            )
        return getattr(input, name)(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`input.{name}`: {getattr(Tensor, name).__doc__}"
    return function


(
    detach_, fill_, get_device, index_put_, is_conj, is_distributed, is_inference, is_neg,
    is_signed, resize_as_, resize_as_sparse_, resolve_conj, resolve_neg, zero_,
) = (
    _as_function(name)
    for name in (
        "detach_", "fill_", "get_device", "index_put_", "is_conj", "is_distributed",
        "is_inference", "is_neg", "is_signed", "resize_as_", "resize_as_sparse_", "resolve_conj",
        "resolve_neg", "zero_",
    )
)  # fmt: skip


@short_errors
def fill(input: Tensor, value: object) -> Tensor:
    """A tensor like `input` with every element `value`: a number, or a 0-d tensor.

    Gradients flow to a tensor `value`. Raises ShapeError for a value of more dims.
    """
    return ops.clone(input).fill_(value)  # type: ignore[no-any-return]


# -- calls of known functions that do not come down to one op -------------------------------


def _where(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """where(condition): the places where the condition holds, a tensor of indices per dim."""
    if len(args) + len(kwargs) != 1:
        return NotImplemented
    condition = args[0] if args else kwargs.get("condition")
    if not isinstance(condition, Tensor):
        return NotImplemented
    return ops.nonzero(condition, as_tuple=True)


ops.where.general = _where


def _narrow(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """narrow(input, dim, start, length) from a tensor `start`: a single integer."""
    arguments = dict(zip(("input", "dim", "start"), args[:3], strict=False), **kwargs)
    start = arguments.get("start")
    if not isinstance(start, Tensor):
        return NotImplemented
    if start.dim() or start.dtype.category != dtypes.INT:
        raise ValueRefused(
            f"narrow: start must be an 0-dim integral Tensor, but got {start.dtype} of shape "
            f"{tuple(start.shape)}"
        )
    if len(args) > 2:
        return ops.narrow(*args[:2], int(start), *args[3:], **kwargs)
    return ops.narrow(*args, **{**kwargs, "start": int(start)})


ops.narrow.general = _narrow

# PyTorch has these in-place forms as functions too.
for _name in ("clamp_", "clip_", "round_"):
    PUBLIC.setdefault(_name, getattr(Tensor, _name))

# -- methods ---------------------------------------------------------------------------------


@short_errors
def as_strided_(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """Make this tensor the view that `as_strided` gives of its memory.

    Raises GraphError for a tensor that gradients are recorded for.
    """
    if input.requires_grad:
        raise GraphError(
            "as_strided_: this tensor requires grad; use as_strided, which makes another tensor"
        )
    aliasing.share(input, ops.as_strided_in_base(input, size, stride, storage_offset))
    return input


def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dims from the slowest to the quickest in memory, as the strides order them."""
    strides = self.stride()
    return tuple(sorted(range(self.dim()), key=lambda d: -strides[d]))


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both are the same elements of the same memory."""
    where = (self.untyped_storage(), self.storage_offset(), tuple(self.shape), self.stride())
    other = (tensor.untyped_storage(), tensor.storage_offset(), tuple(tensor.shape))
    return where == (*other, tensor.stride())


@short_errors
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[..., Any]) -> Tensor:
    """Overwrite each element by callable(element, of x, of y): Python speed."""
    wide = [ops.expand(t, tuple(self.shape)) for t in (x, y)]
    rows = [ops.reshape(t, (-1,)).tolist() for t in (self, *wide)]
    results = creation.tensor([callable(*row) for row in zip(*rows, strict=True)], dtype=self.dtype)
    return self.copy_(ops.reshape(results, tuple(self.shape)))


@short_errors
def resize(self: Tensor, *sizes: object) -> Tensor:
    """`resize_` without a change of this tensor; PyTorch has deprecated the method."""
    return ops.clone(self).resize_(*sizes)  # type: ignore[no-any-return]


def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """`resize` to the shape of another tensor; PyTorch has deprecated the method."""
    return resize(self, tuple(tensor.shape))


@short_errors
def new_empty_strided(
    self: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    **keywords: Unpack[creation.TensorOptions],
) -> Tensor:
    """A tensor of this tensor's type and of these strides, with arbitrary elements."""
    keywords.setdefault("dtype", self.dtype)
    return creation.empty_strided(size, stride, **keywords)


def polygamma(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of `digamma` of each element, n >= 0."""
    return ops.polygamma(n, self)  # type: ignore[no-any-return]


def polygamma_(self: Tensor, n: int) -> Tensor:
    """`polygamma` in place. Raises DTypeError for a tensor of integers."""
    if not self.dtype.is_floating_point:
        raise DTypeError(f"polygamma_: the result is no {self.dtype}; use polygamma")
    return self.copy_(ops.polygamma(n, self))


def to_padded_tensor(
    self: Tensor, padding: float, output_size: Sequence[int] | None = None
) -> Tensor:
    """Raises ArgumentTypeError: only a nested tensor has components to pad."""
    raise ArgumentTypeError("to_padded_tensor: this tensor is dense, and has nothing to pad")


for _method in (
    as_strided_, dim_order, is_set_to, map2_, new_empty_strided, polygamma, polygamma_, resize,
    resize_as, to_padded_tensor,
):  # fmt: skip
    setattr(Tensor, _method.__name__, _method)

Tensor.name = property(lambda self: None, doc="None: tensors have no names.")

# -- switches --------------------------------------------------------------------------------

_PRECISIONS = ("highest", "high", "medium")
_precision = ["highest"]
_interop = [1]


def get_float32_matmul_precision() -> str:
    """The last setting; matrix products of float32 are always computed in float32."""
    return _precision[0]


def set_float32_matmul_precision(precision: str) -> None:
    """Allow lower precision on accelerators with lower precision; on the CPU nothing changes."""
    if precision not in _PRECISIONS:
        raise ArgumentError(
            f"set_float32_matmul_precision: {precision!r} is not one of {', '.join(_PRECISIONS)}"
        )
    _precision[0] = precision


def get_num_interop_threads() -> int:
    """How many ops may run at the same time."""
    return _interop[0]


def set_num_interop_threads(number: int) -> None:
    """Accepted: ops run in sequence so far."""
    if type(number) is not int or number < 1:
        raise ArgumentTypeError(
            f"set_num_interop_threads: expects a positive integer, got {number!r}"
        )
    _interop[0] = number
