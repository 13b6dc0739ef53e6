"""`wend.debug.find_nan` and `nan_guard`: the op behind a NaN or an infinity."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from wend._engine.base import config
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, BadValueError
from wend._engine.core import _hot
from wend._engine.core._hot import Segment, Tensor, Value
from wend._engine.runtime.verify.bad_values import INFINITY, NAN, BadValue, Replay, facts_of, is_bad
from wend._engine.runtime.verify.guard import WATCH
from wend._frontend.autograd.watching import watch as watch_passes
from wend.debug._members import members
from wend.nn.modules.module import Module

__all__ = ["BadValue", "find_nan", "nan_guard"]

_ACTIONS = ("raise", "warn", "note")


class nan_guard:
    """Look through the results of each flush for NaN and infinity, inside a `with` block.

    The first op that makes such a value raises BadValueError: the op, the user's line, the operands
    with ranges.  Forward, backward and update are watched, planned, batched and in fibers alike,
    in all threads.  `WEND_NAN_GUARD=1` guards a whole program.

    model: a module, or several, whose paths are told
    action: "raise", "warn", or "note", which only appends to `found`
    infinities: False looks for NaN alone

    The cost is a read of each result, and memory: operands are held until then, so that no
    optimizer writes over them.  Backward passes of groups and lanes run op by op.
    """

    def __init__(
        self, model: Any = None, *, action: str = "raise", infinities: bool = True
    ) -> None:
        if action not in _ACTIONS:
            raise ArgumentError(f"nan_guard: action={action!r} is none of {', '.join(_ACTIONS)}")
        self.names: Names = Names(model)
        self.action = action
        self.infinities = infinities
        self.found: list[BadValue] = []

    def __enter__(self) -> nan_guard:
        _hot.synchronize()  # pending ops belong to the time before
        self._before = (WATCH.action, WATCH.infinities, WATCH.name_leaf, WATCH.found)
        WATCH.action, WATCH.infinities = self.action, self.infinities
        WATCH.name_leaf, WATCH.found = self.names.of_values, self.found
        self._settings = config.settings.set(nan_guard=True)
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        try:
            if kind is None:
                _hot.synchronize()
        finally:
            config.settings.set(**self._settings)
            WATCH.action, WATCH.infinities, WATCH.name_leaf, WATCH.found = self._before


class Names:
    """The module paths of the parameters and buffers of some modules."""

    def __init__(self, model: Any) -> None:
        models = () if model is None else model if isinstance(model, (list, tuple)) else (model,)
        self.paths: dict[int, str] = {}
        self.kept: list[Any] = []
        for module in models:
            if not isinstance(module, Module):
                raise ArgumentTypeError(
                    f"nan_guard: model takes a module or several, not a {type(module).__name__}"
                )
            for member in members(module):
                self.kept.append(member.tensor)
                self.paths.setdefault(id(member.tensor), member.module)

    def of_gradient(self, array: Any) -> str:
        """The path of the module that owns the parameter with this gradient, or ""."""
        for handle in self.kept:
            grad = handle.grad
            if grad is not None and grad.value.buffer is array:
                return self.paths[id(handle)]
        return ""

    def of_values(self, values: Iterable[Value]) -> str:
        """The path of the first of these values that a module owns, or ""."""
        handles: dict[int, Tensor] | None = None
        for value in values:
            leaf = value.leaf
            handle = None if leaf is None else leaf.ref()
            if handle is not None and id(handle) in self.paths:
                return self.paths[id(handle)]
            if leaf is None:
                if handles is None:
                    handles = {id(t.value): t for t in self.kept}
                owner = handles.get(id(value))
                if owner is not None:
                    return self.paths[id(owner)]
        return ""


def find_nan(
    *tensors: Tensor, model: Any = None, rerun: Callable[[], Any] | None = None
) -> BadValue | None:
    """The op that made the first NaN or infinity in the history of these tensors, or None.

    Nothing is kept for this ahead of time, so the search has the rest of the history: saved values,
    and leaves that require grad.  `BadValue.exact` tells whether the op's operands were
    among these; `note` tells the remedy if not.

    tensors: results to explain; without any, the last finding of `nan_guard`
    model: a module, or several, whose paths are told
    rerun: a function that computes everything again: runs under the guard, and the op is exact
    """
    _hot.synchronize()
    if rerun is not None:
        with nan_guard(model, action="raise") as guard:
            watcher = _Flusher()
            watch_passes(watcher)
            try:
                result = rerun()  # held, and so wanted
                _hot.synchronize()
                del result
            except BadValueError:  # noted in `found`
                pass
        return guard.found[0] if guard.found else None
    if not tensors:
        return WATCH.found[-1] if WATCH.found else None
    names = Names(model)
    for t in tensors:
        if not isinstance(t, Tensor):
            raise ArgumentTypeError(f"find_nan: takes tensors, not a {type(t).__name__}")
        array = _hot.ensure(t.value)
        if is_bad(array):
            return _of_value(t.value, array, names)
    return None


class _Flusher:
    """Computes gradients after each backward pass, before the program drops them."""

    def begin_pass(self) -> None:
        """Nothing is to be done before a pass."""

    def end_pass(self, kept: bool) -> None:
        """Compute all that is pending.  kept: whether the graph was kept"""
        _hot.synchronize()

    def cancel_pass(self) -> None:
        """Nothing is to be done where a pass has failed."""


_RERUN = (
    "run the step again under wend.debug.nan_guard(), or give find_nan(rerun=...) a function that "
    "does"
)


def _of_value(value: Value, array: Any, names: Names) -> BadValue:
    """The finding for a bad value, equal to `array`, by its history."""
    segment = value.segment
    if segment is None:
        facts = facts_of(array, "the tensor")
        finding = BadValue(NAN if facts.nans else INFINITY, "", direction="operand", exact=False)
        finding.result = facts
        owner = names.of_gradient(array)
        if owner:
            finding.module = owner
            finding.note = f"a gradient of {owner} has no history, so the op is not known: {_RERUN}"
        else:
            finding.note = f"the tensor has no history, so the op is not known: {_RERUN}"
        return finding
    replay, leaves = _replay_of(segment)
    replay.env.setdefault(value.seg_index, array)
    told = replay.find([value.seg_index], outside=True)
    if told is not None and told.op == "" and told.leaves:
        earlier = leaves.get(told.leaves[0])
        if earlier is not None and earlier.segment is not None:
            first = _of_value(earlier, replay.env[told.leaves[0]], names)
            if first.op:
                first.later = first.later or told.later
                return first
        told = replay.find([value.seg_index])  # an infinity that the program has put there
    finding = told or BadValue(NAN, "", direction="operand", exact=False)
    if not finding.exact:
        finding.note = f"operands of the op are gone, so an earlier op may be at fault: {_RERUN}"
    finding.module = names.of_values([leaves[i] for i in finding.leaves if i in leaves])
    return finding


#: Flushes before a value's that are replayed to know the value.
_MOST_BEFORE = 20


def _replay_of(
    segment: Segment, depth: int = 0, known: dict[int, Replay] | None = None
) -> tuple[Replay, dict[int, Value]]:
    """A replay with all that a segment still holds, and the values of its leaves.

    depth: number of segments for which this is done already     known: replays, by id of a segment
    """
    known = {} if known is None else known
    path = segment.structure
    if path.later is not None:  # computed by groups or lanes: as a later backward pass would ask
        path.later.resolve(segment)
        path = segment.structure
    leaves = dict(segment.inputs or {})
    held = {i: row[1] for i, row in (segment.saved or {}).items() if row[1] is not None}
    saved, written = dict(held), {}
    for i, leaf_value in leaves.items():
        array = leaf_value.buffer
        if array is None and leaf_value.leaf is not None:
            handle = leaf_value.leaf.ref()
            if handle is not None and handle._version == 0:
                array = _hot.ensure(handle.value)
            elif handle is not None and i not in held:
                written[i] = _hot.ensure(handle.value)
        if array is None and leaf_value.segment is not None and depth < _MOST_BEFORE:
            before = known.get(id(leaf_value.segment))
            if before is None:
                before, _ = _replay_of(leaf_value.segment, depth + 1, known)
                known[id(leaf_value.segment)] = before
            before.compute([leaf_value.seg_index])
            array = before.env.get(leaf_value.seg_index)
        if array is not None:
            held.setdefault(i, array)
    args = (segment.types, segment.args, segment.sites)
    if written:  # a parameter that an update has replaced since is another operand
        replay = Replay(path, {**held, **written}, *args)
        replay.compute(range(len(segment.types)))
        if replay.agrees(saved):
            return replay, leaves
    return Replay(path, held, *args), leaves
