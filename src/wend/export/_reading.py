"""Programs from files: JSON as a graph, every part of which is checked before any rule runs.

docs/internals/program-files.md describes the format and the checks.  This reader makes the
parts and checks each by itself; `_checking` then checks how they fit together.
"""

from __future__ import annotations

import builtins
import keyword
from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from typing import Any

from wend._engine.base.dtypes import NAMES, DType
from wend._engine.base.tree import LEAF, Structure
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import REGISTRY
from wend._engine.core.provenance import Site
from wend._engine.core.symbolic import ARG, DIM, EQ, NEG, OPERATORS, Expr
from wend._engine.transforms.exploring.program import (
    Apply,
    Captured,
    Compute,
    Draw,
    Fail,
    Give,
    Go,
    Info,
    Item,
    Point,
    ReadNumber,
    StaticGraph,
    Stretch,
)
from wend.export import _strict as strict
from wend.export._checking import check_dims, check_graph
from wend.export._dims import Dim, Hint
from wend.export._operands import MOST_DIMS, check_attributes, check_form
from wend.export._program import ExportedProgram
from wend.export._strict import Json, damaged
from wend.nn.parameter import Parameter

__all__ = ["KINDS", "NAMES_OF_OPCODES", "VERSION", "SavedSite", "program_of"]

VERSION = 1
NAMES_OF_OPCODES = {
    DIM: "dim",
    ARG: "number",
    NEG: "neg",
    **{r.opcode: r.name.lower() for r in OPERATORS},
}
_OPCODES = {name: opcode for opcode, name in NAMES_OF_OPCODES.items()}
KINDS: dict[str, type] = {"list": list, "tuple": tuple, "dict": dict, "ordered": OrderedDict}
_FLOATS = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}
MOST_INT = 1 << 64  # of constants: the largest that a tensor holds
MOST_EXTENT = 1 << 62


class SavedSite(Site):
    """A line of the program that was saved, as text."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        super().__init__(None, 0)
        self.text = text

    def __str__(self) -> str:
        return self.text


def program_of(text: str, tensors: Mapping[str, Tensor]) -> ExportedProgram:
    """The program that a text of JSON describes, with tensors by name.

    Raises FormatError for texts that Wend cannot have written.
    """
    document = strict.parsed(text)
    if document.get("version") != VERSION or type(document["version"]) is not int:
        raise strict.damaged(f"version {strict.short(document.get('version'))} of the format")
    missing = _PARTS - document.keys()
    if missing:
        raise damaged(f"it has no {min(missing)!r}")
    return _Reader(document, tensors).program()


_PARTS = frozenset(
    ("name", "inputs", "structure", "constants", "captured", "dims", "info", "guards", "points")
)


def _id(x: object) -> int:
    return strict.whole(x, "the id of a value")


def _ids(x: object) -> tuple[int, ...]:
    return tuple([_id(i) for i in strict.rows(x, "a list of ids")])


def _site(x: object) -> SavedSite:
    return SavedSite(strict.text(x, "a line"))


class _Reader:
    """Makes the parts of a program."""

    def __init__(self, document: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.document = document
        self.tensors = tensors

    def program(self) -> ExportedProgram:
        """The whole program."""
        d = self.document
        graph = StaticGraph(
            strict.text(d["name"], "the name"),
            list(_ids(d["inputs"])),
            self.structure(d["structure"]),
            {
                k: self.constant(x)
                for k, x in strict.numbered(d["constants"], "the constants").items()
            },
            [self.captured(x) for x in strict.rows(d["captured"], "the captured tensors")],
            [self.point(p) for p in strict.rows(d["points"], "the points")],
            {i: self.info(x) for i, x in strict.numbered(d["info"], "the facts").items()},
            dict(self.guard(x) for x in strict.rows(d["guards"], "the guards")),
        )
        check_graph(graph)
        dims = [
            {a: self.dim(x) for a, x in strict.numbered(row, "the dims of an input").items()}
            for row in strict.rows(d["dims"], "the dims")
        ]
        check_dims(graph, dims)
        return ExportedProgram(graph, dims)

    def guard(self, x: Json) -> tuple[tuple[int, Expr, Expr], tuple[bool, SavedSite]]:
        """A comparison of sizes."""
        op, a, b, outcome, site = strict.row(x, "a guard", 5)
        key = self.comparison(op), self.expr(a), self.expr(b)
        return key, (strict.flag(outcome, "the outcome of a guard"), _site(site))

    @staticmethod
    def comparison(x: Json) -> int:
        """The opcode of a comparison."""
        opcode = _OPCODES.get(strict.text(x, "a comparison"), 0)
        if opcode < EQ:
            raise damaged(f"there is no comparison {strict.short(x)}")
        return opcode

    def captured(self, x: Json) -> Captured:
        """A tensor of the file."""
        number, name, kind = strict.row(x, "a captured tensor", 3)
        if kind not in ("parameter", "buffer", "constant"):
            raise damaged(f"a tensor is of kind {strict.short(kind)}")
        tensor = self.tensors.get(strict.text(name, "the name of a tensor"))
        if tensor is None:
            raise damaged(f"the file has no tensor {strict.short(name)}")
        if kind == "parameter":
            if tensor.dtype.category < 2:
                raise damaged(f"the parameter {strict.short(name)} is of {tensor.dtype}")
            tensor = Parameter(tensor)
        return Captured(_id(number), tensor, name, kind)

    def info(self, x: Json) -> Info:
        """The facts of a value."""
        extents, dtype, hint = strict.row(x, "the facts of a value", 3)
        strict.rows(hint, "the sizes while exploring")
        if extents is None:
            if len(hint) > 1:
                raise damaged("a number is one number while exploring")
            category = strict.whole(dtype, "the category of a number", 0, 2)
            return Info(None, category, tuple([self.number(h) for h in hint]))
        shape = tuple([self.expr(e) for e in strict.rows(extents, "the extents of a value")])
        if len(shape) > MOST_DIMS:
            raise damaged(f"a tensor has {len(shape)} dims")
        sizes = tuple([strict.whole(n, "a size while exploring", 0, MOST_EXTENT) for n in hint])
        return Info(shape, self.dtype(dtype), sizes)

    @staticmethod
    def dtype(x: Json) -> DType:
        """A dtype."""
        element_type = NAMES.get(strict.text(x, "a dtype"))
        if element_type is None:
            raise damaged(f"there is no dtype {strict.short(x)}")
        return element_type

    def expr(self, x: Json) -> Expr:
        """An expression."""
        if type(x) is not list:
            return self.number(x)
        name = x[0] if x and type(x[0]) is str else ""
        opcode = _OPCODES.get(name, EQ)
        if opcode >= EQ:
            raise damaged(f"there is no operator {strict.short(x)} in an expression")
        if opcode == DIM:
            _, i, axis = strict.row(x, "an extent", 3)
            return DIM, _id(i), strict.whole(axis, "the axis of an extent", 0, MOST_DIMS)
        if opcode == ARG:
            return ARG, _id(strict.row(x, "a number", 2)[1])
        parts = strict.row(x, f"the operator {name!r}", 2 if opcode == NEG else 3)
        return (opcode, *[self.expr(part) for part in parts[1:]])

    def number(self, x: Json) -> Any:
        """A number: an int, a float or a bool."""
        value = self.constant(x)
        if type(value) not in (bool, int, float):
            raise damaged(f"{strict.short(x)} is no number")
        return value

    def constant(self, x: Json) -> Any:
        """A constant."""
        if type(x) is list:
            raise damaged("a constant is a list without a kind")
        if type(x) is not dict:
            if type(x) is int and abs(x) > MOST_INT:
                raise damaged(f"a constant is {strict.short(x)}")
            return x
        if len(x) != 1:
            raise damaged("a constant is not of one kind")
        ((kind, content),) = x.items()
        if kind == "float":
            if type(content) is not str or content not in _FLOATS:
                raise damaged(f"a constant is the float {strict.short(content)}")
            return _FLOATS[content]
        if kind == "dtype":
            return self.dtype(content)
        if kind not in ("tuple", "list"):
            raise damaged(f"a constant is of kind {strict.short(kind)}")
        parts = [self.constant(part) for part in strict.rows(content, f"a {kind}")]
        return tuple(parts) if kind == "tuple" else parts

    def structure(self, x: Json) -> Structure:
        """A tree of arguments or results."""
        if x is None:
            return LEAF
        if strict.rows(x, "a tree")[:1] == ["named"]:
            _, name, fields, children = strict.row(x, "a named tuple", 4)
            kind: Any = _named_tuple(name, strict.rows(fields, "the fields of a named tuple"))
            context: Any = kind
            wanted: int | None = len(fields)
        else:
            name, keys, children = strict.row(x, "a tree", 3)
            kind = KINDS.get(name) if type(name) is str else None
            if kind is None:
                raise damaged(f"a tree is of kind {strict.short(name)}")
            keyed = name in ("dict", "ordered")
            context = self.keys(keys) if keyed else None
            wanted = len(context) if keyed else None
            if not keyed and keys is not None:
                raise damaged(f"a {name} has keys")
        parts = tuple([self.structure(part) for part in strict.rows(children, "parts of a tree")])
        if wanted is not None and len(parts) != wanted:
            raise damaged(f"a tree has {wanted} names for {len(parts)} parts")
        return Structure(kind, context, parts, sum(c.leaves for c in parts))

    def keys(self, x: Json) -> tuple[Any, ...]:
        """The keys of a dict."""
        constant = self.constant(x)
        if type(constant) is not tuple:
            raise damaged("the keys of a dict are no tuple")
        try:
            count = len(set(constant))
        except TypeError as error:
            raise damaged("a list is the key of a dict") from error
        if count != len(constant):
            raise damaged("a dict has a key twice")
        return constant

    @staticmethod
    def dim(x: Json) -> Dim | Hint | str:
        """A dim that may differ."""
        if x is None:
            return Dim.AUTO
        if type(x) is str:
            return x
        name, least, most = strict.row(x, "a dim", 3)
        if not strict.text(name, "the name of a dim").isidentifier():
            raise damaged(f"a dim is called {strict.short(name)}")
        least = strict.whole(least, "the least size of a dim", 0, MOST_EXTENT)
        if most is not None:
            strict.whole(most, "the largest size of a dim", least, MOST_EXTENT)
        return Dim(name, min=least, max=most)

    def point(self, x: Json) -> Point:
        """A point."""
        parts = strict.table(x, "a point")
        if parts.keys() != {"params", "question", "answers", "place"}:
            raise damaged("a point has other parts than params, question, answers and place")
        question = parts["question"]
        if question is not None:
            question = self.question(question)
        count = 1 if question is None else 2
        answers = []
        for stretch in strict.row(parts["answers"], "the answers to a question", count):
            items, end = strict.row(stretch, "a stretch", 2)
            stretch_items = [self.item(i) for i in strict.rows(items, "the items of a stretch")]
            answers.append(Stretch(stretch_items, self.end(end)))
        site = _site(parts["place"]) if parts["place"] != "" else None
        return Point(_ids(parts["params"]), question, answers, site)

    def question(self, x: Json) -> tuple[Any, ...]:
        """A question."""
        if strict.rows(x, "a question")[:1] == ["value"]:
            return "value", _id(strict.row(x, "a question", 2)[1])
        kind, op, a, b = strict.row(x, "a question", 4)
        if kind != "compare":
            raise damaged(f"a question is of kind {strict.short(kind)}")
        return "compare", self.comparison(op), self.expr(a), self.expr(b)

    def item(self, x: Json) -> Item:
        """An item of a stretch."""
        kind = strict.rows(x, "an item")[0] if x else None
        if kind == "apply":
            return self.apply(x)
        if kind == "read":
            _, output, value, site = strict.row(x, "a number that is read", 4)
            return ReadNumber(_id(output), _id(value), _site(site))
        if kind == "compute":
            _, output, expr = strict.row(x, "a number that is computed", 3)
            return Compute(_id(output), self.expr(expr))
        if kind == "draw":
            _, seed, offset, count = strict.row(x, "a draw", 4)
            return Draw(_id(seed), _id(offset), self.expr(count))
        raise damaged(f"an item is of kind {strict.short(kind)}")

    def apply(self, x: Json) -> Apply:
        """An op with its operands."""
        _, name, attrs, form, inputs, outputs, args, grad, site = strict.row(x, "an op", 9)
        cls = REGISTRY.get(name) if type(name) is str else None
        if cls is None or cls.facts.calls_user:
            raise damaged(f"there is no op {strict.short(name)}")
        constants = {k: self.constant(v) for k, v in strict.table(attrs, "attributes").items()}
        operand_form = self.constant(form)
        check_form(cls, operand_form)
        attributes = check_attributes(cls, constants)
        if name in _ASKING:
            cls, attributes = REGISTRY[_ASKING[name]], {}
        prim = cls.intern(attributes, operand_form)
        numbers = tuple([self.expr(e) for e in strict.rows(args, "the numbers of an op")])
        flag = strict.flag(grad, "whether gradients are on")
        return Apply(prim, None, _ids(inputs), _ids(outputs), numbers, flag, _site(site))

    def end(self, x: Json) -> Go | Give | Fail:
        """The end of a stretch."""
        kind = strict.rows(x, "an end")[0] if x else None
        if kind == "go":
            _, point, args = strict.row(x, "a way on", 3)
            return Go(strict.whole(point, "a point"), _ids(args))
        if kind == "fail":
            _, name, message, site = strict.row(x, "an error", 4)
            return Fail(_error(name, strict.text(message, "the text of an error")), _site(site))
        if kind != "give":
            raise damaged(f"an end is of kind {strict.short(kind)}")
        _, leaves, structure, writes = strict.row(x, "a result", 4)
        pairs = [_ids(strict.row(w, "a write", 2)) for w in strict.rows(writes, "the writes")]
        results = tuple([self.leaf(leaf) for leaf in strict.rows(leaves, "the results")])
        return Give(results, self.structure(structure), tuple([(a, b) for a, b in pairs]))

    def leaf(self, x: Json) -> tuple[str, Any]:
        """A part of the result."""
        how, content = strict.row(x, "a part of the result", 2)
        if how == "value":
            return how, _id(content)
        if how == "number":
            return how, self.expr(content)
        if how == "constant":
            return how, self.constant(content)
        raise damaged(f"a part of the result is of kind {strict.short(how)}")


#: Ops of gradient rules that ask nothing of extents -> the ops that do, which compute the same.
_ASKING = {"reshape_to": "reshape", "expand_to": "expand"}


def _named_tuple(name: object, fields: list[Any]) -> type[tuple[Any, ...]]:
    """The class of a named tuple; `namedtuple` makes code of the names."""
    for word in (name, *fields):
        if type(word) is not str or not word.isidentifier() or keyword.iskeyword(word):
            raise damaged(f"a named tuple has the name {strict.short(word)}")
    if any(field.startswith("_") for field in fields) or len(set(fields)) != len(fields):
        raise damaged(f"the named tuple {strict.short(name)} has a field twice, or a private one")
    make: Any = namedtuple
    return make(name, fields)


def _error(name: object, message: str) -> Exception:
    """An error that the program ends in: of a class of Python's own, or a RuntimeError."""
    error_class = getattr(builtins, strict.text(name, "the class of an error"), None)
    if isinstance(error_class, type) and issubclass(error_class, Exception):
        try:
            return error_class(message)
        except TypeError:  # a class that asks for more than a text
            pass
    return RuntimeError(message)
