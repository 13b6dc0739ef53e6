"""The mutation run itself: the faults that it draws, the tests that it chooses, how it judges."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))

import executed  # noqa: E402
import faults  # noqa: E402
import mutants  # noqa: E402
from executed import Record  # noqa: E402
from mutants import Outcome  # noqa: E402

SOURCE = '''"""A module."""
FLAG = True

def between(x: int | None, low=0):
    """Whether x is above low."""
    assert x is not None, f"{x + 1}"
    if not FLAG:
        return False
    return x > low and all(a - b < 9 for a, b in zip([x], [1], strict=True))
'''
AND = "x > low and all(a - b < 9 for a, b in zip([x], [1], strict=True))"
TEST = """from wend._engine.runtime.a import between

def test_above():
    assert between(3)

def test_below():
    assert not between(0)
"""


@pytest.fixture
def tree(tmp_path):
    """A tree of a single module and its tests."""
    for name, text in {
        "src/wend/__init__.py": "",
        "src/wend/_engine/runtime/__init__.py": "",
        "src/wend/_engine/runtime/a.py": SOURCE,
        "tests/test_a.py": TEST,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for folder in executed.AREAS.values():
        (tmp_path / "src" / "wend" / folder).mkdir(parents=True, exist_ok=True)
    return tmp_path


def found_in(tree):
    return faults.faults_of(tree, "runtime", tree / "src/wend/_engine/runtime/a.py")


def test_faults_of_a_module(tree):
    assert sorted((f.kind, f.before, f.after) for f in found_in(tree)) == [
        ("arithmetic", "a - b", "a + b"),
        ("comparison", "a - b < 9", "a - b <= 9"),
        ("comparison", "a - b < 9", "a - b > 9"),
        ("comparison", "x > low", "x < low"),
        ("comparison", "x > low", "x >= low"),
        ("condition", "not FLAG", "FLAG"),
        ("condition", AND, AND.replace(" and ", " or ").replace("(a - b", "((a - b", 1) + ")"),
        ("dropped line", "return False", "pass"),
        ("flag", "False", "True"),
        ("flag", "True", "False"),
        ("off by one", "0", "1"),
        ("off by one", "1", "2"),
        ("off by one", "9", "10"),
    ]


def test_a_fault_is_a_single_change_and_keeps_its_name_when_lines_move(tree):
    source = SOURCE.encode()
    before = found_in(tree)
    for fault in before:
        changed = fault.apply(source)
        assert changed != source
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
    (tree / "src/wend/_engine/runtime/a.py").write_text("# more\n\n" + SOURCE)
    assert [f.name for f in found_in(tree)] == [f.name for f in before]
    assert len({f.name for f in before}) == len(before)


def test_draws_go_on_and_compiled_modules_are_left_out(tree):
    drawn = faults.drawn(tree, 1, 100)
    assert len(drawn) == len(found_in(tree))
    assert faults.drawn(tree, 1, 5) == drawn[:5]
    assert faults.drawn(tree, 2, 100) != drawn
    (tree / "src/wend/_engine/runtime/a.cpython-311-x86_64-linux-gnu.so").write_text("")
    assert faults.drawn(tree, 1, 100) == []


def test_areas_are_folders_of_the_package():
    for area, folder in executed.AREAS.items():
        assert faults.sources(mutants.ROOT, area), folder
    found = {f.name for f in mutants.drawn(mutants.ROOT, 1, 40)}
    assert len(found) == 40


def test_tests_that_come_to_few_functions_are_chosen_first():
    records = [Record(f"a.py::test_a[{k}]", 0.1, 5) for k in range(9)]
    records += [Record("b.py::test_b", 0.1, 500), Record("c.py::test_c", 1e9, 1)]
    names = mutants.chosen(records)
    cases = [f"a.py::test_a[{k}]" for k in range(mutants.CASES)]
    assert names == [cases[0], "b.py::test_b", *cases[1:]]
    assert mutants.chosen(records, 0.25) == names[:2]


@pytest.mark.parametrize(
    ("code", "output", "outcome"),
    [
        (0, "2 passed", Outcome("survived", "")),
        (1, "FAILED tests/a.py::test_x - assert 1\n", Outcome("killed", "tests/a.py::test_x")),
        (1, "ERROR tests/a.py::test_x - no\n", Outcome("killed", "tests/a.py::test_x")),
        (-11, "", Outcome("killed", "the process crashed")),
        (-9, "", Outcome("killed", "the run does not end")),
        (4, "", Outcome("killed", "the tests cannot be collected")),
    ],
)
def test_outcomes(code, output, outcome):
    assert mutants.judged(code, output) == outcome


def test_the_table_is_read_as_it_was_written(tree):
    drawn = faults.drawn(tree, 1, 3)
    outcomes = {
        drawn[0].name: Outcome("killed", "a.py::test_x[a|b]"),
        drawn[1].name: Outcome("equivalent", "no value is negative"),
    }
    path = tree / "table.md"
    mutants.write_table(drawn, outcomes, 1, path)
    assert mutants.read_table(path) == outcomes
    text = path.read_text()
    assert "1 killed, 0 survived, 1 equivalent, 1 not tried" in text and "100.0 %" in text


def test_faults_are_tried_in_a_copy(tree, monkeypatch):
    monkeypatch.setattr(mutants, "ROOT", tree)
    copy = mutants.Copy(tree / "copy")
    tests = ["tests/test_a.py::test_above", "tests/test_a.py::test_below"]
    by_change = {(f.before, f.after): f for f in found_in(tree)}
    killed = copy.try_fault(by_change["x > low", "x >= low"], tests)
    assert killed == Outcome("killed", tests[1])
    assert copy.try_fault(by_change["9", "10"], tests).verdict == "survived"
    for root in (tree, copy.root):
        assert (root / "src/wend/_engine/runtime/a.py").read_text() == SOURCE
    (copy.root / "tests/test_a.py").write_text(TEST.replace("not between(0)", "between(0)"))
    copy.sound.clear()
    outcome = copy.try_fault(by_change["9", "10"], tests)
    assert outcome == Outcome("survived", ""), "a test that fails without the fault does not count"


def test_the_functions_of_a_test_are_recorded(tree):
    folder = tree / "records"
    paths = [str(HERE), str(tree / "src")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "WEND_EXECUTED": str(folder)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "executed", "-p", "no:cacheprovider"]
    subprocess.run([*command, "tests"], cwd=tree, env=env, check=True, capture_output=True)
    found = executed.read_records(folder)
    tests = found["_engine/runtime/a.py:between"]
    assert {name.removesuffix(".<genexpr>") for name in found} == {"_engine/runtime/a.py:between"}
    assert sorted(r.test for r in tests) == [
        "tests/test_a.py::test_above",
        "tests/test_a.py::test_below",
    ]
