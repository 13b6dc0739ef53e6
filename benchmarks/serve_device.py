"""One row of ``device.py`` with one framework, in a process of its own; prints a line of JSON.

python serve_device.py ROW DEVICE --weights FILE [--compile] [--quick] [--seconds 30]

ROW: a workload, or `ops`, the samples of all ops. DEVICE: cpu, cuda or xpu.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/ops"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent / "workloads"))

import common
import numpy as np
import torch

#: Losses that are compared with those of the other sides.
CHECKED = 6
#: Timed passes, and seconds of each at most.
PASSES, PASS = 5, 0.4
IS_WEND = "+wend" in torch.__version__


# -- workloads --------------------------------------------------------------------------------


def moved(value: Any, device: str) -> Any:
    """A part of a workload on a device: modules and tensors, alone or in lists."""
    if isinstance(value, torch.nn.Module):
        return value.to(device)
    if isinstance(value, torch.Tensor):
        return value.detach().to(device).requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(moved(v, device) for v in value)
    return value


def workload_on(name: str, device: str, weights: Path) -> Any:
    """A workload with the weights of a file, or else its own, which are saved there."""
    words = "".join(word.title() for word in name.split("_"))
    workload = getattr(importlib.import_module(name), f"{words}Workload")()
    if weights.exists():
        common.set_weights(workload, dict(np.load(weights)))
    else:
        np.savez(weights, **common.weights_of(workload))
    for key, value in vars(workload).items():
        setattr(workload, key, moved(value, device))
    # What a step makes lies on the device too.
    from_numpy = torch.from_numpy
    torch.from_numpy = lambda array: from_numpy(array).to(device)
    torch.set_default_device(device)
    return workload


def accelerator() -> Any:
    """The accelerator that Wend has used, or None: it counts launches and waits."""
    if not IS_WEND:
        return None
    queue = importlib.import_module("wend._engine.runtime.devices.queue")
    return next(iter(queue.opened().values()), None)


def timed(workload: Any, warm_up: int, passes: int, seconds: float) -> dict[str, Any]:
    """Warm up, and time passes by the wall clock; a step ends by reading its loss.

    warm_up: steps before     seconds: of a pass at most
    """
    begin = time.perf_counter()
    losses = [workload.step()]
    first = time.perf_counter() - begin
    losses += [workload.step() for _ in range(warm_up - 1)]
    common.settle(workload)
    ready = time.perf_counter() - begin
    used = accelerator()
    before = (used.launches, used.waits) if used else (0, 0)
    times, steps = [], 0
    for _ in range(passes):
        start, n = time.perf_counter(), 0
        while not n or (n < workload.steps and time.perf_counter() - start < seconds):
            workload.step()
            n += 1
        times.append(1000 * (time.perf_counter() - start) / n)
        steps += n
    row = {
        "ms": statistics.median(times), "low": min(times), "high": max(times),
        "first s": first, "warm-up s": ready, "losses": losses[:CHECKED],
    }  # fmt: skip
    if used:
        row["launches"] = (used.launches - before[0]) / steps
        row["waits"] = (used.waits - before[1]) / steps
    return row


# -- ops --------------------------------------------------------------------------------------


def ops_on(device: str, seconds: float, every: int) -> dict[str, Any]:
    """Compare ops and their gradients on a device with those of the processor, in float32.

    The first samples of all ops come first, then the second ones, as long as time is left.
    every: only one op of so many
    """
    import harness

    end = time.perf_counter() + seconds
    right: set[str] = set()
    wrong: dict[str, str] = {}
    compared = 0
    for op, sample in samples(harness, every):
        if time.perf_counter() > end:
            break
        compared += 1
        want, error = harness.outcomes(results_of, harness, op, sample, "cpu")
        got, fault = harness.outcomes(results_of, harness, op, sample, device)
        if error is not None or fault is not None:
            told = "" if type(error) is type(fault) else f"{type(fault).__name__}: {fault}"
        elif len(got) != len(want):
            told = f"{len(got)} results and gradients, not {len(want)}"
        else:
            told = next(
                filter(None, (harness.difference(a, b, True) for a, b in zip(got, want))), ""
            )
        if told:
            wrong.setdefault(op.name, told[:200])
        right.add(op.name)
    return {
        "samples": compared, "ops": len(right), "right": len(right - wrong.keys()), "wrong": wrong,
    }  # fmt: skip


def samples(harness: Any, every: int) -> Iterator[tuple[Any, Any]]:
    """(op, sample) in float32: of all ops the first ones, then the second ones, and so on."""
    from wend._engine.base import dtypes

    ops = [op for op in harness.OPS if dtypes.float32 in harness.supported(op)][::every]
    lists = [(op, harness.samples(op, dtypes.float32)) for op in ops]
    for k in range(max(len(mine) for _, mine in lists)):
        for op, mine in lists:
            if k < len(mine):
                yield op, mine[k]


def results_of(harness: Any, op: Any, sample: Any, device: str) -> list[np.ndarray]:
    """The results of an op, and the gradients of its float operands."""
    leaves: list[Any] = []
    torch.manual_seed(3)

    def operand(array: np.ndarray) -> Any:
        leaf = harness.tensor(array).to(device)
        if harness.is_float(array):
            leaves.append(leaf.requires_grad_(True))
        return leaf

    operands = harness.map_arrays(sample, operand)
    made = harness.as_tuple(op.function(*operands.args, **operands.kwargs))
    results = [r for r in made if hasattr(r, "dtype")]
    values = [harness.value(r.detach()).copy() for r in results]
    roots = [r for r in results if r.requires_grad and not r.dtype.is_complex]
    if roots:
        sum((r * 0.5).sum() for r in roots).backward()
    return values + [harness.value(leaf.grad) for leaf in leaves if leaf.grad is not None]


# -- the process ------------------------------------------------------------------------------


def name_of(device: str) -> str:
    """The name of a device, as its driver tells."""
    used = accelerator()
    if used is not None:
        return str(used.driver.properties.name)
    return torch.cuda.get_device_name() if device == "cuda" and not IS_WEND else "processor"


def main() -> None:
    """Compute the row, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("row")
    parser.add_argument("device")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=30.0)
    args = parser.parse_args()
    torch.manual_seed(0)
    if args.row == "ops":
        row = ops_on(args.device, 0.8 * args.seconds, 12 if args.quick else 1)
    else:
        workload = workload_on(args.row, args.device, args.weights)
        if args.compile:
            common.let_compile(workload)
        warm_up = min(workload.warm_up, CHECKED if args.quick else 20)
        row = timed(workload, warm_up, 2 if args.quick else PASSES, PASS)
    print("\n" + json.dumps(row | {"name": name_of(args.device)}), flush=True)


main()
