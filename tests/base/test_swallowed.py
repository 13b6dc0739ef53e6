"""Every handler in Wend that ends an exception says why it may end there.

`python tests/base/test_swallowed.py` prints them all: module, function, exceptions, reason.
"""

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "wend"
SHORTEST_REASON = 8  # letters


def handlers_of(text):
    """(function, exceptions, reason) of each handler of a module that raises nothing."""
    found, lines = [], text.splitlines()

    def walk(node, names):
        for child in ast.iter_child_nodes(node):
            below = names
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                below = [*names, child.name]
            if isinstance(child, ast.ExceptHandler) and not raises(child):
                head = lines[child.lineno - 1 : max(child.lineno, child.body[0].lineno - 1)]
                found.append((".".join(names) or "the module", caught(child), reason(head)))
            walk(child, below)

    walk(ast.parse(text), [])
    return found


def raises(handler):
    return any(isinstance(node, ast.Raise) for node in ast.walk(handler))


def caught(handler):
    if handler.type is None:
        return "everything"
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return ", ".join(map(ast.unparse, kinds))


def reason(lines):
    """The comment between `except` and the first statement, without directives of checkers."""
    comments = [line.partition("# ")[2] for line in lines]
    text = " ".join(c.strip() for c in comments if c)
    return re.sub(r"(noqa|type: ignore)\S*( \w*\d+\b)?", "", text).strip()


def all_handlers():
    """(module, function, exceptions, reason) of the whole package."""
    for path in sorted(SOURCE.rglob("*.py")):
        for row in handlers_of(path.read_text(encoding="utf-8")):
            yield path.relative_to(SOURCE).as_posix(), *row


def test_each_exception_that_ends_in_wend_has_its_reason_beside_it():
    rows = list(all_handlers())
    assert len(rows) > 150
    assert [row for row in rows if len(row[-1]) < SHORTEST_REASON] == []


def test_the_search_finds_handlers_and_reasons():
    text = """
def f():
    try:
        pass
    except (KeyError, ValueError):  # a short one
        return 1
    except Exception as error:
        raise RuntimeError from error

class C:
    def g(self):
        try:
            pass
        except:
            # A reason
            # of two lines.
            pass
        try:
            pass
        except OSError:  # noqa: X1
            pass
"""
    assert handlers_of(text) == [
        ("f", "KeyError, ValueError", "a short one"),
        ("C.g", "everything", "A reason of two lines."),
        ("C.g", "OSError", ""),
    ]


if __name__ == "__main__":
    for row in all_handlers():
        print(" | ".join(row))
