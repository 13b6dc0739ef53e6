"""torch.onnx: programs as ONNX models, and ONNX models as modules."""

import importlib

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


def __getattr__(name: str) -> object:
    """Names of PyTorch's first exporter; `symbolic_opset9` and its like are one module."""
    module = importlib.import_module("wend.onnx.symbolics")
    if name == "symbolic_helper" or name.startswith("symbolic_opset"):
        return module
    if name in module.__all__:
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
