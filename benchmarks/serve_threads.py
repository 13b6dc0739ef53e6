"""One side of ``threads.py``: a product or a workload's step, by the wall clock.

python serve_threads.py THREADS
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "workloads"))

import common
import numpy as np
import torch
from bench import serve

torch.set_num_threads(int(sys.argv[1]))
#: Steps of a turn, so that one takes some milliseconds.
known: dict[str, tuple[Callable[[], Any], int]] = {}


def product(shape: str) -> tuple[Callable[[], Any], int]:
    """A product of new values each time, as in training: nothing is kept packed."""
    rows, depth, columns = (int(n) for n in shape.split("x"))
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(rows, depth)).astype(np.float32))
    y = torch.from_numpy(rng.normal(size=(depth, columns)).astype(np.float32))

    def step() -> float:
        return float((x @ y)[0, 0])

    return step, max(1, int(2e-3 * 1e11 / (2 * rows * depth * columns)))


def prepared(what: str) -> tuple[Callable[[], Any], int]:
    """What is measured, past its first visits."""
    if what[0].isdigit():
        (step, repeats), visits = product(what), 8
    else:
        workload = getattr(importlib.import_module(what), what.upper())()
        # As many steps as there are sizes, where they take turns.
        step, repeats, visits = workload.step, workload.steps, workload.warm_up
    for _ in range(visits):
        step()
        common.come_to_rest()
    return step, min(repeats, 500)


def answer(what: str, turns: int) -> float | None:
    """Milliseconds of a step, the best of some turns."""
    if what not in known:
        known[what] = prepared(what)
    step, repeats = known[what]
    times = []
    for _ in range(turns):
        start = time.perf_counter()
        for _ in range(repeats):
            step()
        times.append(1000 * (time.perf_counter() - start) / repeats)
    return min(times, default=None)


if __name__ == "__main__":
    serve(answer)
