"""How much of a step the slices of the profiler cover, and how much slower a step is meanwhile.

    python -m wend run benchmarks/profiling.py [WORKLOAD ...]

Per workload of `workloads/` (and `digits`, a small convolutional network): milliseconds of a step
before a profiler was on, while on, and afterwards (the least of several); the ratios on : before
and after : before; the share of the measured steps that slices without slices inside cover; and
the shares of kernels, NumPy rules, groups and lanes, launching, recording, and the rest.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "workloads"))

import common
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

WORKLOADS = ("digits", "bilstm_tagger", "transformer_encoder", "char_transformer", "tree_lstm")
ROUNDS = 5


class DigitsWorkload:
    """A convolutional network on 64 images of 8 x 8; SGD."""

    steps, warm_up = 20, 40

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10),
        )  # fmt: skip
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        rng = np.random.default_rng(0)
        self.images = torch.from_numpy(rng.normal(size=(64, 1, 8, 8)).astype(np.float32))
        self.classes = torch.from_numpy(rng.integers(0, 10, 64))

    def step(self) -> float:
        """Take a step of training; return the loss."""
        loss = F.cross_entropy(self.model(self.images), self.classes)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def workload_of(name: str) -> Any:
    """The workload of a name."""
    if name == "digits":
        return DigitsWorkload()
    kind = "".join(word.title() for word in name.split("_")) + "Workload"
    return getattr(importlib.import_module(name), kind)()


def least(workload: Any, steps: int, end_of_step: Any = None) -> float:
    """Milliseconds of a step: the least mean of several rounds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(steps):
            workload.step()
            if end_of_step is not None:
                end_of_step()
        times.append((time.perf_counter() - start) / steps * 1e3)
    return min(times)


def measure(name: str) -> None:
    """Print the figures of a workload."""
    workload = workload_of(name)
    for _ in range(3 * workload.warm_up):
        workload.step()
    common.come_to_rest()
    for _ in range(workload.warm_up):
        workload.step()
    before = least(workload, workload.steps)
    with torch.profiler.profile(schedule=lambda step: torch.profiler.ProfilerAction.RECORD) as p:
        on = least(workload, workload.steps, p.step)
    after = least(workload, workload.steps)
    covered, whole, kinds = 0, 0, Counter()
    for top in p.slices():
        for tree in top.walk():
            if tree.slice.kind != "step":
                continue
            whole += tree.slice.end - tree.slice.begin
            for leaf in tree.leaves():
                covered += leaf.end - leaf.begin
                kinds[leaf.kind] += leaf.end - leaf.begin
    shares = "  ".join(f"{kind} {n / whole:.0%}" for kind, n in kinds.most_common(7))
    ratios = f"{on / before:5.2f} {after / before:5.2f}   {covered / whole:6.1%}"
    print(
        f"{name:20s} {before:8.2f} {on:8.2f} {after:8.2f}   {ratios}   {shares}",
        flush=True,
    )


if __name__ == "__main__":
    print("workload               before       on    after   on:b  after:b  covered")
    for given in sys.argv[1:] or WORKLOADS:
        measure(given)
