"""Convolutions over time, and names of the package that are about arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wend._engine.base.errors import ArgumentError
from wend._frontend.overrides import (
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)
from wend._frontend.toolkit import Tensor, ops

__all__ = [
    "TYPE_CHECKING",
    "assert_int_or_pair",
    "conv_tbc",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
]


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution over time. input: (T, N, C)   weight: (K, C, D)   bias: (D,)."""
    output = ops.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return output.permute(2, 0, 1)  # type: ignore[no-any-return]


class _NoPair(ArgumentError, AssertionError):
    """An argument is neither an int nor a pair."""


def assert_int_or_pair(arg: int | Sequence[int], arg_name: str, message: str) -> None:
    """Raises an AssertionError, message.format(arg_name), unless arg is an int or has two items."""
    if not isinstance(arg, int) and len(arg) != 2:
        raise _NoPair(message.format(arg_name))
