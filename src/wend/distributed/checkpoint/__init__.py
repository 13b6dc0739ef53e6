"""torch.distributed.checkpoint: states of all ranks in a folder, loaded by any number of ranks."""

from wend.distributed.checkpoint.api import CheckpointException
from wend.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from wend.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorStorageMetadata,
)
from wend.distributed.checkpoint.state_dict_loader import load, load_state_dict
from wend.distributed.checkpoint.state_dict_saver import async_save, save, save_state_dict
from wend.distributed.checkpoint.stateful import Stateful

__all__ = [
    "BytesStorageMetadata",
    "CheckpointException",
    "ChunkStorageMetadata",
    "FileSystemReader",
    "FileSystemWriter",
    "Metadata",
    "Stateful",
    "TensorStorageMetadata",
    "async_save",
    "load",
    "load_state_dict",
    "save",
    "save_state_dict",
]
