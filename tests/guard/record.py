"""The record of work: counts of many programs, kept in the tree, and compared with those of today.

    python tests/guard/record.py                    what has changed since the record was written
    python tests/guard/record.py --write            writes the record anew
    python tests/guard/record.py --only 'step *'    of some programs

A count that has risen by more than a tenth fails `test_record.py`, until the commit that raises it
writes the record anew, and says why. A line of the file is a program.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from written_models import Case, hands_of  # noqa: E402

from forked import Forked  # noqa: E402

FILE = HERE / "record.json"
PROGRAMS = HERE / "counted_programs.py"
#: A count may rise by this factor.
FACTOR = 1.1
COUNTS = {
    "reference": "ops of the reference, after the third visit",
    "launches": "kernels and ops of the reference",
    "flushes": "flushes",
    "bytes": "bytes that kernels and ops read and write",
    "modules": "modules of machine code, of the whole program",
    "paths": "paths kept, of the whole program",
    "planning": "calls of the compiler's passes, of the whole program",
}
SEED = 81
#: How many hands of a model are recorded.
HANDS = {"tree_lstm": 3, "bilstm": 3, "rnn": 2, "mlp": 2, "early_exit": 1, "images": 1}
#: These read the sources of Python's library, which differ from version to version.
OF_ONE_PYTHON = ("example words", "example trees", "example parser")
#: These read a data set of scikit-learn.
OF_SKLEARN = ("example batches", "example digits", "example grow")


def names() -> list[str]:
    """All programs, in a fixed order."""
    from counted_programs import LITTLE
    from steps.common import STEPS

    hands = [
        f"hand {Case(model, hand, 'new')}"
        for model, most in HANDS.items()
        for hand in hands_of(model, SEED)[:most]
    ]
    return [f"example {name}" for name in LITTLE] + hands + [f"step {name}" for name in STEPS]


def written() -> dict[str, Any]:
    """The record in the tree: {"python": version, "counts": {program: {count: number}}}."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def python() -> str:
    """The version of Python, without the patch."""
    return ".".join(platform.python_version_tuple()[:2])


def obstacle(name: str, version: str) -> str:
    """Why a program cannot be compared with a record of some version of Python; "" if it can be."""
    if name in OF_ONE_PYTHON and version != python():
        return f"reads Python's own sources, and the record is one of Python {version}"
    if name in (
        "example batches",
        "example digits",
        "example grow",
    ) and not importlib.util.find_spec("sklearn"):
        return "needs scikit-learn"
    return ""


def shown(found: dict[str, Any]) -> dict[str, int]:
    """What is recorded of the counts of a program."""
    counts = {"reference": 0, "kernels": 0, "bytes": 0} | found
    counts["launches"] = counts["kernels"] + counts["reference"]
    return {name: int(counts[name]) for name in COUNTS}


def risen(now: dict[str, int], then: dict[str, int]) -> list[str]:
    """A text for each count that has risen by more than a tenth."""
    return [
        f"{name}: {now[name]}, were {then[name]} ({COUNTS[name]})"
        for name in COUNTS
        if now[name] > FACTOR * then[name]
    ]


def write(counts: dict[str, dict[str, int]]) -> None:
    """Write the record, a line for each program."""
    lines = [f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in counts.items()]
    text = f'{{"python": "{python()}", "counts": {{\n' + ",\n".join(lines) + "\n}}\n"
    FILE.write_text(text, encoding="utf-8")


def main() -> int:
    """Count, and show or write what is found; 1 if a count has risen."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the record anew")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="programs, as in a shell")
    args = parser.parse_args()
    record = written() if FILE.exists() else {"python": python(), "counts": {}}
    then, now, status = record["counts"], {}, 0
    with tempfile.TemporaryDirectory() as folder:
        programs = Forked(PROGRAMS, Path(folder))
        for name in names():
            if not fnmatch(name, args.only):
                continue
            found = programs.of(name)
            if "ended" in found:
                print(f"{name} has no counts: {found['ended']}")
                status = 1
                continue
            now[name] = shown(found)
            rows = risen(now[name], then.get(name, dict.fromkeys(COUNTS, 0)))
            status |= bool(rows)
            print(name, *([json.dumps(now[name])] if name not in then else rows), sep="\n    ")
        programs.end()
    if args.write:
        kept = {name: now.get(name, then.get(name)) for name in names()}
        write({name: row for name, row in kept.items() if row})
        return 0
    return status


if __name__ == "__main__":
    raise SystemExit(main())
