"""One side of ``compare.py``: runs a workload as it is told to."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "workloads"))

import common
import numpy as np
import torch
from bench import serve

torch.set_num_threads(1)
name = sys.argv[1]
workload = getattr(importlib.import_module(name), name.upper())()


def answer(do: str, **given: Any) -> Any:
    """Do what the request says: 'save', 'load', 'losses' or 'pass'."""
    if do == "save":
        np.savez(given["path"], **common.weights_of(workload))
    elif do == "load":
        common.set_weights(workload, dict(np.load(given["path"])))
    elif do == "losses":
        return [workload.step() for _ in range(given["steps"])]
    elif do == "pass":
        return common.one_pass(workload, given["steps"] or workload.steps)
    else:
        raise ValueError(f"unknown request {do!r}")
    return None


serve(answer)
