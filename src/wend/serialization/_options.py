"""Settings of PyTorch's serialization, kept for programs that ask for them."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from wend._engine.base.errors import NotImplementedInWend
from wend.serialization._storages import StoredData, place_in_file

__all__ = [
    "LoadEndianness",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "location_tag",
    "register_package",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
]


class LoadEndianness(Enum):
    """The byte order of files that do not tell."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_SET: dict[str, Any] = {"endianness": None, "crc32": True, "mmap": 2}


def get_default_load_endianness() -> LoadEndianness | None:
    """The byte order of files that do not tell; None as long as nobody has set it."""
    order: LoadEndianness | None = _SET["endianness"]
    return order


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Note a byte order; Wend takes files that do not tell as the machine's."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _SET["endianness"] = endianness


def get_crc32_options() -> bool:
    """Whether checksums are asked for."""
    return bool(_SET["crc32"])


def set_crc32_options(compute_crc32: bool) -> None:
    """Note a wish; Wend always writes checksums."""
    _SET["crc32"] = compute_crc32


def get_default_mmap_options() -> int | None:
    """The flags of mapped files: MAP_PRIVATE."""
    flags: int | None = _SET["mmap"]
    return flags


class set_default_mmap_options:
    """Set the flags of mapped files, also as a block; Wend maps files privately."""

    def __init__(self, flags: int) -> None:
        if flags not in (1, 2):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE "
                f"or mmap.MAP_SHARED, but got {flags}"
            )
        self.before, _SET["mmap"] = _SET["mmap"], flags

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        _SET["mmap"] = self.before


class skip_data:
    """Raises NotImplementedInWend: files are written with their data."""

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        raise NotImplementedInWend("skip_data: Wend writes files with their data; use save")


def location_tag(storage: object) -> str:
    """The name of the device on which the data is."""
    return str(getattr(storage, "device", "cpu"))


def default_restore_location(storage: object, location: str) -> Any:
    """The storage itself.  Raises DeviceError for the location of a missing device."""
    place = place_in_file(str(location))
    return storage.to(place) if isinstance(storage, StoredData) else storage


_PACKAGES: list[tuple[int, Callable[..., Any], Callable[..., Any]]] = []


def register_package(
    priority: int, tagger: Callable[..., Any], deserializer: Callable[..., Any]
) -> None:
    """Note functions for data of another device, of which there is none here."""
    _PACKAGES.append((priority, tagger, deserializer))
