"""The table of measured ops: a row for each op of each flush, with line, modules and work."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from wend._engine.core._hot import State
from wend._engine.core._types import LeafPrimitive
from wend._engine.core.provenance import step_site
from wend._engine.runtime.measure.recorder import (
    GRADIENTS,
    FlushPart,
    MeasuredFlush,
    Scope,
    frame_text,
)
from wend._engine.runtime.measure.shares import flops_of, seconds_by_step

__all__ = ["BACKWARD", "OpTime", "line_of", "ops_of", "summed"]

#: Names of ops of backward passes begin so.
BACKWARD = "backward::"

Key = TypeVar("Key", bound=Hashable)


def summed(rows: Iterable[tuple[Key, Any]]) -> dict[Key, list[Any]]:
    """Return the sums of numbers by key: the aggregation behind all tables.

    rows: (key, numbers) each; keys stay in the order in which they come first
    """
    sums: dict[Key, list[Any]] = {}
    for key, numbers in rows:
        known = sums.get(key)
        sums[key] = [*numbers] if known is None else [a + b for a, b in zip(known, numbers)]
    return sums


@dataclass(eq=False, slots=True)
class OpTime:
    """An op of a flush: how often, how long, and by which parts.

    name: as PyTorch writes the op     count: how often the op ran
    step: number of the step in the flush     site: number of the step that has the user's line
    begin: nanoseconds of the recorder's clock     ns: nanoseconds in all parts
    flops: operations that kernels have counted     device_ns: nanoseconds of a device
    """

    flush: MeasuredFlush
    name: str
    step: int
    count: int
    site: int
    begin: int = 0
    ns: float = 0.0
    flops: int = 0
    parts: list[FlushPart] = field(default_factory=list)
    device_ns: float = 0.0

    def add(self, begin: int, ns: float, flops: int, part: FlushPart) -> None:
        """Add a share of a part."""
        if not self.parts:
            self.begin = begin
        self.flops += flops
        self.ns += ns
        if part.launches:
            self.device_ns += part.device_ns * ns / (part.end - part.begin)
        self.parts.append(part)

    @property
    def us(self) -> float:
        """Microseconds in all parts."""
        return self.ns / 1e3

    @property
    def state(self) -> State:
        """The step as recorded."""
        return self.flush.states[self.step]

    @property
    def is_gradient(self) -> bool:
        """Whether the op belongs to a backward pass."""
        return self.name.startswith(BACKWARD)

    @property
    def has_line(self) -> bool:
        """Whether the line is that of the op; False for an op of a pass recorded as a step."""
        return not (self.is_gradient and self.flush.states[self.site].is_step)

    @property
    def line(self) -> str:
        """The user's line, as "file:line in function"."""
        return line_of(self.flush, self.site)

    @property
    def scope(self) -> Scope | None:
        """The stretch of the program that recorded the op."""
        return self.flush.scope_at(self.site)

    @property
    def modules(self) -> list[str]:
        """Paths of the modules around the op, the innermost first, each once."""
        scope = self.scope
        return [] if scope is None else scope.modules()

    @property
    def flops_by_types(self) -> int:
        """The operations of all calls, by the types of the operands alone."""
        return self.count * flops_of(self.state, self.flush.types)

    @property
    def work(self) -> int:
        """The operations of all calls."""
        return int(self.flops) or (0 if self.state.is_step else self.flops_by_types)

    def input_shapes(self) -> list[list[int]]:
        """The shapes of the operands, and an empty shape for each run-time number."""
        types = self.flush.types
        shapes = [
            list(types[i].dims) if i < len(types) and types[i] is not None else []
            for i in self.state.operand_indices()
        ]
        return shapes + [[] for _ in self.state.prim.size_mask]

    def stack(self) -> list[str]:
        """The user's frames, innermost first.

        The frames outside of the step's own are those at the beginning of the stretch or module
        that recorded the step.
        """
        site, scope = step_site(self.flush.states, self.flush.sites, self.site), self.scope
        frames = [] if site.code is None else [frame_text(site.code, site.line)]
        outer = list(scope.frames) if scope is not None else []
        if frames and outer and _function(outer[0]) == _function(frames[0]):
            outer = outer[1:]
        return frames + outer


def ops_of(flush: MeasuredFlush, known: dict[int, Any]) -> list[OpTime]:
    """Return the ops of a flush with their times; ops that nobody wanted have none.

    known: see `shares.costs_of_part`
    """
    rows, _ = seconds_by_step(flush, known)
    ops: list[OpTime] = []
    for k, state in enumerate(flush.states):
        if isinstance(state.prim, LeafPrimitive):
            continue
        shares = rows.get(k, [])
        if state.is_step:
            ops += gradients_of_step(flush, k, shares)
            continue
        op = OpTime(flush, f"aten::{state.prim.name}", k, flush.lanes, k)
        back = OpTime(flush, f"{BACKWARD}{state.prim.name}", k, flush.lanes, k)
        for begin, ns, cost, part in shares:
            own = back if part.kind == GRADIENTS else op
            own.add(begin, ns, cost.flops if part.kind == "kernel" else 0, part)
        if op.parts or not back.parts:
            ops.append(op)
        if back.parts:
            ops.append(back)
    return ops


def gradients_of_step(flush: MeasuredFlush, k: int, shares: list[Any]) -> list[OpTime]:
    """Return the ops of a backward pass that was recorded as a step, by name."""
    ops: dict[tuple[str, int], OpTime] = {}
    for begin, ns, cost, part in shares:
        key = cost.name, cost.origin
        op = ops.get(key)
        if op is None:
            site = k if cost.origin < 0 else cost.origin
            op = ops[key] = OpTime(flush, f"{BACKWARD}{cost.name}", k, 0, site)
        op.count += flush.lanes
        op.add(begin, ns, cost.flops, part)
    return list(ops.values())


def line_of(flush: MeasuredFlush, k: int) -> str:
    """Return the user's line of step k, as "file:line in function"."""
    return str(step_site(flush.states, flush.sites, k))


def _function(frame: str) -> tuple[str, str]:
    """Return file and function of a frame."""
    file, _, rest = frame.rpartition("(")
    return file, rest.partition("): ")[2]
