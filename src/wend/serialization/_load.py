"""`load`: from a file to the object that was saved."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend.serialization._archive import (
    ArchiveReader,
    FileSource,
    MappedSource,
    Source,
    check_kind,
    looks_like_zip,
)
from wend.serialization._errors import CheckpointError
from wend.serialization._interpreter import Interpreter, named_globals
from wend.serialization._legacy import is_legacy, legacy_pickle, read_legacy
from wend.serialization._meanings import default_meanings
from wend.serialization._names import Names
from wend.serialization._renaming import wend_object
from wend.serialization._storages import MapLocation, StorageLoader

__all__ = ["get_unsafe_globals_in_checkpoint", "load"]


def load(
    f: object,
    map_location: MapLocation = None,
    pickle_module: object = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """The object that `save` (Wend's or PyTorch's) put into a file.

    f: a path, or a binary file that can seek.
    map_location: where the data goes: a device, the name of a device, {saved name: name}, or a
    function of (storage, saved name) that returns the storage. Needed for files saved from another
    device.
    weights_only: True, the default, reads tensors, numbers, strings and containers by a separate
    interpreter and never runs code from the file. False unpickles: **the file can then run any
    code**; for files that you trust, and needed for whole modules.
    mmap: map the file instead of reading it: data comes from the disk when used, and changes stay
    in memory. Needs a path.
    pickle_load_args: `encoding` of byte strings that Python 2 wrote.

    Raises CheckpointError (a RuntimeError and an UnpicklingError) for files that are truncated,
    damaged, hostile or of another format, DeviceError for data of a missing device.
    """
    weights_only = (pickle_module is None) if weights_only is None else bool(weights_only)
    if weights_only and pickle_module is not None:
        raise ArgumentError("load: a pickle_module can only be used with weights_only=False")

    def run(data: bytes, persistent: Any) -> Any:
        if weights_only:
            encoding = pickle_load_args.get("encoding", "utf-8")
            return Interpreter(data, Names(default_meanings()), persistent, encoding).run()
        return _unpickled(data, persistent, pickle_module or pickle, pickle_load_args)

    with _opened(f) as file:
        if is_legacy(file):
            if mmap:
                raise ArgumentError(
                    "load: mmap=True is for files of the zip format; save the object anew, "
                    "or leave mmap out"
                )
            return read_legacy(FileSource(file), map_location, run)
        archive = ArchiveReader(_source(f, file, bool(mmap)))
        _check_kind(archive)
        return run(archive.read("data.pkl"), StorageLoader(archive, map_location, bool(mmap)))


def get_unsafe_globals_in_checkpoint(f: object) -> list[str]:
    """Full names in a checkpoint that a default `load` would refuse; nothing is executed."""
    with _opened(f) as file:
        if is_legacy(file):
            names = named_globals(legacy_pickle(FileSource(file)))
        else:
            archive = ArchiveReader(_source(f, file, mmap=False))
            _check_kind(archive)
            names = named_globals(archive.read("data.pkl"))
    known = Names(default_meanings())
    return [name for name in names if name not in known.allowed and name not in known.user]


@contextmanager
def _opened(f: Any) -> Iterator[IO[bytes]]:
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            yield file
        return
    missing = [name for name in ("read", "seek", "tell") if not hasattr(f, name)]
    if missing:
        raise ArgumentTypeError(
            f"load: takes a path or a binary file that can seek, and a {type(f).__name__} lacks "
            f"{', '.join(missing)}; read it into an io.BytesIO first"
        )
    try:
        f.seek(f.tell())
    except (OSError, io.UnsupportedOperation) as error:
        raise ArgumentTypeError(
            "load: the file cannot seek; read it into an io.BytesIO first"
        ) from error
    yield f


def _source(f: object, file: IO[bytes], mmap: bool) -> Source:
    """The archive's bytes, once the first bytes have shown an archive."""
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ArgumentError(f"load: mmap=True needs a path, not a {type(f).__name__}")
    source = FileSource(file)
    if source.size == 0:
        raise CheckpointError("load: the file is empty")
    head = source.read(0, min(source.size, 512))
    if looks_like_zip(head):
        return MappedSource(file) if mmap else source
    if head[257:262] == b"ustar":
        raise CheckpointError(
            "load: the file is a tar archive, the oldest format of torch.save, which Wend does "
            "not read; convert it with PyTorch: torch.save(torch.load(path), path)"
        )
    if head[:1] == b"\x80":
        raise CheckpointError(
            "load: the file is a bare pickle; if you trust it, read it with the pickle module"
        )
    if head[8:9] == b"{":
        raise CheckpointError("load: this looks like a safetensors file; use safetensors.load_file")
    raise CheckpointError(f"load: no format that Wend knows starts with the bytes {head[:8]!r}")


def _check_kind(archive: ArchiveReader) -> None:
    check_kind("".join(f"/{name}" for name in archive.names()).encode())
    if "data.pkl" not in archive:
        listed = ", ".join(archive.names()[:5]) or "none"
        raise CheckpointError(
            f"load: the archive has no data.pkl, so torch.save did not write it; records: {listed}"
        )


def _unpickled(data: bytes, storages: Any, module: Any, arguments: dict[str, Any]) -> Any:
    """The result of the pickle module for a trusted file, with PyTorch's names served by Wend."""
    allowed = default_meanings()

    class Unpickler(module.Unpickler):
        def find_class(self, module_name: str, name: str) -> Any:
            if module_name.split(".")[0] != "torch":
                return super().find_class(module_name, name)
            meaning = allowed.get(f"{module_name}.{name}")
            return wend_object(module_name, name) if meaning is None else meaning.value

        def persistent_load(self, identity: object) -> Any:
            return storages(identity)

    arguments.setdefault("encoding", "utf-8")
    return Unpickler(io.BytesIO(data), **arguments).load()
