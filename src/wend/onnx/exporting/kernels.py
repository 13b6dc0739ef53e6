"""Element types that onnxruntime's CPU kernels take, where these are fewer than ONNX allows.

A node of another type gets casts around it: to the next type of the same kind that is in the row.
Only float64 may become narrower, where there is no kernel of it.
"""

from __future__ import annotations

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType

__all__ = ["computed_in"]

_NAMES = {
    "b1": "bool",
    "u8": "uint8",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
}
_GROUPS = {
    "f32": "Acos Acosh Asin Asinh Atan Atanh AveragePool Celu Conv ConvTranspose Col2Im Cosh Elu"
    " Erf Gelu HardSigmoid InstanceNormalization LRN LeakyRelu LpPool PRelu Selu Sinh Softplus"
    " Softsign Tan ThresholdedRelu Mish HardSwish GroupNormalization"
    " LSTM GRU RNN",
    "f32 f64": "BatchNormalization Ceil Cos Exp Floor Gemm Log LogSoftmax Reciprocal Sigmoid Sin"
    " Softmax Sqrt Tanh",
    "f16 f32": "Attention",
    "f16 f32 f64": "Round RMSNormalization LayerNormalization IsNaN IsInf",
    "i32 i64 f32 f64": "CumSum Einsum MatMul Pow ReduceL1 ReduceL2 ReduceLogSumExp ReduceMean"
    " ReduceProd ReduceSum ReduceSumSquare",
    "b1 i32 i64 f32 f64": "Trilu",
    "i8 u8 i32 i64 f32 f64": "ArgMax ArgMin ReduceMax ReduceMin",
    "u8 i8 i16 i32 i64 f32 f64": "Abs Add Sub Mul Div Greater GreaterOrEqual Less LessOrEqual TopK",
    "i8 i16 i32 i64 f32 f64": "Neg",
    "u8 i8 i16 i32 i64 f16 f32 f64": "Mod Sign",
    "b1 u8 i8 i16 i32 i64 f32 f64": "Equal Tile",
    "u8 i8 i32 i64 f16 f32 f64": "Clip Max Min",
    "u8 i8 f32 f64": "MaxPool DepthToSpace",
    "i8 i32 f32 f64": "Relu",
    "u8 i8 i32 f32": "Resize",
    "u8 i8 i32 i64 f32 f64": "Where",
    "b1 u8 i32 i64 f32": "NonZero",
    "b1 u8 i8 i32 i64 f32 f64": "Pad",
    "b1 u8 i8 i16 i32 i64 f16 f32 f64": "Expand",
    "i16 i32 i64 f32 f64": "Range",
    "u8 i8 i16 i32 i64": "BitwiseAnd BitwiseOr BitwiseXor BitwiseNot",
}
_KERNELS: dict[str, frozenset[DType]] = {
    op: frozenset(dtypes.named(_NAMES[t]) for t in types.split())
    for types, ops in _GROUPS.items()
    for op in ops.split()
}
#: The types that an element type may become, the nearest first.
_WIDER: dict[DType, tuple[DType, ...]] = {
    dtypes.bool_: (dtypes.uint8, dtypes.int32, dtypes.int64),
    dtypes.uint8: (dtypes.int16, dtypes.int32, dtypes.int64),
    dtypes.int8: (dtypes.int16, dtypes.int32, dtypes.int64),
    dtypes.int16: (dtypes.int32, dtypes.int64),
    dtypes.int32: (dtypes.int64,),
    dtypes.int64: (),
    dtypes.float16: (dtypes.float32, dtypes.float64),
    dtypes.bfloat16: (dtypes.float32, dtypes.float64),
    dtypes.float32: (dtypes.float64,),
    dtypes.float64: (dtypes.float32,),
}


def computed_in(op: str, dtype: DType) -> DType | None:
    """The element type in which a node computes for operands of `dtype`; None if in none."""
    kernels = _KERNELS.get(op)
    if kernels is None or dtype in kernels:
        return dtype
    return next((wider for wider in _WIDER.get(dtype, ()) if wider in kernels), None)
