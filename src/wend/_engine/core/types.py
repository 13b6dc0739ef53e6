"""Operands as type rules see them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wend._engine.base.dtypes import DType


class Spec:
    """Shape and dtype of an operand or a result, inside a type rule.

    shape: tuple of int or SymInt, dtype: DType.
    """

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Iterable[Any], dtype: DType) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype

    @property
    def rank(self) -> int:
        """Number of dims."""
        return len(self.shape)

    def __repr__(self) -> str:
        return f"Spec({self.shape}, {self.dtype})"


class Number:
    """A Python number among the operands of a type rule: only its category counts (0..3)."""

    __slots__ = ("category",)

    def __init__(self, category: int) -> None:
        self.category = category

    def __repr__(self) -> str:
        return f"Number({('bool', 'int', 'float', 'complex')[self.category]})"
