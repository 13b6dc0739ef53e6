"""The file that Perfetto and chrome://tracing open: complete events, nested."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from typing import Any, TextIO, cast

from wend._engine.runtime.measure.recorder import (
    COPY,
    FLUSH,
    ON_DEVICE,
    FlushPart,
    MeasuredFlush,
    Scope,
)
from wend._frontend.profiling.window import Launched, SliceTree, Window

__all__ = ["MOST_BYTES", "text_file", "write_trace"]

#: Viewers open files of this size; larger ones are cut behind a whole step.
MOST_BYTES = 100_000_000
#: Categories under which readers of PyTorch's traces look for slices; those of the other kinds are
#: the kinds. PyTorch's "kernel" is for kernels of a device.
CATEGORIES = {
    "step": "user_annotation",
    "user": "user_annotation",
    "optimizer": "user_annotation",
    "kernel": "cpu_op",
    "numpy": "cpu_op",
    ON_DEVICE: "kernel",
    COPY: "gpu_memcpy",
}
#: A kernel's lines are listed up to this number.
_MOST_LINES = 24


def write_trace(
    window: Window, path: str, metadata: dict[str, Any], max_bytes: int | None = MOST_BYTES
) -> int:
    """Write the slices of a window as a Chrome trace; return how many steps were left out.

    path: with `.gz` at the end, the file is compressed
    metadata: more members of the file's outermost object
    max_bytes: of the text; whole steps are written while they fit; None for no limit
    """
    process = os.getpid()
    tracks = Tracks(process)
    head = {"schemaVersion": 1, "displayTimeUnit": "ms", **metadata}
    text = json.dumps(head)[:-1] + ', "traceEvents": [\n'
    left_out = 0
    with text_file(path) as file:
        size = file.write(text)
        separator = ""
        for group in groups_of(window.trees):
            rows = [row for tree in group for row in events_of(tree, window, tracks)]
            rows = tracks.names(window.threads) + rows
            piece = ",\n".join(rows)
            if left_out or (max_bytes is not None and size + len(piece) + 256 > max_bytes):
                left_out += 1
                continue
            size += file.write(separator + piece)
            separator = ",\n"
        if left_out:
            end = _us(window.end - window.start)
            note = (
                f'{{"ph": "i", "s": "g", "name": "{left_out} steps left out: the limit of bytes", '
                f'"pid": {process}, "tid": 0, "ts": {end}}}'
            )
            file.write(separator + note)
        file.write("\n]}\n")
    return left_out


def text_file(path: str) -> TextIO:
    """A new file for text, compressed where the path ends with `.gz`."""
    opened: Any = gzip.open if path.endswith(".gz") else open
    return cast(TextIO, opened(path, "wt", encoding="utf-8"))


class Tracks:
    """Numbers of the tracks in the file, and the events that give them names."""

    def __init__(self, process: int) -> None:
        self.process = process
        self.numbers: dict[Any, int] = {}
        self.told = 0

    def __getitem__(self, track: object) -> int:
        return self.numbers.setdefault(track, len(self.numbers) + 1)

    def names(self, threads: dict[int, str]) -> list[str]:
        """The events that name tracks met since the last call."""
        rows = []
        for (thread, fiber), number in list(self.numbers.items())[self.told :]:
            name = threads.get(thread, "thread")
            if fiber is not None:
                name = f"{name}: a fiber"
            rows.append(
                json.dumps(
                    {"ph": "M", "name": "thread_name", "pid": self.process, "tid": number,
                     "args": {"name": name}}
                )
            )  # fmt: skip
        self.told = len(self.numbers)
        return rows


def groups_of(trees: list[SliceTree]) -> Iterator[list[SliceTree]]:
    """The slices in groups that are written whole: steps, or else outermost slices."""
    flat: list[SliceTree] = []
    for tree in trees:
        if tree.slice.kind == "profile":
            shell = SliceTree(tree.slice)  # without the slices within, which are groups too
            flat.append(shell)
            flat.extend(tree.inner)
        else:
            flat.append(tree)
    flat.sort(key=lambda tree: tree.slice.begin)
    steps = any(tree.slice.kind == "step" for tree in flat)
    group: list[SliceTree] = []
    for tree in flat:
        if group and (tree.slice.kind == "step" or not steps):
            yield group
            group = []
        group.append(tree)
    if group:
        yield group


def events_of(tree: SliceTree, window: Window, tracks: Tracks) -> Iterator[str]:
    """The events of a slice, and of all slices within."""
    for subtree in tree.walk():
        one = subtree.slice
        category = CATEGORIES.get(one.kind, one.kind)
        args = {"kind": one.kind, **facts(one.kind, one.about, window)}
        yield (
            f'{{"ph": "X", "cat": {json.dumps(category)}, "name": {json.dumps(one.name)}, '
            f'"pid": {tracks.process}, "tid": {tracks[one.track]}, '
            f'"ts": {_us(one.begin - window.start)}, "dur": {_us(one.end - one.begin)}, '
            f'"args": {json.dumps(args)}}}'
        )


def _us(ns: int) -> str:
    """Nanoseconds as microseconds with three decimals, exactly."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def facts(kind: str, about: object, window: Window) -> dict[str, Any]:
    """Return the facts about a slice that a viewer shows besides the name and the kind."""
    if isinstance(about, Scope):
        return {"Module path": about.about} if about.kind == "module" else {}
    if kind == FLUSH and isinstance(about, MeasuredFlush):
        counts: dict[str, Any] = {"steps": len(about.states)}
        return counts | ({"fibers": about.lanes} if about.lanes > 1 else {})
    if isinstance(about, Launched):
        kernel = facts(kind, (about.flush, about.part), window)
        return {**about.facts, "launches of this kernel": len(about.part.launches), **kernel}
    if isinstance(about, tuple) and len(about) == 2 and isinstance(about[1], FlushPart):
        flush, part = about
        lines = window.lines_of(part, flush)
        flops, moved = window.costs(part, flush)
        rows = [f"{share:.1%} {ops}: {line}" for line, ops, share in lines[:_MOST_LINES]]
        if len(lines) > _MOST_LINES:
            rows.append(f"and {len(lines) - _MOST_LINES} more lines")
        return {"lines": rows, "flops": flops, "bytes": moved}
    return dict(about) if isinstance(about, dict) else {}
