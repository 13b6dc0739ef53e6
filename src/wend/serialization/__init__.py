"""Saving and loading, in PyTorch's own format both ways; safetensors in `.safetensors`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from wend._engine.base.devices import device
from wend.serialization._errors import CheckpointError, UnsafeName
from wend.serialization._load import get_unsafe_globals_in_checkpoint, load
from wend.serialization._names import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from wend.serialization._options import (
    LoadEndianness,
    default_restore_location,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    location_tag,
    register_package,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
)
from wend.serialization._save import save

if TYPE_CHECKING:  # modules that are names of the package too
    from wend.serialization import safetensors as safetensors

#: The argument `map_location` of `load`.
MAP_LOCATION: TypeAlias = Callable[[Any, str], Any] | device | str | dict[str, str] | None

__all__ = [
    "CheckpointError",
    "LoadEndianness",
    "UnsafeName",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
]
