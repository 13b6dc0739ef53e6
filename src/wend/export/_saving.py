"""Programs as files: a safetensors file, with the graph as JSON under `__metadata__`.

docs/internals/program-files.md describes the format.  Nothing is unpickled, and nothing is run.
"""

from __future__ import annotations

import builtins
import io
import json
import os
from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from typing import IO, Any

from wend.base.dtypes import NAMES, DType
from wend.base.errors import FormatError
from wend.base.tree import LEAF, Structure
from wend.core._hot import Tensor
from wend.core.primitive import REGISTRY
from wend.core.provenance import Site
from wend.core.symbolic import ARG, DIM, NEG, OPERATORS, Expr
from wend.export._dims import Dim
from wend.export._program import ExportedProgram
from wend.nn.parameter import Parameter
from wend.serialization import CheckpointError, safetensors
from wend.transforms.exploring.program import (
    Apply,
    Captured,
    Compute,
    Draw,
    Fail,
    Give,
    Go,
    Info,
    Point,
    ReadNumber,
    StaticGraph,
    Stretch,
)

__all__ = ["load", "save"]

KEY, VERSION = "wend.program", 1
EXTRA = "extra."  # begins the keys of further texts
MOST_TEXT = 100_000_000  # bytes of JSON
_NAMES = {DIM: "dim", ARG: "number", NEG: "neg", **{r.opcode: r.name.lower() for r in OPERATORS}}
_OPCODES = {name: opcode for opcode, name in _NAMES.items()}
_KINDS: dict[str, type] = {"list": list, "tuple": tuple, "dict": dict, "ordered": OrderedDict}
_KIND_NAMES = {kind: name for name, kind in _KINDS.items()}


class SavedSite(Site):
    """A line of the program that was saved, as text."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        super().__init__(None, 0)
        self.text = text

    def __str__(self) -> str:
        return self.text


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
    found = {*graph.inputs, *[c.id for c in graph.captured]}
    for point in graph.points:
        found.update(point.params)
    for _, _, stretch in graph.stretches():
        for item in stretch.items:
            if isinstance(item, Apply):
                found.update(item.outputs)
            elif isinstance(item, Draw):
                found.update((item.seed, item.offset))
            else:
                found.add(item.output)
    return found


def _info(info: Info) -> Any:
    if info.extents is None:
        return [None, info.dtype, [_constant(h) for h in info.hint]]
    return [[_expr(e) for e in info.extents], info.dtype.name, list(info.hint)]


def _expr(expr: Expr) -> Any:
    if type(expr) is not tuple:
        return _constant(expr)
    name = _NAMES[expr[0]]
    if expr[0] in (DIM, ARG):
        return [name, *expr[1:]]
    if expr[0] == NEG:
        return [name, _expr(expr[1])]
    return [name, _expr(expr[1]), _expr(expr[2])]


def _constant(x: Any) -> Any:
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


def _structure(s: Structure) -> Any:
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


def _dim(dim: Any) -> Any:
    if isinstance(dim, Dim):
        return [dim.__name__, dim.min, dim.max]
    return dim if isinstance(dim, str) else None


def _point(point: Point) -> Any:
    return {
        "params": list(point.params),
        "question": _question(point.question),
        "answers": [_stretch(s) for s in point.answers],
        "place": "" if point.site is None else str(point.site),
    }


def _question(question: Any) -> Any:
    if question is None or question[0] == "value":
        return question and list(question)
    return ["compare", _NAMES[question[1]], _expr(question[2]), _expr(question[3])]


def _stretch(stretch: Stretch) -> Any:
    return [[_item(item) for item in stretch.items], _end(stretch.end)]


def _item(item: Any) -> Any:
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


def _end(end: Any) -> Any:
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
        metadata = {}
    text = metadata.get(KEY)
    if text is None:
        raise FormatError(
            "export.load: the file holds no program of Wend's; TorchScript archives and .pt2 files "
            "of PyTorch's cannot be read"
        )
    if len(text) > MOST_TEXT:
        raise FormatError("export.load: the graph takes more than 100 MB of text")
    if not isinstance(data, (str, os.PathLike)):
        data.seek(0)
        tensors = safetensors.load(data.read())
    else:
        tensors = safetensors.load_file(data)
    try:
        document = json.loads(text)
        if document["version"] != VERSION:
            raise FormatError(f"export.load: version {document['version']} of the format")
        return _Reader(document, tensors).program(), metadata, tensors
    except FormatError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FormatError(f"export.load: the graph is damaged: {error!r}") from error


class _Reader:
    """Reads a document; each id must have been made before use."""

    def __init__(self, document: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.document = document
        self.tensors = tensors

    def program(self) -> ExportedProgram:
        """The whole program."""
        d = self.document
        info = {int(i): self.info(x) for i, x in d["info"].items()}
        captured = [self.captured(*row) for row in d["captured"]]
        points = [self.point(p) for p in d["points"]]
        graph = StaticGraph(
            str(d["name"]),
            [int(i) for i in d["inputs"]],
            self.structure(d["structure"]),
            {int(i): self.constant(x) for i, x in d["constants"].items()},
            captured,
            points,
            info,
            {
                (_OPCODES[op], self.expr(a), self.expr(b)): (bool(outcome), SavedSite(site))
                for op, a, b, outcome, site in d["guards"]
            },
        )
        self.check(graph)
        dims = [{int(a): self.dim(x) for a, x in row.items()} for row in d["dims"]]
        return ExportedProgram(graph, dims)

    @staticmethod
    def check(graph: StaticGraph) -> None:
        """Raise FormatError for ids and points that do not exist."""
        known = set(graph.info)
        for c in graph.captured:
            extents = graph.info[c.id].extents
            if tuple(c.tensor.shape) != extents or c.tensor.dtype is not graph.info[c.id].dtype:
                raise FormatError(f"export.load: the tensor {c.name} is not of the graph's type")
        for number, answer, stretch in graph.stretches():
            end = stretch.end
            ids = [i for item in stretch.items if isinstance(item, Apply) for i in item.inputs]
            if isinstance(end, Go):
                ids += end.args
                if not 0 < end.point < len(graph.points):
                    raise FormatError(f"export.load: there is no point {end.point}")
                if len(end.args) != len(graph.points[end.point].params):
                    raise FormatError(f"export.load: point {number} and answer {answer}: params")
            if not known.issuperset(ids):
                raise FormatError("export.load: the graph uses values that it does not make")

    def captured(self, number: int, name: str, kind: str) -> Captured:
        """A tensor of the file."""
        if kind not in ("parameter", "buffer", "constant"):
            raise FormatError(f"export.load: a tensor of kind {kind!r}")
        tensor = self.tensors[name]
        return Captured(
            int(number), Parameter(tensor) if kind == "parameter" else tensor, name, kind
        )

    def info(self, row: Any) -> Info:
        """The facts of a value."""
        extents, dtype, hint = row
        if extents is None:
            return Info(None, int(dtype), tuple([self.constant(h) for h in hint]))
        shape = tuple([self.expr(e) for e in extents])
        return Info(shape, NAMES[dtype], tuple([int(n) for n in hint]))

    def expr(self, x: Any) -> Expr:
        """An expression."""
        if not isinstance(x, list):
            return self.constant(x)
        opcode = _OPCODES[x[0]]
        if opcode == DIM:
            return DIM, int(x[1]), int(x[2])
        if opcode == ARG:
            return ARG, int(x[1])
        parts = [self.expr(part) for part in x[1:]]
        if len(parts) != (1 if opcode == NEG else 2):
            raise FormatError(f"export.load: {x[0]} of {len(parts)} operands")
        return (opcode, *parts)

    def constant(self, x: Any) -> Any:
        """A constant."""
        if not isinstance(x, dict):
            return x
        ((kind, content),) = x.items()
        if kind == "float":
            return float(content)
        if kind == "dtype":
            return NAMES[content]
        parts = [self.constant(part) for part in content]
        return tuple(parts) if kind == "tuple" else parts

    def structure(self, x: Any) -> Structure:
        """A tree of arguments or results."""
        if x is None:
            return LEAF
        if x[0] == "named":
            _, name, fields, rows = x
            make: Any = namedtuple
            kind: Any = make(str(name), [str(f) for f in fields])
            context: Any = kind
        else:
            name, given, rows = x
            kind, context = _KINDS[name], self.constant(given)
        children = tuple([self.structure(row) for row in rows])
        return Structure(kind, context, children, sum(c.leaves for c in children))

    @staticmethod
    def dim(x: Any) -> Any:
        """A dim that may differ."""
        if x is None:
            return Dim.AUTO
        if isinstance(x, str):
            return x
        name, least, most = x
        return Dim(name, min=least, max=most)

    def point(self, row: Any) -> Point:
        """A point."""
        question = row["question"]
        if question is not None:
            question = (
                ("value", int(question[1]))
                if question[0] == "value"
                else ("compare", _OPCODES[question[1]], *map(self.expr, question[2:]))
            )
        answers = [
            Stretch([self.item(i) for i in items], self.end(end)) for items, end in row["answers"]
        ]
        if len(answers) != (1 if question is None else 2):
            raise FormatError("export.load: a question has two answers")
        site = SavedSite(row["place"]) if row["place"] else None
        return Point(tuple(map(int, row["params"])), question, answers, site)

    def item(self, row: Any) -> Any:
        """An item of a stretch."""
        kind = row[0]
        if kind == "apply":
            _, name, attrs, form, inputs, outputs, args, grad, place = row
            cls = REGISTRY.get(name)
            if cls is None or cls.calls_user:
                raise FormatError(f"export.load: there is no op {name!r}")
            given = {key: self.constant(x) for key, x in attrs.items()}
            prim = cls.intern(given, self.constant(form))
            args = tuple([self.expr(e) for e in args])
            site = SavedSite(place)
            ids = tuple(map(int, inputs)), tuple(map(int, outputs))
            return Apply(prim, None, *ids, args, bool(grad), site)
        if kind == "read":
            return ReadNumber(int(row[1]), int(row[2]), SavedSite(row[3]))
        if kind == "compute":
            return Compute(int(row[1]), self.expr(row[2]))
        if kind == "draw":
            return Draw(int(row[1]), int(row[2]), self.expr(row[3]))
        raise FormatError(f"export.load: an item of kind {kind!r}")

    def end(self, row: Any) -> Go | Give | Fail:
        """The end of a stretch."""
        kind = row[0]
        if kind == "go":
            return Go(int(row[1]), tuple(map(int, row[2])))
        if kind == "fail":
            found = getattr(builtins, row[1], RuntimeError)
            is_error = isinstance(found, type) and issubclass(found, Exception)
            make: Any = found if is_error else RuntimeError
            try:
                error = make(row[2])
            except TypeError:
                error = RuntimeError(row[2])
            return Fail(error, SavedSite(row[3]))
        _, leaves, structure, writes = row
        found = []
        for how, x in leaves:
            value = (
                int(x) if how == "value" else self.expr(x) if how == "number" else self.constant(x)
            )
            if how not in ("value", "number", "constant"):
                raise FormatError(f"export.load: a result of kind {how!r}")
            found.append((how, value))
        pairs = tuple([(int(a), int(b)) for a, b in writes])
        return Give(tuple(found), self.structure(structure), pairs)
