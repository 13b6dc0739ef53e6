"""Frames whose kernels run in turn, with a look at the clock before each.

A frame's steps are data (see `_launch.ArgumentBlock.steps`): runs of calls, and steps that call
back into the frame's owner.  In a clocked frame the runs are cut into rounds, with a call of the
owner before each.  The launcher is the same, compiled or not, and so are results.  Frames get the
old steps back when the profiler is switched off.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.runtime.compiled import plan as plans
from wend._engine.runtime.compiled.argument_block import BlockOwner
from wend._engine.runtime.compiled.argument_layout import CALL_WORDS, ArgumentLayout
from wend._engine.runtime.compiled.handover import without_handovers
from wend._engine.runtime.compiled.plan import CompiledPlan
from wend._engine.runtime.measure.recorder import FlushPart, SliceRecorder, now
from wend._engine.runtime.native.launcher import launcher


class Look:
    """A look at the clock before a round of kernels, a host step, or at the end.

    steps: the plan's steps that begin here; empty at the end
    """

    __slots__ = ("first", "steps")

    def __init__(self, steps: tuple[int, ...], first: bool) -> None:
        self.steps = steps
        self.first = first


class ClockedOwner:
    """Stands in for the owner of a frame (`BlockOwner`), and takes the looks at the clock."""

    def __init__(self, owner: BlockOwner, recorder: SliceRecorder) -> None:
        self.owner = owner
        self.recorder: SliceRecorder | None = recorder
        self.running: tuple[int, ...] = ()
        self.begin = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.owner, name)

    def host(self, frame: Any, op: Any, *rest: Any) -> None:
        """Take a look at the clock, or run a host step."""
        if type(op) is not Look:
            self.owner.host(frame, op, *rest)
            return
        at, recorder = now(), self.recorder
        if recorder is None:
            return
        launches = recorder.take_launches()
        if op.first:
            recorder.temporaries(frame.arena_bytes)
        if self.running and not op.first:
            part = part_of(self.owner, self.running, self.begin, at)
            recorder.part(part._replace(launches=launches))
        else:
            recorder.slices += launches
        self.running, self.begin = op.steps, now()


def part_of(owner: Any, steps: tuple[int, ...], begin: int, end: int) -> FlushPart:
    """Return the part of a flush that some steps of a plan were."""
    code = owner.plan.code
    ran = [code.steps[k] for k in steps]
    kernels = [step for step in ran if isinstance(step, Kernel)]
    if not kernels:
        name, ops = " ".join([step.name for step in ran]), ran
    else:
        ops = [op for step in kernels for op in step.ops]
        name = " ".join([op.name for op in ops]) or " ".join([k.what for k in kernels])
    kind = "kernel" if kernels else "host step"
    return FlushPart(kind, name, begin, end, owner.plan.reference.path, ops, owner, steps)


class ClockedFrames:
    """All frames that have been given a clock."""

    def __init__(self, recorder: SliceRecorder) -> None:
        self.recorder = recorder
        self.kept: dict[int, tuple[Any, Any, ClockedOwner]] = {}  # by id: frame, steps, owner
        for plan in plans._BOUND.alive():
            self.add_plan(plan)

    def add_plan(self, plan: CompiledPlan) -> None:
        """Give a clock to all frames of a plan."""
        native = plan.native_plan
        frames = list(native.frames.values())
        if native.frame is not None:
            frames.append(native.frame)
        for frame in frames:
            self.add(frame)

    def add(self, frame: Any) -> None:
        """Give a clock to a frame that has none."""
        if id(frame) in self.kept or isinstance(frame.owner, ClockedOwner):
            return
        steps, owner = frame.steps, launcher.owner_of(frame)
        clocked = ClockedOwner(owner, self.recorder)
        self.kept[id(frame)] = frame, steps, clocked
        frame.owner = clocked
        frame.steps = clocked_steps(without_handovers(steps), owner.skeleton)

    def remove(self) -> None:
        """Take all clocks away."""
        for frame, steps, clocked in self.kept.values():
            frame.steps = steps
            frame.owner = clocked.owner
            clocked.recorder = None
        self.kept.clear()


def clocked_steps(steps: Iterable[tuple[Any, ...]], skeleton: ArgumentLayout) -> tuple[Any, ...]:
    """Return a frame's steps, with looks at the clock between rounds of kernels."""
    numbers = {id(step): k for k, step in enumerate(skeleton.code.steps)}
    rounds = iter(skeleton.rounds.values())
    done: list[Any] = []
    for step in steps:
        if step[0] == 0:
            at, n = step[1], step[2]
            for ran, count in merged_rounds(next(rounds), skeleton):
                done += [(1, Look(ran, not done)), (0, at, count)]
                at += 8 * CALL_WORDS * count
                n -= count
            assert n == 0, "the rounds of a plan are not its calls"
        elif step[0] == 1:
            done += [(1, Look((numbers[id(step[1])],), not done)), step]
        else:
            done += [(1, Look((), not done)), step]
    done.append((1, Look((), not done)))
    return tuple(done)


def merged_rounds(
    rounds: Iterable[Iterable[tuple[int, int]]], skeleton: ArgumentLayout
) -> list[tuple[tuple[int, ...], int]]:
    """Return (steps, calls) of each round; successive rounds of a step are merged."""
    groups: list[tuple[tuple[int, ...], int]] = []
    for one in rounds:
        steps = tuple(sorted({k for k, _ in one}))
        count = sum([len(skeleton.schedules[k].stages[s].blocks) for k, s in one])
        if groups and groups[-1][0] == steps:
            groups[-1] = steps, groups[-1][1] + count
        else:
            groups.append((steps, count))
    return groups
