"""Writing ONNX models: a writer of graphs, which the rules of the ops' classes fill."""

from wend.onnx.exporting.values import UnsupportedOperatorError, Value
from wend.onnx.exporting.writer import GraphWriter

__all__ = ["GraphWriter", "UnsupportedOperatorError", "Value"]
