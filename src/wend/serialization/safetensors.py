"""safetensors files: named tensors without views, classes or code.

Layout: the header's length (uint64, little-endian), the header (JSON: name -> dtype, shape and
[begin, end) of the bytes, and texts under "__metadata__"), the tensors' bytes without gaps.
Decision 029 has the reasons for not using the library safetensors.
"""

from __future__ import annotations

import io
import json
import os
import struct
import threading
from collections.abc import Iterable, Mapping
from typing import IO, Any

import numpy as np

from wend._engine.base.devices import DeviceLike, placement
from wend._engine.base.dtypes import uint8
from wend._engine.base.errors import ArgumentTypeError
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._frontend import formats
from wend.serialization._archive import CHUNK, FileSource
from wend.serialization._errors import CheckpointError
from wend.serialization._safe_header import CODE_OF, CODES, METADATA, Entry, read_header
from wend.serialization._save import atomic_file
from wend.serialization._tensors import tensor_from_array

__all__ = [
    "CODES",
    "CODE_OF",
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
    model: Any, filename: str | os.PathLike[str], strict: bool = True, device: DeviceLike = "cpu"
) -> tuple[set[str], list[str]]:
    """Read the state of a module; returns (missing names, names that the module lacks).

    A name is not missing if the file has another name of the same tensor. Raises RuntimeError if
    strict and there are such names.
    """
    keys = model.load_state_dict(load_file(filename, device), strict=False)
    missing = set(keys.missing_keys)
    for names in _shared(model.state_dict()).values():
        if not missing.issuperset(names):
            missing -= set(names)
    unexpected = list(keys.unexpected_keys)
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
        plain = tensor.view(uint8) if formats.is_float8(tensor.dtype) else tensor
        array = np.ascontiguousarray(_hot.ensure(_hot.refreshed(plain)))
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


def load_file(filename: str | os.PathLike[str], device: DeviceLike = "cpu") -> dict[str, Tensor]:
    """The named tensors of a file. Raises CheckpointError for a truncated or inconsistent file."""
    place = placement(device, "safetensors")
    with open(filename, "rb") as file:
        tensors = _read(FileSource(file))
    return {name: tensor.to(place) for name, tensor in tensors.items()}


def load(data: bytes) -> dict[str, Tensor]:
    """The named tensors in the bytes of a file. Raises CheckpointError."""
    return _read(FileSource(io.BytesIO(data)))


def read_metadata(file: str | os.PathLike[str] | IO[bytes]) -> dict[str, str]:
    """The texts that were saved beside the tensors."""
    if not isinstance(file, (str, os.PathLike)):
        return read_header(FileSource(file))[1]
    with open(file, "rb") as opened:
        return read_header(FileSource(opened))[1]


class SafeFile:
    """An open file whose tensors are read singly: the result of `safetensors.safe_open`.

    Several threads may read at once. Raises CheckpointError if the file is truncated or
    inconsistent, or lacks a tensor.
    """

    def __init__(
        self, filename: str | os.PathLike[str], device: DeviceLike = "cpu", *, backend: str = "mmap"
    ) -> None:
        """backend: how the library safetensors would read, "mmap" or "pread"; no matter here"""
        self._place = placement(device, "safe_open")
        self._lock = threading.Lock()
        self._file = open(filename, "rb")  # noqa: SIM115 (closed by `__exit__`)
        try:
            self._source = FileSource(self._file)
            self._entries, self._texts, self._start = read_header(self._source)
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
        return self._read(self._entry(name))

    def get_slice(self, name: str) -> Slice:
        """The tensor of that name, to be indexed."""
        return Slice(self, self._entry(name))

    def _entry(self, name: str) -> Entry:
        if name not in self._entries:
            raise CheckpointError(f"safe_open: File does not contain tensor {name}")
        return self._entries[name]

    def _read(self, entry: Entry) -> Tensor:
        with self._lock:  # the file has one position
            tensor = _tensor(self._source, self._start, entry)
        return tensor.to(self._place)


class Slice:
    """A tensor of a SafeFile: `[...]` reads the rows that the index asks for, and gives the part.

    Rows are along the first dim. Only an int or a slice without a step chooses among these.
    """

    def __init__(self, file: SafeFile, entry: Entry) -> None:
        self._file, self._facts = file, entry

    def get_shape(self) -> list[int]:
        """Extents of the tensor."""
        return list(self._facts.shape)

    def get_dtype(self) -> str:
        """The format's code of the dtype: "F32"."""
        return CODE_OF[self._facts.dtype]

    def __getitem__(self, index: Any) -> Tensor:
        rows, inner = _rows(self._facts, index)
        return self._file._read(rows)[inner].clone()


def _rows(entry: Entry, index: object) -> tuple[Entry, Any]:
    """(the rows of a tensor that an index asks for, the index into these rows)."""
    first, *inner = index if isinstance(index, tuple) and index else (index,)
    rows = range(entry.shape[0] if entry.shape else 0)
    if type(first) is int and -len(rows) <= first < len(rows):
        wanted, first = rows[first:][:1], 0
    elif entry.shape and _is_plain(first):
        wanted, first = rows[first], slice(None)
    else:
        return entry, index
    size = (entry.end - entry.begin) // max(len(rows), 1)
    begin = entry.begin + wanted.start * size
    shape = (len(wanted), *entry.shape[1:])
    return Entry(entry.dtype, shape, begin, begin + len(wanted) * size), (first, *inner)


def _is_plain(index: object) -> bool:
    """Whether an index is a slice of ints without a step."""
    return (
        type(index) is slice
        and all(n is None or type(n) is int for n in (index.start, index.stop, index.step))
        and index.step in (None, 1)
    )


def _read(source: FileSource) -> dict[str, Tensor]:
    entries, _, start = read_header(source)
    return {name: _tensor(source, start, entry) for name, entry in entries.items()}


def _tensor(source: FileSource, start: int, entry: Entry) -> Tensor:
    memory = source.array(start + entry.begin, entry.end - entry.begin)
    if entry.dtype.category == 0:
        np.not_equal(memory, 0, out=memory, casting="unsafe")  # a bool is 0 or 1 to machine code
    if formats.is_float8(entry.dtype):
        bits = tensor_from_array(memory.reshape(entry.shape))
        return formats.Float8Package.load().of_bits(bits, entry.dtype)  # type: ignore[no-any-return]
    return tensor_from_array(memory.view(entry.dtype.numpy).reshape(entry.shape))
