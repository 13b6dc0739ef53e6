"""Saving and loading: PyTorch's `torch.serialization`."""

from wend.frontend.serialize import (
    CheckpointError,
    UnsafeName,
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    get_unsafe_globals_in_checkpoint,
    load,
    safe_globals,
    save,
)

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
