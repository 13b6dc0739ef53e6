"""The questions that an `onnx` rule may ask the writer of an ONNX graph.

    def onnx(self, g, x):
        return g.node("Tanh", x)

A rule gets the parameters of the call as `infer` gets them: tensors as values, sizes as ints or
extents (`SymInt`), run-time numbers as Python numbers or symbols. It returns a value, or a tuple of
values, and must hold for all sizes: extents are compared as `infer` compares them, or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from wend._engine.base.dtypes import DType

Value = Any  # a tensor of the graph, with `dtype` and, for operands, `shape`
Size = Any  # an int, or a SymInt


class OnnxBuilder(Protocol):
    """The scope of a graph that a rule writes to."""

    # fmt: off
    opset: int          # the version of the operators, 18 to 24
    out: list[Any]      # the Specs of the op's results
    elements: Any       # the builder of elementwise formulas (`ops/builder.py`)

    # a node; casts go around it where runtimes have no kernel for the type of the first input
    # dtype: of the first result, by default that of the first input; further results are int64
    def node(self, op: str, *inputs: Value | None, dtype: DType | None = None, outputs: int = 1,
             **attributes: Any) -> Any: ...
    def runs(self, op: str, dtype: DType) -> bool: ...           # whether without such casts
    def cast(self, x: Value, dtype: DType) -> Value: ...         # C's rules; to bool: x != 0
    def constant(self, value: Any, dtype: DType) -> Value: ...   # a number or an array
    def number(self, n: Any, dtype: DType) -> Value: ...         # a number of the call, as 0-d
    def sizes(self, sizes: Sequence[Size]) -> Value: ...         # 1-D, of int64
    def size(self, n: Size) -> Value: ...                        # 0-d, of int64
    def shape_of(self, x: Value) -> Value: ...                   # 1-D, of int64
    def reshape(self, x: Value, shape: Sequence[Size]) -> Value: ...
    def with_axes(  # Unsqueeze or Squeeze, which gives this shape
        self, op: str, x: Value, axes: Sequence[int], shape: Sequence[Size]) -> Value: ...
    def fixed(self, n: Size) -> int | None: ...                  # None if sizes change it

    # parts that several rules need; `shaped` and `retyped` say the facts that a rule knows
    def shaped(self, x: Value, shape: Sequence[Size]) -> Value: ...
    def retyped(self, x: Value, dtype: DType) -> Value: ...
    def transpose(self, x: Value, order: Sequence[int]) -> Value: ...
    def expand(self, x: Value, shape: Sequence[Size]) -> Value: ...
    def arange(self, count: Size) -> Value: ...
    def slice(self, x: Value, dim: int, start: Any, end: Any, step: Size) -> Value: ...
    def corner(self, x: Value, shape: Sequence[Size]) -> Value: ...  # the first, per dim
    def scatter(self, x: Value, at: Value, src: Value, dim: int, how: str = "none") -> Value: ...
    def scan(self, step: Any, start: Value, sequences: Sequence[Value], dim: int) -> Value: ...
    def unsupported(self, reason: str, remedy: str = "") -> Exception: ...  # to be raised
    # fmt: on
