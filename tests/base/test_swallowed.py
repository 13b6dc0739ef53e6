"""Every handler in Wend that ends an exception is listed, with the reason, in a decision."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "wend"
DECISION = ROOT / "docs" / "decisions" / "001-failures-inside.md"


def handlers_of(text):
    """(function, what it catches) of each handler of a module that raises nothing."""
    found = []

    def walk(node, names):
        for child in ast.iter_child_nodes(node):
            below = names
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                below = [*names, child.name]
            if isinstance(child, ast.ExceptHandler) and not raises(child):
                found.append((".".join(names) or "the module", caught(child)))
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


def listed():
    """The rows of the table: (module, function, what it catches)."""
    rows = re.findall(r"^\| `(\S+)` \| `(.+?)` \| (.+?) \| .{8,} \|$", DECISION.read_text(), re.M)
    return {tuple(row) for row in rows}


def test_each_exception_that_ends_in_wend_has_its_reason_written_down():
    found = {
        (path.relative_to(SOURCE).as_posix().removeprefix("_engine/"), function, what)
        for path in SOURCE.rglob("*.py")
        for function, what in handlers_of(path.read_text(encoding="utf-8"))
    }
    table = listed()
    assert not found - table, "handlers without a row in docs/decisions/001-failures-inside.md"
    assert not table - found, "rows without a handler"


def test_the_search_finds_handlers():
    text = """
def f():
    try:
        pass
    except (KeyError, ValueError):
        return 1
    except Exception as error:
        raise RuntimeError from error

class C:
    def g(self):
        try:
            pass
        except:
            pass
"""
    assert handlers_of(text) == [("f", "KeyError, ValueError"), ("C.g", "everything")]
