"""`load`: the parts of a checkpoint that this rank's state asks for."""

from __future__ import annotations

import os
from typing import Any

from wend._engine.base.errors import ArgumentError, ShapeError
from wend._engine.core._hot import Tensor
from wend._frontend.autograd.grad_modes import no_grad
from wend.distributed._group import AnyGroup
from wend.distributed._sharding.shards import shard_of, tensor_of
from wend.distributed.checkpoint._tree import from_plain, replaced
from wend.distributed.checkpoint.api import CheckpointException
from wend.distributed.checkpoint.filesystem import FileSystemReader, check_storage
from wend.distributed.checkpoint.stateful import Stateful

__all__ = ["load", "load_state_dict"]


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: FileSystemReader | None = None,
    planner: object = None,
    process_group: AnyGroup = None,
    no_dist: bool = False,
) -> None:
    """Fill a state from a checkpoint, in place; each rank reads the parts that its state names.

    state_dict: as for `save`. Its tensors are written to, other values are replaced. Objects get
        their state by `load_state_dict`. Sharded tensors get their rows, at any number of ranks
    Raises CheckpointException (a RuntimeError) for names or elements that the checkpoint lacks,
    ShapeError (a RuntimeError) for tensors of another shape. Nothing is sent between ranks.
    """
    if planner is not None:
        raise ArgumentError("load: planners are not available; leave `planner` out")
    if storage_reader is None:
        if checkpoint_id is None:
            raise ArgumentError("load: give a folder as `checkpoint_id`, or a `storage_reader`")
        storage_reader = FileSystemReader(checkpoint_id)
    check_storage("load", storage_reader, FileSystemReader)
    storage_reader.reset(checkpoint_id)
    loading = _Loading(storage_reader)
    try:
        for key, value in list(state_dict.items()):
            if isinstance(value, Stateful) and not isinstance(value, Tensor):
                state = value.state_dict()
                value.load_state_dict(replaced(state, loading.give, (key,)))
            else:
                state_dict[key] = replaced(value, loading.give, (key,))
    finally:
        storage_reader.close()


class _Loading:
    """Gives the loaded leaves of a state."""

    def __init__(self, reader: FileSystemReader) -> None:
        self.reader = reader
        self.index = reader.index()

    def give(self, name: str, leaf: Any) -> Any:
        """The loaded value for a leaf; a tensor is written to."""
        row = self.index["tensors"].get(name)
        if row is None:
            value = self.index["values"].get(name)
            if value is None:
                raise CheckpointException(
                    f"Missing key in checkpoint state_dict: {name}. ({self.reader.path} has "
                    f"{len(self.index['tensors'])} tensors and {len(self.index['values'])} values)"
                )
            return from_plain(value["value"])
        whole = tuple(row["shape"])
        if not isinstance(leaf, Tensor):
            return tensor_of(self.reader.read(name, (0,) * len(whole), whole))
        shard, shape = shard_of(leaf), tuple(leaf.shape)
        wanted = shape if shard is None else shard.shape
        if tuple(wanted) != whole:
            raise ShapeError(
                f"load: {name!r} has shape {whole} in the checkpoint, and {tuple(wanted)} in the "
                "state; the shapes must be equal"
            )
        begin = (0,) * len(shape) if shard is None else (shard.begin, *(0,) * (len(shape) - 1))
        source = tensor_of(self.reader.read(name, begin, shape))
        with no_grad():
            leaf.copy_(source)
        return leaf


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: FileSystemReader,
    process_group: AnyGroup = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: object = None,
) -> None:
    """The former name of `load`."""
    load(state_dict, storage_reader=storage_reader, planner=planner)
