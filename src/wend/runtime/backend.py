"""What an executor is: it makes plans of paths, and runs them.

The NumPy executor in `numpy_executor` is the one that stays; compiled plans stand beside it behind
the same protocol.
"""

from __future__ import annotations

from typing import Any, Protocol

from wend.core._hot import FlushJob
from wend.core.graph import PathGraph


class NoMachineCode(Exception):
    """Work without machine code, yet or for these sizes: another executor has to run it."""


class Plan(Protocol):
    """How to compute the wanted values of one path, for all sizes."""

    wanted: frozenset[int]
    track: Any  # the launcher's half of a plan of machine code; None while there is none

    def run(self, batch: FlushJob) -> None:
        """Set the buffers of the wanted values of this visit; raises nothing, marks failures."""

    def shed(self) -> None:
        """Let go of all that can be made again when the path comes back."""


class Executor(Protocol):
    """Makes plans."""

    def plan(self, path: PathGraph, wanted: frozenset[int], roots: frozenset[int]) -> Plan:
        """A plan that computes `wanted` and keeps what a later backward from `roots` needs."""


#: Plans that one state keeps; the next miss plans the union of all that was ever wanted there.
MAX_PLANS = 4
