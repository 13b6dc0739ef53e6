"""Opens files that were changed at random: nothing crashes, runs, hangs, or is told in raw words.

    python tests/fuzz/files.py --mutations 100000 --seed 1 [--kinds session onnx ...] [--jobs 2]

Valid files of sessions, programs (`export`, `jit`), ONNX models and weights of libraries are
changed: bytes, lengths, parts cut out or repeated, the JSON of graphs and the messages of ONNX in
single items.  Each is opened, and run where it opens, by a process under 2 GB of addresses
(`files_child.py`).  A file may be refused, by the errors that the documentation names; it may raise
when it runs, as any program may; it may run.  All else is a fault, shown with its number: `--show
NUMBER` writes the file.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
KINDS = ("export", "session", "jit", "onnx", "aot")
PER_CHILD = 1000  # files that a process opens: interned ops stay in memory
SECONDS = 40.0  # of the processor, for one file


class Child:
    """A process that opens the files of some numbers, and what it says."""

    def __init__(self, folder: Path, seed: int, first: int, last: int, kinds: list[str]) -> None:
        command = [sys.executable, str(HERE / "files_child.py"), str(folder)]
        command += [*map(str, (seed, first, last)), *kinds]
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the process)
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment(folder)
        )
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        """Hand on the lines; an empty one at the end."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def seconds(self) -> float:
        """The processor time so far."""
        try:
            text = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return 0.0
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rows(self) -> Any:
        """What the process says, as tables; at the end how it ended, if not well."""
        number, begun = None, self.seconds()
        while True:
            try:
                line = self.lines.get(timeout=1.0)
            except queue.Empty:
                if self.seconds() - begun > SECONDS and number is not None:
                    self.process.kill()
                    self.process.wait()
                    yield {"number": number, "outcome": "BAD hangs", "error": "", "at": ""}
                    return
                continue
            if not line:
                break
            row = json.loads(line)
            if "begin" in row:
                number, begun = row["begin"], self.seconds()
            else:
                number = None
                yield row
        code = self.process.wait()
        if code:
            self.errors.seek(0)
            text = self.errors.read()
            yield {
                "number": number,
                "outcome": f"BAD ends by {code}",
                "error": text[-1500:],
                "at": "",
            }


def environment(folder: Path) -> dict[str, str]:
    """The variables of a process that opens files."""
    paths = [str(HERE.parent / "aot"), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "WEND_CACHE_DIR": str(folder / "cache"),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",  # each thread takes addresses
        "PYTHONHASHSEED": "0",
    }


def prepare(folder: Path, kinds: list[str]) -> None:
    """Write the valid files."""
    command = [sys.executable, str(HERE / "files_valid.py"), str(folder), *kinds]
    subprocess.run(command, check=True, env=environment(folder))


def run(folder: Path, seed: int, first: int, last: int, kinds: list[str], jobs: int) -> list[Any]:
    """What came of the files of some numbers, in no order."""
    left: queue.Queue[tuple[int, int]] = queue.Queue()
    for start in range(first, last, PER_CHILD):
        left.put((start, min(start + PER_CHILD, last)))
    found: list[Any] = []

    def work() -> None:
        while True:
            try:
                start, end = left.get_nowait()
            except queue.Empty:
                return
            while start < end:
                row: dict[str, Any] = {"number": None}
                for row in Child(folder, seed, start, end, kinds).rows():
                    found.append({"kind": kinds[(row["number"] or 0) % len(kinds)], **row})
                ended = row["outcome"].startswith(("BAD ends", "BAD hangs"))
                if ended and row["number"] is None:
                    return  # it failed before the first file
                start = row["number"] + 1

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.2)
    return found


def summary(rows: list[Any]) -> str:
    """How many files of each kind had each outcome, and the faults."""
    counts = Counter((row["kind"], row["outcome"]) for row in rows)
    lines = [f"{count:7} {kind:8} {outcome}" for (kind, outcome), count in sorted(counts.items())]
    faults: dict[Any, list[Any]] = {}
    for row in rows:
        if row["outcome"].startswith("BAD"):
            key = row["kind"], row["outcome"], row.get("error", "")[-160:], row.get("at", "")
            faults.setdefault(key, []).append(row["number"])
    for (kind, outcome, error, at), numbers in sorted(faults.items(), key=lambda x: -len(x[1])):
        lines.append(
            f"{outcome}: {kind}, {len(numbers)} times, first {numbers[0]}: {error} at {at}"
        )
    return "\n".join([*lines, f"{len(rows)} files, {sum(map(len, faults.values()))} faults"])


def show(folder: Path, seed: int, number: int, kinds: list[str]) -> None:
    """Write a changed file beside the valid ones."""
    import files_child

    table = pickle.loads((folder / "valid.pickle").read_bytes())
    kind, name, how, data, _ = files_child.drawn(table, kinds, seed, number)
    path = folder / f"{kind}-{seed}-{number}"
    path.write_bytes(data)
    print(f"{path}: {kind} of {name}, changed by {how}")


def main() -> int:
    """Run as the arguments say; 1 if there are faults."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mutations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=KINDS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--show", type=int)
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="files-"))
    folder.mkdir(exist_ok=True)
    if not (folder / "valid.pickle").exists():
        prepare(folder, given.kinds)
    if given.show is not None:
        show(folder, given.seed, given.show, given.kinds)
        return 0
    last = given.first + given.mutations
    rows = run(folder, given.seed, given.first, last, given.kinds, given.jobs)
    print(summary(rows))
    return int(any(row["outcome"].startswith("BAD") for row in rows) or len(rows) < given.mutations)


if __name__ == "__main__":
    sys.exit(main())
