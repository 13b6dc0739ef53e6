"""The graphs of a model that is being written, and the questions that loops ask the writer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from wend._engine.base.dtypes import DType
from wend._engine.core.symbolic import Expr
from wend._engine.transforms.exploring.program import Apply
from wend._engine.transforms.exploring.structure import Nested, Outcome
from wend.onnx.exporting.values import Value
from wend.onnx.exporting.writer import GraphWriter

if TYPE_CHECKING:
    from onnx import GraphProto

__all__ = ["Scope", "StatementWriter"]


class Scope:
    """A graph of the model, and the meaning of the program's ids there.

    values: id -> Value of a tensor; of a number, the 0-d tensor
    checks: conditions without which the graph has no results, with the reasons
    """

    def __init__(self, writer: GraphWriter, values: dict[int, Value]) -> None:
        self.writer = writer
        self.values = dict(values)
        self.checks: list[tuple[Value, str]] = []

    def inner(self) -> Scope:
        """A graph inside this graph."""
        return Scope(self.writer.subgraph(), self.values)


class StatementWriter(Protocol):
    """The `ProgramWriter`, as loops and layers ask the writer."""

    program: Any
    writer: GraphWriter
    captured: dict[int, Any]
    made: dict[int, Any]
    stays: dict[int, int]

    def value(self, scope: Scope, i: int) -> Any:
        """The tensor of an id: a `Value` whose shape is known."""

    def initializer(self, name: str, array: Any) -> Value:
        """A tensor made of parameters, under a name of its own."""

    def meant(self, i: int) -> int:
        """The first name of a value."""

    def is_asked(self, item: Apply) -> bool:
        """Whether an op has args that are known at run time."""

    def number(self, scope: Scope, expr: Expr, category: int = 1) -> Any:
        """An expression as a number for the writer."""

    def tensor_of(self, scope: Scope, expr: Expr, dtype: DType) -> Value:
        """An expression as a 0-d tensor."""

    def named(self, scope: Scope, i: int, value: Value) -> Value:
        """A value under an id."""

    def write(self, scope: Scope, region: Nested) -> None:
        """The items of a region."""

    def condition(self, scope: Scope, question: tuple[Any, ...]) -> Value:
        """A question as a 0-d bool."""

    def ids(self, outcome: Outcome) -> list[int]:
        """The ids that a statement makes."""

    def dtype(self, i: int) -> DType:
        """The element type of an id."""

    def outputs_of(
        self,
        scope: Scope,
        op: str,
        inputs: Sequence[Value | None],
        dtypes: Sequence[DType],
        **attributes: Any,
    ) -> list[Value]:
        """The results of a node, in these element types."""

    def results(self, scope: Scope, inner: Outcome, outer: Outcome) -> list[Value]:
        """The values that a region gives for the ids of the statement around."""

    def selected(self, scope: Scope, outcome: Outcome) -> Value:
        """The number of the target that a region leads to."""

    def nothing(self, i: int) -> Value:
        """A value that nobody reads."""

    def closed(self, scope: Scope, values: list[Value], name: str) -> GraphProto:
        """A graph with these results, of any sizes."""
