"""Files of weights: Wend beside the library safetensors, which gives NumPy arrays.

python benchmarks/safetensors_files.py
python benchmarks/safetensors_files.py --megabytes 50      # a quick look

Processor time and the most resident memory, each action in a process of its own, in turns; a file
of ten matrices. A ratio below 1 means that Wend takes less. Memory is new to each process: where
the system is slow to hand out huge pages, NUMPY_MADVISE_HUGEPAGE=0 in front leaves these out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import ONE_THREAD, publish, python_path, ratio

COLUMNS = ["what", "wend s", "library s", "ratio", "low", "high", "wend MB", "library MB"]
#: What is done, by Wend and by the library; `folder` is that of the files.
ACTIONS = {
    "save a file": (
        "own.save_file(tensors, folder + '/own')",
        "lib.save_file(arrays, folder + '/lib'); fd = os.open(folder + '/lib', 0); os.fsync(fd)",
    ),
    "save as bytes": ("data = own.save(tensors)", "data = lib.save(arrays)"),
    "load a file, mapped by the library": (
        "loaded = own.load_file(folder + '/weights')",
        "loaded = lib.load_file(folder + '/weights')",
    ),
    "load a file, read by the library": (
        "loaded = own.load_file(folder + '/weights')",
        "loaded = lib.load_file(folder + '/weights', backend='pread')",
    ),
    "two rows": (
        "own.SafeFile(folder + '/weights').get_slice('w3')[5:7].tolist()",
        "safe_open(folder + '/weights', 'np').get_slice('w3')[5:7].tolist()",
    ),
    "two columns": (
        "own.SafeFile(folder + '/weights').get_slice('w3')[:, 5:7].tolist()",
        "safe_open(folder + '/weights', 'np').get_slice('w3')[:, 5:7].tolist()",
    ),
}
PROGRAM = """
import json, os, sys, time
import numpy as np
import safetensors.numpy as lib
from safetensors import safe_open
import wend
from wend.serialization import safetensors as own
action, folder, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])

def kilobytes(name):
    return next(int(x.split()[1]) for x in open("/proc/self/status") if x.startswith(name))

arrays = tensors = None
if "save" in action:
    arrays = {f"w{i}": np.full((rows, 25_000), i, np.float32) for i in range(10)}
    tensors = {name: wend.from_numpy(array) for name, array in arrays.items()}
for name in ("own", "lib"):
    if os.path.exists(f"{folder}/{name}"):
        os.remove(f"{folder}/{name}")
wend.ones(3).tolist()
open("/proc/self/clear_refs", "w").write("5")
before, start = kilobytes("VmRSS"), time.process_time()
exec(action)
print(json.dumps([time.process_time() - start, (kilobytes("VmHWM") - before) / 1000]))
"""


def run(action: str, folder: Path, rows: int) -> list[float]:
    """Return the seconds and megabytes that an action takes in a fresh process."""
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": python_path()}
    command = [sys.executable, "-c", PROGRAM, action, str(folder), str(rows)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: list[float] = json.loads(done.stdout)
    return found


def measure(what: str, folder: Path, rows: int, passes: int) -> dict[str, Any]:
    """Return one row of the table."""
    own, library = ACTIONS[what]
    run(own, folder, rows)  # warms the cache of files, and the memory of a virtual machine
    taken = [(run(own, folder, rows), run(library, folder, rows)) for _ in range(passes)]
    seconds = [[side[0] for side in sides] for sides in zip(*taken)]
    memory = [statistics.median(side[1] for side in sides) for sides in zip(*taken)]
    return {
        "what": what,
        "wend s": statistics.median(seconds[0]),
        "library s": statistics.median(seconds[1]),
        **ratio(*seconds),
        "wend MB": memory[0],
        "library MB": memory[1],
    }


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--passes", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write = f"own.save_file(tensors, {str(folder / 'weights')!r})  # save"
        run(write, folder, args.megabytes)
        rows = [measure(what, folder, args.megabytes, args.passes) for what in ACTIONS]
    publish("safetensors_files", rows, COLUMNS)


if __name__ == "__main__":
    main()
