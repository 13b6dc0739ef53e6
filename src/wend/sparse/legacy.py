"""`torch.sparse.FloatTensor(indices, values, size)` and its siblings."""

from __future__ import annotations

from typing import Any

from wend._engine.base.dtypes import NAMES, DType
from wend._engine.base.errors import ArgumentTypeError
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.creation import sizes_of
from wend.sparse.creation import sparse_coo_tensor
from wend.sparse.tensor import SparseTensor, empty

__all__ = [
    "BFloat16Tensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
]


class SparseConstructor(type):
    """The metaclass of `FloatTensor` and its siblings: calls make sparse tensors."""

    dtype: DType
    is_cuda = False

    def __call__(cls, *args: Any, device: object = None) -> SparseTensor:
        name = f"sparse.{cls.__name__}"
        if args and isinstance(args[0], Tensor) and not isinstance(args[0], SparseTensor):
            if len(args) > 1 and args[1].dtype is not cls.dtype:
                raise ArgumentTypeError(
                    f"{name}: expected values of {cls.dtype} and got {args[1].dtype}"
                )
            tensor = sparse_coo_tensor(*args, device=device)
            return tensor.detach()
        extents = sizes_of(name, args) if args else (0,)
        return empty(extents, len(extents), ops.full((0,), 0, dtype=cls.dtype))

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, SparseTensor) and instance.dtype is cls.dtype

    def __repr__(cls) -> str:
        return f"<class 'torch.sparse.{cls.__name__}'>"


def _constructor(name: str, dtype_name: str) -> SparseConstructor:
    dtype = NAMES[dtype_name]
    members = {
        "__doc__": f"Sparse tensors of {dtype}: {name}(indices, values, size), {name}(2, 3).",
        "__module__": "wend.sparse",
        "dtype": dtype,
    }
    return SparseConstructor(name, (), members)


FloatTensor = _constructor("FloatTensor", "float32")
DoubleTensor = _constructor("DoubleTensor", "float64")
HalfTensor = _constructor("HalfTensor", "float16")
BFloat16Tensor = _constructor("BFloat16Tensor", "bfloat16")
ByteTensor = _constructor("ByteTensor", "uint8")
CharTensor = _constructor("CharTensor", "int8")
ShortTensor = _constructor("ShortTensor", "int16")
IntTensor = _constructor("IntTensor", "int32")
LongTensor = _constructor("LongTensor", "int64")
