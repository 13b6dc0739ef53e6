"""Runs cases of the matrix of ordinary programs, and writes their table.

    python tests/matrix/run.py                        # what CI runs: all pairs of settings
    python tests/matrix/run.py --strength 3 --write   # all triples; writes `table.md`
    python tests/matrix/run.py --all --slice 2/8      # an eighth of all cases
    python tests/matrix/run.py --case lstm,sgd,24,16,64,fixed

Each case is a process of its own; `--processes` says how many run at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from forked import Forked  # noqa: E402
from matrix.cases import MANY, Case, covered, every, parsed  # noqa: E402
from matrix.shortcomings import faults, unlisted  # noqa: E402

PROGRAM = HERE / "program.py"
TABLE = HERE / "table.md"
COLUMNS = ("reference", "kernels", "flushes", "paths", "modules", "planning", "memory")
HEAD = f"""# The matrix of ordinary programs

Made by `python tests/matrix/run.py --strength 3 --write`: cases in which all values of any three
settings meet. Columns: {COLUMNS[0]}: ops of the reference after the tenth of thirty steps; kernels
and flushes of these steps; of all steps, paths kept, modules of machine code, calls of the
compiler's passes in thousands, and the most KiB of temporaries and results of one run of machine
code. *equal*: losses, scores and parameters are PyTorch's. Faults are listed with their reasons in
`shortcomings.py`.

"""


def run(cases: Sequence[Case], processes: int) -> dict[Case, dict[str, Any]]:
    """The counts of cases; shows each one as it ends."""
    found: dict[Case, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(processes) as pool:
        free: SimpleQueue[Forked] = SimpleQueue()
        everyone = [Forked(PROGRAM, Path(folder)) for _ in range(processes)]
        for one in everyone:
            free.put(one)

        def work(case: Case) -> None:
            mine = free.get()
            found[case] = mine.of(str(case))
            free.put(mine)
            print(f"{len(found)} of {len(cases)} {case}: {json.dumps(found[case])}", flush=True)

        list(pool.map(work, cases))
        for one in everyone:
            one.end()
    return {case: found[case] for case in cases}


def line(case: Case, counts: dict[str, Any]) -> str:
    """A row of the table."""
    cells = list(case)
    if "ended" in counts:
        return f"| {' | '.join(cells)} | {' | '.join([''] * len(COLUMNS))} | {counts['ended']} |"
    scale = {"planning": 1000, "memory": 1024}
    cells += [str(round(counts[name] / scale.get(name, 1))) for name in COLUMNS]
    return f"| {' | '.join(cells)} | {', '.join(faults(counts)) or 'equal'} |"


def write(results: dict[Case, dict[str, Any]]) -> None:
    """Write the table."""
    names = [*Case._fields, *COLUMNS, "outcome"]
    ended = sum(not faults(counts) for counts in results.values())
    summary = f"{len(results)} cases, {ended} of them without a fault.\n\n"
    head = f"| {' | '.join(names)} |\n|{'---|' * len(names)}\n"
    rows = "\n".join(line(case, counts) for case, counts in results.items())
    TABLE.write_text(HEAD + summary + head + rows + "\n", encoding="utf-8")


def main() -> int:
    """Run from the command line; 1 if a case has a fault that is not listed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", help="one case, as failures print it")
    parser.add_argument("--all", action="store_true", help="all cases")
    parser.add_argument("--strength", type=int, default=2, help="how many settings meet")
    parser.add_argument("--slice", default="1/1", metavar="I/N", help="each Nth case, from the Ith")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--write", action="store_true", help="write the table")
    parser.add_argument("--output", type=Path, help="write the counts here, as JSON")
    args = parser.parse_args()
    if args.case:
        cases: Sequence[Case] = [parsed(args.case)]
    elif args.all:
        cases = list(every())
    else:
        cases = covered() if args.strength == 2 else covered(args.strength, MANY)
    part, parts = map(int, args.slice.split("/"))
    results = run(cases[part - 1 :: parts], args.processes)
    if args.write:
        write(results)
    if args.output:
        found = {str(case): counts for case, counts in results.items()}
        args.output.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
    told = [text for case, counts in results.items() if (text := unlisted(case, counts))]
    print("\n".join(told))
    return 1 if told else 0


if __name__ == "__main__":
    raise SystemExit(main())
