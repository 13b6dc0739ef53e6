"""A pytest plugin: notes which functions of the package each test executes.

    WEND_EXECUTED=FOLDER PYTHONPATH=tests/tools python -m pytest -p executed tests/compiler

Each process writes a file of lines of JSON into the folder. `mutants.py` reads them, and runs for
a fault the tests that come to the faulty function. Only calls are traced, not lines: that is cheap.
Code that runs while modules are imported, or in processes that a test begins, is not noted. Of a
test of many cases some are run, evenly spread; what the folder has a line for is left out.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

#: The sources that faults are drawn from, below `src/wend`.
AREAS = {
    "schedule": "_engine/compiler/schedule",
    "lower": "_engine/compiler/lower",
    "runtime": "_engine/runtime",
    "transforms": "_engine/transforms",
    "distributed": "distributed",
    "autograd": "autograd",
}
#: The cases of a test that are run: all up to FEW, of more a share of 1 / SHARE, up to MOST.
FEW, SHARE, MOST = 3, 12, 24
ROOTS = tuple(f"/src/wend/{folder}/" for folder in AREAS.values())


class Record(NamedTuple):
    """What is known of a test: the processor time it took, and how many functions it came to."""

    test: str
    seconds: float
    functions: int


class Recorder:
    """Notes the functions of a test, and writes them down when the test has passed."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        lines = [line for path in folder.glob("*.jsonl") for line in path.open(encoding="utf-8")]
        self.noted = {json.loads(line)["test"] for line in lines}
        self.file = (folder / f"{os.getpid()}.jsonl").open("a", encoding="utf-8")
        self.codes: dict[int, tuple[CodeType, str | None]] = {}  # by id; the code is kept alive
        self.seen: set[int] = set()
        self.numbers: dict[str, int] = {}
        self.passed = False

    def trace(self, frame: FrameType, event: str, arg: Any) -> None:
        """Note the function of a new frame; its lines are not traced."""
        key = id(frame.f_code)
        if key not in self.seen:
            self.seen.add(key)
            if key not in self.codes:
                self.codes[key] = frame.f_code, name_of(frame.f_code)

    def write(self, test: str, seconds: float) -> None:
        """Write a line about a test; a name is written once, and then by its number."""
        seen = list(self.seen)  # this function is traced too
        names = [name for key in seen if (name := self.codes[key][1]) is not None]
        fresh = [name for name in names if name not in self.numbers]
        for name in fresh:
            self.numbers[name] = len(self.numbers)
        row = {
            "test": test,
            "seconds": round(seconds, 3),
            "fresh": fresh,
            "functions": sorted(self.numbers[name] for name in names),
        }
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()


def name_of(code: CodeType) -> str | None:
    """`path below src/wend:qualified name` of a function in one of the areas, else None."""
    path = code.co_filename.replace(os.sep, "/")
    if not any(root in path for root in ROOTS):
        return None
    return f"{path.rpartition('/src/wend/')[2]}:{code.co_qualname.replace('.<locals>', '')}"


def read_records(folder: Path) -> dict[str, list[Record]]:
    """{function: the tests that came to it}, from all files of a folder."""
    found: dict[str, list[Record]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        names: list[str] = []
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if not line.endswith("\n"):
                break  # it is being written
            row = json.loads(line)
            names += row["fresh"]
            record = Record(row["test"], row["seconds"], len(row["functions"]))
            for number in row["functions"]:
                found.setdefault(names[number], []).append(record)
    return found


RECORDER: Recorder | None = None


def pytest_configure(config: pytest.Config) -> None:
    """Begin to trace, in the processes that run tests."""
    global RECORDER
    folder = os.environ.get("WEND_EXECUTED")
    if folder:
        RECORDER = Recorder(Path(folder))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out most cases of tests that have many, and what is noted already."""
    if RECORDER is None:
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = set()
    for found in cases.values():
        count = min(len(found), MOST, max(FEW, len(found) // SHARE))
        kept |= {found[k * len(found) // count].nodeid for k in range(count)}
    kept -= RECORDER.noted
    items[:] = [item for item in items if item.nodeid in kept]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Trace nothing while the process ends."""
    if RECORDER is not None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    """Trace the calls of a test, its fixtures included."""
    if RECORDER is None:
        return (yield)
    RECORDER.seen.clear()
    RECORDER.passed = False
    sys.settrace(RECORDER.trace)
    threading.settrace(RECORDER.trace)
    began = time.process_time()
    result = yield
    if RECORDER.passed:
        RECORDER.write(item.nodeid, time.process_time() - began)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Only tests that pass are of use."""
    report = yield
    if RECORDER is not None and report.when == "call":
        RECORDER.passed = report.passed
    return report
