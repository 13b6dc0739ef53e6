"""Values on the device `meta`: a type, where gradients come from, and no data."""

from __future__ import annotations

from typing import Any

from wend._engine.base.errors import NoDataError
from wend._engine.core import _hot
from wend._engine.core._hot import Leaf, Tensor, Value
from wend._engine.core._types import TensorType

__all__ = ["Facts", "has_data", "meta_value"]

#: No trace has this serial: such a value never counts as a step of a program.
SERIAL = _hot.fresh_serial()


class Facts:
    """Facts about a value without data, besides its type.

    op: name of the op that made the value, "" for a value that was made by the user
    sources: leaves and values that gradients flow to; None after a backward pass has freed them
    """

    __slots__ = ("op", "sources")

    def __init__(self, op: str = "", sources: tuple[Leaf | Value, ...] | None = ()) -> None:
        self.op = op
        self.sources = sources

    @staticmethod
    def relabelled(value: Value, leaf: Leaf | None) -> Value:
        """The same value with the gradient identity of a leaf, or with none."""
        new_value = meta_value(value.type)
        new_value.inference = value.inference
        if leaf is not None:
            new_value.leaf = leaf
            new_value.requires_grad = True
        return new_value

    @staticmethod
    def rebound(handle: Tensor, value: Value, type_: TensorType | None = None) -> Value:
        """The value of a handle after an op in place gave `value`; leaves stay leaves.

        type_: if not that of the handle. Raises NoDataError for a tensor with data.
        """
        if has_data(handle):
            raise NoDataError("Cannot copy out of meta tensor; no data!")
        old = handle.value
        flows = value.requires_grad and type(value.extra) is Facts
        new_value = meta_value(type_ or old.type, value.extra if flows else old.extra)
        new_value.requires_grad = flows or old.requires_grad
        new_value.inference = old.inference
        new_value.leaf = handle.leaf
        return new_value


class _NoData(NoDataError):
    """Why a value has no data: each reader gets an error of its own."""

    #: A leaf may be made of such a value: nothing has failed.
    allows_leaf = True

    def anew(self) -> Exception:
        """The error for whoever reads a value."""
        return NoDataError("Cannot copy out of meta tensor; no data!")


_NO_DATA = _NoData("Cannot copy out of meta tensor; no data!")


def meta_value(type_: TensorType, facts: Facts | None = None) -> Value:
    """A value of that type without data."""
    value: Value = _hot.symbolic_value(type_, SERIAL, 0)
    value.error = _NO_DATA
    value.extra = facts or Facts()
    value.inference = _hot.current_trace().mode.inference
    return value


def has_data(x: Any) -> bool:
    """Whether a tensor has data: is on the CPU, or is pending there."""
    return type(x.value.extra) is not Facts
