"""How the tests here switch a rule off, and what they count.

A rule is switched off where its mechanism can be reached from outside: an upward call of the core
(`slot_replaced`), a function of a module (pytest's `monkeypatch`), a table of the core. Where
neither is to be had, the test does by hand what the engine would do without the rule.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.core import _hot, _select
from wend._engine.runtime import flush

COMPILED = _select.is_compiled(_hot)
SOURCES = Path(torch.__file__).parent.parent


@contextmanager
def slot_replaced(name: str, function: Callable[..., Any]) -> Iterator[None]:
    """The upward call `name` of the core goes to `function` inside the block."""
    real = _hot.slot(name)
    _hot.set_slot(name, function)
    try:
        yield
    finally:
        _hot.set_slot(name, real)


@contextmanager
def fresh_patterns() -> Iterator[Any]:
    """Type rules run anew inside the block, on a trie of its own, and again after it."""
    _hot.new_epoch()
    try:
        with own_trie() as root:
            yield root
    finally:
        _hot.new_epoch()


@contextmanager
def on_the_reference() -> Iterator[Any]:
    """Plans inside the block are the reference's, whose parts can be replaced one by one."""
    with config.override(compile=False, wait=False), own_trie() as root:
        yield root


@contextmanager
def on_machine_code() -> Iterator[Any]:
    """Plans inside the block are compiled before their first run."""
    with config.override(compile=True, wait=True), own_trie() as root:
        yield root


@contextmanager
def budget(**limits: int) -> Iterator[None]:
    """Other bounds on pending work: soft_nodes, hard_nodes, soft_bytes, hard_bytes."""
    trace = _hot.current_trace()
    before = {name: getattr(trace, name) for name in limits}
    try:
        for name, limit in limits.items():
            setattr(trace, name, limit)
        yield
    finally:
        for name, limit in before.items():
            setattr(trace, name, limit)


def states() -> int:
    """States that the tries have gained so far."""
    return int(_hot.count("states"))


def states_made(run: Callable[[], Any]) -> int:
    """States that a run adds, where none is dropped because the process has many."""
    before = states()
    with slot_replaced("evict", lambda root: None):
        run()
    return states() - before


def plans_made(run: Callable[[], Any]) -> int:
    """Plans that a run adds."""
    before = flush.COUNTS["plans"]
    run()
    return flush.COUNTS["plans"] - before


def run_python(program: str, *args: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, with this Wend and this core."""
    path = os.pathsep.join(filter(None, [str(SOURCES), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-c", program, *args],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
