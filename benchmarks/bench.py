"""Comparing two frameworks fairly: one thread, processor time, passes that take turns.

Each side runs in a process of its own, which is told over a pipe what to do next; while one works
the other waits. A ratio is taken between passes that follow each other, so that a slow minute of
the machine hits both, and is given with its spread.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
# A failure inside Wend ends a benchmark: what was measured would be the repair.
os.environ.setdefault("WEND_STRICT", "1")
# pip compiles the modules that it installs to bytecode; those of a checkout have to be kept too.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# All of the libraries' pools, for one thread.
ONE_THREAD = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB_MAXIMUM")
}


class Side:
    """A process that runs benchmark code with one framework.

    framework: 'torch' or 'wend'; script: a file in this folder that calls ``serve``.
    Raises RuntimeError with the process's own words if it fails, and if Wend's core is uncompiled
    although nobody has asked for that.
    """

    def __init__(self, framework: str, script: str, *arguments: str) -> None:
        self.framework = framework
        if framework == "wend":
            refuse_the_uncompiled_core(conditions()["core"])
        through = ["-m", "wend", "run"] if framework == "wend" else []
        self.process = subprocess.Popen(
            [sys.executable, *through, str(HERE / script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": python_path()},
        )

    def ask(self, **request: Any) -> Any:
        """Send a request and return the answer."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the {self.framework} side ended with {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"the {self.framework} side failed:\n{answer['error']}")
        return answer["value"]

    def close(self) -> None:
        """End the process."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:  # still at work: nobody waits for the result
            self.process.kill()
            self.process.wait()


def python_path() -> str:
    """Let the processes find Wend where it is not installed."""
    given = os.environ.get("PYTHONPATH")
    return os.pathsep.join([*([given] if given else []), str(HERE.parent / "src")])


#: Prints what a time of Wend depends on, in the environment of the side that is measured.
ASK = """
import json
from wend._engine.compiler.llvm_ir import jit
from wend._engine.compiler.llvm_ir.object_cache import default_directory
from wend._engine.core import _hot, _select
folder = default_directory()
cold = folder is None or not folder.is_dir() or not any(folder.iterdir())
print(json.dumps({
    "core": "compiled" if _select.is_compiled(_hot) else "uncompiled",
    "vectors": f"{8 * jit.host().vector_bytes} bits, {jit.host().registers} registers",
    "cache": "cold" if cold else "warm",
}))
"""


@functools.cache
def conditions() -> dict[str, str]:
    """Return the core, the vectors of generated code, and the state of its cache."""
    environment = {**os.environ, "PYTHONPATH": python_path()}
    found = subprocess.run(
        [sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True
    )
    return dict(json.loads(found.stdout))


def refuse_the_uncompiled_core(core: str) -> None:
    """Raise RuntimeError for an uncompiled core that WEND_PURE has not asked for."""
    if core != "compiled" and not os.environ.get("WEND_PURE"):
        raise RuntimeError(
            "the core of this Wend is uncompiled, and records ten times more slowly; build it "
            "(pip install -e .), or set WEND_PURE=1 to time it as it is"
        )


def serve(answer: Any) -> None:
    """Answer requests on standard input until it ends; what is printed goes to standard error.

    answer: called with each request's entries, returns something that JSON can hold.
    """
    import traceback

    # A copy of the real standard output; prints of the code that is measured go elsewhere.
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)
        for line in sys.stdin:
            try:
                reply = {"value": answer(**json.loads(line))}
            except Exception:
                reply = {"error": traceback.format_exc()}
            replies.write(json.dumps(reply) + "\n")
            replies.flush()


def frameworks() -> list[str]:
    """Return the frameworks that can be measured here, Wend first."""
    import importlib.util

    return ["wend", "torch"] if importlib.util.find_spec("torch") else ["wend"]


def ratio(mine: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """Return the median ratio of paired passes and its spread: {'ratio', 'low', 'high'}."""
    ratios = sorted(a / b for a, b in zip(mine, theirs, strict=True))
    return {"ratio": statistics.median(ratios), "low": ratios[0], "high": ratios[-1]}


def table(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    """Return the rows as a Markdown table; numbers with four digits, missing ones empty."""
    cells = [list(columns)] + [[_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(line, widths)) + " |" for line in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"
    return str(value)


def machine() -> dict[str, Any]:
    """Return what a number depends on besides the code."""
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [x for x in cpuinfo.read_text().splitlines() if x.startswith("model name")]
        processor = names[0].partition(":")[2].strip() if names else processor
    facts = {"processor": processor, "cores": os.cpu_count(), "python": platform.python_version()}
    from importlib import metadata

    for name in ("numpy", "torch"):
        try:
            facts[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            facts[name] = None
    return facts


def publish(name: str, rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    """Print the rows as a table, and write them to results/NAME.json."""
    found = conditions()
    print(f"\n{name}: {', '.join(f'{key} {value}' for key, value in found.items())}")
    print(f"\n{table(rows, columns)}")
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"machine": machine() | found, "rows": list(rows)}, indent=1)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
