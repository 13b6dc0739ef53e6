"""Numbers that a loop changes: a counter in a name becomes a number of the graph.

A run comes to a question again, and all is as before but for some numbers in names of the function.
From then on these names hold numbers of the graph, from the first arrival on.
"""

from __future__ import annotations

import ctypes
import dis
import functools
import sys
import types
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, Protocol

from wend._engine.core.symbolic import ARG, Expr, SymInt, SymNumber, expr_of, hint_of
from wend._engine.transforms.exploring.numbers import AskedNumber, Extent, noted

_ENDS = ("STORE_", "POP_TOP", "RETURN_", "FOR_ITER", "RESUME", "DELETE_")
Name = tuple[types.CodeType, str]


def is_counter(frame: FrameType, name: str, x: object) -> bool:
    """Whether a name with this value may become a number of the graph.

    The name of a `for` tells how far Python's own iterator is, which snapshots cannot see.
    """
    if type(x) not in (int, float) and not isinstance(x, (SymInt, SymNumber)):
        return False
    return name not in _names_of_loops(frame.f_code)


@functools.cache
def _names_of_loops(code: types.CodeType) -> frozenset[str]:
    """The names that the `for` statements of a function set."""
    names: set[str] = set()
    wanted = 0
    for step in dis.get_instructions(code):
        if step.opname == "FOR_ITER":
            wanted = 1
        elif wanted and step.opname.startswith("UNPACK_"):
            wanted += (step.arg or 0) & 0xFF
        elif wanted and step.opname.startswith("STORE_"):
            names.update([step.argval] if isinstance(step.argval, str) else step.argval or ())
            wanted -= 1
    return frozenset(names)


class NamesRun(Protocol):
    """The run of a function that is being explored, as far as names need to know."""

    shared: Any
    vague: set[int]

    def is_of_inputs(self, expr: Expr) -> bool:
        """Whether a number follows from the sizes of the inputs alone."""

    def computed(self, expr: Expr, category: int) -> int:
        """The id of a number that is computed from numbers."""


class Names(Protocol):
    """A snapshot, as far as names need to know: see `Snapshot`."""

    names: list[tuple[Any, str, Any, int]]

    def but_names(self) -> tuple[Any, tuple[Any, ...]]:
        """The state of the program but for numbers in names, and these numbers."""


class NumbersInNames:
    """The names that a run has turned into numbers.

    passed: by state of the program but for numbers in names, the numbers at the first arrival
    """

    def __init__(self, run: NamesRun) -> None:
        self.run = run
        self.passed: dict[Any, tuple[Any, ...]] = {}
        self.made: set[Name] = set()

    def found(self, shot: Names) -> bool:
        """Note an arrival at a question; whether names have been given numbers of the graph.

        Again is raised where a name has another number than at an earlier arrival.
        """
        facts = self.run.shared.facts
        key, tokens = shot.but_names()
        known = facts.counters.get(key, set()) - facts.plain
        before = self.passed.setdefault(key, tokens)
        if before != tokens:
            rows = zip(shot.names, before, tokens, strict=True)
            changed = {(frame.f_code, name) for (frame, name, _, _), a, b in rows if a != b}
            new = changed - facts.plain - known
            if new:
                facts.counters.setdefault(key, set()).update(new)
                return True
        return False

    def turn(self, shot: Names) -> bool:
        """Give the names that are counters here numbers of the graph; whether there are any."""
        run = self.run
        facts = run.shared.facts
        known = facts.counters.get(shot.but_names()[0])
        if not known:
            return False
        turned = False
        for frame, name, x, _ in shot.names:
            var = frame.f_code, name
            if var not in known or var in facts.plain:
                continue
            if isinstance(x, (SymInt, SymNumber)) and not run.is_of_inputs(x.expr):
                continue
            if is_on_stack(frame, name):
                facts.plain.add(var)
                continue
            self.made.add(var)
            category = 1 if isinstance(x, (int, SymInt)) else 2
            number = run.computed(expr_of(x), category)
            if not isinstance(x, (SymInt, SymNumber)):
                run.vague.add(number)
            expr = (ARG, number)
            kind: Callable[..., Any] = Extent if category == 1 else partial(AskedNumber, category=2)
            set_local(frame, name, noted(kind(expr, hint=hint_of(x), guards=run)))
            turned = True
        return turned

    def give_up(self) -> bool:
        """Leave the names that have been turned plain from now on; whether there are any."""
        plain = self.run.shared.facts.plain
        new = self.made - plain
        plain |= new
        return bool(new)


def set_local(frame: FrameType, name: str, value: object) -> None:
    """Change a name of a function that is running."""
    frame.f_locals[name] = value
    if sys.version_info < (3, 13):  # later, `f_locals` writes through
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def is_on_stack(frame: FrameType, name: str) -> bool:
    """Whether an expression that is being evaluated may have read a name already.

    The operands of a comparison that is the question itself do not count.
    """
    row: list[dis.Instruction] = []
    asks = False
    for step in dis.get_instructions(frame.f_code):
        if step.offset >= frame.f_lasti:
            asks = step.opname == "COMPARE_OP"
            break
        if step.opname.startswith(_ENDS):
            row = []
        else:
            row.append(step)
    held: list[bool] = []
    for step in row:
        loads = step.opname.startswith("LOAD_") and name in str(step.argval)
        try:
            change = dis.stack_effect(step.opcode, step.arg, jump=False)
        except ValueError:  # an instruction without a known effect on the stack counts as none
            change = 0
        if change < 0:
            del held[change:]
        if loads:
            held += [True] * max(change, 1)
        else:
            held += [any(held[-1:]) and change == 0] * max(change, 0)
    return any(held[:-2] if asks else held)
