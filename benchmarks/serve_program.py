"""One run of ``programs.py``: runs a command of a program, and says what ran on the reference.

python serve_program.py COUNTS SCRIPT [ARGS ...]

At the end a process of Wend writes to the file COUNTS: the runs of the reference, their ops and
seconds, and the ops that machine code hands to the reference. A process of PyTorch writes nothing.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

RUNS = {"runs": 0, "ops": 0, "seconds": 0.0}


def watch(counts: Path) -> None:
    """Count the runs of the reference from now on, and write the counts when the process ends."""
    from wend._engine.runtime.numpy_executor.plan import ReferencePlan

    run = ReferencePlan.run

    def counted(plan: Any, batch: Any) -> None:
        start = time.perf_counter()
        try:
            run(plan, batch)
        finally:
            RUNS["runs"] += 1
            RUNS["ops"] += plan.n_ops
            RUNS["seconds"] += time.perf_counter() - start

    ReferencePlan.run = counted  # type: ignore[method-assign]
    mine = os.getpid()  # a fork of the program, such as a loader's worker, writes nothing

    def write() -> None:
        if os.getpid() == mine:
            counts.write_text(json.dumps(RUNS | {"host": host_ops()}), encoding="utf-8")

    atexit.register(write)


def host_ops() -> dict[str, int]:
    """Return the ops that machine code leaves to the reference, with the number of plans."""
    from wend._engine.compiler.ir.kernel import Kernel
    from wend._engine.runtime.tiers import TieredPlan

    found: Counter[str] = Counter()
    for plan in gc.get_objects():
        if isinstance(plan, TieredPlan) and plan.compiled is not None:
            found.update({s.name for s in plan.compiled.code.steps if not isinstance(s, Kernel)})
    return dict(found.most_common())


def main() -> None:
    """Run the command as Python itself would."""
    counts, *sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    import torch

    torch.set_num_threads(1)
    if torch.__spec__.name == "wend":
        watch(Path(counts))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
