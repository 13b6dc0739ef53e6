"""Checkpoints in folders: a safetensors file for each rank, and an index of all pieces.

The index is the last file to be written, under a temporary name, and takes the place of the old
index at once. It names complete files alone. A process that is killed at any point leaves
the checkpoint of before, or the new one; files that no index names go with the next save.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from wend._engine.base.errors import ArgumentTypeError
from wend._engine.base.shapes import Size
from wend._engine.core._hot import Tensor
from wend.distributed._sharding.shards import array_of
from wend.distributed.checkpoint.api import CheckpointException
from wend.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from wend.serialization import safetensors

__all__ = ["FileSystemReader", "FileSystemWriter", "StorageReader", "StorageWriter"]

INDEX = "metadata.json"
FORMAT = "wend.distributed.checkpoint 1"
_DATA = re.compile(r"__\d+_[0-9a-f]+\.safetensors")
#: Files that a save which was cut short may have left.
_OWN = re.compile(_DATA.pattern + r"|\.__.*\.tmp|\.metadata\.json\.[0-9a-f]+")


class FileSystemWriter:
    """Writes checkpoints to a folder, which is made if there is none.

    overwrite: whether a checkpoint that is there may be replaced
    The other arguments are accepted; files are always written whole, and synced to the disk.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
        _extensions: Any = None,
        serialization_format: Any = None,
    ) -> None:
        self.path = Path(path)
        self.overwrite = overwrite

    @property
    def checkpoint_id(self) -> Path:
        """The folder."""
        return self.path

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Write to another folder from now on."""
        if checkpoint_id is not None:
            self.path = Path(checkpoint_id)

    def prepare(self) -> None:
        """Make the folder. Raises CheckpointException if a checkpoint is there and has to stay."""
        self.path.mkdir(parents=True, exist_ok=True)
        if not self.overwrite and (self.path / INDEX).exists():
            raise CheckpointException(
                f"checkpoint: {self.path} holds a checkpoint; `overwrite=True` replaces it"
            )

    def write_pieces(self, rank: int, token: str, pieces: dict[str, Tensor]) -> str:
        """Write the pieces of a rank to a file; returns its name. token: of this checkpoint"""
        name = file_name(rank, token)
        safetensors.save_file(pieces, self.path / name)
        return name

    def finish(self, index: dict[str, Any], token: str) -> None:
        """Make the files of a checkpoint the content of the folder; old files go."""
        temporary = self.path / f".{INDEX}.{token}"
        with open(temporary, "wb") as file:
            file.write(json.dumps({"format": FORMAT, **index}, indent=1).encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path / INDEX)
        for entry in self.path.iterdir():
            if _OWN.fullmatch(entry.name) and token not in entry.name:
                entry.unlink(missing_ok=True)


def file_name(rank: int, token: str) -> str:
    """The name of a rank's file of a checkpoint."""
    return f"__{rank}_{token}.safetensors"


class FileSystemReader:
    """Reads checkpoints from a folder; the files of pieces are opened when first needed."""

    def __init__(self, path: str | os.PathLike[str], _extension_registry: Any = None) -> None:
        self.path = Path(path)
        self._index: dict[str, Any] | None = None
        self._files: dict[str, Any] = {}

    @property
    def checkpoint_id(self) -> Path:
        """The folder."""
        return self.path

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Forget the index; read from another folder from now on."""
        self.close()
        self._index = None
        if checkpoint_id is not None:
            self.path = Path(checkpoint_id)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether a folder holds a checkpoint."""
        return (Path(checkpoint_id) / INDEX).exists()

    def index(self) -> dict[str, Any]:
        """The index. Raises CheckpointException if there is none, or it is damaged."""
        if self._index is None:
            path = self.path / INDEX
            if not path.exists():
                raise CheckpointException(f"checkpoint: {self.path} has no {INDEX}")
            try:
                index = json.loads(path.read_text())
            except ValueError as error:
                raise CheckpointException(f"checkpoint: {path} is damaged: {error}") from error
            if not isinstance(index, dict) or index.get("format") != FORMAT:
                raise CheckpointException(f"checkpoint: {path} is no index of a checkpoint")
            if not _is_sound(index):
                raise CheckpointException(f"checkpoint: {path} is damaged: its fields are others")
            self._index = index
        return self._index

    def read_metadata(self, *args: object, **kwargs: object) -> Metadata:
        """The content of the checkpoint, described."""
        return metadata_of(self.index())

    def read(self, name: str, begin: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
        """A box of a tensor. begin: its first element in the whole   shape: its extents

        Raises CheckpointException if pieces are missing.
        """
        row = self.index()["tensors"][name]
        out = np.empty(shape, safetensors.CODES[row["dtype"]].numpy)
        count = 0
        for piece in row["pieces"]:
            places = _overlap(begin, shape, piece["begin"], piece["shape"])
            if places is None:
                continue
            to, source = places
            out[to] = array_of(self._file(piece["file"]).get_tensor(name))[source]
            count += int(out[to].size)
        if count != out.size:
            raise CheckpointException(
                f"checkpoint: {count} of {out.size} elements of {name!r} are in {self.path}"
            )
        return out

    def _file(self, name: str) -> Any:
        if name not in self._files:
            if not _DATA.fullmatch(name):
                raise CheckpointException(f"checkpoint: the index names the file {name!r}")
            self._files[name] = safetensors.SafeFile(self.path / name)
        return self._files[name]

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.__exit__()
        self._files.clear()


#: The storage that `save` and `load` take.
StorageWriter, StorageReader = FileSystemWriter, FileSystemReader


def check_storage(name: str, storage: Any, kind: type) -> None:
    """Raise ArgumentTypeError (a TypeError) for storage of another kind than a folder."""
    if not isinstance(storage, kind):
        raise ArgumentTypeError(
            f"{name}: expected a {kind.__name__}, got a {type(storage).__name__}: checkpoints are "
            "written to folders alone"
        )


def _is_sound(index: dict[str, Any]) -> bool:
    """Whether an index has the fields that `save` writes, each of its kind."""
    tensors, values = index.get("tensors"), index.get("values")
    if not isinstance(tensors, dict) or not isinstance(values, dict):
        return False
    for row in (*tensors.values(), *values.values()):
        if not isinstance(row, dict) or not isinstance(row.get("path"), list):
            return False
    for row in tensors.values():
        shape, pieces = row.get("shape"), row.get("pieces")
        if row.get("dtype") not in list(safetensors.CODES) or not isinstance(pieces, list):
            return False
        for piece in pieces:
            if not isinstance(piece, dict) or not isinstance(piece.get("file"), str):
                return False
            if not _same_rank(shape, piece.get("begin"), piece.get("shape")):
                return False
    return True


def _same_rank(*rows: Any) -> bool:
    """Whether all are lists of sizes, of equal length."""
    if not all(isinstance(row, list) for row in rows):
        return False
    sizes = all(type(n) is int and n >= 0 for row in rows for n in row)
    return sizes and len({len(row) for row in rows}) == 1


def _overlap(
    begin: tuple[int, ...], shape: tuple[int, ...], there: list[int], extents: list[int]
) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """The common elements of two boxes, as places in either; None if there are none."""
    to, source = [], []
    for a, n, b, m in zip(begin, shape, there, extents, strict=True):
        first, last = max(a, b), min(a + n, b + m)
        if first >= last:
            return None
        to.append(slice(first - a, last - a))
        source.append(slice(first - b, last - b))
    return tuple(to), tuple(source)


def metadata_of(index: dict[str, Any]) -> Metadata:
    """An index in PyTorch's classes."""
    metadata = Metadata({}, planner_data={}, storage_data={})
    for name, row in index["tensors"].items():
        chunks = [
            ChunkStorageMetadata(Size(piece["begin"]), Size(piece["shape"]))
            for piece in row["pieces"]
        ]
        properties = TensorProperties(safetensors.CODES[row["dtype"]])
        metadata.state_dict_metadata[name] = TensorStorageMetadata(
            properties, Size(row["shape"]), chunks
        )
        metadata.storage_data[name] = [piece["file"] for piece in row["pieces"]]
        metadata.planner_data[name] = tuple(row["path"])
    for name, row in index["values"].items():
        metadata.state_dict_metadata[name] = BytesStorageMetadata()
        metadata.planner_data[name] = tuple(row["path"])
    return metadata
