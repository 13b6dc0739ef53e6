"""The class of tensors of float8: bytes in a tensor of uint8, and the type that reads the bytes.

A conversion to float8 is computed at once. A conversion from float8 is an op on the bytes: a number
is looked up for each. Where the float tensor requires grad, the gradient passes both conversions
as it is: the result remembers the float tensor, and ops that move elements move this as well.
"""

from __future__ import annotations

import functools
from typing import Any

from wend._engine.base.dtypes import ABSENT, AbsentDType, DType, float32, int64, uint8
from wend._engine.base.errors import ArgumentTypeError, GraphError, NotImplementedInWend
from wend._engine.core import _hot
from wend._engine.core._hot import refreshed
from wend._frontend.components import OpTable, refused
from wend._frontend.creation import checked_dtype
from wend._frontend.formats import is_float8
from wend._frontend.interop.float8_bits import bits_of, numbers_of
from wend._frontend.methods import DisableTorchFunctionSubclass
from wend._frontend.toolkit import Tensor, native_new, ops, tensor

__all__ = ["DTYPES", "TABLE", "Float8Tensor", "cast", "of_bits", "view_of_bits"]

DTYPES = {dtype for dtype in ABSENT.values() if is_float8(dtype)}
TABLE = OpTable(
    refused(
        NotImplementedInWend,
        "{name}: not implemented for float8 types; convert by .to(torch.float32) or "
        ".to(torch.bfloat16), compute, and convert back",
    ),
    within=DisableTorchFunctionSubclass,
)


class Float8Tensor(Tensor):
    """A tensor of a float8 type; made by `x.to(torch.float8_e4m3fn)` and the like."""

    _bits: Tensor
    _source: Tensor | None
    _type: AbsentDType

    #: For pickles of checkpoints.
    made_of_bits = True

    __torch_function__ = TABLE.torch_function

    @property
    def dtype(self) -> Any:
        """torch.float8_e4m3fn or another type of 8 bits."""
        return self._type

    @property  # type: ignore[misc]
    def requires_grad(self) -> bool:
        """Whether a gradient passes on to the tensor that was converted."""
        return self._source is not None

    def requires_grad_(self, requires_grad: bool = True) -> Float8Tensor:
        """The tensor itself, without gradient. Raises GraphError where a gradient is asked for."""
        if requires_grad and self._source is None:
            raise GraphError(
                f"requires_grad_: a leaf of {self._type} gets no gradient here; keep a leaf of "
                "float32 or bfloat16, and convert it in the forward pass"
            )
        return self

    def decoded(self, dtype: DType = float32) -> Tensor:
        """The numbers as a tensor of an ordinary type."""
        place = ops.reshape(ops.cast(self._bits, int64), (-1,))
        numbers = ops.reshape(ops.index_select(_numbers(self._type), 0, place), self._bits.shape)
        numbers = ops.cast(numbers, dtype)
        if self._source is None or not dtype.is_floating_point:
            return numbers  # type: ignore[no-any-return]
        return ops.graft(numbers, ops.cast(self._source, dtype))  # type: ignore[no-any-return]

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """The numbers in another type; the tensor itself, for the same type or a device."""
        asked = [*args, *(v for k, v in kwargs.items() if k in ("dtype", "other"))]
        copy = bool(kwargs.get("copy", False))
        for x in asked:
            dtype = x.dtype if isinstance(x, Tensor) else _as_dtype(x)
            if isinstance(dtype, AbsentDType) and dtype is not self._type:
                return cast(self.decoded(), dtype)
            if isinstance(dtype, DType):
                return self.decoded(dtype)
        return self.with_bits(ops.clone) if copy else self

    def with_bits(self, move: Any) -> Float8Tensor:
        """The tensor of move(bytes), an op that moves elements."""
        source = None if self._source is None else move(self._source)
        return of_bits(move(self._bits), self._type, source)

    def write(self, values: Any) -> Float8Tensor:
        """Write numbers, which are converted, over the elements. Raises GraphError with a history.

        values: a number, or a tensor that broadcasts to this shape
        """
        if self._source is not None:
            raise GraphError(f"a tensor of {self._type} with a history is not written to; clone it")
        self._bits.copy_(cast(values, self._type)._bits)
        self.value = refreshed(self._bits)
        return self

    def numpy(self, *, force: bool = False) -> Any:
        """Raises ArgumentTypeError: NumPy has no such type."""
        raise ArgumentTypeError(
            f"numpy: Got unsupported ScalarType {self._type.name}; use .float().numpy(), or "
            ".view(torch.uint8).numpy() for the bits"
        )

    def __deepcopy__(self, memo: Any) -> Float8Tensor:
        copy = memo[id(self)] = of_bits(ops.clone(self._bits), self._type)
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        return of_bits, (self._bits, self._type)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        text = repr(self.decoded().detach())
        return f"{text[:-1]}, dtype={self._type})"


def _as_dtype(x: Any) -> Any:
    """A dtype, or None for a device or a flag."""
    return checked_dtype("to", x) if x in (float, int, bool) else x


@functools.cache
def _numbers(dtype: AbsentDType) -> Tensor:
    return tensor(numbers_of(dtype))


def of_bits(bits: Tensor, dtype: AbsentDType, source: Tensor | None = None) -> Float8Tensor:
    """The tensor of a float8 type whose bytes are the elements of a tensor of uint8."""
    result: Any = native_new(Float8Tensor)
    result.value = refreshed(bits)
    result._bits, result._type, result._source = bits, dtype, source
    return result  # type: ignore[no-any-return]


def view_of_bits(x: Tensor, dtype: AbsentDType) -> Float8Tensor:
    """x.view(dtype): the bytes of x, shared with x."""
    return of_bits(x if x.dtype is uint8 else x.view(uint8), dtype)


def cast(x: Any, dtype: AbsentDType) -> Float8Tensor:
    """Numbers as a tensor of a float8 type: the nearest, ties to even.

    Beyond the range, numbers become infinite where the type has infinity, else NaN.
    """
    if isinstance(x, Float8Tensor):
        x = x.decoded()
    if not isinstance(x, Tensor):
        x = tensor(x, dtype=float32)
    plain = x.detach()
    bits = bits_of(ops.cast(plain, float32).numpy(), dtype)
    tracked = x.requires_grad and _hot.current_trace().mode.grad
    return of_bits(tensor(bits), dtype, x if tracked else None)
