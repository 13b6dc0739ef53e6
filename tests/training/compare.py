"""Compares a case of Wend with PyTorch, and tells where and how they part."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch

import wend
from training.apart import distance
from training.choices import Case
from training.loop import STEPS, train
from tries import own_trie

#: Greatest difference, relative to the largest number of a tensor, that rounding may make. Of the
#: cases, most end 1e-15 and 1e-7 apart; a change of all weights by one rounding grows up to a
#: thousandfold in twelve steps (measured with PyTorch alone, by task and optimiser), so some end
#: 1e-12 and 2e-5 apart. A lost update of one parameter is 1e-3 or more (`test_comparison.py`).
TOLERANCE = {"float64": 1e-9, "float32": 1e-4}
#: LBFGS divides by differences of gradients that are nearly equal: a rounding of the gradients is
#: a thousand times as much of such a difference (7e-4 measured).
TOLERANCE_OF_LBFGS = {"float64": 1e-9, "float32": 1e-2}


@dataclass(frozen=True)
class Difference:
    """Something that is not equal: its name, and how large the difference is, relatively."""

    name: str
    size: float
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


def differences(ours: dict[str, Any], theirs: dict[str, Any], tolerance: float) -> list[Difference]:
    """All that differs by more than the tolerance."""
    found = [
        Difference(name, np.inf, f"only {'Wend' if name in ours else 'PyTorch'} has it")
        for name in ours.keys() ^ theirs.keys()
    ]
    for name in theirs:
        if name in ours:
            size, text = distance(ours[name], theirs[name])
            if not size <= tolerance:
                found.append(Difference(name, size, text))
    return found


def check(case: Case, steps: int = STEPS, tolerance: float | None = None) -> list[Difference]:
    """What differs from PyTorch after some steps."""
    torch.set_num_threads(1)
    theirs = train(torch, case, steps)
    with own_trie():
        ours = train(wend, case, steps)
    return differences(ours, theirs, tolerance_of(case) if tolerance is None else tolerance)


def check_on(place: str, case: Case, steps: int = STEPS) -> list[Difference]:
    """What differs on an accelerator from the processor: all tensors are made there.

    Batches that lie in NumPy's memory, and arrays of parameters, are none of an accelerator's.
    """
    watched = "norms" if case.watched == "arrays" else case.watched
    case = replace(case, data="tensor", watched=watched)
    with own_trie():
        theirs = train(wend, case, steps)
    with own_trie(), wend.device(place):
        ours = train(wend, case, steps)
    return differences(ours, theirs, tolerance_of(case))


def tolerance_of(case: Case) -> float:
    """The greatest difference that rounding may make."""
    return (TOLERANCE_OF_LBFGS if case.optimiser == "LBFGS" else TOLERANCE)[case.dtype]


def report(case: Case, found: list[Difference], again: Callable[..., Any] = check) -> str:
    """Text about a case that failed: the first step, the smallest such case, how to run it.

    again: checks a case (and a number of steps), as it was found to fail
    """
    small = simpler(case, again)
    found = again(small) or found
    worst = sorted(found, key=lambda d: -d.size)[:8]
    first = next((n for n in range(1, STEPS + 1) if again(small, n)), None)
    lines = [
        f"Wend and PyTorch differ in {len(found)} results of the training '{case}'.",
        f"The same with fewer choices: '{small}'",
        "Alone it is right after each number of steps."
        if first is None
        else f"The first step after which they differ: {first} of {STEPS}",
        *(f"  {d}" for d in worst),
        f"To run it: {command(small)}",
    ]
    return "\n".join(lines)


def command(case: Case) -> str:
    """The command that runs a case as it was run here."""
    switches = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("WEND_")]
    return " ".join([*switches, f"python tests/training/run.py --case '{case}'"])


def simpler(case: Case, again: Callable[..., Any] = check) -> Case:
    """A case with as many of the plainest choices as still fails."""
    for choice in fields(Case):
        plainer = replace(case, **{choice.name: choice.default})
        if plainer != case and again(plainer):
            case = plainer
    return case
