"""`save` and `async_save`: the state of all ranks, each piece written once."""

from __future__ import annotations

import os
import secrets
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from wend._engine.base.errors import ArgumentError, ArgumentTypeError, WendError
from wend._engine.core._hot import Tensor
from wend.distributed._group import AnyGroup
from wend.distributed._group import state as group_state
from wend.distributed._sharding.ranks import Ranks, ranks_of
from wend.distributed._sharding.shards import array_of, shard_of, tensor_of
from wend.distributed.checkpoint._tree import flattened, to_plain, with_states
from wend.distributed.checkpoint.api import CheckpointException
from wend.distributed.checkpoint.filesystem import (
    FileSystemWriter,
    check_storage,
    file_name,
    metadata_of,
)
from wend.distributed.checkpoint.metadata import Metadata
from wend.serialization import safetensors

__all__ = ["async_save", "save", "save_state_dict"]


class Plan:
    """The tensors that this rank writes, and the index of all that the ranks write together.

    token: the mark in the names of this checkpoint's files
    pieces: the tensors of this rank, by name
    index: see `filesystem`; the same in all ranks
    """

    def __init__(self, state: dict[str, Any], ranks: Ranks, writer: FileSystemWriter) -> None:
        self.ranks, self.writer = ranks, writer
        self.tensors: dict[str, Tensor] = {}
        error, rows = None, {}
        try:
            writer.prepare()
            rows = self._described(state)
        except (WendError, OSError) as failure:
            if ranks.size == 1:
                raise
            error = str(failure)
        facts = ranks.tell("checkpoint", [secrets.token_hex(6), error, rows])
        fail_together("the state cannot be saved", [fact[1] for fact in facts])
        self.token: str = facts[0][0]
        self.index = self._shared_out([fact[2] for fact in facts])
        own = file_name(ranks.rank, self.token)
        self.pieces = {
            name: self.tensors[name]
            for name, row in self.index["tensors"].items()
            if any(piece["file"] == own for piece in row["pieces"])
        }

    def _described(self, state: dict[str, Any]) -> dict[str, Any]:
        """Rows for all that this rank has: of tensors the type and place, of values the value."""
        rows: dict[str, Any] = {}
        for name, (path, value) in flattened(with_states(state)).items():
            if not isinstance(value, Tensor):
                rows[name] = {"path": path, "value": to_plain(name, value)}
                continue
            if value.is_sparse or value.is_meta or value.dtype not in safetensors.CODE_OF:
                raise ArgumentTypeError(
                    f"checkpoint: {name!r} is a {value.dtype} tensor of layout {value.layout} on "
                    f"{value.device}; dense tensors of the types of safetensors can be saved"
                )
            shard, shape = shard_of(value), list(value.shape)
            begin = [0] * len(shape)
            if shard is not None:
                begin[0] = shard.begin
            whole = shape if shard is None else list(shard.shape)
            code = safetensors.CODE_OF[value.dtype]
            rows[name] = {"path": path, "dtype": code, "whole": whole, "at": begin, "shape": shape}
            self.tensors[name] = value.detach()
        return rows

    def _shared_out(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """The index: a piece that several ranks have is written by the rank with the least."""
        tensors: dict[str, Any] = {}
        values: dict[str, Any] = {}
        boxes: dict[tuple[str, str], list[int]] = {}
        for rank, entries in enumerate(rows):
            for name, row in entries.items():
                if "value" in row:
                    values.setdefault(name, {"path": row["path"], "value": row["value"]})
                    continue
                facts = {"path": row["path"], "dtype": row["dtype"], "shape": row["whole"]}
                known = tensors.setdefault(name, {**facts, "pieces": []})
                if (known["dtype"], known["shape"]) != (row["dtype"], row["whole"]):
                    raise ArgumentError(
                        f"checkpoint: {name!r} is {known['dtype']}{known['shape']} in one rank, "
                        f"and {row['dtype']}{row['whole']} in rank {rank}"
                    )
                if 0 not in row["shape"]:
                    boxes.setdefault((name, repr([row["at"], row["shape"]])), []).append(rank)
        written = [0] * len(rows)
        for (name, _), owners in boxes.items():
            rank = min(owners, key=lambda r: (written[r], r))
            row = rows[rank][name]
            size = 1
            for n in row["shape"]:
                size *= n
            written[rank] += size
            file = file_name(rank, self.token)
            piece = {"file": file, "begin": row["at"], "shape": row["shape"]}
            tensors[name]["pieces"].append(piece)
        return {"tensors": tensors, "values": values}

    def copy_pieces(self) -> None:
        """Hold copies, which later steps of the program do not change."""
        self.pieces = {name: tensor_of(array_of(t).copy()) for name, t in self.pieces.items()}

    def write(self) -> Metadata:
        """Write this rank's pieces; then rank 0 makes them the checkpoint."""
        self._together("could not be written", self._write_pieces)
        self._together("could not be finished", self._finish)
        return metadata_of(self.index)

    def _write_pieces(self) -> None:
        if self.pieces:
            self.writer.write_pieces(self.ranks.rank, self.token, self.pieces)

    def _finish(self) -> None:
        if self.ranks.rank == 0:
            self.writer.finish(self.index, self.token)

    def _together(self, fault: str, step: Any) -> None:
        """Take a step in all ranks; a failure is raised in all ranks."""
        error = None
        try:
            step()
        except (WendError, OSError) as failure:
            error = f"{type(failure).__name__}: {failure}"
            if self.ranks.size == 1:
                raise
        fail_together(f"{self.writer.path} {fault}", self.ranks.tell("checkpoint step", error))


def fail_together(fault: str, errors: list[str | None]) -> None:
    """Raise CheckpointException if there is an error in any rank."""
    failures = {rank: error for rank, error in enumerate(errors) if error is not None}
    if failures:
        raise CheckpointException(f"checkpoint: {fault}", failures)


def _writer(
    name: str, checkpoint_id: Any, storage_writer: Any, planner: object
) -> FileSystemWriter:
    if planner is not None:
        raise ArgumentError(f"{name}: planners are not available; leave `planner` out")
    if storage_writer is None:
        if checkpoint_id is None:
            raise ArgumentError(f"{name}: give a folder as `checkpoint_id`, or a `storage_writer`")
        return FileSystemWriter(checkpoint_id)
    check_storage(name, storage_writer, FileSystemWriter)
    writer: FileSystemWriter = storage_writer
    writer.reset(checkpoint_id)
    return writer


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: object = None,
    process_group: AnyGroup = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Write the states of all ranks to a folder; all ranks call, and return when it is complete.

    state_dict: nested dicts of tensors and plain values, or objects with `state_dict`. A tensor
        that several ranks have under a name is written once; of a sharded tensor all parts
    no_dist: this process saves by itself
    Raises CheckpointException (a RuntimeError) in all ranks if any rank fails, ArgumentTypeError (a
    TypeError) for values that are neither tensors nor plain. The folder is then as before.
    """
    writer = _writer("save", checkpoint_id, storage_writer, planner)
    return Plan(state_dict, ranks_of(process_group, lone=no_dist), writer).write()


def save_state_dict(
    state_dict: dict[str, Any],
    storage_writer: FileSystemWriter,
    process_group: AnyGroup = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: object = None,
) -> Metadata:
    """The former name of `save`."""
    return save(
        state_dict, storage_writer=storage_writer, process_group=process_group,
        no_dist=no_dist, planner=planner,
    )  # fmt: skip


_threads: list[ThreadPoolExecutor] = []


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: object = None,
    process_group: AnyGroup = None,
    async_checkpointer_type: object = None,
    async_stager: object = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[Metadata]:
    """As `save`, with a copy of the state, while the program goes on; the future ends the save.

    Saves are written one after the other, in the order of calls. Where MPI serves the main thread
    alone, the call returns when the save is complete. `destroy_process_group` waits for all saves.
    """
    writer = _writer("async_save", checkpoint_id, storage_writer, planner)
    ranks = ranks_of(process_group, "checkpoints", lone=no_dist)
    plan = Plan(state_dict, ranks, FileSystemWriter(writer.path, overwrite=writer.overwrite))
    if ranks.channel is not None and not ranks.channel.line.threads:
        done: Future[Metadata] = Future()
        done.set_result(plan.write())
        return done
    plan.copy_pieces()
    if not _threads:
        _threads.append(ThreadPoolExecutor(1, thread_name_prefix="checkpoints"))
        group_state.at_end.append(_end_thread)
    return _threads[0].submit(plan.write)


def _end_thread() -> None:
    """Wait for all saves."""
    while _threads:
        _threads.pop().shutdown()
