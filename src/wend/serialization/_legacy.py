"""The format that torch.save wrote before version 1.6: pickles, then the bytes of all storages.

Four pickles come first: a magic number, the version, facts about the machine, the object. A fifth
has the keys of storages in order. Per key follow a count of 8 bytes, and the data.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import sys
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from wend._engine.base.devices import CPU
from wend.serialization._archive import Source
from wend.serialization._errors import CheckpointError, short
from wend.serialization._storages import (
    Allowance,
    MapLocation,
    StorageKind,
    StoredData,
    TypedStorage,
    locator,
)

__all__ = ["is_legacy", "legacy_pickle", "read_legacy", "write_legacy"]

MAGIC = 0x1950A86A20F9469CFC6C
VERSION = 1001
#: The first pickle of such a file after its protocol: LONG1, magic, STOP.
_MAGIC_PICKLED = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_FACTS = {"short": 2, "int": 4, "long": 4}

#: (bytes of a pickle, what a persistent id means) -> the object
Run = Callable[[bytes, Callable[[Any], Any]], Any]


class _Bytes(io.RawIOBase):
    """The source as a file that can be read from a place on."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source, self.at = source, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self.source.size - self.at)
        buffer[:count] = self.source.read(self.at, count)
        self.at += count
        return count


class _Pickles:
    """The pickles of a file, one after the other; none is run."""

    def __init__(self, source: Source) -> None:
        self.source, self.at = source, 0
        self.file = io.BufferedReader(_Bytes(source))

    def next(self) -> bytes:
        """The bytes of the next pickle.  Raises CheckpointError if it does not end."""
        start = self.at
        try:
            for opcode, _, position in pickletools.genops(_Counting(self.file, self)):  # type: ignore[arg-type]
                del opcode, position
        except (ValueError, OverflowError, MemoryError) as error:
            raise CheckpointError(f"load: the file is damaged or truncated: {error}") from None
        return self.source.read(start, self.at - start)


class _Counting:
    """Reads for `genops`, and counts."""

    def __init__(self, file: IO[bytes], pickles: _Pickles) -> None:
        self.file, self.pickles = file, pickles

    def read(self, count: int) -> bytes:
        """At most so many bytes; no more than the file has."""
        chunk: bytes = self.file.read(min(count, self.pickles.source.size))
        self.pickles.at += len(chunk)
        return chunk

    def readline(self) -> bytes:
        """A line."""
        line: bytes = self.file.readline()
        self.pickles.at += len(line)
        return line

    def tell(self) -> int:
        """The place."""
        return self.pickles.at


class _Storages:
    """Storages by key: empty while the object is made, filled afterwards."""

    def __init__(self, source: Source, map_location: MapLocation) -> None:
        self.source = source
        self.locate = locator(map_location)
        self.allowance = Allowance(source.size)
        self.made: dict[str, tuple[np.ndarray[Any, Any], int, StoredData, int]] = {}

    def __call__(self, identity: object) -> TypedStorage:
        """identity: ('storage', kind, key, location, number of elements, None)."""
        if type(identity) is not tuple or len(identity) != 6 or identity[0] != "storage":
            raise CheckpointError("load: the pickle refers to something outside that is no storage")
        _, kind, key, location, count, part = identity
        known = type(kind) is StorageKind and type(key) is str and type(location) is str
        if not known or type(count) is not int or count < 0 or part is not None:
            raise CheckpointError("load: the pickle describes a storage that makes no sense")
        if key not in self.made:
            if count * kind.itemsize > self.source.size:
                raise CheckpointError(
                    f"load: storage {short(key)} should have {short(count)} elements of "
                    f"{kind.itemsize} bytes, which is more than the file holds"
                )
            data = np.zeros(count * kind.itemsize, dtype=np.uint8)
            stored = self.locate(StoredData(data, location, self.allowance), location)
            half = kind.dtype is not None and kind.dtype.is_complex
            self.made[key] = data, kind.itemsize, stored, kind.itemsize // (2 if half else 1)
        return TypedStorage(self.made[key][2], kind.dtype)

    def anew(self) -> bool:
        """Forget the tensors that have copies of the data; whether there are any."""
        away = [stored for _, _, stored, _ in self.made.values() if stored.device is not CPU]
        for stored in away:
            stored.first = None
        return bool(away)

    def fill(self, keys: object, at: int, swapped: bool) -> None:
        """Read the data of all keys, which begins at byte `at`."""
        if type(keys) is not list or set(self.made) - set(map(str, keys)):
            raise CheckpointError("load: the file does not hold all storages that it names")
        for key in keys:
            if key not in self.made:
                raise CheckpointError(f"load: the file holds a storage {short(key)} of no tensor")
            data, itemsize, _, width = self.made[key]
            count = int.from_bytes(self.source.read(at, 8), "little")
            if count * itemsize != data.nbytes:
                raise CheckpointError(
                    f"load: storage {short(key)} should have {data.nbytes} bytes, the file holds "
                    f"{count} elements of {itemsize} bytes for it"
                )
            read = self.source.array(at + 8, data.nbytes)
            data[:] = read.view(f"u{width}").byteswap().view("u1") if swapped else read
            at += 8 + data.nbytes


def is_legacy(file: IO[bytes]) -> bool:
    """Whether a file of this format begins at the present place."""
    start = file.tell()
    head = file.read(32)
    file.seek(start)
    return head[:1] == b"\x80" and _MAGIC_PICKLED in head


def legacy_pickle(source: Source) -> bytes:
    """The pickle of the object."""
    pickles = _Pickles(source)
    return [pickles.next() for _ in range(4)][3]


def read_legacy(source: Source, map_location: MapLocation, run: Run) -> Any:
    """The object in a file of this format.

    run: turns a pickle into the object that it describes
    Raises CheckpointError for damaged files.
    """
    pickles = _Pickles(source)

    def nothing(identity: object) -> Any:
        raise CheckpointError("load: the head of the file refers to a storage")

    magic, version, facts = (run(pickles.next(), nothing) for _ in range(3))
    if magic != MAGIC or version != VERSION:
        raise CheckpointError(f"load: the file has the unknown version {short(version)}")
    storages = _Storages(source, map_location)
    pickled = pickles.next()
    root = run(pickled, storages)
    keys = run(pickles.next(), nothing)
    little = facts.get("little_endian", True) if isinstance(facts, dict) else True
    storages.fill(keys, pickles.at, bool(little) != (sys.byteorder == "little"))
    # The data has come behind the object: on an accelerator are copies from before.
    return run(pickled, storages) if storages.anew() else root


def write_legacy(file: IO[bytes], protocol: int, pickled: bytes, storages: Any) -> None:
    """Write an object that is pickled already, and the storages that it refers to."""
    facts = {
        "protocol_version": VERSION,
        "little_endian": sys.byteorder == "little",
        "type_sizes": _FACTS,
    }
    for head in (MAGIC, VERSION, facts):
        pickle.dump(head, file, protocol=protocol)
    file.write(pickled)
    records = sorted(storages.counted())
    pickle.dump([key for key, _, _ in records], file, protocol=protocol)
    for _, count, data in records:
        file.write(count.to_bytes(8, "little"))
        file.write(data)
