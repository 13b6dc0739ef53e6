"""Storages in a checkpoint: blocks of bytes that tensors are views of, and the devices."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wend._engine.base.devices import COUNTERS, CPU, META, count_of, device, usable
from wend._engine.base.dtypes import ABSENT, NAMES, DType
from wend._engine.base.errors import ArgumentTypeError, DeviceError
from wend.serialization._archive import ArchiveReader
from wend.serialization._errors import CheckpointError, short

__all__ = [
    "QUANTIZED_STORAGES",
    "STORAGE_NAMES",
    "Allowance",
    "MapLocation",
    "StorageKind",
    "StorageLoader",
    "StoredData",
    "TypedStorage",
    "locator",
]

MapLocation = Callable[[Any, str], Any] | Mapping[str, str] | str | device | None

# PyTorch's names of the typed storages: element types of tensors in a file.
STORAGE_NAMES = {
    "BoolStorage": NAMES["bool"],
    "ByteStorage": NAMES["uint8"],
    "CharStorage": NAMES["int8"],
    "ShortStorage": NAMES["int16"],
    "IntStorage": NAMES["int32"],
    "LongStorage": NAMES["int64"],
    "HalfStorage": NAMES["float16"],
    "BFloat16Storage": NAMES["bfloat16"],
    "FloatStorage": NAMES["float32"],
    "DoubleStorage": NAMES["float64"],
    "ComplexFloatStorage": NAMES["complex64"],
    "ComplexDoubleStorage": NAMES["complex128"],
}

#: The names of storages of quantised tensors: (element type in the file, that of the tensor).
QUANTIZED_STORAGES = {
    "QInt8Storage": (ABSENT["qint8"], NAMES["int8"]),
    "QUInt8Storage": (ABSENT["quint8"], NAMES["uint8"]),
    "QInt32Storage": (ABSENT["qint32"], NAMES["int32"]),
}


class StorageKind:
    """The meaning of a name such as `torch.FloatStorage`: an element type, or None for bytes."""

    def __init__(self, name: str, dtype: DType | None) -> None:
        self.name = name
        self.dtype = dtype

    @property
    def itemsize(self) -> int:
        return 1 if self.dtype is None else self.dtype.itemsize


class Allowance:
    """Bounds the bytes of all views of storages.

    A million views of a large storage, or an element expanded to a billion, would each be computed
    in full at some time.
    """

    BASE = 64 << 20
    PER_BYTE = 4

    def __init__(self, size: int) -> None:
        self.left = self.BASE + self.PER_BYTE * size

    def charge(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise CheckpointError(
                "load: the file's tensors are views that together are far larger than the file; "
                "save expanded tensors with .contiguous(), or without views"
            )


class StoredData:
    """A storage of a checkpoint, as a `map_location` function sees it.

    data: the bytes, a uint8 array.   location: the place when saved, such as 'cuda:0'.
    device: where the tensors go.
    first: the first tensor made of the storage; later tensors are views of `first`.
    """

    def __init__(
        self,
        data: np.ndarray[Any, Any],
        location: str,
        allowance: Allowance,
        swapped: bool = False,
    ) -> None:
        self.data = data
        self.location = location
        self.allowance = allowance
        self.swapped = swapped
        self.device = CPU
        self.first: Any = None

    def nbytes(self) -> int:
        return int(self.data.nbytes)

    def __len__(self) -> int:
        return int(self.data.nbytes)

    def cpu(self) -> StoredData:
        self.device = CPU
        return self

    def cuda(self, index: Any = None, non_blocking: bool = False) -> StoredData:
        return self._sent("cuda", index)

    def xpu(self, index: Any = None, non_blocking: bool = False) -> StoredData:
        return self._sent("xpu", index)

    def _sent(self, kind: str, index: Any) -> StoredData:
        if not count_of(kind):
            raise DeviceError(
                f"load: {kind} is not available; let map_location return the storage itself"
            )
        self.device = usable(index if isinstance(index, device) else device(kind, index), "load")
        return self

    def to(self, device: Any, non_blocking: bool = False) -> StoredData:
        self.device = usable(device, "load")
        return self

    def elements(self, dtype: DType) -> np.ndarray[Any, Any]:
        """The bytes as a 1-d array of `dtype`, in this machine's byte order."""
        data = self.data[: self.data.nbytes // dtype.itemsize * dtype.itemsize]
        if data.ctypes.data % dtype.itemsize:
            data = data.copy()
        if self.swapped and dtype.itemsize > 1:
            # The two halves of a complex number are swapped each for itself.
            width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
            data = data.view(f"u{width}").byteswap().view(np.uint8)
        return data.view(dtype.numpy)


class StorageLoader:
    """Finds the storage that a persistent id names; each record is read once.

    folder: of the archive, where the records lie
    """

    def __init__(
        self,
        archive: ArchiveReader,
        map_location: MapLocation,
        mapped: bool,
        folder: str = "data",
    ) -> None:
        self.archive = archive
        self.folder = folder
        self.locate = locator(map_location)
        self.reads = not is_meta(map_location)
        self.check = not mapped  # a checksum would read the whole mapped file
        order = (
            archive.read("byteorder").decode("ascii", "replace") if "byteorder" in archive else ""
        )
        if order not in ("", "little", "big"):
            raise CheckpointError(f"load: the file's byte order is {short(order)}")
        self.swapped = bool(order) and order != sys.byteorder
        self.allowance = Allowance(archive.source.size)
        self.loaded: dict[str, StoredData] = {}

    def __call__(self, identity: object) -> TypedStorage:
        """identity: ('storage', kind, key, location, number of elements)."""
        if type(identity) is not tuple or len(identity) != 5 or identity[0] != "storage":
            raise CheckpointError("load: the pickle refers to something outside that is no storage")
        _, kind, key, location, count = identity
        known = type(kind) is StorageKind and type(key) is str and type(location) is str
        if not known or type(count) is not int or count < 0:
            raise CheckpointError("load: the pickle describes a storage that makes no sense")
        name = f"{self.folder}/{key}"
        if name not in self.archive or count * kind.itemsize > self.archive.size(name):
            held = self.archive.size(name) if name in self.archive else "no"
            raise CheckpointError(
                f"load: storage {short(key)} should have {short(count)} elements of "
                f"{kind.itemsize} bytes, "
                f"the file holds {held} bytes for it"
            )
        stored = self.loaded.get(key)
        if stored is None:
            if self.reads:
                data = self.archive.array(name, self.check)
            else:  # an array of that size without memory
                data = np.broadcast_to(np.uint8(0), (self.archive.size(name),))
            stored = StoredData(data, location, self.allowance, self.swapped)
            stored = self.locate(stored, location)
            self.loaded[key] = stored
        return TypedStorage(stored, kind.dtype)


class TypedStorage:
    """A storage together with the element type under which a tensor refers to it."""

    __slots__ = ("dtype", "stored")

    def __init__(self, stored: StoredData, dtype: DType | None) -> None:
        self.stored = stored
        self.dtype = dtype

    def untyped(self) -> StoredData:
        return self.stored


def locator(map_location: MapLocation) -> Callable[[StoredData, str], StoredData]:
    """The function that decides where a storage goes."""
    if map_location is None:
        return _restore
    if isinstance(map_location, Mapping):
        return lambda stored, location: _restore(stored, map_location.get(location, location))
    if isinstance(map_location, (str, device)):
        if is_meta(map_location):
            return _without_data
        place = _target(str(map_location))
        return lambda stored, location: stored.to(place)
    if callable(map_location):
        return lambda stored, location: _called(map_location, stored, location)
    raise ArgumentTypeError(
        "load: map_location must be a device, a str, a dict or a function, "
        f"not {type(map_location).__name__}"
    )


def is_meta(map_location: MapLocation) -> bool:
    """Whether tensors are to have no data."""
    return isinstance(map_location, (str, device)) and device(map_location).type == "meta"


def _without_data(stored: StoredData, location: str) -> StoredData:
    stored.device = META
    return stored


def _called(function: Callable[[Any, str], Any], stored: StoredData, location: str) -> StoredData:
    result = function(stored, location)
    if result is None:
        return _restore(stored, location)
    if not isinstance(result, StoredData):
        raise ArgumentTypeError(
            f"load: the map_location function returned a {type(result).__name__}; "
            "it must return the storage, or None"
        )
    return result


def _restore(stored: StoredData, location: str) -> StoredData:
    return stored.to(place_in_file(location))


def place_in_file(location: str) -> device:
    """The device that a file names. Raises DeviceError if it is not there."""
    if location.startswith("cpu"):
        return CPU
    kind = location.partition(":")[0]
    if not count_of(kind):
        raise DeviceError(
            f"load: the file holds data of device {location!r}, and only {_at_hand()} available; "
            "pass map_location='cpu' to load it there"
        )
    return usable(location, "load")


def _target(target: str) -> device:
    place = device(target)  # a name that is no device raises
    if not count_of(place.type):
        raise DeviceError(f"load: map_location is {target!r}, and only {_at_hand()} available")
    return CPU if place.type == "cpu" else usable(place, "load")


def _at_hand() -> str:
    kinds = ["cpu", *(kind for kind in COUNTERS if count_of(kind))]
    return " and ".join(map(repr, kinds)) + (" is" if len(kinds) == 1 else " are")
