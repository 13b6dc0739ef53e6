"""safetensors files: named tensors without views, classes or code.

Layout: the header's length (uint64, little-endian), the header (JSON: name -> dtype, shape and
[begin, end) of the bytes, and texts under "__metadata__"), the tensors' bytes without gaps.
"""

from __future__ import annotations

import io
import json
import math
import os
import struct
import threading
from collections.abc import Iterable, Mapping
from typing import IO, Any, NamedTuple

import numpy as np

from wend._engine.base.devices import placement
from wend._engine.base.dtypes import NAMES, DType
from wend._engine.base.errors import ArgumentTypeError
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend.serialization._archive import CHUNK, FileSource
from wend.serialization._errors import CheckpointError, short
from wend.serialization._save import atomic_file
from wend.serialization._tensors import tensor_from_array

__all__ = [
    "SafeFile",
    "load",
    "load_file",
    "load_model",
    "read_metadata",
    "save",
    "save_file",
    "save_model",
    "storage_ptr",
    "storage_size",
]

CODES: dict[str, DType] = {
    "BOOL": NAMES["bool"],
    "U8": NAMES["uint8"],
    "I8": NAMES["int8"],
    "I16": NAMES["int16"],
    "I32": NAMES["int32"],
    "I64": NAMES["int64"],
    "F16": NAMES["float16"],
    "BF16": NAMES["bfloat16"],
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

    dtype: DType
    shape: tuple[int, ...]
    begin: int
    end: int


# --- writing --------------------------------------------------------------------------------------


def save_file(
    tensors: Mapping[str, Tensor],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write named tensors to a file, whole or not at all. metadata: texts to store as well.

    Each tensor is written by itself, whether or not its memory is shared.
    Raises ArgumentTypeError for anything but tensors and for dtypes that the format lacks.
    """
    header, arrays = _prepared(tensors, metadata)
    with atomic_file(filename) as file:
        _write(file, header, arrays)


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes that `save_file` would write."""
    buffer = io.BytesIO()
    _write(buffer, *_prepared(tensors, metadata))
    return buffer.getvalue()


def save_model(
    model: Any, filename: str, metadata: dict[str, str] | None = None, force_contiguous: bool = True
) -> None:
    """Write the state of a module; a tensor under several names is written under the first.

    The other names go to the metadata, with the name that was written.
    """
    texts = dict(metadata or {})
    tensors: dict[str, Tensor] = {}
    for names in _shared(model.state_dict()).values():
        first, *others = sorted(names)
        tensors[first] = names[first]
        texts.update(dict.fromkeys(others, first))
    save_file(tensors, filename, texts)


def load_model(
    model: Any, filename: str | os.PathLike[str], strict: bool = True, device: Any = "cpu"
) -> tuple[set[str], list[str]]:
    """Read the state of a module; returns (missing names, names that the module lacks).

    A name is not missing if the file has another name of the same tensor. Raises RuntimeError if
    strict and there are such names.
    """
    found = model.load_state_dict(load_file(filename, device), strict=False)
    missing = set(found.missing_keys)
    for names in _shared(model.state_dict()).values():
        if not missing.issuperset(names):
            missing -= set(names)
    unexpected = list(found.unexpected_keys)
    if strict and (missing or unexpected):
        raise CheckpointError(
            f"safetensors: {type(model).__name__} misses {sorted(missing)} in the file, and has "
            f"no {unexpected}"
        )
    return missing, unexpected


def _shared(tensors: Mapping[str, Tensor]) -> dict[tuple[Any, ...], dict[str, Tensor]]:
    """Names grouped by the memory that the tensors show."""
    groups: dict[tuple[Any, ...], dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        place = storage_ptr(tensor), tensor.storage_offset(), tuple(tensor.shape)
        groups.setdefault(place if tensor.numel() else (name,), {})[name] = tensor
    return groups


def storage_ptr(tensor: Tensor) -> int:
    """Address of the memory that a tensor is in."""
    address: int = tensor.untyped_storage().data_ptr()
    return address


def storage_size(tensor: Tensor) -> int:
    """Bytes of the memory that a tensor is in."""
    size: int = tensor.untyped_storage().nbytes()
    return size


def _prepared(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None
) -> tuple[bytes, list[np.ndarray[Any, Any]]]:
    header: dict[str, Any] = {}
    if metadata is not None:
        header[METADATA] = _checked_texts(metadata)
    arrays: list[np.ndarray[Any, Any]] = []
    at = 0
    # Wide types first, so that every tensor is aligned.
    for name, tensor in sorted(_checked(tensors), key=lambda row: (-row[1].dtype.itemsize, row[0])):
        array = np.ascontiguousarray(_hot.ensure(_hot.refreshed(tensor)))
        end = at + array.nbytes
        code = CODE_OF[tensor.dtype]
        header[name] = {"dtype": code, "shape": list(tensor.shape), "data_offsets": [at, end]}
        arrays.append(array)
        at = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, arrays


def _checked(tensors: Mapping[str, Tensor]) -> Iterable[tuple[str, Tensor]]:
    for name, tensor in tensors.items():
        if not isinstance(name, str) or name == METADATA:
            raise ArgumentTypeError(f"safetensors: {name!r} cannot be the name of a tensor")
        if not isinstance(tensor, Tensor):
            raise ArgumentTypeError(
                f"safetensors: {name!r} is a {type(tensor).__name__}; the format holds tensors only"
            )
        if tensor.dtype not in CODE_OF:
            raise ArgumentTypeError(f"safetensors: the format has no {tensor.dtype} ({name!r})")
        yield name, tensor


def _checked_texts(metadata: Mapping[str, str]) -> dict[str, str]:
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ArgumentTypeError(
                f"safetensors: metadata must map str to str, and has {key!r}: {value!r}"
            )
    return dict(metadata)


def _write(file: IO[bytes], header: bytes, arrays: list[np.ndarray[Any, Any]]) -> None:
    file.write(header)
    for array in arrays:
        view = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        for at in range(0, len(view), CHUNK):
            file.write(view[at : at + CHUNK])


# --- reading --------------------------------------------------------------------------------------


def load_file(filename: str | os.PathLike[str], device: Any = "cpu") -> dict[str, Tensor]:
    """The named tensors of a file. Raises CheckpointError for a truncated or inconsistent file."""
    place = placement(device, "safetensors")
    with open(filename, "rb") as file:
        found = _read(FileSource(file))
    return {name: tensor.to(place) for name, tensor in found.items()}


def load(data: bytes) -> dict[str, Tensor]:
    """The named tensors in the bytes of a file. Raises CheckpointError."""
    return _read(FileSource(io.BytesIO(data)))


def read_metadata(file: str | os.PathLike[str] | IO[bytes]) -> dict[str, str]:
    """The texts that were saved beside the tensors."""
    if not isinstance(file, (str, os.PathLike)):
        return _header(FileSource(file))[1]
    with open(file, "rb") as opened:
        return _header(FileSource(opened))[1]


class SafeFile:
    """An open file whose tensors are read singly: the result of `safetensors.safe_open`.

    Several threads may read at once. Raises CheckpointError if the file is truncated or
    inconsistent, or lacks a tensor.
    """

    def __init__(
        self, filename: str | os.PathLike[str], device: Any = "cpu", *, backend: str = "mmap"
    ) -> None:
        """backend: how the library safetensors would read, "mmap" or "pread"; no matter here"""
        self._place = placement(device, "safe_open")
        self._lock = threading.Lock()
        self._file = open(filename, "rb")  # noqa: SIM115 (closed by `__exit__`)
        try:
            self._source = FileSource(self._file)
            self._entries, self._texts, self._start = _header(self._source)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> SafeFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()

    def keys(self) -> list[str]:
        """Names of the tensors."""
        return sorted(self._entries)

    def offset_keys(self) -> list[str]:
        """Names of the tensors, in the order of the file."""
        return sorted(self._entries, key=lambda name: self._entries[name].begin)

    def metadata(self) -> dict[str, str] | None:
        """The texts that were saved beside the tensors."""
        return self._texts or None

    def get_tensor(self, name: str) -> Tensor:
        """The tensor of that name."""
        entry = self._entry(name)
        with self._lock:  # the file has one position
            found = _tensor(self._source, self._start, entry)
        return found.to(self._place)

    def get_slice(self, name: str) -> Slice:
        """The tensor of that name, to be indexed."""
        return Slice(self, name, self._entry(name))

    def _entry(self, name: str) -> Entry:
        if name not in self._entries:
            raise CheckpointError(f"safe_open: File does not contain tensor {name}")
        return self._entries[name]


class Slice:
    """A tensor of a SafeFile: `[...]` reads the tensor, and gives the part."""

    def __init__(self, file: SafeFile, name: str, entry: Entry) -> None:
        self._file, self._name, self._facts = file, name, entry

    def get_shape(self) -> list[int]:
        """Extents of the tensor."""
        return list(self._facts.shape)

    def get_dtype(self) -> str:
        """The format's code of the dtype: "F32"."""
        return CODE_OF[self._facts.dtype]

    def __getitem__(self, index: Any) -> Tensor:
        return self._file.get_tensor(self._name)[index].clone()


def _read(source: FileSource) -> dict[str, Tensor]:
    entries, _, start = _header(source)
    return {name: _tensor(source, start, entry) for name, entry in entries.items()}


def _tensor(source: FileSource, start: int, entry: Entry) -> Tensor:
    memory = source.array(start + entry.begin, entry.end - entry.begin)
    if entry.dtype.category == 0:
        np.not_equal(memory, 0, out=memory, casting="unsafe")  # a bool is 0 or 1 to machine code
    return tensor_from_array(memory.view(entry.dtype.numpy).reshape(entry.shape))


def _header(source: FileSource) -> tuple[dict[str, Entry], dict[str, str], int]:
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
