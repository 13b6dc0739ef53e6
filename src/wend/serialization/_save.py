"""`save`: an object into a file, whole or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import secrets
import stat
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import IO, Any

from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend.serialization._archive import ArchiveWriter
from wend.serialization._legacy import write_legacy
from wend.serialization._pickler import checkpoint_pickler

__all__ = ["atomic_file", "save"]

DEFAULT_PROTOCOL = 2


def save(
    obj: object,
    f: Any,
    pickle_module: ModuleType = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object, in PyTorch's own format, such that `torch.load` reads it too.

    obj: tensors, numbers, strings, containers of these (a state dict), or any object that pickles.
    f: a path, or a binary file. A path is written whole or not at all. The data goes to a new file
    beside the old file, and replaces the old file once it is on the disk. If anything fails before
    (a full disk, a crash), the old file is unchanged.
    _use_new_zipfile_serialization: False writes the format before PyTorch 1.6.
    Tensors that share memory share memory after loading too; views stay views.
    """
    if not isinstance(pickle_protocol, int) or not 2 <= pickle_protocol <= 5:
        raise ArgumentError(f"save: pickle_protocol must be 2 to 5, not {pickle_protocol!r}")
    # Everything that can go wrong with the object goes wrong before the file is touched.
    buffer = io.BytesIO()
    pickler = checkpoint_pickler(buffer, pickle_protocol, pickle_module)
    pickler.legacy = not _use_new_zipfile_serialization
    try:
        pickler.dump(obj)
    except RecursionError:
        raise ArgumentError("save: the object's containers nest too deep to be saved") from None

    def write(file: IO[bytes], folder: str) -> None:
        if pickler.legacy:
            write_legacy(file, pickle_protocol, buffer.getvalue(), pickler.storages)
        else:
            _write(file, folder, buffer, pickler.storages, not _disable_byteorder_record)

    if isinstance(f, (str, os.PathLike)):
        with atomic_file(f) as file:
            write(file, _folder(f))
        return
    if not hasattr(f, "write"):
        raise ArgumentTypeError(f"save: takes a path or a binary file, not a {type(f).__name__}")
    write(f, "archive")
    if hasattr(f, "flush"):
        f.flush()


def _write(
    file: IO[bytes], folder: str, pickled: io.BytesIO, storages: Any, byteorder: bool
) -> None:
    archive = ArchiveWriter(file, folder)
    archive.add("data.pkl", pickled.getbuffer())
    if byteorder:
        archive.add("byteorder", sys.byteorder.encode())
    for key, data in storages.records():
        archive.add(f"data/{key}", data)
    archive.add("version", b"3\n")
    archive.close()


def _folder(path: str | os.PathLike[str]) -> str:
    """The records' folder: the file's name without the ending, as in PyTorch."""
    name = os.path.basename(os.fspath(path))
    stem = name.rsplit(".", 1)[0] if "." in name.lstrip(".") else name
    return stem.encode("utf-8", "replace").decode("utf-8", "replace") or "archive"


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write, which takes the place of `path` when the `with` block ends without error.

    The data is on the disk before the old file goes. A device or a pipe is written directly. Raises
    OSError as the file system does; then `path` is unchanged.
    """
    target = os.path.realpath(path)  # a link stays a link
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:  # there is no file yet whose mode could be kept
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        with open(target, "wb") as file:
            yield file
        return
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:200]}.{secrets.token_hex(6)}.tmp")
    file = open(temporary, "xb")  # noqa: SIM115 (closed below, on every way out)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    """Make the renaming itself durable, where the system lets a folder be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
