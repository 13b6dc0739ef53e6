"""Taps of the engine: flushes and their parts, plans, compilations, parts of backward passes."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from wend._engine.compiler.llvm_ir import jit
from wend._engine.core._hot import FlushJob
from wend._engine.runtime import flush as flush_module
from wend._engine.runtime.batching.backward import Execution
from wend._engine.runtime.batching.forward import Forward
from wend._engine.runtime.batching.levels import GroupedPlan
from wend._engine.runtime.batching.per_op import PerOpExecution
from wend._engine.runtime.compiled.plan import CompiledPlan
from wend._engine.runtime.devices.queue import Accelerator
from wend._engine.runtime.fibers import flush_lanes
from wend._engine.runtime.fibers.lane_backward import Backward
from wend._engine.runtime.fibers.lanes import LaneBatch, Part
from wend._engine.runtime.measure.clocked_frames import ClockedFrames
from wend._engine.runtime.measure.recorder import (
    COPY,
    GRADIENTS,
    FlushPart,
    SliceRecorder,
    now,
)
from wend._engine.runtime.measure.taps import Taps
from wend._engine.runtime.numpy_executor.plan import ReferencePlan
from wend._engine.runtime.tiers import TieredPlan
from wend._engine.runtime.verify import flushes as verified
from wend._engine.transforms import backward_ways


def measure_engine(recorder: SliceRecorder) -> Taps:
    """Have the recorder told of the work of the engine, until the taps are removed."""
    taps = Taps()
    frames = ClockedFrames(recorder)
    taps.undo.append(frames.remove)
    _tap_flushes(recorder, taps, frames)
    _tap_plans(recorder, taps, frames)
    _tap_reference(recorder, taps)
    _tap_groups(recorder, taps)
    _tap_backward(recorder, taps)
    _tap_devices(recorder, taps)
    return taps


def _tap_flushes(recorder: SliceRecorder, taps: Taps, frames: ClockedFrames) -> None:
    plain, plain_many = verified._plain["execute"], verified._plain["execute_many"]

    def execute(job: FlushJob, live: list[int]) -> None:
        state = job.state
        if state is not None and state.plans:
            ready = getattr(state.plans.get(tuple(live)), "compiled", None)
            if ready is not None:
                frames.add_plan(ready)
        with recorder.flushing(job.states, job.sites, [v.type for v in job.values]) as flush:
            plain(job, live)
        if recorder.memory is not None:
            recorder.memory.after_flush(flush, job.values, live)

    def execute_many(jobs: list[FlushJob], lives: list[list[int]]) -> None:
        with recorder.measured("lanes", "lanes", {"fibers": len(jobs)}):
            plain_many(jobs, lives)
        for job in jobs:
            recorder.forget(job.states)

    verified.install("execute", execute)
    verified.install("execute_many", execute_many)

    def restore() -> None:
        verified.install("execute", plain)
        verified.install("execute_many", plain_many)

    taps.undo.append(restore)


#: A method as it is, and as it is while measured.
AnyFunction: TypeAlias = Callable[..., Any]
Maker: TypeAlias = Callable[[AnyFunction], AnyFunction]


def _within(block: Callable[[], AbstractContextManager[None]]) -> Maker:
    """A maker of functions that run the original within a block."""

    def make(original: AnyFunction) -> AnyFunction:
        def measured(*args: object, **named: object) -> Any:
            with block():
                return original(*args, **named)

        return measured

    return make


def _sliced(recorder: SliceRecorder, kind: str, name: str) -> Maker:
    """A maker of functions that note a slice around the original."""
    return _within(lambda: recorder.measured(kind, name))


def _as_part(recorder: SliceRecorder, kind: str, name: str) -> Maker:
    """A maker of functions whose time is shared by all ops of the flush that runs."""
    return _within(lambda: recorder.measured_part(kind, name))


def _tap_plans(recorder: SliceRecorder, taps: Taps, frames: ClockedFrames) -> None:
    taps.replace(TieredPlan, "compile", _sliced(recorder, "plan", "plan"))
    taps.replace(flush_module, "make_plan", _sliced(recorder, "plan", "order steps"))
    taps.replace(jit, "_make_object", _sliced(recorder, "compile", "compile (LLVM)"))
    taps.replace(jit, "_link", _sliced(recorder, "compile", "link"))

    def find(original: AnyFunction) -> AnyFunction:
        def measured(plan: CompiledPlan, values: list[Any], args: list[Any]) -> Any:
            if plan.key(values, args) in plan.bound:
                return original(plan, values, args)
            with recorder.measured("plan", "bind to sizes"):
                bound = original(plan, values, args)
            if bound is not None:
                frames.add(bound.frame)
            return bound

        return measured

    taps.replace(CompiledPlan, "find", find)


def _tap_reference(recorder: SliceRecorder, taps: Taps) -> None:
    def compute(original: AnyFunction) -> AnyFunction:
        def measured(
            plan: ReferencePlan, env: list[Any], types: list[Any], args: list[Any]
        ) -> None:
            path, part = plan.path, recorder.part
            for step in plan.steps:
                begin = now()
                step.call(env, types, args)
                node = step.node
                part(FlushPart("numpy", node.prim.name, begin, now(), path, (node,)))

        return measured

    def compute_verified(original: AnyFunction) -> AnyFunction:
        def measured(plan: Any, env: list[Any], types: list[Any], args: list[Any]) -> None:
            path, steps, part = plan.path, plan.steps, recorder.part
            try:
                for step in steps:
                    begin, node = now(), step.node
                    plan.steps = (step,)
                    original(plan, env, types, args)
                    part(FlushPart("numpy", node.prim.name, begin, now(), path, (node,)))
            finally:
                plan.steps = steps

        return measured

    taps.replace(ReferencePlan, "compute", compute)
    taps.replace(ReferencePlan, "compute_verified", compute_verified)
    taps.replace(GroupedPlan, "compute_verified", _as_part(recorder, "groups", "ops by level"))
    taps.replace(GroupedPlan, "compute", _as_part(recorder, "groups", "ops by level"))


def _tap_groups(recorder: SliceRecorder, taps: Taps) -> None:
    for cls, name in ((Forward, "groups of regions"), (PerOpExecution, "single ops")):
        taps.replace(cls, "forward", _as_part(recorder, "groups", name))
    for cls, name in ((Execution, "groups of regions"), (PerOpExecution, "single ops")):
        taps.replace(cls, "backward", _as_part(recorder, GRADIENTS, f"gradients of {name}"))
    flushes: weakref.WeakKeyDictionary[Any, tuple[Any, ...]] = weakref.WeakKeyDictionary()

    def leave_open(original: AnyFunction) -> AnyFunction:
        def measured(execution: Forward, wanted: list[int]) -> None:
            batch = execution.batch
            flushes[execution] = batch.states, batch.sites, [v.type for v in execution.values]
            original(execution, wanted)

        return measured

    # Executions of single ops call these of the base class.
    taps.replace(Forward, "leave_open", leave_open)
    taps.replace(Execution, "backward_again", _gradients_measured(recorder, flushes))
    taps.replace(flush_lanes, "run_lane_batch", _lanes_measured(recorder))
    taps.replace(Backward, "compute", _sliced(recorder, "lanes", "gradients of lanes"))


def _gradients_measured(
    recorder: SliceRecorder, flushes: weakref.WeakKeyDictionary[Any, tuple[Any, ...]]
) -> Maker:
    """The backward pass of an earlier flush by groups: a flush of the same steps, for reports.

    flushes: the steps, lines and types of executions that wait for a backward pass
    """

    def make(original: AnyFunction) -> AnyFunction:
        def measured(execution: Execution, *args: object) -> Any:
            row = flushes.get(execution, ([], None, []))
            with recorder.flushing(*row), recorder.measured_part(GRADIENTS, "gradients by groups"):
                return original(execution, *args)

        return measured

    return make


def _lanes_measured(recorder: SliceRecorder) -> Maker:
    def make(original: AnyFunction) -> AnyFunction:
        def measured(lane_batch: LaneBatch, parts: list[Part], n: int, faults: object) -> Any:
            first = parts[0][1][0]
            types = [v.type for v in first.values]
            with recorder.flushing(first.states, first.sites, types) as flush:
                flush.lanes = n
                with recorder.measured_part("lanes", f"{n} lanes together"):
                    return original(lane_batch, parts, n, faults)

        return measured

    return make


def _tap_backward(recorder: SliceRecorder, taps: Taps) -> None:
    def ask(original: AnyFunction) -> AnyFunction:
        def measured(way: backward_ways.BackwardWay, owner: object, part: object) -> bool:
            begin, track = now(), recorder.track()
            done = False
            try:
                done = bool(original(way, owner, part))
                return done
            finally:
                if done:
                    recorder.slice("backward part", f"backward by {way.name}", begin, track)

        return measured

    taps.replace(backward_ways, "ask", ask)


def _tap_devices(recorder: SliceRecorder, taps: Taps) -> None:
    def start(original: AnyFunction) -> AnyFunction:
        def measured(unit: Accelerator, launches: int, n: int) -> None:
            begin = now()
            recorder.launched(str(unit.place), begin, unit.driver.timed(launches, n))

        return measured

    def copied(original: AnyFunction) -> AnyFunction:
        def measured(unit: Accelerator, array: Any) -> Any:
            begin, before = now(), unit.copied_in
            copy = original(unit, array)
            size = unit.copied_in - before
            if size:
                place = str(unit.place)
                facts = {"device": place, "bytes": size}
                recorder.slice(COPY, "Memcpy HtoD", begin, recorder.device_track(place), facts)
            return copy

        return measured

    taps.replace(Accelerator, "start", start)
    taps.replace(Accelerator, "copied", copied)
