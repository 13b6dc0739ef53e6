"""The programs whose work is counted, by name: `forked.py` runs each one in a process of its own.

hand MODEL,PARAMETERS,ACCESS,CONTROL,ORDER    a model of `written_models.py` in one hand
step FEATURE                                  a small training of `steps`, with one feature
example NAME                                  a program of `examples`, on little data
"""

from __future__ import annotations

import os
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

import counting
from steps import gradients, layers, operations, reading, structures, updates  # noqa: F401
from steps.common import BEFORE, LENGTHS, LONG, LONG_BEFORE, STEPS
from written_models import MODELS, Case, batches_of

import wend as torch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
#: Visits of each length of sentences that are counted.
COUNTED = 2
#: Counts of a whole program, and not of its last steps.
OF_ALL = ("modules", "planning")
#: What an example is called with, so that it takes a second or two.
#: Those that write files for other programs, or start processes, are for tests of their own.
LITTLE: dict[str, tuple[str, ...]] = {
    "batches": ("--limit", "4"),
    "branch": (),
    "debug": (),
    "digits": ("--limit", "150", "--epochs", "2", "--seeds", "1"),
    "grow": ("--limit", "100", "--epochs", "1", "--stages", "2"),
    "parser": ("--modules", "20", "--limit", "20", "--test-limit", "8", "--epochs", "1"),
    "sizes": ("--steps", "5"),
    "trees": ("--modules", "20", "--limit", "12", "--test-limit", "6", "--epochs", "1"),
    "words": ("--modules", "20", "--limit", "12", "--test-limit", "6", "--epochs", "1"),
}


def counts_of(name: str) -> dict[str, Any]:
    """The counts of a program; `loss` is the last loss."""
    kind, _, rest = name.partition(" ")
    counting.install()
    torch.manual_seed(0)
    return {"hand": of_hand, "step": of_step, "example": of_example}[kind](rest)


def between(start: Any, built: int, end: Any) -> dict[str, Any]:
    """Counts since `start`; of paths, modules and planning, all of the program."""
    found = {name: end[name] - start[name] for name in end if name not in OF_ALL}
    found |= {name: end[name] for name in OF_ALL}
    return found | {"paths": counting.paths() - built, "memory": counting.MOST["memory"]}


def of_hand(text: str) -> dict[str, Any]:
    """Train; return the counts of the last epoch, and the modules and paths of all epochs."""
    case = Case.parse(text)
    program = MODELS[case.model](torch, case.hand)
    optimizer = torch.optim.SGD(program.parameters, lr=0.01)
    torch.synchronize()
    start, built, loss = counting.snapshot(), counting.paths(), 0.0
    for counted, batch in batches_of(program, case.order):
        computed = program.loss(batch)
        optimizer.zero_grad()
        computed.backward()
        optimizer.step()
        loss = computed.item()
        if not counted:
            start = counting.snapshot()
    return between(start, built, counting.snapshot()) | {"loss": loss}


def of_step(name: str) -> dict[str, Any]:
    """Make steps; return the counts of the last ones."""
    step, loss = STEPS[name](), 0.0
    torch.synchronize()
    start, built = counting.snapshot(), counting.paths()
    before = LONG_BEFORE if name in LONG else BEFORE
    for k in range((before + COUNTED) * len(LENGTHS)):
        if k == before * len(LENGTHS):
            torch.synchronize()
            start = counting.snapshot()
        loss = float(step())
    torch.synchronize()
    return between(start, built, counting.snapshot()) | {"loss": loss}


def of_example(name: str) -> dict[str, Any]:
    """Run a program of `examples` as `wend run` does; return the counts of all of it."""
    from wend._tools.alias import install

    install()
    sys.path.insert(0, str(EXAMPLES))
    torch.synchronize()
    start, built = counting.snapshot(), counting.paths()
    with tempfile.TemporaryDirectory() as folder:
        sys.argv = [f"{name}.py", *LITTLE[name]]
        os.chdir(folder)  # where an example writes, if it writes
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    torch.synchronize()
    return between(start, built, counting.snapshot())
