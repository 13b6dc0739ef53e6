"""wend.types: names for annotations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Any, Union

from wend._engine.base.devices import device as _device
from wend._engine.base.dtypes import DType as _dtype
from wend._engine.base.shapes import Size
from wend._engine.core._hot import Tensor
from wend._frontend.formats import layout as _layout
from wend._frontend.rare.symbols import SymBool, SymFloat, SymInt
from wend._frontend.storage import UntypedStorage as Storage

__all__ = ["Device", "FileLike", "Number", "Storage"]

_bool, _int, _float, _complex, _str, _bytes = bool, int, float, complex, str, bytes
_dtypes, _layouts = _dtype, _layout
_dispatchkey, _qscheme = str, Any
_Number = (int, float, bool)
_size = Union[Size, list[int], tuple[int, ...]]  # noqa: UP007 (a value, for programs that ask)
_symsize = Union[Size, Sequence[Union[int, SymInt]]]  # noqa: UP007
_TensorOrTensors = Union[Tensor, Sequence[Tensor]]  # noqa: UP007
_TensorOrTensorsOrGradEdge = Union[Tensor, Sequence[Any]]  # noqa: UP007
_TensorOrOptionalTensors = Union[Tensor, Sequence[Union[Tensor, None]]]  # noqa: UP007
Number = Union[int, float, bool]  # noqa: UP007
Device = Union[_device, str, int, None]  # noqa: UP007
FileLike = Union[str, os.PathLike[str], IO[bytes]]  # noqa: UP007
IntLikeType = Union[int, SymInt]  # noqa: UP007
FloatLikeType = Union[float, SymFloat]  # noqa: UP007
BoolLikeType = Union[bool, SymBool]  # noqa: UP007
PySymType = Union[SymInt, SymFloat, SymBool]  # noqa: UP007
py_sym_types: tuple[Any, ...] = (SymInt, SymFloat, SymBool)
