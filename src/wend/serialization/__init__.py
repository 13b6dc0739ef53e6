"""Saving and loading, in PyTorch's own format both ways; safetensors in `.safetensors`."""

from collections.abc import Callable
from typing import Any, TypeAlias

from wend.base.devices import device
from wend.serialization._errors import CheckpointError, UnsafeName
from wend.serialization._load import get_unsafe_globals_in_checkpoint, load
from wend.serialization._names import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from wend.serialization._save import save

#: The argument `map_location` of `load`.
MAP_LOCATION: TypeAlias = Callable[[Any, str], Any] | device | str | dict[str, str] | None

__all__ = [
    "CheckpointError",
    "UnsafeName",
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "safe_globals",
    "save",
]
