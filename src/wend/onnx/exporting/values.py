"""Values, which a writer of ONNX graphs hands to the rules of ops, and errors."""

from __future__ import annotations

from typing import Any

from wend._engine.base.dtypes import DType
from wend._engine.base.errors import WendError

__all__ = ["UnsupportedOperatorError", "Value"]


class UnsupportedOperatorError(WendError, RuntimeError):
    """An op, or a use of the op, that a model of this opset cannot say."""


class Value:
    """A tensor of an ONNX graph.

    shape: extents as ints and `SymInt`; None for a value inside a rule, which nobody asks
    """

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, name: str, dtype: DType, shape: tuple[Any, ...] | None = None) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape

    @property
    def rank(self) -> int:
        """The number of dims."""
        assert self.shape is not None, f"the shape of {self.name} is not known"
        return len(self.shape)

    def __repr__(self) -> str:
        return f"Value({self.name!r}, {self.dtype!r}, {self.shape!r})"
