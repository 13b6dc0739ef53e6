"""Programs as files: a safetensors file, with the graph as JSON under `__metadata__`.

docs/internals/program-files.md describes the format.  Nothing is unpickled, and nothing is run.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from typing import IO, Any

from wend._engine.base.dtypes import DType
from wend._engine.base.errors import FormatError
from wend._engine.base.tree import Structure
from wend._engine.core._hot import Tensor
from wend._engine.core.symbolic import ARG, DIM, NEG, Expr
from wend._engine.transforms.exploring.program import (
    Apply,
    Compute,
    Draw,
    Fail,
    Go,
    Info,
    Item,
    Point,
    ReadNumber,
    StaticGraph,
    Stretch,
)
from wend.export._dims import Dim, Hint
from wend.export._program import ExportedProgram
from wend.export._reading import KINDS, NAMES_OF_OPCODES, VERSION, program_of
from wend.export._strict import Json
from wend.serialization import CheckpointError, safetensors

__all__ = ["load", "save"]

KEY = "wend.program"
EXTRA = "extra."  # begins the keys of further texts
_NAMES = NAMES_OF_OPCODES
_KIND_NAMES = {kind: name for name, kind in KINDS.items()}


# -- writing --------------------------------------------------------------------------------


def save(
    ep: ExportedProgram,
    f: str | os.PathLike[str] | IO[bytes],
    *,
    extra_files: Mapping[str, str] | None = None,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = 2,
) -> None:
    """Write a program with its tensors to a file.

    extra_files: further texts, by name     opset_version, pickle_protocol: the file needs neither
    Raises FormatError for constants that no file can hold, such as objects among the arguments.
    """
    write(ep, f, {EXTRA + name: x for name, x in (extra_files or {}).items()}, {})


def write(
    program: ExportedProgram,
    f: str | os.PathLike[str] | IO[bytes],
    texts: Mapping[str, str],
    more: Mapping[str, Tensor],
) -> None:
    """Write a program to a file.

    texts: further entries of the metadata     more: further tensors, by name
    """
    graph = program.program
    tensors = {**{c.name: c.tensor for c in graph.captured}, **more}
    if len(tensors) != len(graph.captured) + len(more):
        raise FormatError("export.save: two tensors have the same name")
    text = json.dumps(_document(program), separators=(",", ":"), allow_nan=False)
    metadata = {KEY: text, **texts}
    if isinstance(f, (str, os.PathLike)):
        safetensors.save_file(tensors, f, metadata)
    else:
        f.write(safetensors.save(tensors, metadata))


def _document(program: ExportedProgram) -> dict[str, Any]:
    graph = program.program
    used = _used_ids(graph)
    return {
        "version": VERSION,
        "name": graph.name,
        "inputs": graph.inputs,
        "structure": _structure(graph.structure),
        "constants": {str(i): _constant(x) for i, x in graph.constants.items()},
        "captured": [[c.id, c.name, c.kind] for c in graph.captured],
        "dims": [{str(a): _dim(d) for a, d in row.items()} for row in program.dims],
        "info": {str(i): _info(x) for i, x in graph.info.items() if i in used},
        "guards": [
            [_NAMES[op], _expr(a), _expr(b), outcome, str(site)]
            for (op, a, b), (outcome, site) in graph.guards.items()
        ],
        "points": [_point(p) for p in graph.points],
    }


def _used_ids(graph: StaticGraph) -> set[int]:
    ids = {*graph.inputs, *[c.id for c in graph.captured]}
    for point in graph.points:
        ids.update(point.params)
    for _, _, stretch in graph.stretches():
        for item in stretch.items:
            if isinstance(item, Apply):
                ids.update(item.outputs)
            elif isinstance(item, Draw):
                ids.update((item.seed, item.offset))
            else:
                ids.add(item.output)
    return ids


def _info(info: Info) -> list[Json]:
    if info.extents is None:
        return [None, info.dtype, [_constant(h) for h in info.hint]]
    return [[_expr(e) for e in info.extents], info.dtype.name, list(info.hint)]


def _expr(expr: Expr) -> Json:
    if type(expr) is not tuple:
        return _constant(expr)
    name = _NAMES[expr[0]]
    if expr[0] in (DIM, ARG):
        return [name, *expr[1:]]
    if expr[0] == NEG:
        return [name, _expr(expr[1])]
    return [name, _expr(expr[1]), _expr(expr[2])]


def _constant(x: Any) -> Json:
    if x is None or type(x) in (bool, int, str):
        return x
    if type(x) is float:
        finite = x == x and abs(x) != float("inf")
        return x if finite else {"float": repr(x)}
    if isinstance(x, DType):
        return {"dtype": x.name}
    if isinstance(x, tuple):
        return {"tuple": [_constant(part) for part in x]}
    if type(x) is list:
        return {"list": [_constant(part) for part in x]}
    raise FormatError(f"export.save: a {type(x).__name__} in the graph cannot be written: {x!r}")


def _structure(s: Structure) -> Json:
    if s.kind is None:
        return None
    children = [_structure(child) for child in s.children]
    name = _KIND_NAMES.get(s.kind)
    if name is None:
        fields = getattr(s.kind, "_fields", None)
        if fields is None:
            raise FormatError(f"export.save: arguments or results hold a {s.kind.__name__}")
        return ["named", s.kind.__name__, list(fields), children]
    context = _constant(tuple(s.context)) if name in ("dict", "ordered") else None
    return [name, context, children]


def _dim(dim: Dim | Hint | str) -> Json:
    if isinstance(dim, Dim):
        return [dim.__name__, dim.min, dim.max]
    return dim if isinstance(dim, str) else None


def _point(point: Point) -> dict[str, Json]:
    return {
        "params": list(point.params),
        "question": _question(point.question),
        "answers": [_stretch(s) for s in point.answers],
        "place": "" if point.site is None else str(point.site),
    }


def _question(question: Any) -> Json:
    if question is None or question[0] == "value":
        return question and list(question)
    return ["compare", _NAMES[question[1]], _expr(question[2]), _expr(question[3])]


def _stretch(stretch: Stretch) -> list[list[Json]]:
    return [[_item(item) for item in stretch.items], _end(stretch.end)]


def _item(item: Item) -> list[Json]:
    if isinstance(item, Apply):
        prim = item.prim
        return [
            "apply",
            type(prim).name,
            {key: _constant(x) for key, x in prim.attrs.items()},
            _constant(prim.form),
            list(item.inputs),
            list(item.outputs),
            [_expr(e) for e in item.args],
            item.grad,
            str(item.site),
        ]
    if isinstance(item, ReadNumber):
        return ["read", item.output, item.value, str(item.site)]
    if isinstance(item, Compute):
        return ["compute", item.output, _expr(item.expr)]
    return ["draw", item.seed, item.offset, _expr(item.count)]


def _end(end: Any) -> list[Json]:
    if isinstance(end, Go):
        return ["go", end.point, list(end.args)]
    if isinstance(end, Fail):
        return ["fail", type(end.error).__name__, str(end.error), str(end.site)]
    leaves = []
    for kind, x in end.leaves:
        leaves.append(
            [kind, x if kind == "value" else _expr(x) if kind == "number" else _constant(x)]
        )
    return ["give", leaves, _structure(end.structure), [list(w) for w in end.writes]]


# -- reading --------------------------------------------------------------------------------


def load(
    f: str | os.PathLike[str] | IO[bytes],
    *,
    extra_files: dict[str, str] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:
    """The program in a file.

    extra_files: gets the further texts of the file     expected_opset_version: makes no difference
    Raises FormatError for a file that is no program.
    """
    program, metadata, _ = read(f)
    if extra_files is not None:
        begun = [key for key in metadata if key.startswith(EXTRA)]
        extra_files.update({key.removeprefix(EXTRA): metadata[key] for key in begun})
    return program


def read(
    f: str | os.PathLike[str] | IO[bytes],
) -> tuple[ExportedProgram, dict[str, str], dict[str, Tensor]]:
    """The program in a file, the file's metadata, and all of its tensors by name."""
    data: Any = f if isinstance(f, (str, os.PathLike)) else io.BytesIO(f.read())
    try:
        metadata = safetensors.read_metadata(data)
    except CheckpointError:
        # The file is no safetensors file: the message says which files are read.
        metadata = {}
    text = metadata.get(KEY)
    if text is None:
        raise FormatError(
            "export.load: the file holds no program of Wend's; TorchScript archives and .pt2 files "
            "of PyTorch's cannot be read"
        )
    if not isinstance(data, (str, os.PathLike)):
        data.seek(0)
        tensors = safetensors.load(data.read())
    else:
        tensors = safetensors.load_file(data)
    try:
        return program_of(text, tensors), metadata, tensors
    except MemoryError as error:
        raise FormatError("export.load: the graph takes more memory than there is") from error
