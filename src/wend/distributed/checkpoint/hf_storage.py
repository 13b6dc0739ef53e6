"""Checkpoints of several ranks in the layout of model hubs: not available."""

from __future__ import annotations

from wend._engine.base.refusals import refuse
from wend.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]

_REMEDY = (
    "checkpoints of several ranks have a layout of their own; take torch.distributed.checkpoint."
    "FileSystemWriter and FileSystemReader, or save the whole state of a model as safetensors"
)


class HuggingFaceStorageWriter(FileSystemWriter):
    """Raises NotImplementedInWend when made."""

    _refused_by_wend = True

    def __init__(self, *args: object, **kwargs: object) -> None:
        refuse("torch.distributed.checkpoint.HuggingFaceStorageWriter", _REMEDY)


class HuggingFaceStorageReader(FileSystemReader):
    """Raises NotImplementedInWend when made."""

    _refused_by_wend = True

    def __init__(self, *args: object, **kwargs: object) -> None:
        refuse("torch.distributed.checkpoint.HuggingFaceStorageReader", _REMEDY)
