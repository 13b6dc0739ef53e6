"""Casts of a call's inputs and results."""

from __future__ import annotations

from copy import copy
from typing import Any

from wend._engine.base.dtypes import DType
from wend._frontend.toolkit import Tensor

__all__ = ["cast_tensors"]


def cast_tensors(value: object, dtype: DType) -> Any:
    """Floating-point tensors in nested lists, tuples and dicts, in another type.

    Lists, tuples and dicts keep their classes: an OrderedDict stays so, and a defaultdict.
    """
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        mapping = copy(value)
        for key, item in value.items():
            mapping[key] = cast_tensors(item, dtype)
        return mapping
    if isinstance(value, (list, tuple)):
        items = [cast_tensors(item, dtype) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
