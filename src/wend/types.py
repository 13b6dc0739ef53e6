# ruff: noqa: F401
"""torch.types: names for annotations."""

import os as _os
from builtins import bool as _bool
from builtins import bytes as _bytes
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from wend.base.devices import device as _device
from wend.base.dtypes import DType as _dtype
from wend.base.shapes import Size
from wend.core._hot import Tensor
from wend.frontend.formats import layout as _layout
from wend.frontend.storage import TypedStorage, UntypedStorage

__all__ = ["Device", "FileLike", "IntLikeType", "Number", "Storage"]

_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrTensorsOrGradEdge: TypeAlias = _TensorOrTensors | Any
_size: TypeAlias = Size | list[_int] | tuple[_int, ...]
_symsize: TypeAlias = _size
_dispatchkey: TypeAlias = _str
_qscheme: TypeAlias = Any

IntLikeType: TypeAlias = _int
FloatLikeType: TypeAlias = _float
BoolLikeType: TypeAlias = _bool
py_sym_types: tuple[type, ...] = ()
PySymType: TypeAlias = Any
Number: TypeAlias = _int | _float | _bool
Device: TypeAlias = _device | _str | _int | None
FileLike: TypeAlias = _str | _os.PathLike[_str] | IO[_bytes]
Storage: TypeAlias = TypedStorage | UntypedStorage
