"""One side of ``hands.py``: runs a program in one hand."""

from __future__ import annotations

import importlib
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "workloads"))

import numpy as np
import torch
from bench import serve
from common import SETTLING, come_to_rest
from written.hand import Hand

torch.set_num_threads(1)
BATCHES = 8
#: So many steps at least: data has come back before the first third of them ends.
FEWEST = 30
#: So many steps of PyTorch at least.
FEW = 4


def program_of(name: str, hand: Hand) -> Any:
    """Return a program: TreeLstm of `tree_lstm`."""
    made = getattr(importlib.import_module(f"written.{name}"), name.title().replace("_", ""))
    return made(hand)


def batches(program: Any, data: str) -> Any:
    """Yield the data of each step without end: new, repeated in order, or shuffled anew."""
    rng = np.random.default_rng(4)
    kept = [program.batch(rng) for _ in range(BATCHES)]
    while True:
        if data == "new":
            yield program.batch(rng)
        elif data == "shuffled":
            yield from (kept[k] for k in rng.permutation(BATCHES))
        else:
            yield from kept


def measured(program: str, hand: dict[str, str], seconds: float, steps: int) -> dict[str, Any]:
    """Train for so many seconds of processor time, or so many steps; return the side's numbers.

    ms: a step of the steady state, over two rounds of the data that comes back
    longest: the longest step after the first third of the steps, over their median
    total: processor time from the start of the process to the end of the last step asked for
    """
    run = program_of(program, Hand(**hand))
    data = batches(run, hand["data"])
    losses: list[float] = []

    def step() -> float:
        batch = next(data)
        start = time.process_time()
        losses.append(run.step(batch))
        return 1000 * (time.process_time() - start)

    times: list[float] = []
    totals: list[float] = []
    while len(times) < (steps or FEW) or (not steps and time.process_time() < seconds):
        times.append(step())
        totals.append(time.process_time())
    if steps:
        times += [step() for _ in range(len(times), FEWEST)]
    late = steady = times[len(times) // 3 :]
    if steps:
        come_to_rest()
        for _ in range(BATCHES + SETTLING):
            step()
        come_to_rest()
        steady = [step() for _ in range(2 * BATCHES)]
    return {
        "ms": statistics.mean(steady),
        "longest": max(late) / statistics.median(late),
        "steps": len(totals),
        "total": totals[-1],
        "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "losses": losses[:3],
    }


if __name__ == "__main__":
    serve(measured)
