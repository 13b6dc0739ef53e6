"""Descriptions of checkpoints: names, shapes, and the pieces in files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wend._engine.base.dtypes import AbsentDType, DType
from wend._engine.base.shapes import Size

__all__ = [
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "StorageMeta",
    "TensorProperties",
    "TensorStorageMetadata",
]


@dataclass
class ChunkStorageMetadata:
    """A piece of a tensor. offsets: of its first element in the whole; sizes: its extents"""

    offsets: Size
    sizes: Size


@dataclass
class TensorProperties:
    """The type of a tensor's elements."""

    dtype: DType | AbsentDType


@dataclass
class TensorStorageMetadata:
    """A tensor: its type, the extents of the whole, and the pieces."""

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """A value that is no tensor."""


@dataclass
class StorageMeta:
    """Where a checkpoint lies, and marks of a save and a load."""

    checkpoint_id: Any = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """The content of a checkpoint, by name.

    planner_data: by name, the keys that lead there in the nested dict
    storage_data: by name, the files of the pieces of a tensor
    """

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None
