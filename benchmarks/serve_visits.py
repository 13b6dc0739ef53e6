"""One side of ``visits.py``: runs what it is told to, and times it.

python serve_visits.py
"""

from __future__ import annotations

import importlib
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "workloads"))

import common
import numpy as np
import torch
from bench import serve
from mlp import MlpWorkload

torch.set_num_threads(1)
rng = np.random.default_rng(0)
X, Y = (torch.from_numpy(rng.normal(size=(8, 8)).astype(np.float32)) for _ in range(2))


def unrolled(turns: int) -> torch.Tensor:
    """A loop of 20 ops a turn."""
    h = X
    for _ in range(turns):
        for _ in range(5):
            h = torch.tanh(h * Y + X) - Y
    return h.sum()


def visit(turns: int, gradient: bool) -> float:
    """Milliseconds of processor time of one visit."""
    X.grad = Y.grad = None
    X.requires_grad_(gradient)
    Y.requires_grad_(gradient)
    start = time.process_time()
    loss = unrolled(turns)
    if gradient:
        loss.backward()
        X.grad.sum().item()
    loss.item()
    return 1000 * (time.process_time() - start)


def first_step() -> float:
    """Milliseconds of processor time of the first step of an MLP in this process."""
    workload = MlpWorkload()
    start = time.process_time()
    workload.step()
    took = 1000 * (time.process_time() - start)
    for _ in range(8):
        workload.step()
    common.come_to_rest()
    workload.step()
    return took


def under_way() -> dict[str, float]:
    """Milliseconds of a step on the reference: before its path is planned, and meanwhile."""
    from wend._engine.runtime import tiers

    def step(k: int) -> float:
        start = time.process_time()
        h = X + k
        for _ in range(60):
            h = torch.tanh(h * Y + X) - Y
        h.sum().item()
        return 1000 * (time.process_time() - start)

    X.requires_grad_(False)
    Y.requires_grad_(False)
    third, tiers.THIRD = tiers.THIRD, 10**9
    without = statistics.median(step(k) for k in range(200))
    tiers.THIRD = third
    began = tiers.COUNTS["compiled"]
    during = []
    while tiers.COUNTS["compiled"] == began and len(during) < 5000:
        during.append(step(0))
    return {"without": without, "during": statistics.median(during[:-1]), "steps": len(during)}


def planning(turns: int, gradient: bool) -> dict[str, float]:
    """Microseconds an op to plan a loop, and a kernel to bind the plan to new sizes."""
    from wend._engine.base import config
    from wend._engine.compiler.stages import finished
    from wend._engine.runtime.compiled import plan as cpu
    from wend._engine.runtime.flush_log import last_plans

    with config.override(compile=True, wait=True):
        visit(turns, gradient)
        visit(turns, gradient)
    plan = max(last_plans(), key=lambda p: len(p.reference.steps))
    reference, compiled = plan.reference, plan.compiled
    start = time.process_time()
    finished(cpu.planning_of(reference))
    planned = time.process_time() - start
    frame = compiled.native_plan.frame
    types = list(reference.path.types)
    times = []
    for _ in range(20):
        start = time.process_time()
        cpu.BoundPlan(compiled, types, reference.path.args, frame.types, frame.sizes)
        times.append(time.process_time() - start)
    return {
        "op": 1e6 * planned / len(reference.steps),
        "ops": len(reference.steps),
        "bind": 1e6 * statistics.median(times) / len(compiled.code.steps),
        "kernels": len(compiled.code.steps),
    }


def new_sizes(name: str) -> dict[str, float]:
    """Of an inference whose sizes never come twice: how the first visits of sizes compare."""
    from wend._engine.runtime.compiled import plan as cpu

    workload = getattr(importlib.import_module(name), name.upper())()
    for _ in range(workload.warm_up):
        workload.step()
    compiled = common.come_to_rest()
    first, again, kernels, binding = [], [], [], []
    make = cpu.BoundPlan.__init__

    def timed(bound: Any, plan: Any, *given: Any) -> None:
        start = time.process_time()
        make(bound, plan, *given)
        binding.append(time.process_time() - start)
        kernels.append(len(plan.kernels))

    cpu.BoundPlan.__init__ = timed  # type: ignore[method-assign]
    for _ in range(25):
        for times in (first, again):
            start = time.process_time()
            workload.step()
            times.append(time.process_time() - start)
            workload.count -= times is first
    cpu.BoundPlan.__init__ = make  # type: ignore[method-assign]
    return {
        "ratio": statistics.median(a / b for a, b in zip(first, again, strict=True)),
        "compiled": common.come_to_rest() - compiled,
        "kernels": max(kernels),
        "bind": 1e6 * statistics.median(t / n for t, n in zip(binding, kernels, strict=True)),
    }


def answer(do: str, **given: Any) -> Any:
    """Do what the request says."""
    if do == "rest":
        return common.come_to_rest()
    work = {
        "visit": visit,
        "first step": first_step,
        "planning": planning,
        "under way": under_way,
        "new sizes": new_sizes,
    }
    return work[do](**given)


serve(answer)
