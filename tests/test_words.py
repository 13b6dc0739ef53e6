"""One word has one meaning: names of classes in the layers that users do not see."""

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "wend" / "_engine"
INTERNAL = ("core", "transforms", "compiler", "runtime")


def classes(package=PACKAGE, layers=INTERNAL):
    """{name of a class: the places where one of that name is defined}."""
    found = defaultdict(list)
    for layer in layers:
        for path in sorted((package / layer).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(f"{path.relative_to(package)}:{node.lineno}")
    return found


def doubled(found):
    return {name: places for name, places in found.items() if len(places) > 1}


def test_no_internal_class_name_occurs_twice():
    found = classes()
    assert len(found) > 250  # the tree was read
    assert doubled(found) == {}


def test_a_doubled_name_is_seen(tmp_path):
    for layer in ("core", "runtime"):
        (tmp_path / layer).mkdir()
        (tmp_path / layer / "x.py").write_text("class Node:\n    pass\n")
    assert doubled(classes(tmp_path, ("core", "runtime"))) == {
        "Node": ["core/x.py:1", "runtime/x.py:1"]
    }
