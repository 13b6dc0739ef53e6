"""Rounds: which calls of a plan's kernels threads may take side by side.

Each stage of a kernel waits for the one before it, and for the kernels that make what it reads or
that have to do with the memory that it writes. The gradients of a layer's weight and input do not
wait for one another, nor do the updates of parameters: their stages share a round, so that threads
meet less often, and one that is done early finds more to do. Calls that are each alone stay so:
to hand out a small call costs more than to make it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from wend.compiler.kernels import Kernel
from wend.compiler.parts import Schedule

__all__ = ["Access", "Round", "accesses", "rounds"]

#: So many rounds back a stage may go: what lies in the arena lives for as much longer, at most.
_BACK = 3
#: Numbers that no value has.
_SHARED = -(1 << 40)

#: (step, stage of its schedule), one after the other
Round = list[tuple[int, int]]


class Access:
    """The memory that a kernel has to do with, by the values that it belongs to.

    reads, writes: at all     late: what its last stage writes, where that combines copies
    early: by function, what such a stage reads, which need not wait for all that the kernel reads
    """

    __slots__ = ("early", "late", "reads", "writes")

    def __init__(self, reads: set[int], writes: set[int]) -> None:
        self.reads, self.writes = reads, writes
        self.late: set[int] = set()
        self.early: dict[str, set[int]] = {}

    def meets(self, other: Access, those: set[int]) -> bool:
        """Whether a later kernel has to wait for what this one does with `those` of its values."""
        if not (self.writes & those).isdisjoint(other.reads | other.writes):
            return True
        return not (self.reads & those).isdisjoint(other.writes)


def accesses(
    steps: Sequence[object],
    homes: Mapping[int, int],
    taken: Mapping[int, int],
    together: Sequence[Collection[int]],
) -> dict[int, Access]:
    """What each kernel of a plan has to do with.

    homes: values that lie in another's memory     taken: those that may be written over a leaf
    together: steps that share a piece of memory, which the first of them fills
    """
    found: dict[int, Access] = {}
    for k, step in enumerate(steps):
        if not isinstance(step, Kernel):
            continue
        over = [i for i in step.writes if i in homes or i in taken]
        writes = {homes.get(i, i) for i in step.writes}
        writes.update(taken[i] for i in over if i in taken)
        access = found[k] = Access({homes.get(i, i) for i in step.reads}, writes)
        if over:
            access.late = writes
            continue
        access.early["clear"] = set()
        for function, name in (("pack", "right"), ("turn_weight", "weight")):
            if name in step.words:
                value = step.slots[step.words.index(name)].a
                access.early[function] = {homes.get(value, value)}
        if step.nest is not None:
            access.late = {op.out for op in step.nest.late_folds()}
    for n, shared in enumerate(together):
        for k in shared:
            found[k].writes.add(_SHARED - n)
    return found


def rounds(
    first: int, end: int, schedules: Mapping[int, Schedule], found: Mapping[int, Access] | None
) -> tuple[list[Round], list[tuple[int, int]]]:
    """(rounds of the kernels first ... end - 1, (first round, last one) of each kernel).

    found: what they have to do with; None where there is nothing to share
    """
    made: list[Round] = []
    spans: list[tuple[int, int]] = []
    if found is None:
        for k in range(first, end):
            n = len(schedules[k].stages)
            spans.append((len(made), len(made) + n - 1))
            made += [[(k, s)] for s in range(n)]
        return made, spans
    shared: list[bool] = []  # whether a round has a stage of several calls
    recent: list[tuple[int, Access, set[int]]] = []  # (round behind it, kernel, what is done then)
    for k in range(first, end):
        floor = max(0, len(made) - _BACK)
        recent = [one for one in recent if one[0] > floor]
        mine, at, begins = found[k], floor - 1, -1
        stages = schedules[k].stages
        behind = max([after for after, other, those in recent if other.meets(mine, those)] + [0])
        for s, stage in enumerate(stages):
            early = mine.early.get(stage.function)
            if early is None:
                at = max(at + 1, behind)
            else:
                at = max([at + 1, *[a for a, other, _ in recent if early & other.writes]])
            several = len(stage.blocks) > 1
            while at < len(made) and not (several or shared[at]):
                at += 1
            if at == len(made):
                made.append([])
                shared.append(False)
            made[at].append((k, s))
            shared[at] |= several
            begins = at if begins < 0 else begins
            done = mine.reads | mine.writes
            if stage.function == "combine":
                recent.append((at + 1, mine, mine.late))
            elif s == len(stages) - 1:
                recent.append((at + 1, mine, done))
            elif stages[s + 1].function == "combine":
                recent.append((at + 1, mine, done - mine.late))
        spans.append((begins, at))
    for one in made:  # what is cut comes first: it takes longest
        one.sort(key=lambda pair: len(schedules[pair[0]].stages[pair[1]].blocks) < 2)
    return made, spans
