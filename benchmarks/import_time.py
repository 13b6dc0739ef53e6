"""What importing costs: processor time, and resident memory after it.

python benchmarks/import_time.py
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from typing import Any

from bench import ONE_THREAD, frameworks, publish, python_path

PROGRAM = """
import time, json, os
start = time.process_time()
import {name}
seconds = time.process_time() - start
pages = int(open("/proc/self/statm").read().split()[1])
print(json.dumps([seconds, pages * os.sysconf("SC_PAGESIZE") / 1e6]))
"""
COLUMNS = ["module", "seconds", "low", "high", "aim s", "resident MB", "aim MB"]
AIMS = {"wend": (0.2, 45)}


def measure(name: str, processes: int) -> dict[str, Any]:
    """Return one row: medians over fresh processes, after one that warms the file cache."""
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": python_path()}
    found = []
    for _ in range(processes + 1):
        command = [sys.executable, "-c", PROGRAM.format(name=name)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))
    seconds = [entry[0] for entry in found[1:]]
    aim_seconds, aim_memory = AIMS.get(name, (None, None))
    return {
        "module": name,
        "seconds": statistics.median(seconds),
        "low": min(seconds),
        "high": max(seconds),
        "aim s": aim_seconds,
        "resident MB": statistics.median(entry[1] for entry in found[1:]),
        "aim MB": aim_memory,
    }


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=11)
    args = parser.parse_args()
    rows = [measure(name, args.processes) for name in [*frameworks(), "numpy"]]
    publish("import_time", rows, COLUMNS)


if __name__ == "__main__":
    main()
