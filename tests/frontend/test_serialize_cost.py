"""Small files that ask for much: what reading them takes is bounded by their size."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest
from tests.frontend import hostile_files
from tests.frontend.hostile_files import FILES, HEADERS, PICKLES, checkpoint, tensor

import wend
from wend.serialization import CheckpointError, get_unsafe_globals_in_checkpoint, load, safetensors
from wend.serialization._budget import Budget

#: Kinds that ask for no more than their size accounts for, and are read.
HARMLESS = {
    "empty dicts",
    "empty lists",
    "sets by call",
    "devices",
    "names",
    "memo out of order",
    "many records",
    "many empty tensors",
}


def run_hostile(size: int) -> dict[str, dict[str, object]]:
    """What came of loading a file of each kind, in a process with limits on memory and time."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(wend.__file__)))
    done = subprocess.run(
        [sys.executable, hostile_files.__file__, str(size)],
        env={**os.environ, "PYTHONPATH": folder, "OMP_NUM_THREADS": "1", "WEND_COMPILE": "0"},
        capture_output=True,
        text=True,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (len(rows), list(FILES)[len(rows)], done.stderr[-500:])
    return {row["kind"]: row for row in rows}


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory as Linux has them")
def test_small_files_take_little_memory_and_end():
    rows = run_hostile(150_000)
    assert list(rows) == list(FILES)
    failed = {kind: row for kind, row in rows.items() if row["outcome"].startswith("failed")}
    assert not failed
    # What is refused is so for what it asks for, and not because the generator wrote nonsense.
    nonsense = [row for row in rows.values() if "off the stack" in row["outcome"]]
    assert not nonsense
    read = {kind for kind, row in rows.items() if row["outcome"] == "read"}
    assert read >= HARMLESS and "a wide key of a dict" not in read


@pytest.mark.parametrize("kind", PICKLES)
def test_looking_for_names_in_hostile_files_ends(kind):
    try:
        get_unsafe_globals_in_checkpoint(io.BytesIO(FILES[kind](3000)))
    except CheckpointError:
        pass


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS.keys())
def test_wrong_headers_of_safetensors_are_refused(header, tmp_path):
    with pytest.raises(CheckpointError) as caught:
        safetensors.load(header)
    assert len(str(caught.value)) < 500
    (tmp_path / "a.safetensors").write_bytes(header)
    for read in (safetensors.load_file, safetensors.SafeFile, safetensors.read_metadata):
        with pytest.raises(CheckpointError):
            read(tmp_path / "a.safetensors")


def test_messages_about_hostile_values_are_short():
    said = {kind: hostile_files.outcome_of(FILES[kind](3000)) for kind in PICKLES}
    assert all(len(words) < 1000 for words in said.values()), said


def test_work_is_charged_before_it_is_done():
    """Counted, not timed: how often keys were compared, and how much was copied."""

    class Counted(int):
        compared = 0

        def __eq__(self, other):
            Counted.compared += 1
            return int(self) == int(other)

        def __hash__(self):
            return 7

    budget = Budget(1000)
    table = {}
    with pytest.raises(CheckpointError, match="exhaust memory"):
        for i in range(20_000):
            key = Counted(1 << 80 | i)
            budget.check_keys([key], id(table))
            table[key] = None
    assert Counted.compared < (Budget.BASE + Budget.PER_BYTE * 1000) // 64
    assert len(table) > 1000  # as many may collide
    # Numbers that do not, texts and pairs are taken in any number that the file accounts for.
    for keys in (range(1 << 60, (1 << 60) + 50_000), map(str, range(50_000))):
        Budget(5 * 50_000).check_keys(keys, 1)
    Budget(5 * 50_000).check_keys(((i, -i) for i in range(50_000)), 1)
    Budget(9 * 50_000).check_keys((i / 7 for i in range(50_000)), 1)


def test_memory_that_is_short_is_no_fault_of_the_file(monkeypatch):
    monkeypatch.setattr(Budget, "weigh", _no_memory)
    with pytest.raises(MemoryError):
        load(checkpoint(tensor()))


def _no_memory(*_):
    raise MemoryError
