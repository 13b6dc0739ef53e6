"""One side of ``memory.py --peak``: steps of `char_transformer`, and the most memory they hold."""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "workloads"))

import char_transformer
import common
import torch
from bench import serve

torch.set_num_threads(1)

#: Steps without compilation after which nothing more will come, and the most to wait for that.
QUIET, MOST = 3, 30


def status(name: str) -> float:
    """Return a line of /proc/self/status in MB."""
    text = Path("/proc/self/status").read_text()
    return int(text.partition(name + ":")[2].split()[0]) / 1e3


def answer(batch: int, length: int, steps: int, budget: float) -> dict[str, Any]:
    """Train; return the resident memory before, and medians of the peaks and times of some steps.

    They begin when `QUIET` steps in a row have compiled nothing: memory and time of the reference
    are not what is measured.

    budget: in MB; 0 for none
    """
    if budget:
        torch.set_memory_budget(int(budget * 1e6))
    char_transformer.BATCH, char_transformer.LENGTH = batch, length
    workload = char_transformer.CharTransformerWorkload()
    start = status("VmRSS")
    compiled, quiet = common.come_to_rest(), 0
    for _ in range(MOST):
        workload.step()
        before, compiled = compiled, common.come_to_rest()
        quiet = quiet + 1 if compiled == before else 0
        if quiet == QUIET:
            break
    peaks, times = [], []
    for _ in range(steps):
        if os.path.exists("/proc/self/clear_refs"):
            Path("/proc/self/clear_refs").write_text("5")
        began = time.process_time()
        loss = workload.step()
        times.append(time.process_time() - began)
        peaks.append(status("VmHWM"))
    median = statistics.median
    return {"start": start, "seconds": median(times), "peak": median(peaks), "loss": loss}


serve(answer)
