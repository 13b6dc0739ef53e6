"""Links the machine code of a path's parts, so that the whole path is a single launch.

A path that comes back has a plan as a whole in the end, but planning takes long. Until then the
parts of the path have machine code: forward parts, the known backward steps of these parts, and
what follows the backward pass. A link is a frame for the launcher (`native/_launch.py`) that runs
the frames of the parts in turn. Values between the parts lie in the arena. Neither jobs
nor segments nor arrays are made for parts.

A link computes bit by bit what the parts compute by themselves. A link holds for certain sizes.
Where anything is unusual, `Unlinkable` is raised, and parts or a plan run the path.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wend._engine.base.weak_objects import WeakObjects
from wend._engine.core import _hot, _types
from wend._engine.core._hot import FlushJob, State, Value
from wend._engine.core._types import TensorType
from wend._engine.core.symbolic import ARG, DIM
from wend._engine.runtime.compiled import threads
from wend._engine.runtime.native.launcher import launcher as _launch
from wend._engine.runtime.numpy_executor.plan import ReferencePlan
from wend._engine.runtime.parts import _cutter_select
from wend._engine.runtime.parts.frame_row import FrameRow, FrameRun
from wend._engine.runtime.parts.slots import Block, MemorySlot, NotYet, Unlinkable

_cutter: Any = _cutter_select.select()
_ONES = {4: np.ones((), np.float32), 8: np.ones((), np.float64)}


class ForwardPart(NamedTuple):
    """A forward part: its frame, and its values.

    numbers: the index of each value among those of the path
    args: the args of the part, as places among those of the path
    """

    run: FrameRun
    values: list[Value]
    numbers: list[int]
    args: tuple[int, ...]
    types: list[TensorType]


class Linking(FrameRow):
    """Puts the frames of a path's parts in a row.

    job: a trace or a `FlushJob`     trie: the root of the trie of parts
    least: so many ops a part has at least
    """

    def __init__(self, job: Any, trie: State, least: int) -> None:
        super().__init__(job.values)
        self.job, self.trie, self.least = job, trie, least
        self.number = {id(v): i for i, v in enumerate(self.values)}
        self.home: dict[int, tuple[int, int]] = {}  # by value: the part, and the value there
        self.parts: list[ForwardPart] = []
        self.first = 0  # of the parts since the last backward pass

    # -- parts -----------------------------------------------------------------------------

    def follow(self, live: list[int]) -> None:
        """Add all steps of the flush: forward parts and backward passes by turns, and the rest.

        live: the values that are wanted in the end
        """
        states, begin = self.job.states, 0
        for k, step in enumerate(states):
            if not step.is_step:
                continue
            if step.simple != 1 or step.i1 != -1 or step.rest:
                raise Unlinkable("another backward pass than the usual one")
            self.forward(begin, k, read_behind(states[k:], live, step.first))
            gradients = self.backward(step.i0)
            if step.leaves is None or gradients.keys() != set(step.leaves):
                raise Unlinkable("other gradients than those of the parts")
            for n, i in enumerate(step.leaves):
                self.where[step.first + n] = gradients[i]
            begin = k + 1
        if begin < len(states):
            self.forward(begin, len(states), live, begin > 0)

    def follow_with(self, live: list[int], root: int) -> None:
        """As `follow`, with a backward pass at the end that has not been recorded yet."""
        states = self.job.states
        begin = 1 + max((k for k, step in enumerate(states) if step.is_step), default=-1)
        if begin > 0:
            raise Unlinkable("several backward passes")
        self.forward(begin, len(states), [root, *live])
        self.backward(root)

    def forward(self, begin: int, end: int, live: list[int], alone: bool = False) -> None:
        """Add the forward parts among these steps.

        live: the values of these parts that are wanted in the end
        alone: whether the steps have rather run by themselves than in parts
        """
        job = self.job
        states = job.states[:end]
        values = self.values[: states[-1].first + states[-1].n_out]
        lead = FlushJob(states, values, job.args, None, job.sites, 0, [], None)
        self.first = len(self.parts)
        main = _hot.current_trace().root
        if alone:
            try:
                self.add_parts(lead, begin, [end], live, main)
            except NotYet:  # the ops may have run in several flushes: see `end_of_sums`
                pass
            else:
                return
        sums = self.end_of_sums(begin, end)
        if sums > begin:
            self.add_parts(lead, begin, [sums, end] if alone else [sums], live, main)
            if alone:
                return
        cutter = _cutter.Cutter(lead, self.trie)
        if not cutter.cut(self.least) or cutter.whole != (begin > 0):
            raise Unlinkable("ops that cannot be in parts")
        ends = list(cutter.ends)
        n = len(ends) - cutter.whole
        if n:  # else there are only values from outside
            root = self.trie if n > 1 else main
            self.add_parts(lead, max(begin, sums), ends[len(ends) - n :], live, root)

    def end_of_sums(self, begin: int, end: int) -> int:
        """Where the ops end that add a backward pass's results to former gradients.

        begin: behind the step of the pass     Such ops have run by themselves: see `parts`.
        """
        if begin == 0:
            return 0
        step = self.job.states[begin - 1]
        last = begin
        for k in range(begin, end):
            state = self.job.states[k]
            if type(state.prim) is _types.LeafPrimitive:
                continue
            read = state.operand_indices()
            if state.prim.name != "add" or not any(0 <= i - step.first < step.n_out for i in read):
                break
            last = k + 1
        return last

    def add_parts(
        self, lead: FlushJob, begin: int, ends: list[int], live: list[int], root: State
    ) -> None:
        """Add the parts from step `begin` on, which end at `ends`, on the trie of a root."""
        cutter = _cutter.Cutter(lead, root)
        if begin > 0:
            cutter.whole = True
            cutter.ends.append(begin)
        cutter.ends.extend(ends)
        cutter.follow()
        cutter.want(live)
        if begin > 0:
            cutter.take(0)
        for end in ends:
            part, wanted = cutter.take(0)
            if wanted:
                args = [
                    k
                    for state in lead.states[begin:end]
                    if type(state.prim) is not _types.LeafPrimitive
                    for k in range(state.arg0, state.arg0 + len(state.prim.size_mask))
                ]
                self.add_part(part, wanted, tuple(args))
            begin = end

    def add_part(self, job: FlushJob, wanted: list[int], args: tuple[int, ...]) -> ForwardPart:
        """Add the frame of a part of the path.

        args: places of the part's args among the path's
        """
        plan = plan_of(job.state, wanted)
        values = job.values
        index = [self.number[id(v)] for v in values]
        compiled = plan.compiled
        # A value that becomes a leaf within the part is among the plan's leaves, too.
        outside = {s.first for s in job.states if type(s.prim) is _types.LeafPrimitive}
        slots = {i: self.slot_of(index[i]) for i in compiled.leaves if i in outside}
        run = self.run(plan, values, job.args, slots)
        native = self.entries[-1].native
        native.values = tuple([i if i in self.entering else -1 for i in index])
        native.args, native.sites = args, job.sites
        self.note_places(native, [Place(k) for k in args])
        part = ForwardPart(run, values, index, args, native.types)
        number = len(self.parts)
        self.parts.append(part)
        for i, source, k in run.frame.gives:
            self.where[index[i]] = self.located(run, source, k)
            self.home[index[i]] = number, i
        return part

    def backward(self, root: int) -> dict[int, MemorySlot]:
        """Add the known backward steps of the parts, from a value; return gradients by value."""
        v = self.values[root]
        size = v.type.dtype.numpy.itemsize
        if v.type.rank != 0 or v.type.dtype.category != 2 or size not in _ONES:
            raise Unlinkable("a backward pass from another value than a float")
        ones = Block(0, 0, constant=_ONES[size])
        self.constants.append(ones)
        gradients: dict[int, MemorySlot] = {root: MemorySlot(ones, 0, None)}
        done: dict[int, MemorySlot] = {}
        if root not in self.home:
            raise Unlinkable("a backward pass from a value that no part computes")
        for number in range(len(self.parts) - 1, self.first - 1, -1):
            part = self.parts[number]
            seeds = {
                j: gradients.pop(i)
                for j, i in enumerate(part.numbers)
                if i in gradients and self.home.get(i) == (number, j)
            }
            if seeds:
                self.pass_part(part, seeds, gradients, done)
        if gradients:
            raise Unlinkable("a gradient that leads beyond an earlier backward pass")
        return done

    def pass_part(
        self,
        part: ForwardPart,
        seeds: dict[int, MemorySlot],
        gradients: dict[int, MemorySlot],
        done: dict[int, MemorySlot],
    ) -> None:
        """Add the known backward step of a part.

        seeds: gradients of the part's values
        gradients: of values of earlier parts     done: of values from outside
        """
        structure, frame = part.run.plan.native_plan.path, part.run.frame
        row = self.known_step(structure, part, seeds, done)
        order, carried, saved, args = row[2], row[4], row[6], row[7]
        places = {i: (source, k, type_) for i, source, k, type_ in frame.saves}
        if any(i not in places for i in saved):
            raise Unlinkable("a gradient needs a value that is not kept")
        types, slots = [part.types[i] for i in order], [seeds[i] for i in order]
        for i in carried:
            types.append(part.types[i])
            slots.append(done[part.numbers[i]])
        for i in saved:
            source, k, type_ = places[i]
            types.append(part.types[i] if type_ is None else type_)
            slots.append(self.located(part.run, source, k))
        if any(t < 0 for t in row[8]):
            raise Unlinkable("a gradient of a temporary")
        types += [part.types[t] for t in row[8]]
        values = [_hot.held(type_, None) for type_ in types]
        numbers = [self.job.args[k] for k in part.args]
        own_args = [_types.evaluate(e, part.types, numbers) for e in args]
        plan = plan_of(row[10][-1], row[9])
        run = self.run(plan, values, own_args, dict(enumerate(slots)))
        native = self.entries[-1].native
        native.values = (-1,) * len(values)
        native.args, native.exprs, native.before = part.args, tuple(args), part.types
        self.note_places(native, [placed(e, part.args) for e in args])
        results = {i: (source, k) for i, source, k in run.frame.gives}
        for i in carried:
            del done[part.numbers[i]]
        first = len(types) - len(row[8])
        for n, t in enumerate(row[8]):
            slot = self.located(run, *results[first + n])
            i = part.numbers[t]
            leaf = self.values[i].leaf is not None or i not in self.home
            table = done if leaf else gradients
            table[i] = slot if i not in table else self.sum_of(table[i], slot, part.types[t])

    def known_step(
        self,
        structure: Any,
        part: ForwardPart,
        seeds: dict[int, MemorySlot],
        done: dict[int, MemorySlot],
    ) -> tuple[Any, ...]:
        """The backward step of a part that has run before: see `_launch.known_step`."""
        for row in structure.known:
            if row[0] or row[1] is not None or set(row[2]) != seeds.keys():
                continue
            leaves = [self.values[part.numbers[i]].leaf for i in row[3]]
            if any(
                leaf is None or not leaf.requires_grad or leaf.hooks or leaf.node for leaf in leaves
            ):
                break
            if all(part.numbers[i] in done for i in row[4]) and not any(
                part.numbers[i] in done for i in row[5]
            ):
                return row  # type: ignore[no-any-return]
        raise NotYet("a backward step of a part is not known")

    def note_places(self, native: Any, args: Sequence[Any]) -> None:
        """Note the args that the extents of a frame depend on, as args of the path.

        native: the entry of the frame
        args: the frame's args as expressions: places among the path's args, or numbers
        """
        places = native.frame.places
        for k in range(0, len(places), 2):
            one = args[places[k]]
            other = args[places[k + 1]] if places[k + 1] >= 0 else None
            if type(one) is not Place or not (other is None or type(other) is Place):
                if is_fixed(one) and (other is None or is_fixed(other)):
                    continue
                native.checked = True
                return
            self.places[one.at, -1 if other is None else other.at] = None


class Place(NamedTuple):
    """An arg of a part that is an arg of the path."""

    at: int


def placed(expr: Any, args: tuple[int, ...]) -> Any:
    """Return an arg of a backward step as an arg of the path, if the path has that arg."""
    if type(expr) is tuple and expr[0] == ARG:
        return Place(args[expr[1]])
    return expr


def is_fixed(expr: Any) -> bool:
    """Whether an arg of a backward step follows from the types of values."""
    if type(expr) is Place:
        return False
    if type(expr) is not tuple or expr[0] == DIM:
        return True
    return expr[0] != ARG and all(is_fixed(e) for e in expr[1:])


def plan_of(state: State | None, wanted: Sequence[int]) -> Any:
    """Return the plan of a part that computes these values by machine code."""
    plans = None if state is None else state.plans
    if not plans:
        raise NotYet("a part is new")
    plan = plans.get(tuple(wanted))
    if plan is None:
        need = frozenset(wanted)
        plan = next((p for p in plans.get("plans", ()) if need <= p.wanted), None)
    if getattr(plan, "compiled", None) is None:
        raise NotYet("a part has no machine code yet")
    return plan


def check_backward(trace: Any, live: list[int], root: int, trie: State, least: int) -> None:
    """Raise Unlinkable unless a trace and a backward pass at its end can be linked.

    root: the value that the pass begins at     trie, least: see `Linking`
    """
    linking = Linking(trace, trie, least)
    linking.follow_with(live, root)


def link(job: FlushJob, reference: ReferencePlan, trie: State, least: int) -> Any:
    """Return the frame that runs a flush: forward parts, their backward passes, and the rest.

    reference: the path's plan, which may be for more values than the flush needs
    trie, least: see `Linking`
    """
    live = sorted(reference.wanted)
    linking = Linking(job, trie, least)
    if reference.saved:
        raise Unlinkable("a later backward pass needs values of this flush")
    linking.follow(live)
    return linking.frame(live, job.args)


def read_behind(states: Sequence[Any], live: list[int], end: int) -> list[int]:
    """The values before `end` that are wanted, or read by these steps of a path."""
    read = {i for state in states for i in state.operand_indices() if 0 <= i < end}
    return sorted(read | {i for i in live if i < end})


class LinkedPlan:
    """The links of a path, by sizes, until the path has a plan of its own.

    native_plan: what the launcher runs
    seconds: duration of the shortest of the visits that were timed     timed: how many
    """

    def __init__(self, reference: ReferencePlan) -> None:
        self.reference = reference
        self.native_plan = _launch.NativePlan(
            reference.path, tuple(sorted(reference.roots)), tuple(reference.grad_leaves)
        )
        self.seconds, self.timed = math.inf, 0
        _LINKED.add(self)

    def run(self, job: FlushJob, trie: State, least: int) -> bool:
        """Run the link for the sizes of a flush, which is made at need; False if it fails.

        Raises Unlinkable.
        """
        native = self.native_plan
        left, native.left = native.left, -1
        try:
            start = time.perf_counter()
            outcome = _launch.run(native, job)
            if outcome == 0:
                frame = link(job, self.reference, trie, least)
                if len(native.frames) >= MOST_SIZES:
                    native.frames.clear()
                native.frames[frame.types, frame.sizes] = native.frame = frame
                left = int(MORE_SIZES * left)
                start = time.perf_counter()
                outcome = _launch.run(native, job)
            self.seconds = min(self.seconds, time.perf_counter() - start)
            self.timed += 1
        finally:
            native.left = left
        return bool(outcome == 1)

    def has_host_steps(self) -> bool:
        """Return whether Python runs steps of the last link."""
        return any(part.hosted is not None for part in self.native_plan.frame.linked)


def unlink_all() -> None:
    """Forget all links: frames are cut anew for another number of threads."""
    for plan in _LINKED.alive():
        plan.native_plan.frames.clear()
        plan.native_plan.frame = None


#: Sizes that are new have a link made, which takes long: the visits that are left become fewer.
MORE_SIZES = 0.75
#: For so many sizes the links of a path are kept.
MOST_SIZES = 128
_LINKED: WeakObjects[LinkedPlan] = WeakObjects()
threads.on_change.append(unlink_all)
