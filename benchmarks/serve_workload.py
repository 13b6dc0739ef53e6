"""One side of ``compare.py``: runs a workload as it is told to.

python serve_workload.py WORKLOAD [--compile | --peer jax | --peer dynet | --peer hand | --off]
"""

from __future__ import annotations

import importlib
import resource
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "workloads"))
sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

import common
import numpy as np
import torch
from bench import serve

torch.set_num_threads(1)
name, *options = sys.argv[1:]


def class_of(name: str) -> str:
    """The class of a workload's file: TreeLstmWorkload of `tree_lstm`."""
    return "".join(word.title() for word in name.split("_")) + "Workload"


workload = getattr(importlib.import_module(name), class_of(name))()
if "--off" in options:
    torch.autobatch(False)
if "--compile" in options:
    common.let_compile(workload)
if "--peer" in options:
    workload = importlib.import_module(f"{options[-1]}_side").PEERS[name](workload)


def answer(do: str, **given: Any) -> Any:
    """Do what the request says: 'save', 'load', 'warm up', 'pass' or 'total'."""
    if do == "save":
        np.savez(given["path"], **common.weights_of(workload))
    elif do == "load":
        common.set_weights(workload, dict(np.load(given["path"])))
    elif do == "warm up":
        return warm_up(given["steps"] or workload.warm_up, given["checked"])
    elif do == "pass":
        compiled = common.come_to_rest()
        time_of_a_step = common.one_pass(workload, given["steps"] or workload.steps)
        return {"seconds": time_of_a_step, "compiled": common.come_to_rest() - compiled}
    elif do == "total":
        return totals(given["seconds"], given["steps"])
    else:
        raise ValueError(f"unknown request {do!r}")
    return None


def totals(seconds: float, steps: int) -> dict[str, Any]:
    """Run so many steps, or else until the process has used so many seconds.

    Returns the processor time of the process after each step, and the most memory in MB.
    """
    found: list[float] = []
    while len(found) < steps or (not steps and time.process_time() < seconds):
        workload.step()
        found.append(time.process_time())
    return {"totals": found, "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def warm_up(steps: int, checked: int) -> dict[str, Any]:
    """Run the first steps; the first one's time, and that of all until rest (see `common.settle`).

    outcomes: of the first `checked` steps: losses, and what else the workload compares
    """
    more = getattr(workload, "outcome", list)
    start = time.process_time()
    outcomes = [[workload.step()]]
    first = time.process_time() - start
    outcomes[0] += more()
    for k in range(1, steps):
        loss = workload.step()
        if k < checked:
            outcomes.append([loss, *more()])
    compiled = common.settle(workload)
    return {
        "outcomes": outcomes,
        "scale": getattr(workload, "scale", 0.0),
        "first": first,
        "seconds": time.process_time() - start,
        "compiled": compiled,
    }


serve(answer)
