"""What regions may look like: decided once per structure, in answer to the sorter's questions.

An op joins the region of its newest operand if it is light, or heavy and the first heavy one there.
A region goes *by rows* if all of its ops do: then its members' rows are laid one behind the other,
whatever their numbers.  Other regions are stacked, by batching rules, or run one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wend.base.shapes import contiguous_strides
from wend.runtime.batching import _grouper_select
from wend.transforms.rows import batches, holds_for, is_heavy, is_smooth, row_wise, with_rows

_grouper: Any = _grouper_select.select()

#: Nodes (offsets, templates) kept; beyond that all are forgotten.
MOST_NODES = 20_000
MOST_TEMPLATES = 2048
#: After so many flushes of new structure, so many are left to others.
STRIKES = 4
PAUSE, MOST_PAUSE = 64, 512  # each time twice as many
#: So many flushes are a term, see `_grouper.GroupNode.mask`: a flush that was cut short leaves
#: values to the next one that are never read outside again.
TERM = 4
#: Operands larger than this (bytes) are not copied together.
LARGEST_OPERAND = 1 << 18
STACK, ROW, SHARED = 0, 1, 2
LEAF_GRAD = 1 | 2 | 4
#: In place of 2 and 4, where an op is the same whoever made its operand: nothing is laid together,
#: and no gradient waits for others. Every op would be planned for each combination.
ANYWHERE = 8


def words(n: int) -> Any:
    """Memory for n words, with anything in them."""
    return np.empty(n, np.int64)


_grouper.ASK["words"] = words


class RegionTrie:
    """The trie of regions, as long as regions repeat."""

    def __init__(self, most_new: float, most_nodes: int, keeps: bool) -> None:
        """most_new: of the ops of a flush, if it is to be sorted again     most_nodes: kept

        keeps: nodes outlast flushes of new structure, and templates their nodes
        """
        self.most_new, self.most_nodes, self.keeps = most_new, most_nodes, keeps
        #: What the nodes of single ops run on addresses; None where that is not possible.
        self.cells: dict[Any, Any] = {}
        self.flushes = 0  # that were sorted
        self.strikes = 0  # flushes, one after another, in which most was new
        self.pause = 0  # flushes to be left to others
        self.next_pause = PAUSE
        self.templates: dict[Any, Any] = {}  # by structure, whatever the sizes
        self.clear()

    def clear(self) -> None:
        """Forget all structure."""
        self.root = _grouper.GroupNode(None, None, (), (), (), (), False, 0)
        self.n = 0
        self.cells.clear()
        if not self.keeps or len(self.templates) > MOST_TEMPLATES:
            self.templates.clear()
        _grouper.OFFSETS.clear()
        _grouper.PLACES.clear()

    def begin(self) -> bool:
        """Before a flush is sorted; whether it is worth it."""
        if self.pause > 0:
            self.pause -= 1
            return False
        if (
            self.n > self.most_nodes
            or len(_grouper.OFFSETS) > MOST_NODES
            or len(self.templates) > MOST_TEMPLATES
        ):
            self.clear()
        self.flushes += 1
        return True

    def learn(self, fresh: int, ops: int, on_trie: bool) -> bool:
        """After sorting so many ops, so many of which had no node; whether to go on.

        What is made for a structure pays when the structure comes back, in this flush or later.
        A path on the trie has a plan of its own if it comes back: for it, only this flush counts.
        """
        if fresh < self.most_new * ops:
            self.strikes = 0
            self.next_pause = PAUSE
            return True
        if on_trie:
            return False
        self.strikes += 1
        if self.strikes < STRIKES:
            return True
        self.strikes = STRIKES - 1
        self.pause = self.next_pause
        self.next_pause = min(2 * self.next_pause, MOST_PAUSE)
        if not self.keeps:
            self.clear()
        return False


BOOK = RegionTrie(1 / 3, MOST_NODES, False)
#: Of flushes of which not even the regions come back: there each op is a region (see `alone`).
#: It is there that sizes count: a node holds argument blocks.
SINGLES = RegionTrie(1 / 8, 500, True)


def code(prim: Any, state: Any) -> int:
    """What an op is, before its operands are looked at."""
    if prim.donates or prim.labels_leaf or prim.calls_user or not hasattr(prim, "params"):
        return int(_grouper.UNSUITED)
    if prim.is_composite and any(
        node.prim.donates or node.prim.calls_user for node in state.program.graph.nodes
    ):
        return int(_grouper.UNSUITED)
    if prim.is_view and getattr(prim, "dim", None) == 0:
        return int(_grouper.LEADING)
    if prim.joins_rows():
        return int(_grouper.JOIN)
    if any(entry != "T" and entry is not None and entry[0] == "L" for entry in prim.form):
        return int(_grouper.STARTER)
    return int(_grouper.PLAIN)


def offset(key: tuple[Any, ...]) -> int:
    """Where a view of some rows begins, in bytes; -1 if it is not to be taken for one."""
    prim, type_, args = key
    found = -1
    if len(type_.dims) >= 2 and prim.is_differentiable:
        _, (out,) = prim.typed([type_], list(args))
        dense = contiguous_strides(type_.dims)
        strides, first = prim.strides(type_.dims, dense, *prim.arrange([None], list(args))[1:])
        if out.nbytes > 0 and tuple(strides) == contiguous_strides(out.dims):
            found = first * type_.dtype.itemsize
    _grouper.OFFSETS[key] = found
    return found


def child(
    sorter: Any,
    parent: Any,
    state: Any,
    ins: list[int],
    target: int,
    values: list[Any],
    args: list[Any],
) -> Any:
    """The node of an op behind others; one that says it does not join is a node too."""
    prim, program = state.prim, state.program
    types = [values[i].type for i in ins]
    operands = {at: k for k, at in enumerate(sorter.operands_of(target))}
    refs: list[int] = []
    fresh: list[int] = []  # positions of operands that are new to the region
    for k, i in enumerate(ins):
        local = sorter.local_of(i, target)
        if local >= 0:
            refs.append(local)
        else:
            if i not in operands:
                operands[i] = len(operands)
                fresh.append(k)
            refs.append(-1 - operands[i])
    outs = [values[state.first + k].type for k in range(state.n_out)]
    heavy = is_heavy(prim, program)
    begins = parent.parent is None
    single = parent is SINGLES.root
    # What is made of nothing differs by its numbers; what is done with it need not.
    joins = begins or not ((heavy and parent.heavy) or parent.n_operands == 0)
    rows: tuple[bool, ...] | None = None
    if not single and (begins or parent.rows):
        n = sorter.rows_of(target) if not begins else -1
        roles = [sorter.role(i, values[i]) if r < 0 else 0 for i, r in zip(ins, refs)]
        rows = find_rows(prim, types, refs, roles, args, n, outs)
        joins = joins and (begins or rows is not None)
    stacked = (
        not single
        and rows is None
        and batches(prim, program)
        and not too_large(types, ins, sorter, values)
    )
    if not begins and not parent.rows:
        joins = joins and stacked
    if any(t.nbytes == 0 for t in (*types, *outs)):
        joins = begins
        rows, stacked = None, False
    kinds: list[int] = []
    kept: list[Any] = []
    new = set(fresh)
    for k, i in enumerate(ins):
        if refs[k] >= 0 or k not in new:
            kinds.append(0)
            kept.append(None)
            continue
        role = sorter.role(i, values[i])
        if single:
            role = role & 1 | ANYWHERE
        if rows is not None:
            kind = ROW if rows[k] else SHARED
        else:
            kind = SHARED if not begins and parent.rows else STACK
            if role & LEAF_GRAD == LEAF_GRAD or not stacked:
                kind = SHARED
        kinds.append(kind | role << 2)
        kept.append(with_rows(types[k], 0) if kind == ROW else types[k])
    node = _grouper.GroupNode(
        parent, prim, tuple(refs), tuple(kinds), tuple(kept), tuple(args), state.requires_grad,
        state.n_out,
    )  # fmt: skip
    (SINGLES if single else BOOK).n += 1
    node.joins = joins
    node.rows = rows is not None
    node.single = begins and rows is None and not stacked
    node.heavy = heavy or (not begins and parent.heavy)
    node.smooth = is_smooth(prim, program) and (begins or parent.smooth)
    node.shared = (*parent.shared, *[kinds[k] & 3 == SHARED for k in fresh])
    node.n_operands = len(operands)
    return node


def find_rows(
    prim: Any, types: list[Any], refs: list[int], roles: list[int], args: list[Any], n: int,
    outs: list[Any],
) -> tuple[bool, ...] | None:  # fmt: skip
    """Which operands go row by row; None if the op does not.  n: rows of the region, or -1."""
    if any(len(t.dims) == 0 or t.dims[0] == 0 for t in outs):
        return None
    if n < 0:
        n = outs[0].dims[0]
    if any(t.dims[0] != n for t in outs):
        return None
    # A parameter of as many rows is more likely the same for all.
    for parameters in (False, True):
        rows = tuple(
            [
                r >= 0
                or (
                    len(t.dims) > 0
                    and t.dims[0] == n
                    and (role != LEAF_GRAD or (parameters and n > 1))
                )
                for t, r, role in zip(types, refs, roles, strict=True)
            ]
        )
        if (
            True in [on and role != LEAF_GRAD for on, role in zip(rows, roles, strict=True)]
            and row_wise(prim, types, rows, args)
            and holds_for(prim, types, rows, args, 2 * n + 3, outs)
        ):
            return rows
    return None


def too_large(types: list[Any], ins: list[int], sorter: Any, values: list[Any]) -> bool:
    """Whether an operand is better not copied."""
    return any(
        t.nbytes > LARGEST_OPERAND and sorter.role(i, values[i]) != LEAF_GRAD
        for t, i in zip(types, ins, strict=True)
    )


def ops_of(node: Any) -> list[Any]:
    """The nodes of a region, in order."""
    found = []
    while node.parent is not None:
        found.append(node)
        node = node.parent
    found.reverse()
    return found


_grouper.ASK["code"] = code
_grouper.ASK["offset"] = offset
_grouper.ASK["child"] = child
