"""Tensors with a mask: elements where the mask is False do not count, in results and gradients.

A `MaskedTensor` is a tensor of its data, so that gradients need nothing of their own, and has the
mask as an attribute. Ops are computed on the data, and `table` says the mask of the result.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from wend._engine.base.dtypes import bool_, float16, float32, float64, int8, int16, int32, int64
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, NotImplementedInWend
from wend._frontend.components import OpTable, refused
from wend._frontend.formats import strided
from wend._frontend.methods import DisableTorchFunctionSubclass
from wend._frontend.toolkit import Tensor, ops

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]

_DTYPES = (float16, float32, float64, bool_, int8, int16, int32, int64)
#: The rules of ops on such tensors, entered in `masked.table`.
TABLE = OpTable(
    refused(
        ArgumentTypeError,
        "{name} is not implemented for MaskedTensor; use get_data(), to_tensor(value), or a "
        "function of torch.masked with a mask",
    ),
    within=DisableTorchFunctionSubclass,
)


class MaskedTensor(Tensor):
    """`data`, of which only the elements count where `mask` is True.

    data, mask: dense tensors of a shape; both are copied. A mask is of bools.
    requires_grad: whether gradients go to this tensor; its `grad` has the same mask
    Raises ArgumentTypeError for other types, ArgumentError for other shapes, and
    NotImplementedInWend for sparse data.
    """

    _masked_mask: Tensor

    def __new__(cls, data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
        _check(data, mask)
        if data.requires_grad:
            warnings.warn(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad. "
                "To avoid this, you can use data.detach().clone()",
                UserWarning,
                stacklevel=2,
            )
        tensor = wrapped(ops.clone(data.detach()), ops.clone(mask))
        with DisableTorchFunctionSubclass():
            if requires_grad:
                tensor.requires_grad_()
        return tensor

    def __init__(self, data: Any, mask: Any, requires_grad: bool = False) -> None:
        """The attributes are set by `__new__`."""

    __torch_function__: ClassVar[Any] = TABLE.torch_function

    @staticmethod
    def _from_values(data: Any, mask: Any) -> MaskedTensor:
        """As the constructor, but gradients flow to `data`."""
        _check(data, mask)
        mask = ops.clone(mask)
        if not data.requires_grad:
            return wrapped(ops.clone(data), mask)
        return wrapped(ops.where(mask, data, data.detach()), mask)

    @classmethod
    def unary(cls, fn: Callable[[Tensor], Tensor], data: Tensor, mask: Tensor) -> MaskedTensor:
        """fn(data) with the mask."""
        return MaskedTensor(fn(data), mask)

    # -- parts ------------------------------------------------------------------------------

    def get_data(self) -> Tensor:
        """All elements, as a tensor without a mask. Gradients flow."""
        with DisableTorchFunctionSubclass():
            return self.as_subclass(Tensor)  # type: ignore[no-any-return]

    def get_mask(self) -> Tensor:
        """Which elements count, as a tensor of bools."""
        return self._masked_mask

    def to_tensor(self, value: Any) -> Tensor:
        """The elements that count, and `value` in the place of the others. Gradients flow."""
        return ops.where(self._masked_mask, self.get_data(), value)  # type: ignore[no-any-return]

    @property
    def grad(self) -> MaskedTensor | None:
        """The gradient, with this tensor's mask."""
        with DisableTorchFunctionSubclass():
            gradient = Tensor.grad.__get__(self)  # type: ignore[attr-defined]
        return None if gradient is None else wrapped(gradient, self._masked_mask)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        gradient = value.get_data() if isinstance(value, MaskedTensor) else value
        with DisableTorchFunctionSubclass():
            Tensor.grad.__set__(self, gradient)  # type: ignore[attr-defined]

    def is_sparse_coo(self) -> bool:
        """False: data is dense."""
        return False

    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """False: data is dense."""
        return False

    @property
    def is_sparse(self) -> bool:
        """False: data is dense."""
        return False

    # -- Python -----------------------------------------------------------------------------

    def __lt__(self, other: Any) -> Any:
        """As `lt`, whatever the mask of `other`."""
        there = other.get_data() if isinstance(other, MaskedTensor) else other
        return wrapped(ops.lt(self.get_data(), there), self._masked_mask)

    def __deepcopy__(self, memo: Any) -> MaskedTensor:
        data = self.get_data().detach()
        copy = MaskedTensor(data, self._masked_mask, self.requires_grad)
        memo[id(self)] = copy
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        data = self.get_data().detach()
        return MaskedTensor, (data, self._masked_mask, self.requires_grad)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        data, mask = self.get_data().tolist(), self._masked_mask.tolist()
        if self.dim() == 0:
            return f"MaskedTensor({_written(data) if mask else '--'}, {mask})"
        inside = _lines(data, mask, self.dim())
        return "MaskedTensor(\n" + "\n".join("  " + line for line in inside) + "\n)"


def wrapped(data: Tensor, mask: Tensor) -> MaskedTensor:
    """A masked tensor of the same values and gradients as `data`."""
    with DisableTorchFunctionSubclass():
        tensor: MaskedTensor = data.as_subclass(MaskedTensor)
    tensor._masked_mask = mask
    return tensor


def _check(data: Any, mask: Any) -> None:
    """Raises where data and mask make no masked tensor."""
    for name, part in (("data", data), ("mask", mask)):
        if isinstance(part, MaskedTensor) or not isinstance(part, Tensor):
            raise ArgumentTypeError(f"MaskedTensor: {name} must be a Tensor")
    if data.layout is not mask.layout:
        raise ArgumentTypeError("MaskedTensor: data and mask must have the same layout.")
    if data.layout is not strided:
        raise NotImplementedInWend(
            f"MaskedTensor: data is {data.layout}; make data and mask dense with to_dense()"
        )
    if mask.dtype is not bool_:
        raise ArgumentTypeError("MaskedTensor: mask must have dtype bool.")
    if data.dtype not in _DTYPES:
        raise ArgumentTypeError(f"MaskedTensor: {data.dtype} is not supported in MaskedTensor.")
    if tuple(data.shape) != tuple(mask.shape):
        raise ArgumentError(
            f"MaskedTensor: data.size() must equal mask.size(); the shapes are "
            f"{tuple(data.shape)} and {tuple(mask.shape)}"
        )


def _written(value: Any) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _lines(data: Any, mask: Any, dims: int) -> list[str]:
    """The lines of the nested lists, `--` in the place of elements that do not count."""
    if dims == 1:
        words = [_written(value) for value in data]
        width = max([len(w) if m else 8 for w, m in zip(words, mask, strict=True)], default=0)
        row = [w if m else "--".rjust(width) for w, m in zip(words, mask, strict=True)]
        return [f"[{', '.join(row)}]"]
    parts = [_lines(d, m, dims - 1) for d, m in zip(data, mask, strict=True)]
    for part in parts[:-1]:
        part[-1] += ","
    return ["[", *("  " + line for part in parts for line in part), "]"]


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether an object is a MaskedTensor."""
    return isinstance(obj, MaskedTensor)


def masked_tensor(data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
    """A MaskedTensor of copies of data and mask: a leaf, as `torch.tensor` makes."""
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Tensor, mask: Tensor) -> MaskedTensor:
    """A MaskedTensor of copies of data and mask. Gradients flow to data where the mask is True."""
    return MaskedTensor._from_values(data, mask)
