"""The models of whole programs, written as ONNX models and run in onnxruntime.

python benchmarks/exported.py FOLDER [--only NAME ...]
python benchmarks/exported.py --examples [--only NAME ...]

Each program runs as it is, by Wend. When it ends, the modules that it has called are exported with
the arguments of their first call, in evaluation mode, and compared with onnxruntime at three
sizes where the model takes several. A row says what became of it: "agrees", or "refused" with the
reason and the line. `FOLDER` is as in `programs.py`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import HERE, publish
from programs import Outcome, Program, programs_of, run_command

#: The examples with a model, and options that make their training short.
EXAMPLES = {
    "digits": ["--seeds", "1", "--limit", "200"],
    "words": ["--epochs", "1", "--limit", "40", "--test-limit", "10"],
    "trees": ["--epochs", "1", "--limit", "40", "--test-limit", "10"],
    "parser": ["--epochs", "1", "--limit", "40", "--test-limit", "10"],
    "grow": [],
    "sizes": ["--steps", "2"],
}
COLUMNS = ["program", "module", "result", "sizes", "points", "ops", "nodes", "seconds", "reason"]


def examples(work: Path) -> Iterator[Program]:
    """Yield the examples with a model."""
    for name, options in EXAMPLES.items():
        command = [str(HERE.parent / "examples" / f"{name}.py"), *options]
        yield Program(name, [command], work, "", lambda: None, timeout=3600.0)


def rows_of(program: Program) -> list[dict[str, Any]]:
    """Run a program; return a row per module, or a single row that says why there is none."""
    program.prepare()
    rows: dict[str, dict[str, Any]] = {}
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results")
        for command in program.commands:
            run_command(
                program, "wend", command, Path(folder), Path(folder), outcome,
                script="serve_exported.py", to=results,
            )  # fmt: skip
        lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    for line in lines:
        row = json.loads(line)
        rows.setdefault(row["module"], row)
    if not rows:
        reason = outcome.fault or "the program called no module"
        return [{"program": program.name, "result": "none", "reason": reason}]
    return [{"program": program.name, **row} for row in rows.values()]


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, help="with programs.py and repos/")
    parser.add_argument("--examples", action="store_true", help="export the examples' models")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these programs")
    args = parser.parse_args()
    if args.examples == (args.folder is not None):
        parser.error("name a folder of programs, or --examples")
    rows = []
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        chosen = examples(folder) if args.examples else programs_of(args.folder.resolve(), folder)
        for program in chosen:
            if not args.only or program.name in args.only:
                rows += rows_of(program)
                print(rows[-1], flush=True)
    publish("exported_examples" if args.examples else "exported", rows, COLUMNS)
    agree = {row["program"] for row in rows if row["result"] == "agrees"}
    print(
        f"{len(agree)} of {len({row['program'] for row in rows})} programs have a model that agrees"
    )


if __name__ == "__main__":
    main()
