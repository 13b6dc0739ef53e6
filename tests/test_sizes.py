"""Sizes that keep the sources readable: lines of a file, lines of a function."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "wend"
MOST_LINES, MOST_OF_A_FUNCTION = 1500, 80
#: Recording, the trie, flushes and calls are one unit: inlining across them makes a step quick.
LONGER = {"_engine/core/_hot.py": 2200}


def functions(source):
    """(name, number of lines) of each function."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.end_lineno - node.lineno + 1


def sources():
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")


def test_files_are_short():
    lines = {name: source.count("\n") for name, source in sources()}
    assert len(lines) > 400
    assert {k: n for k, n in lines.items() if n > LONGER.get(k, MOST_LINES)} == {}


def test_functions_are_short():
    found = {
        f"{name}: {function}": n
        for name, source in sources()
        for function, n in functions(source)
        if n > MOST_OF_A_FUNCTION
    }
    assert found == {}


def test_a_long_function_is_seen():
    source = "def f():\n" + "    x = 1\n" * 90
    assert list(functions(source)) == [("f", 91)]
