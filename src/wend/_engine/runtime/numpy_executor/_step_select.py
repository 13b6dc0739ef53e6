"""Chooses between the compiled and the uncompiled steps; the latter get their C helpers here."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from wend._engine.core import _hot
from wend._engine.core._select import is_compiled, load_above, load_plain
from wend._engine.runtime.donation import WORTH

_NAME = "wend._engine.runtime.numpy_executor._step"


def large(array: Any) -> bool:
    """Return whether a search for memory that can take the result pays."""
    return bool(array.nbytes >= WORTH)


def is_of(array: Any, dtype: np.dtype[Any]) -> bool:
    """Return whether a result is an array of this very dtype."""
    return type(array) is np.ndarray and array.dtype is dtype


STAND_INS = {"large": large, "is_of": is_of, "set_arrays": lambda cls, nbytes, worth: None}


def select() -> ModuleType:
    """Return the steps of this process, registered under their full name."""
    module = load_above(_NAME, (_hot,), STAND_INS)
    if is_compiled(module):
        module.use_arrays(np.ndarray, WORTH)
        if not _reads_arrays(module):
            return load_plain(_NAME, STAND_INS)
    return module


def _reads_arrays(module: ModuleType) -> bool:
    """Return whether the compiled steps see of arrays what NumPy says of them."""
    shapes = ((3, 4), (), (0, WORTH), (WORTH // 16 - 1,), (WORTH // 16,), (2, WORTH // 16))
    for dtype in (np.dtype(np.float64), np.dtype(np.complex128), np.dtype(np.bool_)):
        for array in (np.empty(shape, dtype) for shape in shapes):
            if module.kind_of(array, dtype) != (large(array), True):
                return False
    return not module.kind_of(np.empty(3), np.dtype(np.float32))[1]
