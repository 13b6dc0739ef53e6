"""Complex tensors for users: parts, conjugates, views as real numbers, polar coordinates.

A conjugate is computed, not remembered as a flag: `is_conj` is False for each tensor, and a write
to a conjugate does not reach the tensor that the conjugate was taken of.
"""

from __future__ import annotations

from wend._engine.base.dtypes import float32, float64
from wend._engine.base.errors import ArgumentTypeError, DTypeError, ShapeError
from wend._engine.base.tracebacks import short_errors
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.strides import layout_of

__all__ = ["adjoint", "conj", "imag", "real", "view_as_complex"]


def _tensor(op: str, input: object) -> Tensor:
    if not isinstance(input, Tensor):
        raise ArgumentTypeError(
            f"{op}: argument 'input' must be Tensor, not {type(input).__name__}"
        )
    return input


def real(input: Tensor) -> Tensor:
    """The real part of the elements, a view; a real tensor gives itself."""
    return _tensor("real", input).real  # type: ignore[no-any-return]


def imag(input: Tensor) -> Tensor:
    """The imaginary part of the elements, a view. Raises DTypeError for a real tensor."""
    return _tensor("imag", input).imag  # type: ignore[no-any-return]


def conj(input: Tensor) -> Tensor:
    """The complex conjugate of the elements; a real tensor gives itself."""
    return _tensor("conj", input).conj()  # type: ignore[no-any-return]


def adjoint(input: Tensor) -> Tensor:
    """The last two dims swapped, and conjugated. Raises ShapeError for less than 2 dims."""
    return _tensor("adjoint", input).adjoint()  # type: ignore[no-any-return]


@short_errors
def view_as_complex(input: Tensor) -> Tensor:
    """y[...] = input[..., 0] + 1j * input[..., 1], a view of the memory of `input`.

    input: (..., 2), float32 or float64. Raises DTypeError for other types, ShapeError for other
    sizes, or where the strides of `input` do not leave the two numbers side by side.
    """
    if _tensor("view_as_complex", input).dtype not in (float32, float64):
        raise DTypeError(
            "view_as_complex: is only supported for half, float and double tensors, and of these "
            f"for float32 and float64 here, but got {input.dtype}"
        )
    result = ops.view_as_complex(input)
    if hasattr(input, "layout"):
        strides, offset = layout_of(input)
        if strides[-1] != 1:
            raise ShapeError("view_as_complex: Tensor must have a last dimension with stride 1")
        if offset % 2 or any(step % 2 for step in strides[:-1]):
            raise ShapeError(
                "view_as_complex: Tensor must have strides divisible by 2 for all but the last "
                f"dimension, and an even offset; got strides {strides}, offset {offset}"
            )
    return result  # type: ignore[no-any-return]


# -- members of tensors ----------------------------------------------------------------------


def _real(self: Tensor) -> Tensor:
    return ops.real(self) if self.dtype.is_complex else self


def _imag(self: Tensor) -> Tensor:
    if not self.dtype.is_complex:
        raise DTypeError("imag: is not implemented for tensors with non-complex dtypes.")
    return ops.imag(self)  # type: ignore[no-any-return]


def _set_real(self: Tensor, value: object) -> None:
    _real(self).copy_(value)


def _set_imag(self: Tensor, value: object) -> None:
    _imag(self).copy_(value)


def _conj(self: Tensor) -> Tensor:
    """The complex conjugate of the elements; a real tensor gives itself."""
    return ops.conj(self) if self.dtype.is_complex else self


def _adjoint(self: Tensor) -> Tensor:
    """The last two dims swapped, and conjugated. Raises ShapeError for less than 2 dims."""
    if self.dim() < 2:
        raise ShapeError(f"adjoint: expects a matrix or a batch of matrices, got {self.dim()}-d")
    return _conj(ops.matrix_transpose(self))


def _hermitian(self: Tensor) -> Tensor:
    if self.dim() not in (0, 2):
        raise ShapeError(f"H: is only supported on matrices (2-D tensors). Got {self.dim()}-D")
    return _conj(ops.transpose(self, 0, 1) if self.dim() else ops.alias(self))


Tensor.real = property(_real, _set_real, doc="The real part, a view.")
Tensor.imag = property(_imag, _set_imag, doc="The imaginary part, a view.")  # type: ignore[attr-defined]
Tensor.H = property(_hermitian, doc="The matrix transposed and conjugated.")
Tensor.mH = property(_adjoint, doc="The last two dims swapped, and conjugated.")
for _name, _method in (("conj", _conj), ("adjoint", _adjoint)):
    _method.__name__ = _method.__qualname__ = _name
    setattr(Tensor, _name, _method)
