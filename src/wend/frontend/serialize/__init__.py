"""Saving and loading, in PyTorch's own format both ways; safetensors in `.safetensors`."""

from wend.frontend.serialize.errors import CheckpointError, UnsafeName
from wend.frontend.serialize.load import get_unsafe_globals_in_checkpoint, load
from wend.frontend.serialize.names import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from wend.frontend.serialize.save import atomic_file, save

__all__ = [
    "CheckpointError",
    "UnsafeName",
    "add_safe_globals",
    "atomic_file",
    "clear_safe_globals",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "safe_globals",
    "save",
]
