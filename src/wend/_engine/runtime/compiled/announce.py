"""Putting handovers among the steps of a plan's frames: see `handover.py`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.runtime.compiled.argument_layout import CALL_WORDS
from wend._engine.runtime.compiled.handover import Handover, has_handovers, without_handovers
from wend._engine.runtime.native.launcher import launcher

#: Bytes of results that are handed over together, at least: each handover interrupts the kernels.
LEAST = 1 << 16


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
