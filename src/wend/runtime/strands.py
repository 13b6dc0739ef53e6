"""Turns of many fibers, run together: those that took the same path are one batch.

What a fiber records between two stops is a path of its own, a *strand*, and hangs in the trie as
any other.  Strands that end in one state did the same, on operands of the same types: a `Weave`
runs them as one, the path put over an axis of strands by the batching rules.  To find it is one
lookup per strand, whatever the number of ops.  What is the same for all (parameters) is read where
it lies.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wend.base.collecting import CollectionPaused
from wend.core import _hot
from wend.core._hot import Batch, LeafPrimitive
from wend.runtime import _launch_select, _sort_select
from wend.runtime.execution import structure_key
from wend.runtime.families import MOST_CALLS, bound
from wend.runtime.structure import (
    BOOK,
    LARGEST_OPERAND,
    SHARED,
    STACK,
    code,
    offset,
    ops_of,
)
from wend.runtime.templates import Template
from wend.transforms.hooks import retaining
from wend.transforms.rows import batches as has_batching_rules

_sort: Any = _sort_select.select()
_launch: Any = _launch_select.select()

#: How often a path must have been taken before: what never comes back is not worth a weave.
PASSED = 8
#: What a state keeps its weaves under, among its plans.
KEY = "weaves"
#: Structures of one path (by types, sizes, what is shared) that are kept.
MOST_WEAVES = 64


class Entry:
    """An operand from outside: a leaf, or rows of one that a view shows, which are an address."""

    __slots__ = ("arg0", "index", "leaf", "n_args", "prim", "role")

    def __init__(self, index: int, leaf: int, role: int, view: Any = None) -> None:
        self.index = index
        self.leaf = leaf
        self.role = role
        self.prim = None if view is None else view.prim
        self.arg0 = 0 if view is None else view.arg0
        self.n_args = 0 if view is None else len(view.prim.size_mask)

    def place(self, value: Any, args: list[Any]) -> int:
        """From which byte of a leaf's value the view shows it; -1 if it is not dense."""
        key = (self.prim, value.type, tuple(args[self.arg0 : self.arg0 + self.n_args]))
        found = _sort.OFFSETS.get(key)
        return offset(key) if found is None else int(found)

    def shown(self, batch: Batch) -> Any:
        """The rows as an array."""
        value = batch.values[self.leaf]
        if value.extra is not None:
            value = _hot.held(value.type, np.array(value.buffer, order="C"))
        type_ = batch.values[self.index].type
        base = np.ascontiguousarray(value.buffer)
        at = self.place(value, batch.args) // type_.dtype.itemsize
        count = type_.nbytes // type_.dtype.itemsize
        return base.reshape(-1)[at : at + count].reshape(type_.dims)


class Pattern:
    """A path, and the values of it that are wanted: what its strands have in common but types."""

    def __init__(self, batch: Batch, live: list[int]) -> None:
        self.live = live
        self.states = batch.states
        self.stride = len(batch.values)
        self.leaves: list[int] = []
        self.ops: list[Any] = []
        self.entries: list[Entry] = []
        self.args: list[int] = []  # places of the run-time args that are not part of an address
        self.views: dict[int, Entry] = {}  # that are wanted, by index
        self.weaves: dict[Any, Weave | None] = {}
        self.suited = self._read(batch, set(live))

    def _read(self, batch: Batch, live: set[int]) -> bool:
        """Sort the steps into operands and ops; False if others have to run them."""
        roles: dict[int, int] = {}
        views: dict[int, Entry] = {}
        entered: set[int] = set()
        for state in self.states:
            prim, first = state.prim, state.first
            if isinstance(prim, LeafPrimitive):
                value = batch.values[first]
                self.leaves.append(first)
                roles[first] = 2 | value.requires_grad | (4 if value.leaf is not None else 0)
                continue
            if state.is_step or state.mode.recompute or code(prim, state) == _sort.UNSUITED:
                return False
            ins = state.operand_indices()
            if ins and ins[0] in roles and is_leading(prim):
                view = Entry(first, ins[0], roles[ins[0]] & 3, state)
                if view.place(batch.values[ins[0]], batch.args) >= 0:
                    views[first] = view
                    if first in live:
                        self.views[first] = view
                    continue
            if not has_batching_rules(prim, state.program):
                return False
            for i in ins:
                if i in entered or (i not in roles and i not in views):
                    continue
                entered.add(i)
                self.entries.append(views.get(i) or Entry(i, i, roles[i]))
            self.ops.append(state)
            self.args.extend(range(state.arg0, state.arg0 + len(prim.size_mask)))
        self.made = [i for i in self.live if i not in views]
        return bool(self.made)

    def signature(self, batch: Batch) -> Any:
        """What tells strands of one path apart: the types they read, and numbers."""
        values, args = batch.values, batch.args
        types = tuple([values[entry.index].type for entry in self.entries])
        if not self.args:
            return types
        return types, repr([args[k] for k in self.args])

    def weave(self, signature: Any, members: list[Batch]) -> Weave | None:
        """How these strands are run; None if others have to."""
        first = members[0].values
        shared = []
        for entry in self.entries:
            at = entry.leaf
            v = first[at]
            shared.append(entry.prim is None and all(b.values[at] is v for b in members))
        key = (signature, tuple(shared))
        found = self.weaves.get(key, self)
        if found is self:
            if len(self.weaves) >= MOST_WEAVES:
                self.weaves.clear()
            with CollectionPaused():
                found = self.weaves[key] = make_weave(self, members, key[1])
        return found  # type: ignore[return-value]


def is_leading(prim: Any) -> bool:
    """Whether an op shows some rows of its operand."""
    return bool(prim.is_view) and getattr(prim, "dim", None) == 0


def make_weave(pattern: Pattern, members: list[Batch], shared: tuple[bool, ...]) -> Weave | None:
    """A weave of new structure."""
    values = members[0].values
    for entry, on in zip(pattern.entries, shared, strict=True):
        type_ = values[entry.index].type
        if type_.nbytes == 0 or (not on and type_.nbytes > LARGEST_OPERAND):
            return None
    if False not in shared or any(values[i].type.nbytes == 0 for i in pattern.live):
        return None
    return Weave(pattern, members[0], shared, len(members))


class Call:
    """A function of a template in machine code, for operands of certain types."""

    def __init__(self, function: Any, types: list[Any], numbers: list[Any]) -> None:
        """Raises LookupError if there is no machine code (yet), or a part of it is none."""
        self.frame, self.made, self.numbers = bound(function, types, numbers)

    def run(self, operands: list[Any], made: list[Any]) -> list[Any] | None:
        """Compute; returns the arrays of operands (arrays, or values) and of what is made.

        None if another way has to be found.
        """
        arrays = [x if type(x) is np.ndarray else x.buffer for x in operands]
        arrays += made
        table = [_launch.address_of(a) for a in arrays]
        if -1 in table:
            return None
        values = [None if type(x) is np.ndarray else x for x in operands]
        values += [None] * len(made)
        words = np.array(table, np.int64)
        at = _launch.address_of(words)
        done = _launch.launch_at(self.frame, self.made, at, values, self.numbers)
        return arrays if done == 1 else None


class Bound:
    """A weave for a certain number of strands."""

    def __init__(self, weave: Weave, n: int) -> None:
        template = weave.template
        self.types = weave.lifted(n)
        self.made = template.forward.made_types(self.types, weave.numbers)
        self.call: Call | None = None

    def ready(self, weave: Weave) -> Call | None:
        """The machine code, once it is there."""
        if self.call is None:
            try:
                self.call = Call(weave.template.forward, self.types, weave.numbers)
            except LookupError:
                return None
        return self.call


class Weave:
    """Strands of one structure, run as one.

    exported   the values that are wanted, in the order of the template's results
    """

    def __init__(self, pattern: Pattern, batch: Batch, shared: tuple[bool, ...], n: int) -> None:
        self.pattern = pattern
        self.shared = shared
        self.node, locals_ = region_of(pattern, batch, shared)
        self.types = [batch.values[entry.index].type for entry in pattern.entries]
        mask = sum(1 << locals_[i] for i in pattern.made)
        self.exported = sorted(pattern.made, key=locals_.__getitem__)
        grad = any(batch.values[i].requires_grad for i in pattern.made)
        nodes = ops_of(self.node)
        self.numbers = [a for op in nodes for a in op.args]
        key = ("strands", structure_key(nodes, self.types), shared, mask, grad)
        found: Template | None = BOOK.templates.get(key)
        if found is None:
            found = BOOK.templates[key] = Template(
                self.node, self.types, n, mask, grad, at_once=False
            )
        self.template = found
        self.given = [i for i, on in zip(self.exported, self.template.given, strict=True) if on]
        if self.template.body is None:
            self.given = []
        #: The views that a gradient may come to, and whether a backward pass may start here.
        self.views = [i for i in pattern.views if batch.values[i].requires_grad]
        self.open = bool(self.given or self.views)
        self.locals = locals_
        self.n_differentiable = sum(state.requires_grad for state in pattern.ops)
        self.bound: dict[int, Bound] = {}
        self.backward: dict[frozenset[int], Any] = {}
        self.sizes = [t.nbytes for t in self.types]

    def lifted(self, n: int) -> list[Any]:
        """The types of the operands of n strands."""
        return [
            t if on else _hot.intern_type((n, *t.dims), t.dtype, t.device)
            for t, on in zip(self.types, self.shared, strict=True)
        ]

    def bound_to(self, n: int) -> Bound:
        """What depends on the number of strands."""
        found = self.bound.get(n)
        if found is None:
            if len(self.bound) >= MOST_CALLS:
                self.bound.clear()
            found = self.bound[n] = Bound(self, n)
        return found

    def gather(self, members: list[Batch], at: Bound) -> list[Any]:
        """The operands: values that are the same for all, or arrays of the strands' own."""
        found: list[Any] = []
        first = members[0].values
        copy_bytes, address_of = _sort.copy_bytes, _launch.address_of
        for k, entry in enumerate(self.pattern.entries):
            leaf = entry.leaf
            if self.shared[k]:
                v = first[leaf]
                found.append(v if v.extra is None else np.array(v.buffer, order="C"))
                continue
            type_, size = at.types[k], self.sizes[k]
            array = np.empty(type_.dims, type_.dtype.numpy)
            target = address_of(array)
            for batch in members:
                v = batch.values[leaf]
                source = address_of(v.buffer)
                if source == -1:
                    kept = np.ascontiguousarray(v.buffer)
                    source = address_of(kept)
                if entry.prim is not None:
                    source += entry.place(v, batch.args)
                copy_bytes(target, source, size)
                target += size
            found.append(array)
        return found

    def run(self, members: list[Batch]) -> tuple[list[Any], list[Any]] | None:
        """Compute the wanted values of some strands; None if others have to.

        Returns (operands, results): what a backward pass reads.
        """
        n = len(members)
        at = self.bound_to(n)
        operands = self.gather(members, at)
        results = self.compute(at, operands)
        if results is None:
            return None
        for i, array in zip(self.exported, results, strict=False):
            for r, batch in enumerate(members):
                batch.values[i].buffer = array[r, ...]
        for i, entry in self.pattern.views.items():
            for batch in members:
                batch.values[i].buffer = entry.shown(batch)
        return operands, results

    def compute(self, at: Bound, operands: list[Any]) -> list[Any] | None:
        """The arrays of the template's results."""
        function = self.template.forward
        call = at.ready(self)
        if call is None:
            found: list[Any] = function(operands, at.types, self.numbers)
            return [np.ascontiguousarray(a).reshape(a.shape) for a in found]
        arrays = call.run(operands, [np.empty(t.dims, t.dtype.numpy) for t in at.made])
        if arrays is None:
            return None
        return [arrays[p] for p in function.picks]


def region_of(
    pattern: Pattern, batch: Batch, shared: tuple[bool, ...]
) -> tuple[Any, dict[int, int]]:
    """A path as the region that templates are made of; and its values' numbers there."""
    node = _sort.Node(None, None, (), (), (), (), False, 0)
    places = {entry.index: k for k, entry in enumerate(pattern.entries)}
    locals_: dict[int, int] = {}
    entered: set[int] = set()
    for state in pattern.ops:
        refs: list[int] = []
        kinds: list[int] = []
        types: list[Any] = []
        for i in state.operand_indices():
            if i in locals_:
                refs.append(locals_[i])
            else:
                refs.append(-1 - places[i])
            if i in locals_ or i in entered:
                kinds.append(0)
                types.append(None)
                continue
            entered.add(i)
            k = places[i]
            kinds.append((SHARED if shared[k] else STACK) | pattern.entries[k].role << 2)
            types.append(batch.values[i].type)
        args = batch.args[state.arg0 : state.arg0 + len(state.prim.size_mask)]
        for k in range(state.n_out):
            locals_[state.first + k] = node.n_values + k
        node = _sort.Node(
            node, state.prim, tuple(refs), tuple(kinds), tuple(types), tuple(args),
            state.requires_grad, state.n_out,
        )  # fmt: skip
        node.n_operands = len(entered)
        node.smooth = True
    node.shared = shared
    return node, locals_


def pattern_of(batch: Batch, live: list[int]) -> Pattern | None:
    """What a strand has in common with others; None if it has to be run by itself."""
    state = batch.state
    if state is None or state.passed < PASSED or batch.extra is not None or retaining():
        return None
    plans = state.plans
    if plans is None:
        plans = state.plans = {}
    known = plans.get(KEY)
    if known is None:
        known = plans[KEY] = {}
    key = tuple(live)
    found: Pattern | None = known.get(key)
    if found is None:
        found = known[key] = Pattern(batch, live)
    return found if found.suited else None
