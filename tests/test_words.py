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


#: Participles that say nothing of the value that they name.
BARE = frozenset({"found", "given", "made"})


def is_exempt(path):
    """Parts of the engine that are to be replaced, and modules whose variables Cython types."""
    parts = path.relative_to(PACKAGE.parent).parts
    replaced = {"batching", "fibers"}.intersection(parts) and "runtime" in parts
    return replaced or (parts[0] == "_engine" and parts[-1].startswith("_"))


def bare_names(package):
    """Places where a variable or a parameter, but no field of a class, has such a name."""
    places = []
    for path in sorted(package.rglob("*.py")):
        if is_exempt(path):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        fields = {id(m.target) for body in bodies for m in body if isinstance(m, ast.AnnAssign)}
        for node in ast.walk(tree):
            stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            if (stored and node.id in BARE and id(node) not in fields) or (
                isinstance(node, ast.arg) and node.arg in BARE
            ):
                places.append(f"{path.relative_to(package)}:{node.lineno}")
    return places


def test_variables_are_named_by_what_they_are():
    assert bare_names(PACKAGE.parent) == []
