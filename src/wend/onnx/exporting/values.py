"""Values, which a writer of ONNX graphs hands to the rules of ops, and errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from wend._engine.base.dtypes import DType
from wend._engine.base.errors import WendError

__all__ = ["NodeWriter", "UnsupportedOperatorError", "Value"]


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


class Leaves(Protocol):
    """The tensors whose dims are the leaves of extents, and the run-time numbers."""

    leaves: list[Value]
    scalars: list[Value]


class NodeWriter(Protocol):
    """A scope of a graph, as `extents` and `elements` write to the scope."""

    @property
    def model(self) -> Leaves:
        """The part that all scopes share."""

    @property
    def opset(self) -> int:
        """The version of the operators."""

    def node(
        self,
        op: str,
        *inputs: Value | None,
        dtype: DType | None = None,
        outputs: int = 1,
        **attributes: Any,
    ) -> Any:
        """A node, with casts around where runtimes need those."""

    def raw_node(
        self,
        op: str,
        inputs: Sequence[Value | None],
        dtype: DType,
        *,
        outputs: int = 1,
        domain: str = "",
        **attributes: Any,
    ) -> Any:
        """A node as it is, without casts."""

    def cast(self, x: Value, dtype: DType) -> Value:
        """x converted as C converts."""

    def raw_cast(self, x: Value, name: str) -> Value:
        """x as a type of ONNX's, given by its name there."""

    def constant(self, value: Any, dtype: DType) -> Value:
        """A number or an array as a tensor of this type."""

    def reshape(self, x: Value, shape: Sequence[Any]) -> Value:
        """x in another shape."""

    def known(self, key: tuple[object, ...]) -> Value | None:
        """The value that has been remembered under a key."""

    def remember(self, key: tuple[object, ...], value: Value) -> None:
        """Keep a value for `known`."""

    def computed_in(self, op: str, dtype: DType) -> Any:
        """The element type in which runtimes compute a node for operands of `dtype`."""

    def unsupported(self, reason: str, remedy: str = "") -> Exception:
        """The error of a rule that cannot say its op."""
