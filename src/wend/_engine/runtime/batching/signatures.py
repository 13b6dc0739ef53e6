"""The rules by which ops form regions, decided once per structure when the native sorter asks.

A light op joins the region of its newest operand.  A heavy op joins that region if the region has
no heavy op yet.  A region goes *by rows* if all its ops do.  The rows of its members are then laid
end to end, whatever the numbers of rows.  Any other region is stacked by batching rules,
or its members run one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wend._engine.base import config
from wend._engine.base.devices import CPU, device
from wend._engine.base.shapes import contiguous_strides
from wend._engine.core._hot import Record, Value
from wend._engine.core._types import Program
from wend._engine.core.primitive import Primitive
from wend._engine.ops.placing import ToDevice
from wend._engine.runtime.batching import _grouper_select
from wend._engine.transforms.rows import (
    batches,
    holds_for,
    is_heavy,
    is_smooth,
    row_wise,
    with_rows,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wend._engine.runtime.batching._grouper import GroupNode

_grouper: ModuleType = _grouper_select.select()

#: Most nodes (also: offsets) and most templates that are kept; beyond these all are forgotten.
MOST_NODES = 20_000
MOST_TEMPLATES = 2048
#: Most nodes of an op behind the same node: numbers of draws, for example, never come twice.
MOST_ALIKE = 64
#: After so many flushes of new structure in a row, other executors run the next PAUSE flushes.
STRIKES = 4
PAUSE, MOST_PAUSE = 64, 512  # each pause is twice as long as the pause before, up to MOST_PAUSE
#: Flushes in a term, see `_grouper.GroupNode.mask`.  Masks are renewed, because a flush that was
#: cut short leaves values to the next flush that are never read outside of their region again.
TERM = 4
#: Larger operands (bytes) are not copied to lie side by side.
LARGEST_OPERAND = 1 << 18
STACK, ROW, SHARED = _grouper.STACK, _grouper.ROW, _grouper.SHARED
GRAD, OUTSIDE, LEAF, ANYWHERE = _grouper.GRAD, _grouper.OUTSIDE, _grouper.LEAF, _grouper.ANYWHERE
#: The role of a parameter.
PARAMETER = GRAD | OUTSIDE | LEAF


class Sorter(Protocol):
    """The regions of a flush, as far as the rules of regions ask: see `_grouper.Grouper`."""

    nodes: list[GroupNode]
    needed: Sequence[bool]

    def made_of(self, region: int, /) -> Sequence[int]:
        """The values of a region."""

    def operands_of(self, region: int, /) -> Sequence[int]:
        """The values from outside that a region reads."""

    def local_of(self, value: int, region: int, /) -> int:
        """The number of a value in a region; -1 if the value is not of that region."""

    def rows_of(self, region: int, /) -> int:
        """The number of rows of a region."""

    def role(self, value: int, leaf: Value, /) -> int:
        """The role of a value from outside."""


def words(n: int) -> NDArray[np.int64]:
    """Return uninitialised memory for n words."""
    return np.empty(n, np.int64)


_grouper.ASK["words"] = words


class Pauses:
    """Pauses in the search for structure that does not come back, each longer than the last."""

    def __init__(self, longest: int) -> None:
        """longest: most flushes of a pause"""
        self.longest = longest
        self.strikes = 0  # number of flushes in a row in which most structure was new
        self.pause = 0  # number of flushes that other executors are still to run
        self.next_pause = PAUSE

    def rests(self) -> bool:
        """Count a flush; return whether the flush falls into a pause."""
        if self.pause > 0:
            self.pause -= 1
            return True
        return False

    def go_on(self) -> None:
        """Note a flush whose structure was mostly known."""
        self.strikes = 0
        self.next_pause = PAUSE

    def strike(self) -> bool:
        """Note a flush whose structure was mostly new; return whether a pause begins."""
        self.strikes += 1
        if self.strikes < STRIKES:
            return False
        self.strikes = STRIKES - 1
        self.pause = self.next_pause
        self.next_pause = min(2 * self.next_pause, self.longest)
        return True


class RegionTrie(Pauses):
    """The trie of regions, as long as regions repeat."""

    def __init__(self, most_new: float, most_nodes: int, keeps: bool) -> None:
        """Begin an empty trie.

        most_new: the largest part of a flush's ops that may be new, if regions are to repeat
        most_nodes: most nodes that are kept
        keeps: whether nodes outlast flushes of new structure, and templates outlast their nodes
        """
        self.most_new, self.most_nodes, self.keeps = most_new, most_nodes, keeps
        #: By node of a single op, its `Cell`; None if the op cannot run on addresses.
        self.cells: dict[Any, Any] = {}
        super().__init__(MOST_PAUSE)
        self.flushes = 0  # number of flushes that were sorted
        self.templates: dict[Any, Any] = {}  # by structure, whatever the sizes
        self.compiles = True  # the setting `compile` that the templates were planned under
        #: Roots of tries that were forgotten: another thread may still be sorting a flush there.
        self.former: deque[Any] = deque(maxlen=16)
        self.root = _new_root()
        self.clear()

    def clear(self) -> None:
        """Forget all structure."""
        self.root.children.clear()
        self.former.append(self.root)
        self.root = _new_root()
        self.n = 0
        self.cells.clear()
        if not self.keeps or len(self.templates) > MOST_TEMPLATES:
            self.templates.clear()
        _grouper.OFFSETS.clear()
        _grouper.PLACES.clear()
        _grouper.REPEATED.clear()

    def begin(self) -> bool:
        """Prepare for sorting a flush; return whether sorting is worth the time."""
        if self.rests():
            return False
        if self.compiles != config.settings.compile:
            # Templates without machine code would never have any.
            self.compiles = config.settings.compile
            self.templates.clear()
            self.clear()
        if (
            self.n > self.most_nodes
            or len(_grouper.OFFSETS) > MOST_NODES
            or len(self.templates) > MOST_TEMPLATES
        ):
            self.clear()
        self.flushes += 1
        return True

    def learn(self, fresh: int, ops: int, on_trie: bool) -> bool:
        """Note how much of a sorted flush was new; return whether to run the flush by regions.

        A template pays when its structure comes back, in this flush or later.  A path on the trie
        gets a plan of its own on coming back: only this flush counts for such a path.

        fresh: the number of ops that had no node
        ops: the number of ops in the flush
        on_trie: whether the flush is a path on the trie
        """
        if fresh < self.most_new * ops:
            self.go_on()
            return True
        if on_trie:
            return False
        if not self.strike():
            return True
        if not self.keeps:
            self.clear()
        return False


def _new_root() -> Any:
    return _grouper.GroupNode(None, None, (), (), (), (), False, 0)


BOOK = RegionTrie(1 / 3, MOST_NODES, False)
#: The trie for flushes whose regions do not come back: each op is a region there.  The nodes are
#: few, because a node holds argument blocks.
SINGLES = RegionTrie(1 / 8, 500, True)
#: The tries of the flushes whose values lie on an accelerator: templates are for a device.
_ON_DEVICES: dict[device, RegionTrie] = {}


def book_at(place: device | None) -> RegionTrie:
    """Return the trie of regions of an accelerator; that of the processor if place is None."""
    if place is None:
        return BOOK
    if place not in _ON_DEVICES:
        _ON_DEVICES[place] = RegionTrie(1 / 3, MOST_NODES, False)
    return _ON_DEVICES[place]


def book_of(node: GroupNode) -> RegionTrie:
    """Return the trie that a node is in."""
    while node.parent is not None:
        node = node.parent
    tries = (BOOK, SINGLES, *_ON_DEVICES.values())
    return next(b for b in tries if b.root is node or any(root is node for root in b.former))


def code(prim: Any, state: Record) -> int:
    """Return the region code of an op: its class, as far as the operands do not matter."""
    if (
        prim.schedule.donates
        or prim.facts.labels_leaf
        or prim.facts.calls_user
        or not hasattr(prim, "params")
        # Groups of an accelerator make all values there: see `Forward.types_of`.
        or (isinstance(prim, ToDevice) and prim.place is CPU)
    ):
        return int(_grouper.UNSUITED)
    if prim.is_composite and any(
        node.prim.schedule.donates or node.prim.facts.calls_user
        for node in state.program.graph.nodes
    ):
        return int(_grouper.UNSUITED)
    if prim.is_view and getattr(prim, "dim", None) == 0:
        return int(_grouper.LEADING)
    if prim.joins_rows():
        return int(_grouper.JOIN)
    if any(entry != "T" and entry is not None and entry[0] == "L" for entry in prim.form):
        return int(_grouper.STARTER)
    return int(_grouper.PLAIN)


def repeats(prim: Primitive, state: Record) -> bool:
    """Whether an op gives the same each time for the same operands, and never fails."""
    prims = [prim]
    if prim.is_composite:
        prims += [node.prim for node in state.program.graph.nodes]
    return all(p.facts.pure and not p.facts.random and not p.facts.fallible for p in prims)


def offset(key: tuple[Any, ...]) -> int:
    """Return the byte where a view of leading rows begins; -1 if the op is no such dense view.

    key: (primitive, type of the operand, args)
    """
    prim, type_, args = key
    found = -1
    if prim.is_differentiable:
        _, (out,) = prim.typed([type_], list(args))
        dense = contiguous_strides(type_.dims)
        strides, first = prim.strides(type_.dims, dense, *prim.arrange([None], list(args))[1:])
        if out.nbytes > 0 and tuple(strides) == contiguous_strides(out.dims):
            found = first * type_.dtype.itemsize
    _grouper.OFFSETS[key] = found
    return found


def child(
    sorter: Sorter,
    parent: GroupNode,
    state: Record,
    ins: list[int],
    target: int,
    values: list[Any],
    args: list[Any],
) -> Any:
    """Return the node of an op behind the node `parent`.

    An op that does not join the region has a node, too, whose `joins` is False.

    ins: the op's operands
    target: the region
    """
    prim, program = state.prim, state.program
    types = [values[i].type for i in ins]
    outs = [values[state.first + k].type for k in range(state.n_out)]
    refs, fresh, n_operands = references(sorter, ins, target)
    roles = [sorter.role(i, values[i]) if r < 0 else 0 for i, r in zip(ins, refs, strict=True)]
    heavy = is_heavy(prim, program)
    begins = parent.parent is None
    book = book_of(parent)
    single = book is SINGLES
    empty = any(t.nbytes == 0 for t in (*types, *outs))
    rows: tuple[bool, ...] | None = None
    if not (single or empty) and (begins or parent.rows):
        n = sorter.rows_of(target) if not begins else -1
        rows = find_rows(prim, types, refs, roles, args, n, outs)
    stacked = (
        not (single or empty)
        and rows is None
        and batches(prim, program)
        and not too_large(types, ins, sorter, values)
    )
    # Regions that begin without operands differ by their numbers; the ops behind need not,
    # and so do not join.
    joins = begins or not (empty or (heavy and parent.heavy) or parent.n_operands == 0)
    if not begins:
        joins = joins and (stacked if not parent.rows else rows is not None)
        joins = joins and not (state.requires_grad and is_cut_off(parent, refs))
    kinds: list[int] = [0] * len(ins)
    kept: list[Any] = [None] * len(ins)
    for k in fresh:
        role = roles[k] & GRAD | ANYWHERE if single else roles[k]
        if rows is not None:
            how = ROW if rows[k] else SHARED
        elif stacked and role & PARAMETER != PARAMETER and (begins or not parent.rows):
            how = STACK
        else:
            how = SHARED
        kinds[k] = how | role << _grouper.ROLE_SHIFT
        kept[k] = with_rows(types[k], 0) if how == ROW else types[k]
    node = _grouper.GroupNode(
        parent, prim, tuple(refs), tuple(kinds), tuple(kept), tuple(args), state.requires_grad,
        state.n_out, program, None if single else free_args(prim, program),
    )  # fmt: skip
    siblings = parent.children.get(prim, [])
    if len(siblings) >= MOST_ALIKE:
        book.n -= len(siblings)
        for sibling in siblings:
            book.cells.pop(sibling, None)
        siblings.clear()
    book.n += 1
    node.joins = joins
    node.rows = rows is not None
    node.single = begins and rows is None and not stacked
    node.heavy = heavy or (not begins and parent.heavy)
    node.smooth = is_smooth(prim, program) and (begins or parent.smooth)
    node.shared = (*parent.shared, *[how_of(kinds[k]) == SHARED for k in fresh])
    node.n_operands = n_operands
    node.severed = severed_in(node) if node.flows else None
    return node


def free_args(prim: Primitive, program: Program) -> tuple[bool, ...] | None:
    """Return by arg of a draw whether the arg may be any number; None for any further op.

    A draw is a group by itself.  Its seed and offset differ from draw to draw, and sizes are no
    such numbers.
    """
    prims = [node.prim for node in program.graph.nodes] if prim.is_composite else []
    if not any(p.facts.random for p in (prim, *prims)):
        return None
    return tuple([not is_size for is_size in prim.size_mask])


def is_cut_off(region: GroupNode, refs: list[int]) -> bool:
    """Whether no gradient flows from an op behind a region into the region, but for a `detach`.

    A backward pass goes through all of a region. It may not use up a value that was detached.

    refs: see `references`
    """
    wanting = [op.grad for op in ops_of(region) for _ in range(op.n_out)]
    return any(wanting) and not any(wanting[ref] for ref in refs if ref >= 0)


def severed_in(node: GroupNode) -> frozenset[int] | None:
    """Return the operands that get no gradients: that of a `detach`, say, or its result.

    A region that makes such an operand has no part in a backward pass because of this region.
    None if there are no such operands.
    """
    behind: list[set[int]] = []  # by value of the region: the operands that its gradient flows to
    wanting: set[int] = set()
    for op in ops_of(node):
        found: set[int] = set()
        for ref, kind in zip(op.refs, op.kinds, strict=True):
            if ref >= 0:
                found |= behind[ref]
            else:
                found.add(-1 - ref)
                if role_of(kind) & GRAD:
                    wanting.add(-1 - ref)
        behind += [found if op.grad else set()] * op.n_out
    flowing = wanting.intersection(set().union(*behind))
    return frozenset(range(node.n_operands)) - flowing or None


def references(sorter: Sorter, ins: list[int], target: int) -> tuple[list[int], list[int], int]:
    """Return (`GroupNode.refs` of an op, places of operands new to the region, number of operands).

    ins: the op's operands
    target: the region
    """
    operands = {at: k for k, at in enumerate(sorter.operands_of(target))}
    refs: list[int] = []
    fresh: list[int] = []
    for k, i in enumerate(ins):
        local = sorter.local_of(i, target)
        if local >= 0:
            refs.append(local)
            continue
        if i not in operands:
            operands[i] = len(operands)
            fresh.append(k)
        refs.append(-1 - operands[i])
    return refs, fresh, len(operands)


def how_of(kind: int) -> int:
    """Return how an operand enters a region: STACK, ROW or SHARED."""
    return kind & int(_grouper.HOW)


def role_of(kind: int) -> int:
    """Return the role of an operand from outside of a region: see `Grouper.role`."""
    return kind >> int(_grouper.ROLE_SHIFT)


def find_rows(
    prim: Primitive, types: list[Any], refs: list[int], roles: list[int], args: list[Any], n: int,
    outs: list[Any],
) -> tuple[bool, ...] | None:  # fmt: skip
    """Return which operands go row by row; None if the op does not go by rows.

    n: number of rows of the region, or -1 at the beginning of a region
    """
    if any(len(t.dims) == 0 or t.dims[0] == 0 for t in outs):
        return None
    if n < 0:
        n = outs[0].dims[0]
    if any(t.dims[0] != n for t in outs):
        return None
    # A parameter with n rows, too, is more likely shared by all members: try that first.
    for parameters in (False, True):
        rows = tuple(
            [
                r >= 0
                or (
                    len(t.dims) > 0
                    and t.dims[0] == n
                    and (role != PARAMETER or (parameters and n > 1))
                )
                for t, r, role in zip(types, refs, roles, strict=True)
            ]
        )
        if (
            True in [on and role != PARAMETER for on, role in zip(rows, roles, strict=True)]
            and row_wise(prim, types, rows, args)
            and holds_for(prim, types, rows, args, 2 * n + 3, outs)
        ):
            return rows
    return None


def too_large(types: list[Any], ins: list[int], sorter: Sorter, values: list[Any]) -> bool:
    """Whether an operand is too large to be copied next to those of other members."""
    return any(
        t.nbytes > LARGEST_OPERAND and sorter.role(i, values[i]) != PARAMETER
        for t, i in zip(types, ins, strict=True)
    )


def ops_of(node: GroupNode) -> list[Any]:
    """Return the nodes of a region, in order."""
    found = []
    while node.parent is not None:
        found.append(node)
        node = node.parent
    found.reverse()
    return found


_grouper.ASK["code"] = code
_grouper.ASK["offset"] = offset
_grouper.ASK["repeats"] = repeats
_grouper.ASK["child"] = child
