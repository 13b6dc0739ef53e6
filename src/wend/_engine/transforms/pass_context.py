"""A backward pass, and the walk through a region, as the parts below these need to know them."""

from __future__ import annotations

from typing import Any, Protocol

from wend._engine.core._hot import Segment, Tensor, Trace, Value
from wend._engine.core.graph import PathGraph
from wend._engine.transforms.differentiate import Survey
from wend._engine.transforms.hooks import Extra


class PassContext(Protocol):
    """The backward pass that a walk belongs to, as far as the walk needs to know."""

    trace: Trace
    retain: bool
    create: bool
    capture: bool
    hooks: bool
    anomaly: bool
    inputs: list[Any] | None
    wanted: dict[int, list[int]] | None
    goals: list[Value]
    sinks: list[Any]
    useful: dict[int, set[int]] | None
    totals: dict[int, list[Any]]
    pending: dict[int, dict[int, Any]]
    segments: dict[int, Segment]
    heap: list[int]

    def path_here(self) -> PathGraph:
        """The graph of the pending trace."""

    def contribute(self, value: Value, g: Tensor) -> None:
        """Hand a gradient to a leaf, or to a value that an earlier segment produced."""

    def settle(self, key: int) -> None:
        """The gradient of a leaf is complete."""

    def last_use(self, key: int) -> int:
        """Number of the last region that the leaf with this id() gets gradients from."""

    def number_of(self, segment: Segment | None) -> int:
        """Number of a region, in the order of the walk."""


class WalkContext(Protocol):
    """The walk through a region, as far as the stops in the region need to know."""

    owner: PassContext
    segment: Segment | None
    path: PathGraph
    kept: dict[int, list[Any]]
    survey: Survey

    def value_at(self, i: int) -> Value:
        """The value behind an entry of the region, with the gradient identity."""

    def follow(self) -> None:
        """Go on in the segment that the trace has become, if the trace has been flushed."""

    def extras(self) -> dict[int, Extra]:
        """Users' hooks and functions on the region's values."""

    def deliver(self, t: int, g: Tensor, seeds: dict[int, Any], low: int) -> None:
        """Hand over the gradient of a target."""

    def explicit(self, i: int, g: Tensor | None) -> Tensor:
        """A seed as a tensor."""

    def step(
        self, order: tuple[int, ...], seeds: dict[int, Any], high: int, low: int
    ) -> list[tuple[int, Any]]:
        """Record a stretch as a step; returns (id, gradient) pairs, latest entries first."""

    def tensor_of(self, i: int, data: Value) -> Tensor:
        """The value `i` of the region, equal to `data`, with the gradient identity."""

    def state_range(self, k: int) -> tuple[int, int, tuple[int, ...]]:
        """(start, end, result ids) of the op that node `k` belongs to."""
