"""The header of a safetensors file, read with distrust.

The library safetensors takes more: names that appear twice, "__metadata__" of null, and shapes
without elements whose dims NumPy cannot have. Messages of the library quote the file at any length,
and the library gives no metadata of a file in memory.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any, NamedTuple

from wend._engine.base.dtypes import ABSENT, NAMES, AbsentDType, DType
from wend.serialization._archive import FileSource
from wend.serialization._errors import CheckpointError, short

__all__ = ["CODES", "CODE_OF", "METADATA", "Entry", "read_header"]

CODES: dict[str, DType | AbsentDType] = {
    "BOOL": NAMES["bool"],
    "U8": NAMES["uint8"],
    "I8": NAMES["int8"],
    "I16": NAMES["int16"],
    "I32": NAMES["int32"],
    "I64": NAMES["int64"],
    "F16": NAMES["float16"],
    "BF16": NAMES["bfloat16"],
    "F8_E4M3": ABSENT["float8_e4m3fn"],
    "F8_E5M2": ABSENT["float8_e5m2"],
    "F32": NAMES["float32"],
    "F64": NAMES["float64"],
    "C64": NAMES["complex64"],
    "U16": NAMES["uint16"],
    "U32": NAMES["uint32"],
    "U64": NAMES["uint64"],
}
CODE_OF = {dtype: code for code, dtype in CODES.items()}
MAX_HEADER = 100_000_000  # bytes; the format's own limit
MAX_DIMS = 64
MAX_BYTES = 2**62  # of a tensor, dims of size 0 left out: NumPy's and the core's are 64-bit numbers
SPARE_BRACKETS = 1 << 16
METADATA = "__metadata__"


class Entry(NamedTuple):
    """The place of a tensor's bytes, counted from the end of the header."""

    dtype: DType | AbsentDType
    shape: tuple[int, ...]
    begin: int
    end: int


def read_header(source: FileSource) -> tuple[dict[str, Entry], dict[str, str], int]:
    """(entries, metadata, offset of the data), every number compared with the file's size."""
    if source.size < 8:
        raise CheckpointError(f"safetensors: {source.size} bytes are too few for a header")
    (length,) = struct.unpack("<Q", source.read(0, 8))
    start = 8 + length
    if length > MAX_HEADER or start > source.size:
        raise CheckpointError(
            f"safetensors: a header of {length} bytes in a file of {source.size} bytes; the file "
            "is truncated or is no safetensors file"
        )
    table = _parsed(source.read(8, length))
    metadata = table.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise CheckpointError("safetensors: the header's metadata is not a table of texts")
    entries = {name: _entry(name, row) for name, row in table.items()}
    _check_coverage(entries, source.size - start)
    return entries, metadata, start


def _parsed(text: bytes) -> dict[str, Any]:
    # Each bracket may be a container of 30 times its bytes, before anything can be looked at. An
    # entry has three brackets in some 60 bytes.
    if sum(map(text.count, (b"[", b"{"))) > SPARE_BRACKETS + len(text) // 8:
        raise CheckpointError("safetensors: the header is not JSON of entries alone")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) != len(pairs):
            raise CheckpointError("safetensors: a name appears twice in the header")
        return table

    try:
        table = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"safetensors: the header is not JSON: {error}") from error
    if not isinstance(table, dict):
        raise CheckpointError("safetensors: the header is not a table")
    return table


def _entry(name: str, row: Any) -> Entry:
    try:
        code, shape, (begin, end) = row["dtype"], tuple(row["shape"]), row["data_offsets"]
    except (TypeError, KeyError, ValueError):
        raise CheckpointError(f"safetensors: the header's entry {short(name)} is damaged") from None
    if not isinstance(code, str) or code not in CODES:
        raise CheckpointError(
            f"safetensors: {short(name)} has type {short(code)}, which Wend does not have"
        )
    numbers = (*shape, begin, end)
    if not all(type(n) is int and 0 <= n < 2**62 for n in numbers) or len(shape) > MAX_DIMS:
        raise CheckpointError(f"safetensors: {short(name)} has impossible sizes")
    itemsize = CODES[code].itemsize
    if math.prod(max(n, 1) for n in shape) * itemsize >= MAX_BYTES:
        raise CheckpointError(f"safetensors: {short(name)} needs more bytes than there can be")
    count = math.prod(shape)
    if end - begin != count * itemsize:
        raise CheckpointError(
            f"safetensors: {short(name)} of shape {short(shape)} and type {code} needs "
            f"{count * itemsize} bytes, and {end - begin} are given"
        )
    return Entry(CODES[code], shape, begin, end)


def _check_coverage(entries: dict[str, Entry], size: int) -> None:
    """Raises CheckpointError unless the tensors fill the file exactly, without gaps."""
    at = 0
    for name, entry in sorted(entries.items(), key=lambda row: (row[1].begin, row[1].end)):
        if entry.begin != at:
            raise CheckpointError(
                f"safetensors: {short(name)} begins at byte {entry.begin}, "
                f"the one before ends at {at}"
            )
        at = entry.end
    if at != size:
        raise CheckpointError(
            f"safetensors: the header describes {at} bytes of data and the file has {size}; "
            "it is truncated or damaged"
        )
