"""The protocols of planners and plans: a planner makes plans of paths, and plans are run.

The NumPy executor in `numpy_executor` is the reference; plans of machine code follow the same
protocol.
"""

from __future__ import annotations

from typing import Any, Protocol

from wend._engine.base.devices import device
from wend._engine.core._hot import FlushJob
from wend._engine.core.graph import PathGraph


class NoMachineCode(Exception):
    """Raised for work that has no machine code, yet or for these sizes.

    Another executor has to run such work.
    """


class Plan(Protocol):
    """A way to compute the wanted values of a path, for all sizes."""

    wanted: frozenset[int]
    native_plan: Any  # the launcher's half of a plan of machine code; None while there is none

    @property
    def place(self) -> device | None:
        """The accelerator of the path's values; None if all lie on the processor."""

    @property
    def n_ops(self) -> int:
        """How many ops the path has."""

    def run(self, batch: FlushJob) -> None:
        """Set the buffers of the wanted values of this visit; mark failures, and raise nothing."""

    def run_compiled(self, batch: FlushJob) -> str:
        """Compute by machine code; return why that could not be, or ""."""

    def run_reference(self, batch: FlushJob) -> None:
        """Compute by the rules of the ops."""

    def shed(self) -> None:
        """Drop all parts that can be made again when the path comes back."""


class Planner(Protocol):
    """Makes plans."""

    def plan(self, path: PathGraph, wanted: frozenset[int], roots: frozenset[int]) -> Plan:
        """Return a plan that computes `wanted`, and saves values for a backward from `roots`."""


#: The number of plans that a state keeps; the next miss plans the union of all values that
#: these plans compute.
MAX_PLANS = 4
#: The number of sets of wanted values for which a state knows its plan at once.
MAX_KEYS = 64
