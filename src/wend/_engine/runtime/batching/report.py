"""A report of the last flushes that ran by groups: groups, copied operands, and reasons.

Loaded when a report is asked for; `noted.py` has the records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wend._engine.core._types import LeafPrimitive, TensorType
from wend._engine.core.provenance import step_site
from wend._engine.runtime.batching.noted import Noted, why_apart
from wend._engine.runtime.batching.signatures import LARGEST_OPERAND, ROW, SHARED, how_of, ops_of
from wend._engine.transforms.rows import with_rows

if TYPE_CHECKING:
    from wend._engine.runtime.batching._grouper import GroupNode


@dataclass
class Grouped:
    """Ops that ran together: the same ops of `members` members, on `rows` rows together."""

    ops: list[str]
    line: str
    members: int
    rows: int
    how: str  # "by rows", "stacked", "once", "alone", "op by op" or "each by its own plan"
    gathered: list[tuple[tuple[int, ...], int]] = field(default_factory=list)  # shape, bytes
    shared: int = 0  # number of operands that all members read in place
    why: str = ""  # why the group was not batched
    reads: list[int] = field(default_factory=list)  # groups whose results this group reads


@dataclass
class Flushed:
    """The groups of a flush, in the order of running."""

    n_ops: int
    groups: list[Grouped]
    why: str = ""  # why the flush ran op by op

    @property
    def gathered(self) -> int:
        """The number of bytes that were copied so that rows lie side by side."""
        return sum(size for group in self.groups for _, size in group.gathered)


def flushed(noted: Noted) -> Flushed:
    """Return the report of a flush."""
    listed = noted.listed()
    states, starts = noted.states, [state.first for state in noted.states]

    def line(value: int) -> str:
        k = bisect_right(starts, value) - 1
        return str(step_site(states, noted.sites, k))

    n_ops = sum(not isinstance(state.prim, LeafPrimitive) for state in states)
    groups = []
    for node, members, rows, alone, first in listed:
        if isinstance(node, str):
            how = "op by op"
            why = "" if members > 1 else "nothing like it was ready with it"
            groups.append(Grouped([node], line(first), members, members, how, why=why))
        elif node is None:
            ops = [state for state in states if not isinstance(state.prim, LeafPrimitive)]
            found = Grouped([op.prim.name for op in ops], line(ops[0].first), members, members, "")
            found.how, found.why = "each by its own plan", why_apart(states)
            groups.append(found)
        else:
            groups.append(of_region(node, members, rows, alone, line(first)))
    if noted.owners is not None:
        for group, reads in zip(groups, reads_of(noted, noted.owners(), len(listed)), strict=True):
            group.reads = reads
    return Flushed(n_ops, groups, noted.why or "")


def reads_of(noted: Noted, owners: dict[int, int], n: int) -> list[list[int]]:
    """Return for each of n groups the groups whose results are read.

    A group also counts as read through views and further ops that are in no group.
    """
    found: list[set[int]] = [set() for _ in range(n)]
    behind: dict[int, set[int]] = {}  # by value of no group: the groups that the value depends on
    for inputs, outputs in operands(noted):
        sources: set[int] = set()
        for i in inputs:
            sources |= {owners[i]} if i in owners else behind.get(i, sources)
        for o in outputs:
            if o in owners:
                found[owners[o]] |= sources - {owners[o]}
            else:
                behind[o] = sources
    return [sorted(reads) for reads in found]


def operands(noted: Noted) -> Iterator[tuple[Iterable[int], Iterable[int]]]:
    """Yield (operands, results) of the ops of a flush, in order."""
    for step in noted.steps:
        yield step.inputs, step.outputs
    if not noted.steps:
        for state in noted.states:
            yield state.operand_indices(), range(state.first, state.first + state.n_out)


def of_region(node: GroupNode, members: int, rows: int, alone: bool, line: str) -> Grouped:
    """Return the report of a group of regions that end in the same node."""
    ops = ops_of(node)
    found = Grouped([op.prim.name for op in ops], line, members, rows, "by rows")
    for op in ops:
        for kind, type_ in zip(op.kinds, op.types, strict=True):
            if type_ is None:
                continue
            if alone or how_of(kind) == SHARED:
                found.shared += 1
            elif how_of(kind) == ROW:
                found.gathered.append(sized(with_rows(type_, rows)))
            else:
                found.gathered.append(((rows, *type_.dims), rows * type_.nbytes))
    if node.single or members == 1:
        found.how, found.why = "alone", why_alone(node, ops[0])
    elif alone:
        found.how, found.why = "once", "all members read the same"
    elif not node.rows:
        found.how = "stacked"
    return found


def sized(type_: TensorType) -> tuple[tuple[int, ...], int]:
    """Return (shape, bytes) of a type."""
    return tuple(type_.dims), type_.nbytes


def why_alone(node: GroupNode, first: GroupNode) -> str:
    """Return why a region ran by itself."""
    if not node.single:
        return "nothing like it was ready with it"
    if first.prim.facts.random:
        return "it draws random numbers"
    if any(t is not None and t.nbytes > LARGEST_OPERAND for t in first.types):
        return f"an operand of more than {LARGEST_OPERAND >> 10} KB is not copied"
    if any(t is not None and t.nbytes == 0 for t in first.types):
        return "an operand is empty"
    return f"{first.prim.name} has no batching rule"
