"""How many bytes a step reads and writes, and how much memory it has for what it makes."""

from __future__ import annotations

from typing import Any

from wend._engine.runtime.native.launcher import launcher
from wend._engine.runtime.numpy_executor.runners import NodeRun
from wend._engine.runtime.parts.links import LinkedPlan
from wend._engine.runtime.report import Lines, describe, size_of

#: (bytes read and written, bytes of results) of frames, which are kept alive here:
#: a frame that goes would leave its identity to another one.
_OF_FRAMES: dict[Any, tuple[int, int]] = {}


def of_plan(plan: Any) -> tuple[int, int]:
    """(bytes that the kernels of a plan read and write, bytes of temporaries and results).

    The sizes are those that the plan has run with last.
    """
    linked = linked_frames(plan)
    if linked:
        rows = [of_frame(frame, launcher.owner_of(frame).plan) for frame in linked]
        arena: int = native_of(plan).frame.arena_bytes
        return sum(moved for moved, _ in rows), arena + sum(made for _, made in rows)
    compiled = getattr(plan, "compiled", plan)
    frame = compiled.native_plan.frame
    if frame is None:
        return 0, 0
    moved, made = of_frame(frame, compiled)
    return moved, frame.arena_bytes + made


def native_of(plan: Any) -> Any:
    """The native plan of the link of a path's parts; None without a link."""
    linked = plan if isinstance(plan, LinkedPlan) else getattr(plan, "linked", None)
    return None if linked is None else linked.native_plan


def linked_frames(plan: Any) -> list[Any]:
    """The frames of the parts of a link, in the order in which they run."""
    native = native_of(plan)
    if native is None or native.frame is None:
        return []
    return [part.frame for part in native.frame.linked if part.frame is not None]


def of_frame(frame: Any, compiled: Any) -> tuple[int, int]:
    """(bytes that kernels read and write, bytes of results) of a frame of a plan."""
    found = _OF_FRAMES.get(frame)
    if found is None:
        code, value = compiled.code, launcher.owner_of(frame).value
        steps = [describe(step, code, value, Lines(None, None)) for step in code.steps]
        moved = sum((step.read or 0) + (step.written or 0) for step in steps)
        made = sum(value(size_of(code.function, r.base)) for r in code.results if r.owns)
        found = _OF_FRAMES[frame] = moved, made
    return found


def of_function(function: Any, types: list[Any], numbers: list[Any]) -> int:
    """Bytes of the operands and results of a template's function."""
    if function is None or function.plan is None:
        return 0
    return sum(t.nbytes for t in [*types, *function.made_types(types, numbers)])


def of_forward(template: Any, rows: int) -> int:
    """Bytes of the operands and results of a group of so many rows."""
    return of_function(template.forward, template.widened(template.types, rows), template.numbers)


def of_backward(template: Any, rows: int) -> int:
    """Bytes of the operands and results of the backward pass of such a group."""
    types = template.widened(template.types, rows)
    types = template.gradient_types(types, template.numbers)
    return of_function(template.backward, types, template.numbers)


def of_operands(step: NodeRun, env: list[Any]) -> int:
    """Bytes of the operands of an op of the reference."""
    return sum(getattr(env[i], "nbytes", 0) for i in step.inputs)


def of_results(step: NodeRun, env: list[Any]) -> int:
    """Bytes of the results of an op of the reference."""
    return sum(getattr(env[i], "nbytes", 0) for i in step.outputs if i < len(env))
