"""Single faults of the sources: where one can be made, how it reads, and the text that has it.

A fault changes an operator, a comparison, a number, a condition or a flag, or leaves out a line.
Its name follows from the place and the change, not from the number of the line. So the faults of a
seed stay the same while other code changes.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from executed import AREAS

ARITHMETIC: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
}  # fmt: skip
COMPARISON: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE), ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE), ast.Eq: (ast.NotEq, ast.GtE), ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
LITERAL = (ast.List, ast.Tuple, ast.JoinedStr, ast.Dict, ast.Set, ast.ListComp)
#: What is no work of the program: text for people, types, checks of Wend itself.
SKIPPED = (ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Raise)
SHOWN = 70  # characters of the code of a fault in a table


class Fault(NamedTuple):
    """A change of a source file.

    path: the file, below `src/wend`
    function: the qualified name of the function around; `<module>` for none
    start, end: the bytes of the file that `text` takes the place of
    before, after: the changed code, for people
    """

    name: str
    area: str
    path: str
    function: str
    kind: str
    before: str
    after: str
    start: int
    end: int
    text: str

    def apply(self, source: bytes) -> bytes:
        """Return the source with the fault."""
        return source[: self.start] + self.text.encode() + source[self.end :]


def drawn(root: Path, seed: int, count: int) -> list[Fault]:
    """Return the first faults of a seed, in turn from each area. root: the folder above `src`"""
    rows = []
    for area in AREAS:
        found = [fault for path in sources(root, area) for fault in faults_of(root, area, path)]
        found.sort(key=lambda fault: _hash(f"{seed}:{fault.name}"))
        rows.append(found)
    turns = [fault for turn in zip_longest(*rows) for fault in turn if fault is not None]
    return turns[:count]


def sources(root: Path, area: str) -> list[Path]:
    """Return the source files of an area that run as they stand: compiled modules do not."""
    found = sorted((root / "src" / "wend" / AREAS[area]).rglob("*.py"))
    return [path for path in found if not list(path.parent.glob(f"{path.stem}.*.so"))]


def faults_of(root: Path, area: str, path: Path) -> list[Fault]:
    """Return all faults of a file."""
    source = path.read_bytes()
    where = path.relative_to(root / "src" / "wend").as_posix()
    return list(_Places(area, where, source).walk(ast.parse(source), "<module>"))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class _Places:
    """The faults of a file, in the order of a walk through its tree."""

    def __init__(self, area: str, path: str, source: bytes) -> None:
        self.area, self.path, self.source = area, path, source
        self.starts = [0]  # of lines, in bytes
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.counts: dict[Any, int] = {}

    def walk(self, node: ast.AST, function: str) -> Iterator[Fault]:
        """Yield the faults below a node."""
        body = node.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else []
        own = [node.test] if isinstance(node, ast.If | ast.While) else getattr(node, "ifs", [])
        for child in _children(node):
            inner = function
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                outer = "" if function == "<module>" else f"{function}."
                inner = outer + child.name
                if child.name in ("__repr__", "__slots__"):
                    continue
            last = bool(body) and child is body[-1]
            for kind, text, after in _changes(child, last, child in own):
                if kind != "dropped line" or not function.endswith("__init__"):
                    yield self.fault(child, inner, kind, text, after)
            yield from self.walk(child, inner)

    def fault(self, node: Any, function: str, kind: str, text: str, after: str) -> Fault:
        """Return the fault that puts a text in the place of a node."""
        start = self.starts[node.lineno - 1] + node.col_offset
        end = self.starts[node.end_lineno - 1] + node.end_col_offset
        before = " ".join(self.source[start:end].decode().split())
        key = self.path, function, kind, before, after
        self.counts[key] = number = self.counts.get(key, 0) + 1
        name = _hash(repr((*key, number)))[:10]
        shown = before[:SHOWN], after[:SHOWN]
        return Fault(name, self.area, self.path, function, kind, *shown, start, end, text)


def _children(node: ast.AST) -> Iterator[Any]:
    """Yield the nodes below a node that are the program's work."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, SKIPPED):
                continue
            if isinstance(child, ast.keyword) and child.arg == "strict":
                continue  # a check of Wend itself
            if isinstance(child, ast.Assign) and "__" in ast.unparse(child.targets[0]):
                continue
            yield child


def _changes(node: Any, last: bool, asked: bool) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, text in the place of the node, the code for people) of the faults of a node.

    last: whether the node is the last statement of a function
    asked: whether the node is the condition of an `if`, a loop or a filter
    """
    if isinstance(node, ast.stmt):
        if _may_drop(node, last):
            yield "dropped line", "pass", "pass"
        return
    if isinstance(node, ast.BinOp) and _is_number(node):
        yield "arithmetic", *_with(node, op=ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.Compare):
        for other in COMPARISON[type(node.ops[0])]:
            yield "comparison", *_with(node, ops=[other(), *node.ops[1:]])
    elif isinstance(node, ast.BoolOp):
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield "condition", *_with(node, op=other())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "condition", *_shown(node.operand)
    elif asked:
        yield "condition", *_shown(ast.UnaryOp(ast.Not(), node))
    elif isinstance(node, ast.IfExp):
        yield "condition", *_with(node, test=ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield "flag", str(not node.value), str(not node.value)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "off by one", str(node.value + 1), str(node.value + 1)


def _may_drop(node: ast.stmt, last: bool) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Attribute | ast.Subscript)
    if isinstance(node, ast.Return):
        return not last and node.value is not None
    return isinstance(node, ast.AugAssign | ast.Continue | ast.Break)


def _is_number(node: ast.BinOp) -> bool:
    """Whether an operator may work on numbers: not on texts, lists or types."""
    sides = [node.left, node.right]
    if any(isinstance(side, LITERAL) for side in sides):
        return False
    values = [side.value for side in sides if isinstance(side, ast.Constant)]
    return type(node.op) in ARITHMETIC and not any(v is None or type(v) is str for v in values)


def _with(node: Any, **fields: Any) -> tuple[str, str]:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return _shown(other)


def _shown(node: ast.expr) -> tuple[str, str]:
    text = ast.unparse(ast.fix_missing_locations(node))
    return f"({text})", text
