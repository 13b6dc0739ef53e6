"""What a workload is, and how one runs by itself.

A workload is an ordinary PyTorch program: ``python benchmarks/workloads/w2.py`` times it with
PyTorch, ``wend run benchmarks/workloads/w2.py`` with Wend. ``python benchmarks/compare.py w2`` runs
both, from equal weights, their passes interleaved.
"""

from __future__ import annotations

import statistics
import time
from typing import Protocol

import numpy as np
import torch


class Workload(Protocol):
    """One training loop: weights that can be set, and a step that returns its loss."""

    steps: int  # of a pass, so that a pass takes about half a second with PyTorch

    def weights(self) -> dict[str, torch.Tensor]:
        """Return the tensors that are trained, by name."""

    def step(self) -> float:
        """Train once and return the loss as a number."""


def weights_of(workload: Workload) -> dict[str, np.ndarray]:
    """Return copies of the weights."""
    return {name: w.detach().numpy().copy() for name, w in workload.weights().items()}


def set_weights(workload: Workload, values: dict[str, np.ndarray]) -> None:
    """Overwrite the weights. Raises KeyError if a name is missing."""
    with torch.no_grad():
        for name, weight in workload.weights().items():
            weight.copy_(torch.from_numpy(np.array(values[name])))


def one_pass(workload: Workload, steps: int) -> float:
    """Run some steps; return their processor time, all threads together, in seconds a step."""
    start = time.process_time()
    for _ in range(steps):
        workload.step()
    return (time.process_time() - start) / steps


def alone(workload: Workload, passes: int = 5) -> None:
    """Time a workload by itself and print the result."""
    torch.set_num_threads(1)
    for _ in range(max(3, workload.steps // 4)):
        loss = workload.step()
    times = [1000 * one_pass(workload, workload.steps) for _ in range(passes)]
    name = type(workload).__name__
    print(f"{name}: {statistics.median(times):.3f} ms a step ", end="")
    print(f"({min(times):.3f} to {max(times):.3f}), loss {loss:.6f}, torch {torch.__version__}")
