"""What a workload is, and how one runs by itself.

A workload is an ordinary PyTorch program: ``python benchmarks/workloads/mlp.py`` times it with
PyTorch, ``wend run benchmarks/workloads/mlp.py`` with Wend.
``python benchmarks/compare.py mlp`` runs
both, from equal weights, their passes interleaved.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch


class Workload(Protocol):
    """One loop: weights that can be set, and a step that returns its loss (or sum of squares).

    One whose losses may be near 0 by cancellation says how large are the numbers that they are made
    of (`scale`); one that trains nothing may have more to compare after a step (`outcome`).
    What a step computes with tensors, but for the optimiser, is a module named `model` or a method
    named `compute`: that is what torch.compile is given.
    """

    steps: int  # of a pass, so that a pass takes about half a second with PyTorch
    warm_up: int  # steps before the passes

    def weights(self) -> dict[str, torch.Tensor]:
        """Return the tensors that are trained, by name."""

    def step(self) -> float:
        """Train once, or infer; return the loss, or the sum of squares of the outputs."""


class Peer:
    """A workload as another framework runs it, with the PyTorch program's weights and data.

    `load` takes over the weights before the first step; `run` is a step.
    """

    def __init__(self, workload: Any) -> None:
        self.workload = workload
        self.steps, self.warm_up = workload.steps, workload.warm_up
        self.loaded = False

    def weights(self) -> dict[str, torch.Tensor]:
        return self.workload.weights()

    def step(self) -> float:
        if not self.loaded:
            self.load()
            self.loaded = True
        return self.run()

    def load(self) -> None:
        raise NotImplementedError

    def run(self) -> float:
        raise NotImplementedError


def for_all(function: Callable[..., Any], *examples: Sequence[Any]) -> list[Any]:
    """Call a function for each example: Wend batches the calls, PyTorch makes them in turn."""
    batched = getattr(torch, "batched", None)
    return batched(function)(*examples) if batched else list(map(function, *examples))


def weights_of(workload: Workload) -> dict[str, np.ndarray]:
    """Return copies of the weights."""
    return {name: w.detach().numpy().copy() for name, w in workload.weights().items()}


def set_weights(workload: Workload, values: dict[str, np.ndarray]) -> None:
    """Overwrite the weights. Raises KeyError if a name is missing."""
    with torch.no_grad():
        for name, weight in workload.weights().items():
            weight.copy_(torch.from_numpy(np.array(values[name])))


def let_compile(workload: Workload) -> None:
    """Let torch.compile have what the workload computes."""
    model = getattr(workload, "model", None)
    if model is not None:
        model.compile()
    else:
        workload.compute = torch.compile(workload.compute)


def come_to_rest() -> int:
    """Wait until nothing is compiled in the background; returns how much has been compiled.

    Modules of machine code in Wend, graphs in PyTorch.
    """
    if "+wend" not in torch.__version__:
        dynamo = sys.modules.get("torch._dynamo.utils")
        return dynamo.counters["stats"]["unique_graphs"] if dynamo else 0
    compiler = sys.modules.get("wend._engine.compiler.llvm_ir.jit")
    if compiler is None:
        return 0
    if not compiler.drain(300):
        raise RuntimeError("compilation has not come to rest within five minutes")
    return compiler.counters.compiled + compiler.counters.loaded


#: Steps behind the warm-up: what was compiled by then is bound to its sizes in the first of them.
SETTLING = 2


def settle(workload: Workload) -> int:
    """Wait for what is compiled, and take it into use; returns how much has been compiled."""
    come_to_rest()
    for _ in range(SETTLING):
        workload.step()
    return come_to_rest()


def one_pass(workload: Workload, steps: int) -> float:
    """Run some steps; return their processor time, all threads together, in seconds a step."""
    start = time.process_time()
    for _ in range(steps):
        workload.step()
    return (time.process_time() - start) / steps


def alone(workload: Workload, passes: int = 5) -> None:
    """Time a workload by itself and print the result."""
    torch.set_num_threads(1)
    for _ in range(workload.warm_up):
        loss = workload.step()
    settle(workload)
    times = [1000 * one_pass(workload, workload.steps) for _ in range(passes)]
    name = type(workload).__name__
    print(f"{name}: {statistics.median(times):.3f} ms a step ", end="")
    print(f"({min(times):.3f} to {max(times):.3f}), loss {loss:.6f}, torch {torch.__version__}")
