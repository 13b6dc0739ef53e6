"""`torch._check` and such: conditions that libraries state, with a message made on demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._engine.base.errors import ArgumentTypeError
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops

__all__ = [
    "_assert",
    "_assert_async",
    "_check",
    "_check_index",
    "_check_is_size",
    "_check_not_implemented",
    "_check_tensor_all",
    "_check_tensor_all_with",
    "_check_type",
    "_check_value",
    "_check_with",
]

Message = Callable[[], object] | None


def _assert(condition: object, message: object) -> None:
    """Raises AssertionError unless the condition holds."""
    assert condition, message


def _assert_async(input: object, assert_msg: str | None = None) -> None:
    """Raises RuntimeError if the single element of a tensor is zero.

    The value is computed at once, so the error comes from this line.  Raises RuntimeError for a
    tensor of another number of elements, and TypeError for anything but a tensor.
    """
    if not isinstance(input, Tensor):
        raise ArgumentTypeError(
            f"_assert_async(): argument 'input' must be Tensor, not {type(input).__name__}"
        )
    if not input:
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


def _check_with(error_type: type[BaseException], cond: object, message: Message = None) -> None:
    """Raises the error unless the condition holds; the message is called for the text."""
    if not isinstance(cond, bool | Tensor):
        raise ArgumentTypeError(f"cond must be a bool, but got {type(cond).__name__}")
    if cond:
        return
    if message is None:
        raise error_type("the condition is False, and the check has no message")
    if not callable(message):
        raise ArgumentTypeError("message must be a callable")
    raise error_type(str(message()))


def _check(cond: object, message: Message = None) -> None:
    """Raises RuntimeError unless the condition holds."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: object, message: Message = None) -> None:
    """Raises IndexError unless the condition holds."""
    _check_with(IndexError, cond, message)


def _check_value(cond: object, message: Message = None) -> None:
    """Raises ValueError unless the condition holds."""
    _check_with(ValueError, cond, message)


def _check_type(cond: object, message: Message = None) -> None:
    """Raises TypeError unless the condition holds."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: object, message: Message = None) -> None:
    """Raises NotImplementedError unless the condition holds."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: Any, message: Message = None, *, max: Any = None) -> None:
    """Raises RuntimeError unless the number is a size: not negative, and at most max."""
    _check(bool(i >= 0), message)
    if max is not None:
        _check(bool(i <= max), message)


def _check_tensor_all_with(
    error_type: type[BaseException], cond: object, message: Message = None
) -> None:
    """Raises the error unless all elements are true."""
    if not isinstance(cond, Tensor):
        raise ArgumentTypeError(f"cond must be a tensor, but got {type(cond).__name__}")
    _check_with(error_type, bool(ops.all(cond)), message)


def _check_tensor_all(cond: object, message: Message = None) -> None:
    """Raises RuntimeError unless all elements are true."""
    _check_tensor_all_with(RuntimeError, cond, message)
