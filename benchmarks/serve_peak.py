"""One side of ``memory.py --peak``: training steps of W7, and the most memory that they hold."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "workloads"))

import common
import torch
import w7
from bench import serve

torch.set_num_threads(1)


def status(name: str) -> float:
    """Return a line of /proc/self/status in MB."""
    text = Path("/proc/self/status").read_text()
    return int(text.partition(name + ":")[2].split()[0]) / 1e3


def answer(batch: int, length: int, steps: int, budget: float) -> dict[str, Any]:
    """Train; return the resident memory before, its peak in the last step, and that step's time.

    budget: in MB; 0 for none
    """
    if budget:
        torch.set_memory_budget(int(budget * 1e6))
    w7.BATCH, w7.LENGTH = batch, length
    workload = w7.W7()
    start = status("VmRSS")
    found = {}
    for _ in range(steps):
        common.come_to_rest()
        if os.path.exists("/proc/self/clear_refs"):
            Path("/proc/self/clear_refs").write_text("5")
        began = time.process_time()
        loss = workload.step()
        found = {"seconds": time.process_time() - began, "peak": status("VmHWM"), "loss": loss}
    return {"start": start, **found}


serve(answer)
