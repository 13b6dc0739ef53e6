"""Saving and loading, in PyTorch's own format both ways; safetensors in `.safetensors`."""

from wend.serialization._errors import CheckpointError, UnsafeName
from wend.serialization._load import get_unsafe_globals_in_checkpoint, load
from wend.serialization._names import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from wend.serialization._save import save

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
