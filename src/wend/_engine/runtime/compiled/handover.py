"""Handing results over while a plan still runs: for gradients that are sent to further processes.

The steps of a frame are data (see `_launch.ArgumentBlock.steps`). Where results have been written
for the last time, runs of calls are cut in two, and a `Handover` is put in between. The frame's
owner hands the arrays to the receiver of this thread, if there is any. Results do not change by
that, nor does the launcher. Flushes of further executors have no such steps: the receiver takes all
arrays after the flush.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Protocol

from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.runtime.compiled.argument_layout import CALL_WORDS
from wend._engine.runtime.native.launcher import launcher

#: Bytes of results that are handed over together, at least: each handover interrupts the kernels.
LEAST = 1 << 16


class Receiver(Protocol):
    """An object that takes results of a flush early."""

    def take(self, index: int, array: Any) -> None:
        """Take the array of value number `index` of the flush; nobody writes to it any more."""


class _Here(threading.local):
    receiver: Any = None


_here = _Here()


class Handover:
    """A step of a frame: these results are complete.

    rows: (number of the value on the path, number of the array among those that are made)
    """

    __slots__ = ("rows",)

    def __init__(self, rows: tuple[tuple[int, int], ...]) -> None:
        self.rows = rows

    def run(self, arrays: list[Any]) -> None:
        """Hand the arrays to this thread's receiver."""
        receiver = _here.receiver
        if receiver is not None:
            for index, k in self.rows:
                array = arrays[k]
                if array is not None:
                    receiver.take(index, array)


class received:
    """Context: results of this thread's flushes are handed to a receiver as they become ready."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def __enter__(self) -> None:
        self._before = _here.receiver
        _here.receiver = self._receiver

    def __exit__(self, *exc: object) -> None:
        _here.receiver = self._before


def announce(plan: Any, wanted: Iterable[int]) -> None:
    """Let all later runs of a plan hand over some results early.

    plan: a `CompiledPlan` that has run
    wanted: numbers of the values on the path; values that share an array are left out
    """
    frame = plan.native_plan.frame
    if frame is None:
        return
    owner = launcher.owner_of(frame)
    skeleton = owner.skeleton
    known: frozenset[int] = skeleton.handed_early
    asked = known.union(wanted)
    if asked == known and has_handovers(frame.steps):
        return
    skeleton.handed_early = asked
    outs = frame.outs
    rows = {
        i: (k, _bytes(outs[k]))
        for i, k in ((i, k) for k, i in enumerate(plan.made))
        if i in asked and i in plan.wanted
    }
    steps = with_handovers(without_handovers(frame.steps), skeleton, rows)
    for other in _frames(plan, skeleton):
        other.steps = steps
    if skeleton.model is not None:
        skeleton.model.steps = steps


def _bytes(out: Any) -> int:
    size: int = out[2].itemsize
    for n in out[1]:
        size *= n
    return size


def _frames(plan: Any, skeleton: Any) -> list[Any]:
    """The frames of a plan that a skeleton describes."""
    native = plan.native_plan
    frames = [native.frame, *native.frames.values()]
    frames += [bound.frame for bound in plan.bound.values() if bound is not None]
    return [f for f in frames if launcher.owner_of(f).skeleton is skeleton]


def has_handovers(steps: Any) -> bool:
    """Whether a frame's steps hand results over."""
    return any(step[0] == 1 and type(step[1]) is Handover for step in steps)


def without_handovers(steps: Any) -> tuple[Any, ...]:
    """The steps of a frame as they were before `announce`."""
    done: list[Any] = []
    joins = False  # whether a run of calls goes on
    for step in steps:
        if step[0] == 1 and type(step[1]) is Handover:
            joins = bool(done) and done[-1][0] == 0
        elif joins and step[0] == 0:
            done[-1] = (0, done[-1][1], done[-1][2] + step[2])
            joins = False
        else:
            done.append(step)
            joins = False
    return tuple(done)


def with_handovers(steps: Any, skeleton: Any, rows: dict[int, tuple[int, int]]) -> tuple[Any, ...]:
    """The steps of a frame, with handovers where results are complete.

    rows: (number of the array, bytes) of each value to be handed over
    """
    ready = _complete_after(skeleton, rows)
    rounds = iter(skeleton.rounds.values())
    done: list[Any] = []
    waiting: list[tuple[int, int]] = []
    size = 0
    for step in steps:
        if step[0] != 0:
            done.append(step)
            continue
        at, calls = step[1], 0
        for one in next(rounds):
            calls += sum([len(skeleton.schedules[k].stages[s].blocks) for k, s in one])
            for i in ready.get(id(one), ()):
                waiting.append((i, rows[i][0]))
                size += rows[i][1]
            if size >= LEAST:
                done += [(0, at, calls), (1, Handover(tuple(waiting)))]
                at += 8 * CALL_WORDS * calls
                calls, size = 0, 0
                waiting.clear()
        if calls:
            done.append((0, at, calls))
    if waiting:
        done.append((1, Handover(tuple(waiting))))
    return tuple(done)


def _complete_after(skeleton: Any, rows: Iterable[int]) -> dict[int, list[int]]:
    """The values that are complete after a round, by the id of the round."""
    code = skeleton.code
    base_of = {r.value: r.base for r in code.results if r.owns}
    last: dict[int, int] = {}  # base -> the last step that writes there
    for k, step in enumerate(code.steps):
        if isinstance(step, Kernel):
            for out in step.writes:
                last[out] = k
    round_of: dict[int, int] = {}
    for rounds in skeleton.rounds.values():
        for one in rounds:
            for k, _ in one:
                round_of[k] = id(one)
    values: dict[int, list[int]] = {}
    for i in rows:
        step = last.get(base_of.get(i, i))
        if step is not None and step in round_of:
            values.setdefault(round_of[step], []).append(i)
    return values
