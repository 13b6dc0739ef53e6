"""Sessions of static graphs: a steady call beside the program's own, and reopening a saved one.

python benchmarks/sessions.py
python benchmarks/sessions.py --passes 3      # a quick look

Processor time. The ratio is that of the session to the program that it was made of, both by Wend,
in turns in one process; below 1 the session is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import ONE_THREAD, Side, publish, python_path, ratio

COLUMNS = ["what", "session ms", "dynamic ms", "ratio", "low", "high", "aim"]
MODELS = (
    "digits, 16 images",
    "digits, an image",
    "MLP, batch 64",
    "ResNet, three sizes",
    "tagger, early exit",
    "tagger, to the end",
)
#: Opens a session in a fresh process: milliseconds from the start to the first result, by the
#: processor and by the clock, and how many modules LLVM has compiled by the end.
REOPEN = """
import json, sys, time
import wend
session = wend.load_session(sys.argv[1])
given, wanted = json.loads(sys.argv[2])
found = session(wend.tensor(given)).numpy()
took = 1000 * time.process_time(), 1000 * (time.time() - float(sys.argv[3]))
assert abs(found - wend.tensor(wanted).numpy()).max() < 1e-4
early = "llvmlite" in sys.modules
session.prepare()
session(wend.tensor(given))
from wend._engine.compiler.llvm_ir import jit
print(json.dumps([*took, jit.counters.compiled, early]))
"""


def steady(model: str, passes: int) -> dict[str, Any]:
    """Return a row: a steady call of the session and of the program."""
    side = Side("wend", "serve_sessions.py")
    try:
        times = side.ask(do="steady", model=model, passes=passes)
    finally:
        side.close()
    found: dict[str, Any] = {"what": model, "aim": "1.05"}
    found |= {f"{name} ms": statistics.median(row) for name, row in times.items()}
    return found | ratio(times["session"], times["dynamic"])


def reopened(passes: int) -> list[dict[str, Any]]:
    """Return rows: from the start of a process to the first result of a saved session."""
    took: list[list[float]] = [[], []]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "digits.wend")
        side = Side("wend", "serve_sessions.py")
        try:
            example = json.dumps(side.ask(do="save", path=path))
        finally:
            side.close()
        cache = str(Path(folder) / "empty")
        environment = {
            **os.environ, **ONE_THREAD, "PYTHONPATH": python_path(), "WEND_CACHE_DIR": cache,
        }  # fmt: skip
        for k in range(passes + 1):  # the first one warms the file cache
            command = [sys.executable, "-c", REOPEN, path, example, str(time.time())]
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=True
            )
            *times, compiled, early = json.loads(done.stdout)
            if compiled or early:
                raise RuntimeError(f"LLVM was used: {compiled} modules compiled")
            for row, number in zip(took, times, strict=True):
                row += [number] if k else []
    names = "reopened digits, first result", "the same, by the clock"
    return [
        {"what": name, "session ms": statistics.median(row), "low": min(row), "high": max(row),
         "aim": "300 ms"}
        for name, row in zip(names, took, strict=True)
    ]  # fmt: skip


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--passes", type=int, default=11)
    parser.add_argument("--only", default="", help="models whose names contain this")
    args = parser.parse_args()
    rows = [steady(model, args.passes) for model in MODELS if args.only in model]
    publish("sessions", [*rows, *reopened(args.passes)], COLUMNS)


if __name__ == "__main__":
    main()
