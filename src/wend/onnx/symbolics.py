"""Names of PyTorch's first exporter, which wrote a graph op by op with functions of libraries.

Such functions can be defined and registered. Wend's exporter writes the ops that a program
computes with, and asks none.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

__all__ = [
    "OperatorExportTypes",
    "TensorProtoDataType",
    "TrainingMode",
    "parse_args",
    "quantized_args",
    "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]

#: Numbers of element types in ONNX files.
TensorProtoDataType = enum.IntEnum(
    "TensorProtoDataType",
    "UNDEFINED FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE UINT32 UINT64 "
    "COMPLEX64 COMPLEX128 BFLOAT16 FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ",
    start=0,
)
TrainingMode = enum.IntEnum("TrainingMode", "EVAL PRESERVE TRAINING", start=0)
OperatorExportTypes = enum.IntEnum(
    "OperatorExportTypes", "ONNX ONNX_ATEN ONNX_ATEN_FALLBACK ONNX_FALLTHROUGH", start=0
)
_registered: dict[tuple[str, int], Callable[..., Any]] = {}


def parse_args(*arg_descriptors: str) -> Callable[[Any], Any]:
    """A decorator that leaves the function unchanged."""
    return lambda function: function


def quantized_args(*arg_q_descriptors: bool, **unused: Any) -> Callable[[Any], Any]:
    """A decorator that leaves the function unchanged."""
    return lambda function: function


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Keep a function that would write an operator `namespace::name`."""
    _registered[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Forget a function that was registered."""
    _registered.pop((symbolic_name, opset_version), None)
