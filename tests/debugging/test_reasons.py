"""Reasons that users read, all found in the sources, are in words that the docs explain."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "wend"
WORDS_PAGE = ROOT / "docs" / "explanation" / "when.md"

#: Words of the engine's own parts, which no page for users explains.
ENGINE = re.compile(
    r"\b(trie|segments?|nodes?|leaves|leaf(?! tensor)|lanes?|states?|guarded|frames?|regions?"
    r"|slabs?|templates?|roots?|launchers?|fibers?|arenas?|skeletons?|signatures?|patterns?|handles?"
    r"|sealed|structures?|nests?|phases?|epilogues?|anchors?|links?|settings|few ops that keep)\b",
    re.IGNORECASE,
)
#: Exceptions whose text is a reason, and functions of the compiler that take a reason.
RAISED = {"Unlinkable", "Unsuited", "CompileDeclined"}
TAKE_REASONS = {"refuse", "host"}
STATED = {"unlowered", "library"}
#: Lists of ways, each with functions that return a reason.
WAYS = {"Executor", "BackwardWay", "_replace"}
#: Modules all of whose texts are read by users.
TOLD = ("_frontend/profiling/slow_step.py", "_frontend/explanation.py")
#: Functions and constants that make the texts of a report besides reasons.
REPORTS = {"report", "name_of", "difference", "tier_of", "why_new"}
IS_REASON = re.compile(r"\b(why|reason)\b", re.IGNORECASE)


class SourceFile:
    """A module of the sources: functions by name, and constants that are texts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = ast.parse(path.read_text())
        self.functions = [n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef)]
        self.constants = {
            target.id: text
            for n in self.tree.body
            if isinstance(n, ast.Assign)
            for target, value in _pairs(n)
            if isinstance(target, ast.Name)
            for text in _texts(value)
            if " " in text
        }


def _pairs(assign: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    """(target, value) pairs of an assignment."""
    target, value = assign.targets[0], assign.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


def _texts(tree: ast.AST) -> Iterator[str]:
    """The texts below a node, without docstrings; a hole of a format is a dot."""
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.JoinedStr):
            parts = node.values
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else "." for p in parts)
            todo += [p.value for p in parts if isinstance(p, ast.FormattedValue)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            todo += ast.iter_child_nodes(node)


def _name(call: ast.Call) -> str:
    """The last name of a called function."""
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def _returns_text(function: ast.FunctionDef) -> bool:
    return function.returns is not None and "str" in ast.unparse(function.returns)


@pytest.fixture(scope="module")
def files() -> list[SourceFile]:
    paths = [*(SOURCES / "_engine").rglob("*.py"), *(SOURCES / name for name in TOLD)]
    return [SourceFile(path) for path in sorted(paths)]


def reasons(files: list[SourceFile]) -> Iterator[tuple[str, str]]:
    """(place, text) of all reasons and report texts in the sources."""
    by_ways: set[str] = set()
    constants: dict[str, str] = {}
    for file in files:
        constants.update(file.constants)
        for call in ast.walk(file.tree):
            if isinstance(call, ast.Call) and _name(call) in WAYS:
                for n in ast.walk(call):
                    by_ways.add(n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", ""))
    for file in files:
        where = file.path.relative_to(SOURCES).as_posix()
        if where in TOLD:
            yield from ((where, text) for text in _texts(file.tree))
            continue
        for function in file.functions:
            doc = ast.get_docstring(function) or ""
            is_reason = _returns_text(function) and (
                function.name in by_ways or IS_REASON.search(doc) is not None
            )
            if is_reason or (where.endswith("runtime/report.py") and function.name in REPORTS):
                at = f"{where}:{function.lineno}"
                yield from ((at, text) for n in function.body for text in _texts(n))
                for n in ast.walk(function):
                    if isinstance(n, ast.Name) and n.id in constants:
                        yield at, constants[n.id]
        for n in ast.walk(file.tree):
            if isinstance(n, ast.Call):
                values = [k.value for k in n.keywords if k.arg in STATED]
                if _name(n) in RAISED | TAKE_REASONS:
                    values += n.args
                if _name(n) in WAYS:
                    values += n.args[:1]  # the way's name
                for value in values:
                    yield from ((f"{where}:{n.lineno}", text) for text in _texts(value))
                    if isinstance(value, ast.Name) and value.id in constants:
                        yield f"{where}:{n.lineno}", constants[value.id]
        if "/fibers/" in where:  # reasons of calls side by side are constants
            told = file.constants.keys() - {"KEY"}
            yield from ((where, file.constants[name]) for name in sorted(told))


def test_reasons_are_in_words_that_the_docs_explain(files: list[SourceFile]) -> None:
    faults = [
        f"{where}: {text!r}: {word.group()}"
        for where, text in dict.fromkeys(reasons(files))
        for word in ENGINE.finditer(text)
    ]
    assert not faults, "say these reasons in the user's terms:\n" + "\n".join(faults)


@pytest.mark.parametrize(
    "text",
    [
        "its path comes back often enough for machine code of the whole",  # of executors
        "the flush did not run in groups",  # of backward passes
        "no part of it has come before, or its parts run in groups",  # of functions that run
        "its path has not come back often enough",  # a constant
        "a gradient needs a value that is not kept",  # an exception
        "matrix products are made for floats",  # of the compiler
        "each element takes a number of tries of its own",  # of an op's class
        "paths that begin like this do not come back",  # a constant of another module
        "Unset WEND_COMPILE.",  # of `why_slow`
    ],
)
def test_all_kinds_of_reasons_are_collected(files: list[SourceFile], text: str) -> None:
    assert text in [found for _, found in reasons(files)]


def test_the_page_explains_the_ways(files: list[SourceFile]) -> None:
    """The names of all ways in reports are rows of the page."""
    page = WORDS_PAGE.read_text()
    names = {
        text
        for file in files
        for n in ast.walk(file.tree)
        if isinstance(n, ast.Call) and _name(n) in WAYS - {"_replace"} and n.args
        for text in _texts(n.args[0])
        if "split_flush" not in str(file.path)  # within a flush, and not in reports
    }
    assert len(names) > 8
    assert not [name for name in names if f"`{name}`" not in page]
