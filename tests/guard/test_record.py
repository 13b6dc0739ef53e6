"""No program takes more work than the record in the tree says: `record.py`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import record  # noqa: E402

from wend._engine.core._select import is_compiled  # noqa: E402
from wend._engine.runtime.native.launcher import launcher  # noqa: E402

COMMAND = "python tests/guard/record.py --write"
RECORD = record.written()
COUNTS: dict[str, dict[str, int]] = RECORD["counts"]
#: What users of sparse gradients would get from one user's function a word.
NAIVE = "step trees_by_words_naive"

pytestmark = pytest.mark.skipif(
    not is_compiled(launcher), reason="the uncompiled core takes four times as long for the same"
)


@pytest.mark.parametrize("name", COUNTS)
def test_no_more_work_than_recorded(programs: Any, name: str) -> None:
    why = record.obstacle(name, RECORD["python"])
    if why:
        pytest.skip(why)
    found = programs.of(name)
    assert "ended" not in found, found["ended"]
    risen = record.risen(record.shown(found), COUNTS[name])
    if risen:
        advice = f"if that has to be, `{COMMAND}` in the same commit, and its reason"
        pytest.fail("\n".join([f"{name} takes more work:", *risen, advice]), pytrace=False)


def test_each_program_is_recorded() -> None:
    assert list(COUNTS) == record.names(), f"`{COMMAND}` adds programs, and drops those that left"


@pytest.mark.smoke
def test_a_tenth_more_is_told() -> None:
    then = dict.fromkeys(record.COUNTS, 100) | {"reference": 0}
    assert record.risen(then, then) == []
    assert record.risen(then | {"launches": 110, "bytes": 1}, then) == []
    (text,) = record.risen(then | {"launches": 111}, then)
    assert text == "launches: 111, were 100 (kernels and ops of the reference)"
    (text,) = record.risen(then | {"reference": 1}, then)
    assert text.startswith("reference: 1, were 0")


@pytest.mark.smoke
def test_a_program_is_a_line_of_the_record() -> None:
    lines = record.FILE.read_text(encoding="utf-8").splitlines()[1:-1]
    assert [json.loads("{" + line.rstrip(",") + "}") for line in lines] == [
        {name: counts} for name, counts in COUNTS.items()
    ]


def test_gradients_that_are_added_one_by_one_are_told(programs: Any) -> None:
    """As when `F.embedding(..., sparse=True)` for each word ran by a user's function a word."""
    found = record.shown(programs.of(NAIVE))
    told = {text.split(":")[0] for text in record.risen(found, COUNTS["step trees_by_words"])}
    assert told >= {"reference", "launches", "flushes", "bytes", "paths"}


#: The passes write other code, and blocks of other sizes, for processors with other registers.
BY_REGISTERS = ("planning", "memory")


def test_counts_are_the_same_again(programs: Any, tmp_path: Path) -> None:
    """From run to run, and for processors with other registers within what the record allows."""
    names = ["step adam", "step trees_by_words", "step early_exit"]
    found = {name: programs.of(name) for name in names}
    for level in ("", "sse4.2"):
        again = record.Forked(record.PROGRAMS, tmp_path / f"again{level}", {"WEND_CPU": level})
        for name in names:
            counts = again.of(name)
            assert not record.risen(record.shown(counts), record.shown(found[name]))
            assert not record.risen(record.shown(found[name]), record.shown(counts))
            free = BY_REGISTERS if level else ()
            same = {k: n for k, n in counts.items() if k not in free}
            assert same == {k: n for k, n in found[name].items() if k not in free}
        again.end()
