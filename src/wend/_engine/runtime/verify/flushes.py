"""WEND_VERIFY=1: each flush, and each backward pass through it, is checked against the reference.

Flushes run as without verification: plans of machine code in their frames, groups off the trie,
batches of lanes, writes into donated memory. Before a flush the leaves are copied, and the
reference computes the wanted values from the copies. After the flush both results are compared.
Gradients that no flush computes are compared where handed over:

- Some backward passes run at once with their flush. All their gradients are compared
  (`check_gradients`).
- Other backward passes go through the segments that earlier flushes left. An `Account` of the pass
  keeps the gradients that each segment should hand on. These gradients are compared with the
  gradients with which the next segment begins, and with the sums of the leaves.

A flush is not compared if it fails, or calls users' functions, which must not run twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from wend._engine.base import config
from wend._engine.base.dtypes import from_numpy
from wend._engine.base.errors import DefectError
from wend._engine.core import _hot, _types
from wend._engine.core._hot import FlushJob, Segment, Tensor, Value
from wend._engine.core.graph import PathGraph
from wend._engine.core.provenance import Site, last_site, locate
from wend._engine.runtime.numpy_executor.plan import ReferencePlan
from wend._engine.runtime.numpy_executor.runners import graph_runner
from wend._engine.runtime.verify.plans import (
    Limits,
    agree,
    bytes_of_dtype,
    evaluate,
    magnitude,
    verify,
)
from wend._engine.transforms.differentiate import segment_step
from wend._engine.transforms.quick import NOTHING, WATCHERS, WholePass

#: Gradients by the index of the value that each belongs to.
Gradients = dict[int, Any]


class Shadow:
    """The reference's computation of a path, from copies of the leaves."""

    def __init__(self, path: PathGraph, leaves: dict[int, Any], types: list[Any], args: list[Any]):
        self.path = path
        self.leaves = leaves
        self.types = types
        self.args = args
        #: Bytes of the path's narrowest float: results that follow from it have its rounding.
        self.width = min([bytes_of_dtype(t.dtype.numpy) for t in types if t is not None], default=8)

    def run(
        self, wanted: frozenset[int], roots: frozenset[int]
    ) -> tuple[ReferencePlan, list[Any]] | None:
        """Compute the wanted values, and the values for gradients of `roots`, by the reference.

        Returns (plan, all values).  Returns None if the path calls users' functions, lacks the
        buffer of a leaf, or fails.
        """
        plan = ReferencePlan(self.path, wanted, roots)
        if any(node.prim.facts.calls_user for node in self.path.nodes):
            return None
        if any(self.leaves.get(i) is None for i in plan.leaves):
            return None
        env = evaluate(plan, self.leaves, self.types, self.args)
        return None if env is None else (plan, env)

    def gradients(self, seeds: Gradients) -> Gradients | None:
        """Return the gradients of the leaves by the reference; None where `run` gives None.

        seeds: gradients of the results; None stands for ones
        """
        roots = frozenset(seeds)
        done = self.run(roots, roots)
        order = tuple(sorted(seeds))
        part = WholePass(self.path, order, ()).part
        if done is None or part is None:
            return None if done is None else {}
        env = done[1]
        cotangents = [
            np.ones_like(env[i]) if seeds[i] is None else np.array(seeds[i]) for i in order
        ]
        step = segment_step(self.path, part, order, False, NOTHING)
        args = [_types.evaluate(e, self.types, self.args) for e in step.args]
        operands = cotangents + [env[i] for i in step.inputs]
        types = [
            _types.intern_type(a.shape, from_numpy(a.dtype), self.types[0].device) for a in operands
        ]
        with np.errstate(all="ignore"):
            results = graph_runner(step.graph)(operands, types, args)
        return {i: np.array(g) for i, g in zip(step.targets, results, strict=True) if g is not None}


# -- flushes ------------------------------------------------------------------------------------

#: Shadows of the flushes under way, by the id() of each flush's list of values.
_shadows: dict[int, Shadow] = {}


def shadow_of(batch: FlushJob) -> Shadow:
    """Return a shadow of a flush, with copies of the flush's leaves."""
    path = PathGraph(batch.states, batch.values, batch.args)
    leaves = {i: batch.values[i].buffer for i, _ in path.leaves}
    copies = {i: None if a is None else np.array(a) for i, a in leaves.items()}
    return Shadow(path, copies, [v.type for v in batch.values], list(batch.args))


def execute(batch: FlushJob, live: list[int]) -> None:
    """Compute the live values of a flush; raise DefectError if the reference's values differ."""
    shadow = shadow_of(batch)
    done = shadow.run(frozenset(live), frozenset())
    number = id(batch.values)
    _shadows[number] = shadow
    try:
        verify_plan(batch, live)
        _plain["execute"](batch, live)
    finally:
        _shadows.pop(number, None)
    if done is not None:
        compare(batch, live, shadow, *done)


def execute_many(batches: list[FlushJob], lives: list[list[int]]) -> None:
    """Do the same as `execute`, for the pending flushes of several fibers."""
    shadows = [shadow_of(batch) for batch in batches]
    done = [s.run(frozenset(live), frozenset()) for s, live in zip(shadows, lives, strict=True)]
    _plain["execute_many"](batches, lives)
    for batch, live, shadow, row in zip(batches, lives, shadows, done, strict=True):
        if row is not None:
            compare(batch, live, shadow, *row)


def verify_plan(batch: FlushJob, live: list[int]) -> None:
    """Check the plan that the launcher is going to run.

    Unlike `compare`, this check names the first op that differs.
    """
    plans = None if batch.state is None else batch.state.plans
    plan = None if plans is None else plans.get(tuple(live))
    compiled = getattr(plan, "compiled", None)
    if compiled is not None and batch.state.passed > 0:
        verify(compiled, batch)


def compare(
    batch: FlushJob, live: list[int], shadow: Shadow, plan: ReferencePlan, env: list[Any]
) -> None:
    """Raise DefectError, with the user's line, for the first value that differs."""
    limits = Limits(plan, env, batch)
    for i in sorted(live):
        buffer = batch.values[i].buffer
        if buffer is None or limits.allow(i, buffer):
            continue
        node = next((n for n in shadow.path.nodes if i in n.outputs), None)
        name = "a value from outside" if node is None else node.prim.name
        fault = DefectError(
            f"{name}: what was computed and the reference differ{apart(buffer, env[i])}; "
            "this is a defect of Wend"
        )
        raise locate(fault, name, batch, i, shadow.path)


def apart(actual: object, expected: object) -> str:
    """Return how far two arrays are apart, for a message."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        kinds = [f"{a.dtype}{list(a.shape)}" for a in (actual, expected)]
        return f" ({kinds[0]}, not {kinds[1]})"
    if actual.dtype.kind == "c" or not actual.size:
        return ""
    far = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
    at = np.unravel_index(np.argmax(np.nan_to_num(far, nan=np.inf)), far.shape)
    return f" ({actual[at]}, not {expected[at]}, at {[int(k) for k in at]})"


# -- backward passes ----------------------------------------------------------------------------


def check_gradients(batch: FlushJob, seeds: Gradients, pairs: Iterable[tuple[int, Any]]) -> None:
    """Raise DefectError if a backward pass that ran with its flush gave different gradients."""
    shadow = _shadows.get(id(batch.values))
    expected = None if shadow is None else shadow.gradients(seeds)
    if shadow is None or expected is None:
        return
    gradients = dict(pairs)
    scale = scale_of([*seeds.values(), *expected.values()])
    for i in sorted(expected.keys() | gradients.keys()):
        value = batch.values[i]
        if value.leaf is not None and not value.leaf.requires_grad:
            continue
        if not same_gradient(gradients.get(i), expected.get(i), shadow.width, scale):
            raise differing(gradients.get(i), expected.get(i), last_site(batch.states, batch.sites))


def scale_of(gradients: Iterable[Any]) -> float:
    """Return the largest element of some gradients: sums that cancel are rounded on its scale."""
    return max([magnitude(np.asarray(g)) for g in gradients if g is not None], default=0.0)


def same_gradient(actual: object, expected: object, width: int, scale: float) -> bool:
    """Return whether two gradients agree; None stands for a gradient of zeros.

    width: see `Shadow`
    scale: the largest element of the gradients that were added up
    """
    if actual is None or expected is None:
        some = expected if actual is None else actual
        return some is None or not np.any(np.asarray(some))
    actual, expected = np.asarray(actual), np.asarray(expected)
    return actual.size == expected.size and agree(
        actual.reshape(expected.shape), expected, max(magnitude(expected), scale), width
    )


def differing(actual: object, expected: object, site: Site | None) -> DefectError:
    """Return the error for a gradient that differs."""
    if actual is None or expected is None:
        how = " (none was given)" if actual is None else " (there should be none)"
    else:
        how = apart(actual, expected)
    fault = DefectError(
        f"backward: a gradient and the reference's differ{how}; this is a defect of Wend"
    )
    fault.site = site
    return fault


class Account:
    """The gradients that each segment of a backward pass should give, by the reference."""

    def __init__(self, pending: dict[int, dict[int, Any]]) -> None:
        """pending: gradients that segments have before, by negative serial and index"""
        self.leaves: dict[int, list[Any]] = {}  # by id of the leaf: [leaf, sum, site]
        self.seeds: dict[tuple[int, int], Any] = {}  # by negative serial of the segment and index
        self.others: dict[tuple[int, int], list[Any]] = {}  # handles, to be added to the seeds
        self.width = 8  # the least width of all shadows
        self.scale = 0.0  # the largest element of all gradients
        for key, table in pending.items():
            for i, g in table.items():
                self.seeds[key, i] = np.array(_hot.ensure(_hot.refreshed(g)))

    def note(self, value: Value, g: Tensor) -> None:
        """Note a gradient of a value that no segment of this account has handed on.

        g: a handle, which is computed when the segment of the value is passed by
        """
        self.others.setdefault((-value.segment.serial, value.seg_index), []).append(g)

    def seed(self, segment: Segment, i: int) -> Any:
        """Return the gradient with which value i of a segment should begin; None if not known."""
        place = (-segment.serial, i)
        for g in self.others.pop(place, ()):
            self.seeds[place] = self.seeds.get(place, 0) + _hot.ensure(_hot.refreshed(g))
        return self.seeds.get(place)

    def pass_by(
        self, segment: Segment, shadow: Shadow, seeds: Gradients, values: dict[int, Value]
    ) -> None:
        """Note the gradients that a segment should hand on.

        Raises DefectError if the segment begins with wrong gradients.

        shadow: the reference's computation of the segment's path
        seeds: the gradients with which the segment begins
        values: the leaves of the path
        """
        site = last_site(shadow.path.states, segment.sites)
        self.width = min(self.width, shadow.width)
        for i, g in seeds.items():
            expected = self.seed(segment, i)
            if expected is not None and not same_gradient(g, expected, self.width, self.scale):
                raise differing(g, expected, site)
        handed_on = shadow.gradients(seeds) or {}
        self.scale = max(self.scale, scale_of([*seeds.values(), *handed_on.values()]))
        for i, g in handed_on.items():
            value = values[i]
            if value.leaf is not None:
                row = self.leaves.setdefault(id(value.leaf), [value.leaf, 0, site])
                row[1] = row[1] + g
            elif value.segment is not None:
                place = (-value.segment.serial, value.seg_index)
                self.seeds[place] = self.seeds.get(place, 0) + g

    def close(self, pairs: list[tuple[Any, Any]]) -> None:
        """Raise DefectError if leaves get different gradients.  pairs: (leaf, gradient) of each"""
        gradients = {id(leaf): g for leaf, g in pairs}
        for key, (leaf, expected, site) in self.leaves.items():
            g = gradients.get(key)
            g = None if g is None else _hot.ensure(_hot.refreshed(g))
            if leaf.requires_grad and not same_gradient(g, expected, self.width, self.scale):
                raise differing(g, expected, site)


# -- switching it on ----------------------------------------------------------------------------

_VERIFYING = {"execute": execute, "execute_many": execute_many}
_plain: dict[str, Any] = {}


def install(name: str, function: Callable[..., Any]) -> None:
    """Fill a slot of the core that computes flushes.

    Calls go through this module while flushes are verified.
    """
    _plain[name] = function
    follow_settings()


def follow_settings() -> None:
    """Fill the slots with the watching, guarding, verifying functions, or with the plain ones."""
    for name in _plain:
        _hot.set_slot(name, _watching.get(name) or unwatched(name))
    if config.settings.nan_guard != (note_pass in WATCHERS):
        (WATCHERS.append if config.settings.nan_guard else WATCHERS.remove)(note_pass)


#: Functions that see a flush before it is computed, by the name of the slot.
_watching: dict[str, Any] = {}


def watch(functions: dict[str, Any]) -> dict[str, Any]:
    """Have functions in the slots that compute flushes; returns those that were there before.

    Each gets the arguments of the slot, and has to call `unwatched(name)` with these.
    """
    before = dict(_watching)
    _watching.clear()
    _watching.update(functions)
    follow_settings()
    return before


def unwatched(name: str) -> Any:
    """The function of a slot that computes flushes, verified or guarded as the settings say."""
    chosen = _VERIFYING[name] if config.settings.verify else _plain[name]
    return guarded(name, chosen) if config.settings.nan_guard else chosen


def note_pass(serial: int, position: int, segment: Segment) -> None:
    """Let the guard know whose gradients a step computes."""
    from wend._engine.runtime.verify import guard

    guard.note_pass(serial, position, segment)


def guarded(name: str, function: Any) -> Callable[..., Any]:
    """A function that computes flushes, behind the guard of NaN and infinity."""
    from wend._engine.runtime.verify import guard

    return partial(getattr(guard, name), function)


config.settings.on_change(follow_settings)
