"""The container of a checkpoint: a ZIP file of uncompressed records, read with distrust.

A record's bytes lie in the file unchanged, so no record can be larger than the file. The reader
believes nothing. Every count and offset is compared with the file's size before use. Records may
not overlap (else a small file could ask for its own bytes a million times). Names may not repeat,
and compressed or encrypted records are refused.

Layout, little-endian:  (local header, name, extra, data)*  directory  [zip64 end]  end.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from collections.abc import Iterator
from typing import IO, Any, NamedTuple, Protocol

import numpy as np

from wend.serialization._errors import CheckpointError, short

__all__ = ["ArchiveReader", "ArchiveWriter", "FileSource", "Source", "looks_like_zip"]

LOCAL = struct.Struct("<4s5H3I2H")  # signature .. name length, extra length
CENTRAL = struct.Struct("<4s6H3I5H2I")
END = struct.Struct("<4s4H2IH")
END64 = struct.Struct("<4sQ2H2I4Q")
LOCATOR64 = struct.Struct("<4sIQI")
LOCAL_SIGNATURE, CENTRAL_SIGNATURE, END_SIGNATURE = b"PK\3\4", b"PK\1\2", b"PK\5\6"
END64_SIGNATURE, LOCATOR64_SIGNATURE = b"PK\6\6", b"PK\6\7"

MAX_COMMENT = 0xFFFF
FULL16, FULL32 = 0xFFFF, 0xFFFFFFFF  # "see the zip64 field instead"
ALIGNMENT = 64  # of a record's data in the file, so that a mapped file can be used in place
DEFLATED = 8  # the method of compression
CHUNK = 1 << 24  # bytes handed to write() at once


class Source(Protocol):
    """Where an archive lies: a size, and bytes at an offset."""

    size: int

    def read(self, offset: int, count: int) -> bytes: ...
    def array(self, offset: int, count: int) -> np.ndarray[Any, Any]: ...


class FileSource:
    """A seekable binary file (or BytesIO), from the present position to the end."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.start = file.tell()
        self.size = file.seek(0, os.SEEK_END) - self.start
        file.seek(self.start)

    def read(self, offset: int, count: int) -> bytes:
        """Exactly `count` bytes. Raises CheckpointError if the file is shorter."""
        self.file.seek(self.start + offset)
        data = self.file.read(count)
        if len(data) != count:
            raise CheckpointError(
                f"load: the file ends at byte {offset + len(data)}, {count} bytes were expected "
                f"at byte {offset}; it is truncated"
            )
        return data

    def array(self, offset: int, count: int) -> np.ndarray[Any, Any]:
        """`count` bytes as a fresh uint8 array. The caller has compared `count` with `size`."""
        array = np.empty(count, dtype=np.uint8)
        view = memoryview(array)  # type: ignore[arg-type]
        self.file.seek(self.start + offset)
        done = 0
        while done < count:
            got = self._read_into(view[done : done + CHUNK])
            if not got:
                raise CheckpointError(
                    f"load: the file ends inside a record, at byte {offset + done}; it is truncated"
                )
            done += got
        return array

    def _read_into(self, view: memoryview) -> int:
        readinto = getattr(self.file, "readinto", None)
        if readinto is not None:
            return int(readinto(view) or 0)
        data = self.file.read(len(view))
        view[: len(data)] = data
        return len(data)


class MappedSource:
    """A file mapped copy-on-write: writes stay in memory, pages load when read."""

    def __init__(self, file: IO[bytes]) -> None:
        self.size = os.fstat(file.fileno()).st_size
        # Mapping an empty file fails with a message about mmap; the reader has a better message.
        self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if self.size else b""

    def read(self, offset: int, count: int) -> bytes:
        return bytes(self.map[offset : offset + count])

    def array(self, offset: int, count: int) -> np.ndarray[Any, Any]:
        return np.frombuffer(self.map, dtype=np.uint8, count=count, offset=offset)


def looks_like_zip(head: bytes) -> bool:
    """Whether a file that starts with these four bytes is meant to be a ZIP archive."""
    return head.startswith((LOCAL_SIGNATURE, END_SIGNATURE))


class Entry(NamedTuple):
    """A record as the directory lists it: offset of the local header, sizes, checksum."""

    name: str
    offset: int
    size: int
    packed: int
    deflated: bool
    crc: int


class Record(NamedTuple):
    """A record: offset of the local header, sizes of the data, checksum, bound of the end.

    packed: bytes in the file
    """

    offset: int
    size: int
    packed: int
    deflated: bool
    crc: int
    limit: int


class ArchiveReader:
    """The records of an archive. `names()` lists them without the leading folder.

    inflates: bytes that compressed records may hold together; by default none may be compressed
    Raises CheckpointError for anything but a well-formed archive.
    """

    def __init__(self, source: Source, inflates: int = 0) -> None:
        self.source = source
        self._inflates = inflates
        offset, size, count = _directory(source)
        entries = _entries(source.read(offset, size), count, inflates > 0)
        self._records = _without_overlap(entries, offset)
        if not self._records:
            raise CheckpointError("load: the archive has no records")
        first = next(iter(self._records))
        self.folder = first.split("/", 1)[0] + "/" if "/" in first else ""

    def names(self) -> list[str]:
        return [name[len(self.folder) :] for name in self._records if name.startswith(self.folder)]

    def __contains__(self, name: str) -> bool:
        return self.folder + name in self._records

    def size(self, name: str) -> int:
        """Bytes in a record. Raises CheckpointError if there is no such record."""
        return self._record(name).size

    def read(self, name: str) -> bytes:
        """A record's bytes, checked against the checksum."""
        record = self._record(name)
        data = self.source.read(self._data_offset(name, record), record.packed)
        if record.deflated:
            data = self._inflated(name, record, data)
        self._check(name, record, data)
        return data

    def _inflated(self, name: str, record: Record, data: bytes) -> bytes:
        """The content of a compressed record, never longer than the directory says."""
        self._inflates -= record.size
        if self._inflates < 0:
            raise CheckpointError(f"load: record {short(name)} is larger than code may be")
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            content = inflater.decompress(data, record.size + 1)
        except zlib.error as error:
            raise CheckpointError(f"load: record {short(name)} is corrupt: {error}") from error
        if len(content) != record.size:
            raise CheckpointError(f"load: record {short(name)} has another size than it says")
        return content

    def array(self, name: str, check: bool = True) -> np.ndarray[Any, Any]:
        """A record's bytes as a writable uint8 array; `check` compares the checksum."""
        record = self._record(name)
        if record.deflated:
            return np.frombuffer(bytearray(self.read(name)), dtype=np.uint8)
        array = self.source.array(self._data_offset(name, record), record.size)
        if check:
            self._check(name, record, array)
        return array

    def _record(self, name: str) -> Record:
        record = self._records.get(self.folder + name)
        if record is None:
            raise CheckpointError(
                f"load: the archive has no record {short(name)}; it is incomplete"
            )
        return record

    def _data_offset(self, name: str, record: Record) -> int:
        header = LOCAL.unpack(self.source.read(record.offset, LOCAL.size))
        signature, name_length, extra_length = header[0], header[9], header[10]
        stored = self.source.read(record.offset + LOCAL.size, name_length)
        start = record.offset + LOCAL.size + name_length + extra_length
        if signature != LOCAL_SIGNATURE or stored != (self.folder + name).encode():
            raise CheckpointError(
                f"load: the archive's directory and record {short(name)} disagree"
            )
        if start + record.packed > record.limit:
            raise CheckpointError(f"load: record {short(name)} reaches into the next one")
        return start

    def _check(self, name: str, record: Record, data: Any) -> None:
        # PyTorch can be told to skip checksums, and writes 0 then.
        if record.crc and zlib.crc32(data) != record.crc:
            raise CheckpointError(
                f"load: record {short(name)} is corrupt: its checksum does not match"
            )


def _directory(source: Source) -> tuple[int, int, int]:
    """(offset, size, number of entries) of the archive's directory."""
    tail_size = min(source.size, END.size + MAX_COMMENT)
    tail = source.read(source.size - tail_size, tail_size)
    at = tail.rfind(END_SIGNATURE)
    # The comment's length must lead exactly to the end, else the signature is part of a comment.
    while at >= 0 and not _ends_file(tail, at):
        at = tail.rfind(END_SIGNATURE, 0, at)
    if at < 0:
        raise CheckpointError(
            f"load: no end of archive found in {source.size} bytes; the file is truncated "
            "(an interrupted download or save) or is not a checkpoint"
        )
    end_offset = source.size - tail_size + at
    _, disk, start_disk, here, count, size, offset, _ = END.unpack_from(tail, at)
    if FULL16 in (here, count) or FULL32 in (size, offset):
        end_offset, here, count, size, offset = _zip64_directory(source, end_offset)
    if disk != start_disk or here != count:
        raise CheckpointError("load: the archive is one part of several")
    if offset + size > end_offset or count * CENTRAL.size > size:
        raise CheckpointError("load: the archive's directory does not fit into the file")
    return offset, size, count


def _ends_file(tail: bytes, at: int) -> bool:
    if at + END.size > len(tail):
        return False
    return at + END.size + int(END.unpack_from(tail, at)[-1]) == len(tail)


def _zip64_directory(source: Source, end_offset: int) -> tuple[int, int, int, int, int]:
    locator_offset = end_offset - LOCATOR64.size
    if locator_offset < 0:
        raise CheckpointError("load: the archive lacks the locator of its zip64 directory")
    locator = LOCATOR64.unpack(source.read(locator_offset, LOCATOR64.size))
    if locator[0] != LOCATOR64_SIGNATURE or locator[2] + END64.size > locator_offset:
        raise CheckpointError("load: the locator of the archive's zip64 directory is wrong")
    end = END64.unpack(source.read(locator[2], END64.size))
    if end[0] != END64_SIGNATURE:
        raise CheckpointError("load: the archive's zip64 directory is not where it should be")
    here, count, size, offset = end[6:]
    return locator[2], here, count, size, offset


def _entries(directory: bytes, count: int, inflates: bool) -> Iterator[Entry]:
    """Each entry of the directory."""
    at = 0
    for _ in range(count):
        if at + CENTRAL.size > len(directory):
            raise CheckpointError("load: the archive's directory is cut short")
        entry = CENTRAL.unpack_from(directory, at)
        signature, flags, method, crc, packed, size = entry[0], *entry[3:5], *entry[7:10]
        name_length, extra_length, comment_length, offset = *entry[10:13], entry[16]
        start = at + CENTRAL.size
        at = start + name_length + extra_length + comment_length
        if signature != CENTRAL_SIGNATURE or at > len(directory):
            raise CheckpointError("load: the archive's directory is damaged")
        name = _decoded(directory[start : start + name_length])
        extra = directory[start + name_length : start + name_length + extra_length]
        size, packed, offset = _wide_fields(name, extra, size, packed, offset)
        deflated = method == DEFLATED and inflates
        if not deflated and (method != 0 or packed != size):
            check_kind(directory)
            raise CheckpointError(
                f"load: record {short(name)} is compressed; Wend reads stored records only, "
                "so that a small file cannot grow in memory. Pack the archive without compression"
            )
        if flags & 1:
            raise CheckpointError(f"load: record {short(name)} is encrypted")
        yield Entry(name, offset, size, packed, deflated, crc)


#: Archives that PyTorch writes otherwise than by `torch.save`: a record that only these have, their
#: kind, and the remedy.
_OTHER_KINDS = (
    (
        b"/constants.pkl",
        "a TorchScript archive (torch.jit.save): read it with torch.jit.load",
    ),
    (
        b"/archive_format",
        "a program of PyTorch's torch.export (.pt2), which Wend does not read; in PyTorch save its "
        "state_dict with torch.save, or export the model as ONNX, and load that with "
        "torch.onnx.load",
    ),
)


def check_kind(directory: bytes) -> None:
    """Raise CheckpointError, with the kind, for an archive that `torch.save` has not written.

    directory: the names of all records
    """
    for record, what in _OTHER_KINDS:
        if record in directory:
            raise CheckpointError(f"load: the file is {what}")


def _decoded(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise CheckpointError(f"load: a record's name is not UTF-8: {short(name)}") from None


def _wide_fields(
    name: str, extra: bytes, size: int, packed: int, offset: int
) -> tuple[int, int, int]:
    """The three fields, those that did not fit 32 bits taken from the zip64 extra field."""
    fields = [size, packed, offset]
    wide = [i for i, field in enumerate(fields) if field == FULL32]
    if not wide:
        return size, packed, offset
    at = 0
    while at + 4 <= len(extra):
        tag, length = struct.unpack_from("<2H", extra, at)
        if tag == 1 and length >= 8 * len(wide) and at + 4 + length <= len(extra):
            values = struct.unpack_from(f"<{len(wide)}Q", extra, at + 4)
            for i, value in zip(wide, values, strict=True):
                fields[i] = value
            return fields[0], fields[1], fields[2]
        at += 4 + length
    raise CheckpointError(f"load: record {short(name)} lacks its zip64 sizes")


def _without_overlap(entries: Iterator[Entry], directory_offset: int) -> dict[str, Record]:
    """The records by name, in the directory's order, each with the offset where the next begins."""
    listed = list(entries)
    by_offset = sorted(range(len(listed)), key=lambda i: listed[i].offset)
    limits = [0] * len(listed)
    limit = directory_offset
    for i in reversed(by_offset):
        name, offset, _, packed, *_ = listed[i]
        limits[i] = limit
        if offset + LOCAL.size + len(name.encode()) + packed > limit:
            raise CheckpointError(
                f"load: record {short(name)} ({packed} bytes at byte {offset}) reaches beyond byte "
                f"{limit}, where the next one begins; the file is truncated or damaged"
            )
        limit = offset
    records: dict[str, Record] = {}
    for entry, limit in zip(listed, limits, strict=True):
        name, offset, size, packed, deflated, crc = entry
        if name in records:
            raise CheckpointError(f"load: the archive has two records named {short(name)}")
        records[name] = Record(offset, size, packed, deflated, crc, limit)
    return records


class ArchiveWriter:
    """Writes stored records in a row; needs nothing of the file but `write`."""

    def __init__(self, file: IO[bytes], folder: str) -> None:
        self.file = file
        self.folder = folder
        self.offset = 0
        self._directory: list[bytes] = []

    def add(self, name: str, data: bytes | memoryview) -> None:
        """Append a record. data: bytes, or a C-contiguous memoryview."""
        view = memoryview(data).cast("B")
        path, size, crc = (self.folder + "/" + name).encode(), len(view), zlib.crc32(view)
        start = self.offset
        wide = struct.pack("<2H2Q", 1, 16, size, size) if size >= FULL32 else b""
        extra = wide + _padding(start + LOCAL.size + len(path) + len(wide))
        short = min(size, FULL32)
        version, flags = (45 if wide else 20), 0x800  # the flag says that names are UTF-8
        fields = (version, flags, 0, 0, 0x21, crc, short, short)  # 0x21: 1 January 1980
        self._write(LOCAL.pack(LOCAL_SIGNATURE, *fields, len(path), len(extra)) + path + extra)
        for at in range(0, size, CHUNK):
            self._write(view[at : at + CHUNK])
        self._directory.append(_central_entry(path, fields, size, start))

    def close(self) -> None:
        """Write the directory. The file itself stays open."""
        start, count = self.offset, len(self._directory)
        for entry in self._directory:
            self._write(entry)
        size = self.offset - start
        if count >= FULL16 or size >= FULL32 or start >= FULL32:
            end64 = self.offset
            fields = (END64.size - 12, 45, 45, 0, 0, count, count, size, start)
            self._write(END64.pack(END64_SIGNATURE, *fields))
            self._write(LOCATOR64.pack(LOCATOR64_SIGNATURE, 0, end64, 1))
        count, size, start = min(count, FULL16), min(size, FULL32), min(start, FULL32)
        self._write(END.pack(END_SIGNATURE, 0, 0, count, count, size, start, 0))

    def _write(self, data: bytes | memoryview) -> None:
        written = self.file.write(data)
        # An unbuffered file may take a part only, without an error.
        while isinstance(written, int) and written < len(data):
            self.offset += written
            data = data[written:]
            written = self.file.write(data)
        self.offset += len(data)


def _padding(data_offset: int) -> bytes:
    """An extra field that moves a record's data, else at data_offset, to a multiple of 64."""
    missing = -(data_offset + 4) % ALIGNMENT
    return struct.pack("<2s1H", b"FB", missing) + b"Z" * missing


def _central_entry(path: bytes, fields: tuple[int, ...], size: int, offset: int) -> bytes:
    wide = [value for value in (size, size, offset) if value >= FULL32]
    extra = struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
    version = 45 if wide else fields[0]
    places = (len(path), len(extra), 0, 0, 0, 0, min(offset, FULL32))
    packed = CENTRAL.pack(CENTRAL_SIGNATURE, version, version, *fields[1:], *places)
    return packed + path + extra
