"""The backward pass of strands that ran as one (see `strands`): as one, too.

Each run leaves one segment for all of its strands; value i of strand r has the number
r * stride + i there.  Gradients between the runs of different flushes are rows added to rows:
nothing is recorded for them.  Those of parameters are put off, and computed once over the rows of
all flushes.  Passes that need single nodes get them: the paths of all strands, one behind the
other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wend.base.collecting import CollectionPaused
from wend.base.errors import GraphError
from wend.core import _hot
from wend.core._hot import Batch, Record, Segment
from wend.runtime.families import MOST_CALLS
from wend.runtime.later import LazyPath, Ledger, compute_again
from wend.runtime.reference import slim
from wend.runtime.strands import Call, Weave
from wend.transforms.differentiate import FREED
from wend.transforms.history import note_history
from wend.transforms.hooks import has_hooks
from wend.transforms.rows import is_smooth


def leave(weave: Weave, members: list[Batch], operands: list[Any], results: list[Any]) -> None:
    """Let a later backward pass find its way from the wanted values of strands."""
    pattern = weave.pattern
    woven = Woven(weave, members, operands, results)
    segment = Segment(_hot.fresh_serial(), woven.path)
    segment.origin = members[-1].serial
    inputs = segment.inputs = {}
    stride = pattern.stride
    for entry in (*pattern.entries, *pattern.views.values()):
        if entry.role & 1:
            for r, batch in enumerate(members):
                inputs[r * stride + entry.leaf] = batch.values[entry.leaf]
    segment.saved = {}
    woven.path.wait(woven)
    for r, batch in enumerate(members):
        values = batch.values
        for i in (*weave.given, *weave.views):
            v = values[i]
            v.segment = segment
            v.seg_index = r * stride + i
    woven.note_depth(segment, members[-1])


class Backward:
    """How gradients flow back from some of the results, for any number of strands."""

    def __init__(self, weave: Weave, seeded: frozenset[int]) -> None:
        """seeded: indices of the results"""
        self.template = weave.template.seeded(frozenset([weave.locals[i] for i in seeded]))
        self.seeds = [i for i in weave.given if i in seeded]
        self.calls: dict[int, list[Any]] = {}
        #: Nodes that a pass from these results uses up.
        self.nodes = reached_nodes(weave, seeded)
        #: Whether a gradient of 0 gives gradients of 0.
        self.smooth = all(
            is_smooth(state.prim, state.program)
            for state in weave.pattern.ops
            if state.first in self.nodes
        )

    def bound_to(self, weave: Weave, n: int) -> list[Any]:
        """(types of all that it reads, of what it makes, machine code if it is there)."""
        found = self.calls.get(n)
        template = self.template
        function = template.backward
        if found is None:
            if len(self.calls) >= MOST_CALLS:
                self.calls.clear()
            types = template.gradient_types(weave.lifted(n), weave.numbers)
            made = function.made_types(types, weave.numbers) if function is not None else []
            found = self.calls[n] = [types, made, None]
        if found[2] is None and function is not None and function.plan is not None:
            try:
                found[2] = Call(function, found[0], weave.numbers)
            except LookupError:
                pass
        return found


def reached_nodes(weave: Weave, seeded: frozenset[int]) -> frozenset[int]:
    """First results of the ops that gradients of these values flow through."""
    found: set[int] = set()
    needed = set(seeded)
    for state in reversed(weave.pattern.ops):
        outs = range(state.first, state.first + state.n_out)
        if state.requires_grad and not needed.isdisjoint(outs):
            found.add(state.first)
            needed.update(state.operand_indices())
    return frozenset(found)


class Woven:
    """What the strands of one run leave for the backward pass (`PathGraph.later`)."""

    def __init__(
        self, weave: Weave, members: list[Batch], operands: list[Any], results: list[Any]
    ) -> None:
        self.weave = weave
        self.n = len(members)
        self.operands = operands
        self.results = results
        #: Per operand the value it is for all, or the values of all strands.
        self.sources: list[Any] = [
            members[0].values[entry.leaf] if on else [b.values[entry.leaf] for b in members]
            for entry, on in zip(weave.pattern.entries, weave.shared, strict=True)
        ]
        self.args = [batch.args for batch in members]
        #: All leaves, also those that nothing is read of but their extents.
        self.leaves = [[b.values[i] for i in weave.pattern.leaves] for b in members]
        self.seeds: dict[int, Any] = {}  # gradients of results, by index; and which rows have one
        self.rows: dict[int, Any] = {}
        self.spent: set[int] = set()  # nodes that passes through all strands have used up
        self.spent_in: dict[int, set[int]] = {}  # and through some, by strand
        states, stride, args = weave.pattern.states, weave.pattern.stride, self.args
        types = [[v.type for v in b.values] for b in members]
        self.types = types
        self.path = LazyPath(lambda: (copies_of(states, stride, args), flat(types), flat(args)))

    def note_depth(self, segment: Segment, batch: Batch) -> None:
        """Warn of a history that grows through flushes whose backward pass has run."""
        for source in self.sources:
            value = source[0] if type(source) is list else source
            older = value.segment
            if older is not None and older.structure.later is None:
                note_history(segment, batch)
                return

    def seed(self, i: int) -> Any:
        """Where gradients of a result are added up, a row for each strand."""
        found = self.seeds.get(i)
        if found is None:
            weave = self.weave
            array = self.results[weave.exported.index(i)]
            found = self.seeds[i] = np.zeros(array.shape, array.dtype)
            self.rows[i] = bytearray(self.n)
        return found

    def accept(self, owner: Any, number: int, g: Any) -> None:
        """Add to the gradient of a value of a strand."""
        r, i = divmod(number, self.weave.pattern.stride)
        view = self.weave.pattern.views.get(i)
        if view is not None:
            self.give_rows(
                owner, view, self.leaves[r][self.weave.pattern.leaves.index(view.leaf)], r, g
            )
            return
        seed = self.seed(i)[r, ...]
        np.add(seed, g, out=seed)
        self.rows[i][r] = 1

    def pass_on(self, owner: Any, segment: Segment, seeds: dict[int, Any]) -> bool:
        """Push gradients of results back to what the strands read; False if nodes are needed."""
        if not owner.plain() or segment.hooks or self.is_hooked():
            self.give_back(seeds)
            self.resolve(segment)
            return False
        if owner.ledger is None:
            owner.ledger = Ledger()
        for number, g in seeds.items():
            self.accept(owner, number, _hot.ensure(_hot.value_of(g)))
        parts = self.parts()
        for _, reached, known in parts:
            if not self.spent.isdisjoint(known.nodes) or any(
                not nodes.isdisjoint(known.nodes)
                for r, nodes in self.spent_in.items()
                if r in reached
            ):
                raise GraphError(FREED)
        with np.errstate(all="ignore"):
            for rows, reached, known in parts:
                self.run(owner, known, rows, reached)
                if not owner.retain:
                    self.use_up(segment, known.nodes, reached)
        self.seeds, self.rows = {}, {}
        return True

    def parts(self) -> list[tuple[Any, Any, Backward]]:
        """The strands that gradients have come to, by how they go on.

        (those to run, those of them that gradients have come to, how): others may be computed with
        zeros, where that gives zeros
        """
        if not self.rows:
            return []
        everything = range(self.n)
        marks = list(self.rows.values())
        if all(0 not in m for m in marks):
            return [(everything, everything, self.backward(frozenset(self.rows)))]
        known = self.backward(frozenset(self.rows))
        reached = [r for r in everything if any(m[r] for m in marks)]
        if known.smooth and 2 * len(reached) > self.n:
            return [(everything, reached, known)]
        found: dict[frozenset[int], list[int]] = {}
        for r in reached:
            seeded = frozenset([i for i, m in self.rows.items() if m[r]])
            found.setdefault(seeded, []).append(r)
        return [(rows, rows, self.backward(seeded)) for seeded, rows in found.items()]

    def backward(self, seeded: frozenset[int]) -> Backward:
        """How gradients flow back from these results."""
        found: Backward | None = self.weave.backward.get(seeded)
        if found is None:
            with CollectionPaused():
                found = self.weave.backward[seeded] = Backward(self.weave, seeded)
        return found

    def is_hooked(self) -> bool:
        """Whether users' code wants to see a leaf's gradient as soon as it is complete."""
        for entry, source in zip(self.weave.pattern.entries, self.sources, strict=True):
            if entry.role & 4:
                for v in source if type(source) is list else (source,):
                    if has_hooks(v.leaf):
                        return True
        return False

    def give_back(self, seeds: dict[int, Any]) -> None:
        """Gradients as handles, by number."""
        stride = self.weave.pattern.stride
        for i, array in self.seeds.items():
            for r, on in enumerate(self.rows[i]):
                if on:
                    g = np.array(array[r, ...])
                    dtype = self.types[r][i].dtype
                    type_ = _hot.intern_type(g.shape, dtype, self.types[r][i].device)
                    number, fresh = r * stride + i, _hot.wrap(_hot.held(type_, g))
                    seeds[number] = seeds[number] + fresh if number in seeds else fresh
        self.seeds, self.rows = {}, {}

    def use_up(self, segment: Segment, nodes: frozenset[int], rows: Any) -> None:
        """A second pass through these nodes of some strands finds them gone."""
        if len(rows) == self.n:
            self.spent |= nodes
        else:
            for r in rows:
                self.spent_in.setdefault(r, set()).update(nodes)
        everything = self.weave.n_differentiable
        if len(self.spent) == everything or (
            len(self.spent_in) == self.n
            and all(len(self.spent | own) == everything for own in self.spent_in.values())
        ):
            self.let_go(segment)

    def let_go(self, segment: Segment) -> None:
        """Nothing can be computed from here any more."""
        segment.structure.spend()
        inputs = segment.inputs
        slims: dict[Any, Any] = {}  # of parameters there is one for all strands
        for i, value in inputs.items():
            if value not in slims:
                slims[value] = slim(value)
            inputs[i] = slims[value]

    def run(self, owner: Any, known: Backward, rows: Any, reached: Any) -> None:
        """Run the backward function for some strands; hand on what it finds for those reached."""
        weave, n, template = self.weave, len(rows), known.template
        types, made_types, call = known.bound_to(weave, n)
        read = [*self.operands, *self.results, *[self.seeds[i] for i in known.seeds]]
        if n < self.n:
            read = [
                x[rows] if type(x) is np.ndarray and t.dims[:1] == (n,) and x.shape != t.dims else x
                for x, t in zip(read, types, strict=True)
            ]
        function = template.backward
        found: list[Any] = []
        if call is not None:
            made = [np.empty(t.dims, t.dtype.numpy) for t in made_types]
            everything = call.run(read, made)
            if everything is None:
                raise RuntimeError("a backward kernel noted a failure")
            found = [everything[p] for p in function.picks]  # type: ignore[union-attr]
        elif function is not None:
            found = function(list(read), types, weave.numbers)
        for k, g in zip(template.targets, found, strict=False):
            self.hand_on(owner, k, g, rows, reached)
        if template.late:
            made_too = iter(found[len(template.targets) :])
            kept = [read[i] if i >= 0 else next(made_too) for i in template.border]
            targets = [self.sources[k] for k in template.late]
            shared = [s for s in self.sources if type(s) is not list]
            owner.ledger.wait_for(template, kept, targets, weave.numbers, shared)

    def hand_on(self, owner: Any, k: int, g: Any, rows: Any, reached: Any) -> None:
        """Add to the gradient of what operand k shows.  g: a row for each of the strands `rows`"""
        source = self.sources[k]
        entry = self.weave.pattern.entries[k]
        if type(source) is not list:
            self.give(owner, source, np.asarray(g))
            return
        if rows is not reached and len(rows) > len(reached):
            g, rows = g[reached], reached
        if entry.prim is not None:
            for at, r in enumerate(rows):
                self.give_rows(owner, entry, source[r], r, g[at, ...])
            return
        targets: dict[Any, tuple[list[int], list[int]]] = {}
        for at, r in enumerate(rows):
            value = source[r]
            segment = value.segment
            later = None if segment is None else segment.structure.later
            if type(later) is Woven:
                there, i = divmod(value.seg_index, later.weave.pattern.stride)
                if i not in later.weave.pattern.views:
                    target = targets.get((segment, i))
                    if target is None:
                        target = targets[segment, i] = [], []
                    target[0].append(at)
                    target[1].append(there)
                    continue
            self.give(owner, value, g[at, ...])
        for (segment, i), (here, there) in targets.items():
            segment.structure.later.accept_rows(i, there, g if len(here) == len(rows) else g[here])
            owner.come_by(segment)

    def accept_rows(self, i: int, rows: list[int], g: Any) -> None:
        """Add to the gradients of one value of some strands, each of them once or several times."""
        seed = self.seed(i)
        if len(set(rows)) == len(rows):
            seed[rows] += g
        else:
            np.add.at(seed, rows, g)
        marks = self.rows[i]
        for r in rows:
            marks[r] = 1

    def give_rows(self, owner: Any, entry: Any, value: Any, r: int, g: Any) -> None:
        """Add to the gradient of some rows of a value from outside."""
        if value.leaf is None and value.segment is None:
            return
        at = entry.place(value, self.args[r]) // g.itemsize
        later = None if value.segment is None else value.segment.structure.later
        if type(later) is Woven and later.add_part(value.seg_index, at, g):
            owner.come_by(value.segment)
        elif value.leaf is None and type(later) is not Woven:
            owner.ledger.hand_on(owner, value, g, at)
        else:
            whole = np.zeros(value.type.dims, g.dtype)
            whole.reshape(-1)[at : at + g.size] = g.reshape(-1)
            self.give(owner, value, whole)

    def add_part(self, number: int, at: int, g: Any) -> bool:
        """Add to some elements of the gradient of a value of a strand; False if it is a view."""
        r, i = divmod(number, self.weave.pattern.stride)
        if i in self.weave.pattern.views:
            return False
        seed = self.seed(i)[r, ...].reshape(-1)[at : at + g.size]
        np.add(seed, g.reshape(-1), out=seed)
        self.rows[i][r] = 1
        return True

    def give(self, owner: Any, value: Any, g: Any) -> None:
        """Add to the gradient of a value from outside."""
        if value.leaf is not None:
            owner.ledger.add(value, g)
            return
        segment = value.segment
        if segment is None:
            return
        later = segment.structure.later
        if type(later) is not Woven:
            owner.ledger.hand_on(owner, value, g)
            return
        later.accept(owner, value.seg_index, g)
        owner.come_by(segment)

    def resolve(self, segment: Segment) -> None:
        """Compute once more, node by node, what the segment has to keep for its nodes.

        Raises GraphError if a pass has gone through a part of it.
        """
        if self.spent or self.spent_in:
            raise GraphError(FREED)
        path = segment.structure
        stride = self.weave.pattern.stride
        values = [_hot.held(t, None) for t in path.types]
        for r, leaves in enumerate(self.leaves):
            for i, value in zip(self.weave.pattern.leaves, leaves, strict=True):
                values[r * stride + i] = value
        roots = [
            r * stride + i for r in range(self.n) for i in (*self.weave.given, *self.weave.views)
        ]
        segment.types, segment.args = path.types, path.args
        compute_again(segment, values, roots)


def flat(rows: list[list[Any]]) -> list[Any]:
    """What is in several lists."""
    return [x for row in rows for x in row]


COPIED = (
    "prim", "mode", "out_type", "code", "user_code", "program", "outs", "lasti", "user_lasti",
    "n_in", "n_out", "requires_grad", "many",
)  # fmt: skip


def copies_of(states: list[Any], stride: int, args: list[list[Any]]) -> list[Any]:
    """The steps of a path, once for each of several strands, one behind the other."""
    found = []
    for r, own in enumerate(args):
        for state in states:
            copy = Record.__new__(Record)
            at = r * stride
            for name in COPIED:
                setattr(copy, name, getattr(state, name))
            copy.first = state.first + at
            copy.arg0 = state.arg0 + r * len(own)
            for name in ("i0", "i1", "i2"):
                i = getattr(state, name)
                setattr(copy, name, i if i < 0 else i + at)
            if state.rest is not None:
                copy.rest = tuple([i + at for i in state.rest])
            found.append(copy)
    return found
