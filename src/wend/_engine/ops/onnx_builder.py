"""The questions that an `onnx` rule may ask the writer of an ONNX graph.

    def onnx(self, g, x):
        return g.node("Tanh", x)

A rule gets the parameters of the call as `infer` gets them: tensors as values, sizes as ints or
extents (`SymInt`), run-time numbers as Python numbers or symbols. It returns a value, or a tuple of
values, and must hold for all sizes: extents are compared as `infer` compares them, or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, overload

from wend._engine.base.dtypes import DType
from wend._engine.core.symbolic import SymInt

Size: TypeAlias = int | SymInt


class OnnxValue(Protocol):
    """A tensor of the graph; of operands, the shape is known too."""

    dtype: DType

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents, ints or SymInts."""

    @property
    def rank(self) -> int:
        """The number of dims."""


class OnnxBuilder(Protocol):
    """The scope of a graph that a rule writes to."""

    # fmt: off
    opset: int          # the version of the operators, 18 to 24
    out: list[Any]      # the Specs of the op's results
    elements: Any       # the builder of elementwise formulas (`ops/builder.py`)

    # a node; casts go around it where runtimes have no kernel for the type of the first input
    # dtype: of the first result, by default that of the first input; further results are int64
    @overload
    def node(self, op: str, *inputs: OnnxValue | None, outputs: int, dtype: DType | None = None,
             **attributes: Any) -> list[OnnxValue]: ...
    @overload
    def node(self, op: str, *inputs: OnnxValue | None, dtype: DType | None = None,
             **attributes: Any) -> OnnxValue: ...
    def runs(self, op: str, dtype: DType) -> bool: ...            # whether without such casts
    def cast(self, x: OnnxValue, dtype: DType) -> OnnxValue: ...  # C's rules; to bool: x != 0
    def constant(self, value: Any, dtype: DType) -> OnnxValue: ...  # a number or an array
    def number(self, n: Any, dtype: DType) -> OnnxValue: ...      # a number of the call, as 0-d
    def sizes(self, sizes: Sequence[Size]) -> OnnxValue: ...         # 1-D, of int64
    def size(self, n: Size) -> OnnxValue: ...                        # 0-d, of int64
    def shape_of(self, x: OnnxValue) -> OnnxValue: ...            # 1-D, of int64
    def reshape(self, x: OnnxValue, shape: Sequence[Size]) -> OnnxValue: ...
    def with_axes(  # Unsqueeze or Squeeze, which gives this shape
        self, op: str, x: OnnxValue, axes: Sequence[int], shape: Sequence[Size]) -> OnnxValue: ...
    def fixed(self, n: Size) -> int | None: ...                   # None if sizes change it

    # parts that several rules need; `shaped` and `retyped` say the facts that a rule knows
    def shaped(self, x: OnnxValue, shape: Sequence[Size]) -> OnnxValue: ...
    def retyped(self, x: OnnxValue, dtype: DType) -> OnnxValue: ...
    def transpose(self, x: OnnxValue, order: Sequence[int]) -> OnnxValue: ...
    def expand(self, x: OnnxValue, shape: Sequence[Size]) -> OnnxValue: ...
    def arange(self, count: Size) -> OnnxValue: ...
    def slice(self, x: OnnxValue, dim: int, start: Any, end: Any, step: Size) -> OnnxValue: ...
    def corner(self, x: OnnxValue, shape: Sequence[Size]) -> OnnxValue: ...  # the first, per dim
    def scatter(self, x: OnnxValue, at: OnnxValue, src: OnnxValue, dim: int,
                how: str = "none") -> OnnxValue: ...
    def scan(self, step: Any, start: OnnxValue, sequences: Sequence[OnnxValue],
             dim: int) -> OnnxValue: ...
    def unsupported(self, reason: str, remedy: str = "") -> Exception: ...  # to be raised
    # fmt: on
