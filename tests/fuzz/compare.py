"""Runs a program in every way there is, and says where two ways part."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import re
import warnings
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from programs import Program, Run
from ways import REFUSED, Undecided, call, product_of

import wend
import wend.func
import wend.utils.checkpoint
from tries import new_trie, own_trie
from wend._engine.base import config, defects

HAS_TORCH = importlib.util.find_spec("torch") is not None
#: The accelerator that programs are run on as well.
DEVICE: str | None = None
#: What a program says that accelerators refuse, as PyTorch's do, or tell at the next read.
_OF_THE_HOST = ".numpy()", "torch.from_numpy", "torch.tensor([99])"


@dataclass
class Outcome:
    """What a run gave: results by name and what hooks saw, or an error."""

    results: dict[str, Any]
    seen: list[Any]
    error: Exception | None = None


@functools.cache
def _product(torch: Any) -> Any:
    return product_of(torch)


def execute(torch: Any, program: Program, run: Run) -> Outcome:
    """Run a program with one library. Raises Undecided."""
    try:
        return Outcome(
            *call(torch, program.function, _product(torch), program.tolerance, *astuple(run))
        )
    except Undecided:
        raise
    except Exception as error:
        _leave_nothing_pending(torch)
        return Outcome({}, [], error.with_traceback(None))


def _leave_nothing_pending(torch: Any) -> None:
    """After an error: what is still pending may fail as well, and has nothing to do with us."""
    if torch is wend:
        with contextlib.suppress(Exception):
            wend.synchronize()


def difference(program: Program, a: Outcome, b: Outcome) -> str | None:
    """Where two outcomes of a program differ, in words."""
    if a.error is not None or b.error is not None:
        return _unlike_errors(a.error, b.error)
    # A gradient that does not depend on a variable does not require grad: on purpose.
    loose = "create_graph" in program.source
    for name in {**a.results, **b.results}:
        x, y = a.results.get(name), b.results.get(name)
        if name.endswith(".grad") and (x is None or y is None):
            rest = y if x is None else x
            if rest is not None and not (loose and not rest[2].any()):
                return f"{name}: {x} and {y}"
            continue
        if x is None or y is None:
            return f"results: {list(a.results)} and {list(b.results)}"
        found = _unlike(x, y, program.tolerance, loose)
        if found and not _spread_of_nan(a, b):
            return f"{name}: {found}"
    return _unlike_seen(a.seen, b.seen, program.tolerance)


def _unlike_errors(a: Exception | None, b: Exception | None) -> str | None:
    """An error is like another if it is caught by the same `except` clauses."""
    if a is None or b is None:
        return f"one raises: {a!r} and {b!r}"
    builtin = next(c for c in type(b).__mro__ if c.__module__ == "builtins")
    return None if isinstance(a, builtin) else f"errors: {a!r} and {b!r}"


def _unlike(a: Any, b: Any, tolerance: float, loose: bool) -> str | None:
    if a[0] == b[0] == "error":  # one is like another if the same `except` clauses catch it
        x, y = a[2].tolist(), b[2].tolist()
        return None if y[0] in x else f"errors: {x} and {y}"
    if a[0] != b[0] or a[2].shape != b[2].shape or (a[1] != b[1] and not loose):
        return f"{(*a[:2], a[2].shape)} and {(*b[:2], b[2].shape)} (dtype, requires_grad, shape)"
    x, y = a[2], b[2]
    if x.dtype.kind != "f":
        return None if np.array_equal(x, y) else f"{x.tolist()} and {y.tolist()}"
    finite = y[np.isfinite(y)]
    scale = max(1.0, float(np.abs(finite).max())) if finite.size else 1.0
    if np.allclose(x, y, rtol=0, atol=tolerance * scale, equal_nan=True):
        return None
    return f"{x.tolist()} and {y.tolist()}"


def _spread_of_nan(a: Outcome, b: Outcome) -> bool:
    """Whether a value is NaN: then 0 * NaN, or the sign of NaN, may decide about others."""
    names = [name for name, x in a.results.items() if x is not None and x[2].dtype.kind == "f"]
    nans = (
        np.isnan(o.results[n][2]) for n in names for o in (a, b) if o.results.get(n) is not None
    )
    return any(found.any() for found in nans)


def _unlike_seen(a: list[Any], b: list[Any], tolerance: float) -> str | None:
    first, second = (sorted(x, key=lambda e: isinstance(e, tuple) and e[0]) for x in (a, b))
    if len(a) != len(b):
        return f"seen: {a} and {b}"
    for x, y in zip(first, second, strict=True):
        if not np.allclose(x, y, rtol=tolerance, atol=tolerance * 10, equal_nan=True):
            return f"seen: {a} and {b}"
    return None


def off_trie(program: Program, run: Run) -> Outcome:
    """Execute where nothing is kept: each step hangs nowhere."""
    with own_trie(sealed=True):
        return execute(wend, program, run)


def on_device(program: Program, run: Run) -> Outcome:
    """Execute with all tensors on the accelerator."""
    assert DEVICE is not None
    with wend.device(DEVICE):
        return execute(wend, program, run)


class Differs(AssertionError):
    """Two ways to run a program part: which, where, and the program."""

    def __init__(self, program: Program, run: Run, ways: str, found: str) -> None:
        super().__init__(f"{ways} differ at {run}:\n{found}\n{program!r}")
        self.program = program
        self.kind = ways + re.sub(r"[^a-zA-Z ]+", "", found)[:40]


def check(program: Program) -> str:
    """Run a program in every way, and return how that ended. Raises Differs."""
    new_trie()  # a failure does not hang on the programs before it
    endings = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i, run in enumerate(program.runs):
            try:
                endings.add(_check(program, run, i))
            except Undecided:
                endings.add("undecided")
    return next(ending for ending in ENDINGS if ending in endings)


#: What a run may come to; a program comes to the first that occurs.
ENDINGS = ("undecided", "PyTorch refuses", "raises", "agrees")


def _check(program: Program, run: Run, i: int) -> str:
    """Run a program once in every way; returns how it ended."""
    ways = {"Wend": execute(wend, program, run)}
    if program.apart and i in (1, 3):
        ways["Wend off the trie"] = off_trie(program, run)
    if program.forced and i == 2:
        with config.override(compile=True, wait=True):
            ways["Wend as machine code"] = execute(wend, program, run)
    if DEVICE is not None and not any(text in program.source for text in _OF_THE_HOST):
        ways[f"Wend on {DEVICE}"] = on_device(program, run)
    if defects.count():
        found = defects.summary()
        defects.reset()
        raise Differs(program, run, "failures inside", found)
    theirs = execute(importlib.import_module("torch"), program, run) if HAS_TORCH else None
    if i % 2 == 0 or any(o.error is not None for o in (*ways.values(), theirs) if o is not None):
        with wend.eager(), config.override(compile=False):
            ways["Wend op by op"] = execute(wend, program, run)
    # An error in a value that nobody reads appears op by op, as in PyTorch; else it may or not.
    wanted = ways.pop("Wend op by op", ways["Wend"])
    for name, outcome in ways.items():
        if not isinstance(wanted.error, (IndexError, RuntimeError)):
            _compare(program, run, f"{name} and Wend op by op", outcome, wanted)
    if theirs is not None and _refused(theirs):
        return "PyTorch refuses"
    if theirs is not None:
        _compare(program, run, "Wend and PyTorch", wanted, theirs)
    return "agrees" if wanted.error is None else "raises"


def _compare(program: Program, run: Run, ways: str, a: Outcome, b: Outcome) -> None:
    found = difference(program, a, b)
    if found is not None:
        raise Differs(program, run, ways, found)


def _refused(outcome: Outcome) -> bool:
    return outcome.error is not None and any(text in str(outcome.error) for text in REFUSED)
