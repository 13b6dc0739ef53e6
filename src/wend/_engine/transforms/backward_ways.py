"""The ways to run a backward pass (`BACKWARD`), in the order of asking.

A pass has two kinds of parts: the ops that are pending, and the segments of earlier flushes. Each
part is taken by the first way that does not decline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from wend._engine.base import config
from wend._engine.core import _hot
from wend._engine.core._hot import Segment, Tensor, Value
from wend._engine.core.step_log import NEVER_BACK
from wend._engine.ops.placing import full_at
from wend._engine.transforms.pass_context import PassContext
from wend._engine.transforms.quick import pass_segment
from wend._engine.transforms.reach import settle_ready
from wend._engine.transforms.walk import Walk, walk_of_segment

PENDING, SEGMENT = "pending ops", "results of earlier flushes"


class BackwardContext(PassContext, Protocol):
    """The parts of `grad.BackwardPass` that the ways use; see there."""

    walked: bool
    asked: dict[tuple[str, str, str], int]
    ledger: Any

    def hand_on(self, value: Value, g: Tensor) -> None:
        """Hand a gradient to a value that an earlier segment produced."""

    def come_by(self, segment: Segment) -> dict[int, Any]:
        """The gradients of a segment's values, which the pass will come to."""

    def start(self, walk: Walk | None, seeds: dict[int, Any]) -> None:
        """All roots are known."""

    def plain(self) -> bool:
        """Whether the pass only gives all leaves their gradients."""

    def take_off(self, part: SegmentPart) -> None:
        """Take the first segment off the queue, if a way has not done so before."""


class BackwardWay(NamedTuple):
    """A way to run a part of a backward pass.

    name: the way's name in reports
    part: the kind of part: PENDING or SEGMENT
    purpose: the passes that the way is for
    why_not: takes (the pass, the part) and returns why this way declines, or ""; has no effect
    run: runs the part; returns why this way could not after all, or ""
    """

    name: str
    part: str
    purpose: str
    why_not: Callable[[Any, Any], str]  # (BackwardContext, PendingPart or SegmentPart)
    run: Callable[[Any, Any], str]


class PendingPart(NamedTuple):
    """The pending ops that gradients come to.

    seeds: gradients of roots by index, None for ones
    anchor: the value of such a root
    """

    seeds: dict[int, Any]
    anchor: Value


class SegmentPart(NamedTuple):
    """A segment of an earlier flush, and the gradients of its values by id."""

    segment: Segment
    seeds: dict[int, Any]


# -- pending ops --------------------------------------------------------------------------------


def not_known(owner: BackwardContext, part: PendingPart) -> str:
    """Return why the core has not run this pass by itself: see `_hot.backward_known`."""
    reason = not_plain(owner, part)
    if reason:
        return reason
    state = owner.trace.state
    if state is None:
        return NEVER_BACK
    child = state.child
    if child is None or not child.simple or child.i0 != part.anchor.index:
        return "it has not come behind this path before"
    return "a leaf tensor has hooks, or gets its first gradient"


def not_plain(owner: BackwardContext, part: PendingPart) -> str:
    """Return why a pass does more than give all leaves gradients, or ""."""
    if owner.create:
        return "create_graph=True"
    if owner.inputs is not None:
        return "only chosen inputs get gradients"
    if owner.sinks:
        return "retain_grad() was called on a result"
    if owner.anomaly:
        return "anomaly detection is on"
    if owner.trace.symbolic is not None:
        return "a function is being traced"
    return ""


def not_by_groups(owner: BackwardContext, part: PendingPart) -> str:
    """Return why the ops are not run by groups together with their gradients, or ""."""
    if config.settings.nan_guard:
        return "nan_guard looks at what flushes compute"
    if owner.retain:
        return "retain_graph=True"
    if owner.trace.extra:
        return "ops are recorded for later"
    return not_plain(owner, part)


def run_by_groups(owner: BackwardContext, part: PendingPart) -> str:
    """Compute the pending ops and their gradients, both by groups."""
    trace = owner.trace
    roots = {i: trace.values[i] for i in part.seeds}
    serial = trace.serial
    pairs = _hot.slot("backward_at_once")(trace, part.seeds)
    if pairs is None:
        if trace.serial == serial:
            return "the flush does not run in groups"
        # The trace has been flushed, but not by groups: the roots are a segment's now.
        pairs = [
            (v, ones_like(v) if part.seeds[i] is None else part.seeds[i]) for i, v in roots.items()
        ]
    for value, g in pairs:
        owner.contribute(value, g)
    owner.start(None, {})
    return ""


def run_as_step(owner: BackwardContext, part: PendingPart) -> str:
    """Walk the nodes of the pending trace; without hooks, all are recorded as a step."""
    walk = Walk(owner, part.anchor, None)
    owner.start(walk, part.seeds)
    walk.run(part.seeds)
    owner.walked = True
    _remember(walk)
    return ""


def _remember(walk: Walk) -> None:
    """Note a backward that was a single step and only added to gradients of leaves."""
    simple = walk.simple
    if simple is None or walk.owner.inputs is not None or walk.owner.create:
        return
    state = simple[0]
    state.simple = 2 if walk.owner.retain else 1  # see backward_known in the core


def ones_like(value: Value) -> Any:
    """Return a gradient of ones for a root."""
    return full_at(value.type.device, tuple(value.type.shape), 1.0, value.type.dtype)


# -- earlier segments ---------------------------------------------------------------------------


def not_by_launcher(owner: BackwardContext, part: SegmentPart) -> str:
    """Return why the launcher is not asked to run a segment's known step, or ""."""
    if not owner.walked:
        return "the pass begins with this flush"
    if part.segment.structure.later is not None:
        return "the flush ran in groups"
    if owner.plain():
        return ""
    return "the pass does more than fill .grad of leaf tensors, or nan_guard is on"


def run_by_launcher(owner: BackwardContext, part: SegmentPart) -> str:
    """Let the launcher run known steps of segments, as many as there are in a row."""
    first = owner.heap[0]
    done = _hot.slot("pass_segments")(
        owner.trace, owner.retain, owner.heap, owner.segments, owner.pending, owner.totals
    )
    if done or owner.heap[0] != first:
        return ""
    return "the flush has had no such backward pass before"


def not_grouped(owner: BackwardContext, part: SegmentPart) -> str:
    """Return why a segment has no groups or lanes to run its gradients by, or ""."""
    later = part.segment.structure.later
    return "the flush did not run in groups" if later is None else ""


def run_grouped(owner: BackwardContext, part: SegmentPart) -> str:
    """Run the gradients of a segment by the groups, or lanes, that it was computed by."""
    owner.take_off(part)
    if part.segment.structure.later.pass_on(owner, part.segment, part.seeds):
        return ""
    if owner.walked:
        _hot.flush(owner.trace)
    return "hooks or later gradients need its ops one by one"


def not_one_step(owner: BackwardContext, part: SegmentPart) -> str:
    """Return why a segment's backward pass cannot be recorded as a step, or ""."""
    if part.segment.hooks:
        return "an op of the flush has hooks"
    if owner.sinks:
        return "gradients of results are asked for (retain_grad(), inputs=)"
    if owner.anomaly:
        return "anomaly detection is on"
    return "" if owner.useful is None else "only chosen inputs get gradients"


def run_one_step(owner: BackwardContext, part: SegmentPart) -> str:
    """Record the backward pass of a segment as a step, keyed by the segment's structure."""
    owner.take_off(part)
    segment = part.segment
    inputs, totals = segment.inputs, owner.totals
    owner.walked = True
    hooked = False
    for i, g in reversed(pass_segment(owner, segment, part.seeds)):
        value = inputs[i]
        leaf = value.leaf
        if leaf is None or id(leaf) in totals:
            owner.contribute(value, g)
        else:
            totals[id(leaf)] = [leaf, g]
            hooked = hooked or leaf.hooks or leaf.post_hooks or leaf.node
    if hooked:
        settle_ready(owner, segment.structure, inputs.__getitem__, segment, 0)
    return ""


def run_nodes(owner: BackwardContext, part: SegmentPart) -> str:
    """Walk the nodes of a segment."""
    owner.take_off(part)
    owner.walked = True
    walk_of_segment(owner, part.segment).run(part.seeds)
    return ""


def always(owner: BackwardContext, part: PendingPart | SegmentPart) -> str:
    """Return "": this way takes every part."""
    return ""


def run_by_core(owner: BackwardContext, part: PendingPart) -> str:
    """Raise: the core has run a known pass before any way is asked (`_hot.backward_known`)."""
    raise AssertionError("a known backward pass has come to the ways")


KNOWN_STEP = BackwardWay(
    "known step", PENDING, "the path has run the whole pass as one step before",
    not_known, run_by_core,
)  # fmt: skip
GROUPS = BackwardWay(
    "groups", PENDING, "structure that does not repeat: forward and backward at once, by groups",
    not_by_groups, run_by_groups,
)  # fmt: skip
STEP = BackwardWay("new step", PENDING, "recorded after the ops; hooks divide it",
                   always, run_as_step)  # fmt: skip
LAUNCHER = BackwardWay(
    "known steps", SEGMENT, "segments whose backward pass was recorded alone before",
    not_by_launcher, run_by_launcher,
)  # fmt: skip
DEFERRED = BackwardWay(
    "groups of the flush", SEGMENT, "segments that were computed by groups or lanes",
    not_grouped, run_grouped,
)  # fmt: skip
ONE_STEP = BackwardWay("new step", SEGMENT, "no user's code is called",
                       not_one_step, run_one_step)  # fmt: skip
NODES = BackwardWay("op by op", SEGMENT, "hooks, chosen inputs, anomaly mode",
                    always, run_nodes)  # fmt: skip
#: All ways, in the order of asking; the first way that does not decline takes a part.
BACKWARD = (KNOWN_STEP, GROUPS, STEP, LAUNCHER, DEFERRED, ONE_STEP, NODES)


def ask(way: BackwardWay, owner: BackwardContext, part: PendingPart | SegmentPart) -> bool:
    """Let a way take a part; return False, and note the reason, if the way declines."""
    reason = way.why_not(owner, part) or way.run(owner, part)
    row = way.part, way.name, reason
    owner.asked[row] = owner.asked.get(row, 0) + 1
    return not reason


def take(kind: str, owner: BackwardContext, part: PendingPart | SegmentPart) -> None:
    """Let the first way for a kind of part (PENDING or SEGMENT) that does not decline take a part.

    `LAUNCHER` takes further segments of the queue, too.
    """
    for way in BACKWARD:
        if way.part == kind and ask(way, owner, part):
            return
    raise AssertionError(f"no way takes {part}")
