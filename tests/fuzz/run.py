"""Runs many random programs in every way, and records how they ended.

    python tests/fuzz/run.py --programs 10000 --seed 1
    python tests/fuzz/run.py --programs 1 --first 4711 --seed 1 --show    # one of them
    python tests/fuzz/run.py --kind training --programs 3000 --seed 1     # training loops
    python tests/fuzz/run.py --kind training --all                        # and what is left out
    WEND_COMPILE=force python tests/fuzz/run.py --programs 500            # all of it machine code
    WEND_XPU=all python tests/fuzz/run.py --device xpu --programs 500     # on an accelerator too

The programs of a seed are always the same. They run in processes of their own, some hundred in
each: one that crashes is run again without PyTorch, to see whose crash it is, and passed over. A
program that runs differently in two ways is made small and printed as a script.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.metadata
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

# A failure inside Wend is one of the program's, whatever computes the results afterwards.
os.environ.setdefault("WEND_STRICT", "1")

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import loops  # noqa: E402
import programs  # noqa: E402
from programs import Program  # noqa: E402

SHARE = 250  # programs of one process


KINDS: dict[str, Callable[..., Program]] = {
    "expressions": programs.drawn,
    "training": loops.drawn,
    "all training": functools.partial(loops.drawn, left_out=()),
}


def program_of(seed: int, number: int, kind: str = "expressions") -> Program:
    """One of a seed's programs."""
    return KINDS[kind](random.Random(f"{seed} {number}").randint)


def work(seed: int, first: int, count: int, kind: str) -> None:
    """Run some programs; print a line of JSON before each one, and one with its ending."""
    import compare
    import reduce

    from wend._engine.runtime import tiers
    from wend._engine.runtime.native.launcher import launcher

    for number in range(first, first + count):
        print(json.dumps({"begins": number}), flush=True)
        program = program_of(seed, number, kind)
        try:
            ending: dict[str, Any] = {"ending": compare.check(program)}
        except compare.Differs as found:
            small = reduce.smallest(found)
            ending = {"ending": "DIFFERS", "text": str(small), "script": small.program.script}
        print(json.dumps({"number": number, "lines": len(program.lines), **ending}), flush=True)
    print(json.dumps({"counts": {**tiers.COUNTS, "runs": launcher.runs()}}), flush=True)


def run_share(
    seed: int, first: int, count: int, plans: Counter[str], options: list[str]
) -> tuple[list[dict[str, Any]], int]:
    """Run programs in a process; returns their endings, and how many it came to.

    plans: what became of plans of machine code is added     options: how they are run
    """
    command = [sys.executable, __file__, *options, "--work", f"{seed}", f"{first}", f"{count}"]
    endings: list[dict[str, Any]] = []
    begun = first
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            found = json.loads(line)
            if "begins" in found:
                begun = found["begins"]
            elif "counts" in found:
                plans.update(found["counts"])
            else:
                endings.append(found)
    if process.returncode != 0:
        found = {"number": begun, "lines": 0, "ending": "CRASHES", "text": f"{process.returncode}"}
        again = [*command[:-3], f"{seed}", f"{begun}", "1", "--without-torch"]
        alone = subprocess.run(again, stdout=subprocess.DEVNULL)
        if alone.returncode == 0:
            found = {"number": begun, "lines": 0, "ending": "PyTorch crashes"}
        endings.append(found)
    return endings, begun + 1 - first


def run(seed: int, first: int, count: int, options: list[str]) -> dict[str, Any]:
    """Run programs, report as they go, and return what is recorded."""
    start = time.time()
    counts: Counter[str] = Counter()
    plans: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    lines = done = 0
    while done < count:
        endings, came = run_share(seed, first + done, min(SHARE, count - done), plans, options)
        done += came
        for ending in endings:
            counts[ending["ending"]] += 1
            lines += ending["lines"]
            if ending["ending"].isupper():
                failures.append(ending)
                print(f"\nprogram {ending['number']}: {ending['text']}", flush=True)
        print(f"{done} programs, {time.time() - start:.0f} s: {dict(counts)}", flush=True)
    return {
        "kind": options[1], "seed": seed, "first": first, "programs": count, "lines": lines,
        "endings": dict(counts),
        "seconds": round(time.time() - start), "failures": failures, "plans": dict(plans),
        "WEND_COMPILE": os.environ.get("WEND_COMPILE", ""),
        "python": platform.python_version(),
        **{name: _version(name) for name in ("numpy", "torch", "llvmlite")},
    }  # fmt: skip


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def main() -> int:
    """Run from the command line; 1 if a program ran differently in two ways."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=KINDS, default="expressions", help="of programs")
    parser.add_argument("--all", action="store_true", help="also what `states.LEFT_OUT` names")
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--show", action="store_true", help="print the programs, run nothing")
    parser.add_argument("--output", type=Path, help="write the record here, as JSON")
    parser.add_argument("--without-torch", action="store_true", help="compare Wend with itself")
    parser.add_argument("--device", help="an accelerator to run programs on as well: xpu")
    parser.add_argument("-p", action="append", metavar="PLUGIN", help="load it: small_parts, ...")
    parser.add_argument("--work", nargs=3, type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.all:
        args.kind = "all training"
    options = ["--kind", args.kind, *(word for name in args.p or () for word in ("-p", name))]
    for name in args.p or ():
        importlib.import_module(name)
    if args.without_torch or args.device:
        import compare

        compare.HAS_TORCH = not args.without_torch
        compare.DEVICE = args.device
        options += ["--without-torch"] * args.without_torch
        options += ["--device", args.device] if args.device else []
    if args.work:
        work(*args.work, args.kind)
        return 0
    if args.show:
        for number in range(args.first, args.first + args.programs):
            print(program_of(args.seed, number, args.kind).script)
        return 0
    record = run(args.seed, args.first, args.programs, options)
    if args.output:
        args.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if record["failures"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
