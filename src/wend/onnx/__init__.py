"""torch.onnx: programs as ONNX models, and ONNX models as modules."""

from wend.onnx.exporting.export import OnnxExporterError, ONNXProgram, export
from wend.onnx.exporting.values import UnsupportedOperatorError
from wend.onnx.importing.loader import load

__all__ = [
    "ONNXProgram",
    "OnnxExporterError",
    "UnsupportedOperatorError",
    "export",
    "is_in_onnx_export",
    "load",
]


def is_in_onnx_export() -> bool:
    """False: a function runs as ever while it is exported."""
    return False
