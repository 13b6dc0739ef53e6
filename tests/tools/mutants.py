"""A mutation run: single faults in copies of the tree, and the tests that see them.

    python tests/tools/mutants.py --record -n 2      # once: which tests come to which function
    python tests/tools/mutants.py --count 200 --seed 1 --minutes 60 --workers 2
    python tests/tools/mutants.py --only compiler    # or an area, or the beginning of a path
    python tests/tools/mutants.py --again survived   # after tests were added
    python tests/tools/mutants.py --equivalent NAME "why no program can tell"

Faults are drawn by `faults.py`, in turn from each of `executed.AREAS`. A fault is put into a copy
of the tree, never into the tree, and the tests that come to its function are run there until one
fails. `mutants.md` keeps the outcomes; a later run goes on where the last one ended. What survives
needs a test, or a reason why it is equivalent.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.append(str(HERE))

from executed import Record, read_records  # noqa: E402
from faults import Fault, drawn  # noqa: E402

TABLE = HERE / "mutants.md"
RECORDS = ROOT / "build" / "executed"
#: Processor seconds of the tests of a fault, as recorded; the most cases of a test.
SECONDS, CASES = 12.0, 4
#: Processor seconds, and seconds, after which a run of tests counts as one that does not end.
LIMIT, PATIENCE = 240, 900
#: What the tests need of the tree.
COPIED = ("src", "tests", "docs", "examples", "benchmarks", "scripts", "pyproject.toml", "setup.py",
          "README.md", "CONTRIBUTING.md", "CHANGELOG.md")  # fmt: skip
TESTED = ("compiler", "transforms", "autograd", "runtime", "distributed")
GROUPS = {"compiler": ("schedule", "lower")}


class Outcome(NamedTuple):
    """How a fault ended: "killed", "survived" or "equivalent", and by what or why."""

    verdict: str
    detail: str


# -- the table -----------------------------------------------------------------------------------


def escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'")


def row_of(fault: Fault, outcome: Outcome) -> str:
    """Return the row of a fault."""
    place = f"{fault.path} {fault.function}"
    change = f"{fault.kind}: `{escaped(fault.before)}` → `{escaped(fault.after)}`"
    detail = escaped(outcome.detail)
    return f"| {fault.name} | {place} | {change} | {outcome.verdict} | {detail} |"


def read_table(path: Path = TABLE) -> dict[str, Outcome]:
    """Return the outcomes that are written down, by the name of the fault."""
    found: dict[str, Outcome] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            cells = [c.strip().replace("\0", "|") for c in line.replace("\\|", "\0").split("|")]
            if len(cells) == 7 and cells[4] in ("killed", "survived", "equivalent"):
                found[cells[1]] = Outcome(cells[4], cells[5])
    return found


def write_table(
    faults: list[Fault], outcomes: dict[str, Outcome], seed: int, path: Path = TABLE
) -> None:
    """Write the outcomes of the drawn faults down, in the order of the draw."""
    rows = [row_of(f, outcomes[f.name]) for f in faults if f.name in outcomes]
    text = f"""# Outcomes of the mutation run

Written by `python tests/tools/mutants.py --seed {seed} --count {len(faults)}`; see there.

{summary(faults, outcomes)}

| fault | place | change | outcome | by the test, or because |
|---|---|---|---|---|
"""
    path.write_text(text + "\n".join(rows) + "\n", encoding="utf-8")


def summary(faults: list[Fault], outcomes: dict[str, Outcome]) -> str:
    """Return the counts of outcomes as a sentence."""
    counts = Counter(outcomes[f.name].verdict for f in faults if f.name in outcomes)
    counted = counts["killed"] + counts["survived"]
    share = f"{100 * counts['killed'] / counted:.1f} %" if counted else "none"
    return (
        f"{len(faults)} faults drawn: {counts['killed']} killed, {counts['survived']} survived, "
        f"{counts['equivalent']} equivalent, {len(faults) - counts.total()} not tried. "
        f"Killed of those that are not equivalent: {share}."
    )


# -- the tests of a fault -----------------------------------------------------------------------


def chosen(records: list[Record], seconds: float = SECONDS) -> list[str]:
    """Return the tests for a fault: first those that come to few functions, a case of each."""
    turns: list[tuple[int, float, Record]] = []
    cases = Counter[str]()
    for record in sorted(set(records), key=lambda r: (r.seconds, r.test)):
        name = record.test.partition("[")[0]
        turns.append((cases[name], record.functions * (0.2 + record.seconds), record))
        cases[name] += 1
    found: dict[str, None] = {}
    for case, _, record in sorted(turns):
        if case < CASES and record.seconds <= seconds:
            seconds -= record.seconds
            found[record.test] = None
    return list(found)


def tests_of(fault: Fault, records: dict[str, list[Record]], seconds: float) -> list[str]:
    """Return the tests that come to the function of a fault.

    Where none is recorded, these are tests of its module, and files of tests that name its words.
    """
    found = records.get(f"{fault.path}:{fault.function}")
    if found:
        return chosen(found, seconds)
    within = [name for name in records if name.partition(":")[0] == fault.path]
    known = chosen([record for name in within for record in records[name]], seconds)
    return [*known, *naming(fault)]


def naming(fault: Fault, most: int = 3) -> list[str]:
    """Return the files of tests that name words of a fault's place which few other files name."""
    place = f"{Path(fault.path).stem}.{fault.function}"
    given = [word for word in re.split(r"\W+", place) if len(word) > 3]
    words = {*given, *(word.strip("_") for word in given)}
    texts = {
        file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8")
        for file in sorted((ROOT / "tests").rglob("test_*.py"))
    }
    scores = Counter[str]()
    for word in words:
        found = [name for name, text in texts.items() if re.search(rf"\b{word}\b", text)]
        for name in found:
            scores[name] += (4 if f"/{fault.area}/" in name else 1) / len(found)  # type: ignore[assignment]
    folder = f"tests/{fault.path.partition('/')[0]}/"
    scores.update({name: 0 for name in texts if name.startswith(folder)})
    return [name for name, _ in scores.most_common(most)]


# -- copies of the tree -------------------------------------------------------------------------


class Copy:
    """A copy of the tree, in which one fault at a time is tried."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        skipped = shutil.ignore_patterns(".git", "build", ".venv", ".pytest_cache", "*.c")
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=skipped)
            elif source.exists():
                shutil.copy2(source, folder / name)
        self.sound: dict[str, bool] = {}
        self.process: subprocess.Popen[bytes] | None = None

    def environment(self) -> dict[str, str]:
        """Return the environment of a run: the copy's package, and machine code of its own."""
        return {
            **os.environ,
            "PYTHONPATH": str(self.root / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "WEND_CACHE_DIR": str(self.root / "cache"),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self.root / "hypothesis"),
        }

    def run(self, tests: list[str], without: list[str]) -> Outcome:
        """Run tests until one fails. without: tests to leave out"""
        names = self.root / "tests.txt"
        names.write_text("\n".join(tests) + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        command += ["--no-header", "--tb=line", *[f"--deselect={t}" for t in without], f"@{names}"]
        with (self.root / "output.txt").open("w+b") as output:
            process = self.process = subprocess.Popen(
                command, cwd=self.root, env=self.environment(), stdout=output, stderr=output,
                preexec_fn=limit, start_new_session=True,
            )  # fmt: skip
            try:
                code = process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                code = -9
            finally:
                end_group(process)
            output.seek(0)
            return judged(code, output.read().decode(errors="replace"))

    def passes(self, test: str) -> bool:
        """Whether a test passes in the copy without a fault."""
        if test not in self.sound:
            self.sound[test] = self.run([test], []).verdict == "survived"
        return self.sound[test]

    def try_fault(self, fault: Fault, tests: list[str]) -> Outcome:
        """Return how a fault ends. A test that fails without the fault as well does not count."""
        if not tests:
            return Outcome("survived", "no recorded test comes here")
        path = self.root / "src" / "wend" / fault.path
        source, stat = path.read_bytes(), path.stat()
        without: list[str] = []
        while True:
            path.write_bytes(fault.apply(source))
            try:
                outcome = self.run(tests, without)
            finally:
                path.write_bytes(source)
                os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            if "::" not in outcome.detail or self.passes(outcome.detail):
                return outcome
            without.append(outcome.detail)


def limit() -> None:
    """Bound the processor time of the process that is about to run tests."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 10))


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End what a run of tests has left behind: it has a group of its own."""
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        pass
    process.wait()


def judged(code: int, output: str) -> Outcome:
    """Return the outcome of a run of tests, from its exit code and its output."""
    if code in (0, 5):  # 5: all of them are left out
        return Outcome("survived", "")
    for line in output.splitlines():
        word, _, rest = line.partition(" ")
        if word in ("FAILED", "ERROR") and "::" in rest:
            return Outcome("killed", rest.partition(" - ")[0].strip())
    if code < 0:
        return Outcome("killed", "the process crashed" if code == -11 else "the run does not end")
    return Outcome("killed", "the tests cannot be collected")


# -- the run ------------------------------------------------------------------------------------


def work_through(
    faults: list[Fault],
    tests: Callable[[Fault], list[str]],
    workers: int,
    minutes: float,
    done: Callable[[Fault, Outcome, float], None],
) -> None:
    """Try faults in several copies, until all are done or the time is over.

    tests: returns the tests for a fault
    done: called with each fault, its outcome, and the seconds it took
    """
    left: queue.Queue[Fault] = queue.Queue()
    for fault in faults:
        left.put(fault)
    stop, lock, copies = time.monotonic() + 60 * minutes, threading.Lock(), list[Copy]()
    over = threading.Event()

    def work(folder: Path) -> None:
        copy = Copy(folder)
        copies.append(copy)
        while time.monotonic() < stop and not over.is_set():
            try:
                fault = left.get_nowait()
            except queue.Empty:
                return
            began = time.monotonic()
            outcome = copy.try_fault(fault, tests(fault))
            with lock:
                if not over.is_set():
                    done(fault, outcome, time.monotonic() - began)

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        threads = [
            threading.Thread(target=work, args=(Path(folder) / f"tree{k}",)) for k in range(workers)
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            over.set()  # where this is interrupted, what runs ends
            for copy in copies:
                if copy.process is not None:
                    end_group(copy.process)


def record(options: list[str]) -> int:
    """Run the tests once, and note the functions that each executes."""
    shutil.rmtree(RECORDS, ignore_errors=True)
    path = os.pathsep.join([str(HERE), str(ROOT / "src")])
    env = {**os.environ, "PYTHONPATH": path, "WEND_EXECUTED": str(RECORDS)}
    folders = [f"tests/{name}" for name in TESTED]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "executed", "-m", "not slow"]
    return subprocess.run([*command, *options, *folders], cwd=ROOT, env=env, check=False).returncode


def is_among(fault: Fault, only: str) -> bool:
    """Whether a fault lies in an area, a group of areas, or below a path."""
    return not only or fault.area in GROUPS.get(only, (only,)) or fault.path.startswith(only)


def parsed() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="an area, compiler, or the start of a path")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of tests, for a fault")
    parser.add_argument("--again", default="", help="an outcome, or the name of a fault")
    parser.add_argument("--list", action="store_true", help="show the faults, and try none")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--equivalent", nargs=2, metavar=("NAME", "REASON"))
    return parser.parse_known_args()


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # runs of tests end with this one
    options, rest = parsed()
    if options.record:
        return record(rest)
    faults, outcomes = drawn(ROOT, options.seed, options.count), read_table()
    if options.equivalent:
        name, reason = options.equivalent
        outcomes[name] = Outcome("equivalent", reason)
        write_table(faults, outcomes, options.seed)
        return 0
    again = {n for n, o in outcomes.items() if options.again and options.again in (n, o.verdict)}
    todo = [
        f for f in faults
        if is_among(f, options.only) and (f.name in again or f.name not in outcomes)
    ]  # fmt: skip
    if options.list:
        for fault in todo:
            print(row_of(fault, Outcome("", "")))
        return 0

    def done(fault: Fault, outcome: Outcome, seconds: float) -> None:
        outcomes[fault.name] = outcome
        write_table(faults, outcomes, options.seed)
        print(f"{seconds:5.0f} s {row_of(fault, outcome)}", flush=True)

    records = read_records(RECORDS)

    def tests(fault: Fault) -> list[str]:
        return tests_of(fault, records, options.seconds)

    work_through(todo, tests, options.workers, options.minutes, done)
    print(summary(faults, outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
