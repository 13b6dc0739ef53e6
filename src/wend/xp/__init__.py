"""The array API 2024.12 (data-apis.org/array-api) over Wend's tensors.

`xp = x.__array_namespace__()`, or `wend.xp`. Functions have the standard's names, parameters,
defaults and promotion. Arrays are `wend.Tensor`: results are recorded and differentiated like all
others. Where the standard leaves a choice, PyTorch's behaviour decides.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

from wend._engine.base.dtypes import (
    bool_ as bool,
)
from wend._engine.base.dtypes import (
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from wend.xp._creation import *
from wend.xp._creation import __all__ as _creation
from wend.xp._data_types import *
from wend.xp._data_types import __all__ as _data_types
from wend.xp._elementwise import *
from wend.xp._elementwise import __all__ as _elementwise
from wend.xp._manipulation import *
from wend.xp._manipulation import __all__ as _manipulation
from wend.xp._searching import *
from wend.xp._searching import __all__ as _searching
from wend.xp._statistics import *
from wend.xp._statistics import __all__ as _statistics

e, inf, nan, pi = math.e, math.inf, math.nan, math.pi
newaxis = None
__array_api_version__ = "2024.12"

__all__ = [
    "__array_api_version__",
    "bool",
    "complex64",
    "complex128",
    "e",
    "fft",
    "float32",
    "float64",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "linalg",
    "nan",
    "newaxis",
    "pi",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    *_creation,
    *_data_types,
    *_elementwise,
    *_manipulation,
    *_searching,
    *_statistics,
]


def __getattr__(name: str) -> Any:
    if name in ("fft", "linalg"):
        return importlib.import_module(f"wend.xp.{name}")
    raise AttributeError(f"module 'wend.xp' has no attribute {name!r}")
