"""Writes the table of docs/libraries.md from a run, or compares it.

    python tests/libraries/libraries_page.py [--check] RESULT

RESULT is what `.ci/libraries` leaves at `WEND_LIBRARIES_RESULT`. A library of which any test
failed, or was left out, is no row, and the exit status is 1.
"""

import ast
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "libraries.md"
BEGIN = "<!-- table: `python tests/libraries/libraries_page.py` -->\n"
END = "<!-- end of the table -->\n"


def pins():
    """{library: version} of the first part of pins.txt, and of all that it lists."""
    text = (HERE / "pins.txt").read_text(encoding="utf-8")
    rows = [re.findall(r"^([\w.-]+)==(\S+)$", part, re.M) for part in text.split("\n# What these")]
    assert len(rows) == 2, "pins.txt has two parts"
    return dict(rows[0]), dict(rows[0] + rows[1])


def claims():
    """{library: what its tests say that they do}, from the docstrings of the tests."""
    found = {}
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for mark in node.decorator_list:
                    if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith(".library"):
                        text = ast.get_docstring(node).splitlines()[0].rstrip(".")
                        found.setdefault(mark.args[0].value, {})[node.name] = text
    return found


def table(result=None):
    """The rows of the page. result: {library: {test: outcome}}; None for what a green run gives"""
    listed, tests = pins()[0], claims()
    lines = ["| library | version | runs |\n", "|---|---|---|\n"]
    for library, version in sorted(listed.items()):
        ran = dict.fromkeys(tests[library], "passed") if result is None else result[library]
        if ran and set(ran) == set(tests[library]) and set(ran.values()) == {"passed"}:
            words = "; ".join(tests[library][test] for test in tests[library])
            lines.append(f"| {library} | {version} | {words} |\n")
    return "".join(lines)


def parts(text):
    """The page before, in and after the table."""
    before, rest = text.split(BEGIN)
    inside, after = rest.split(END)
    return before, inside, after


def main(check, path):
    result = json.loads(Path(path).read_text(encoding="utf-8"))
    listed = pins()[0]
    odd = {k: v["version"] for k, v in result.items() if listed.get(k) != v["version"]}
    if odd or set(result) != set(listed):
        sys.exit(f"the run was not of the versions in pins.txt: {odd or sorted(result)}")
    new = table({library: row["tests"] for library, row in result.items()})
    before, old, after = parts(PAGE.read_text(encoding="utf-8"))
    if not check:
        PAGE.write_text(before + BEGIN + new + END + after, encoding="utf-8")
    missing = [library for library in listed if f"| {library} |" not in new]
    if missing:
        sys.exit(f"not all tests passed of: {', '.join(missing)}")
    if check and new != old:
        sys.exit(f"the table is another one: `python {Path(__file__).name} RESULT` writes it")


if __name__ == "__main__":
    main("--check" in sys.argv, sys.argv[-1])
