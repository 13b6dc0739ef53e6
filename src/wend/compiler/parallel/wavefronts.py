"""Rounds: which calls of a plan's kernels threads may take side by side.

Each stage of a kernel waits for the one before it, and for the kernels that make what it reads or
that have to do with the memory that it writes. The gradients of a layer's weight and input do not
wait for one another, nor do the updates of parameters: their stages share a round, so that threads
meet less often, and one that is done early finds more to do. Calls that are each alone stay so:
to hand out a small call costs more than to make it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from wend.compiler.ir.kernel import Kernel
from wend.compiler.parallel.tasks import StagedTasks

__all__ = ["MemoryUse", "Round", "accesses", "rounds"]

#: So many rounds back a stage may go: what lies in the arena lives for as much longer, at most.
_BACK = 3
#: Numbers that no value has.
_SHARED = -(1 << 40)

#: (step, stage of its schedule), one after the other
Round = list[tuple[int, int]]


class MemoryUse:
    """The memory that a kernel has to do with, by the values that it belongs to.

    reads, writes: at all     late: what its last stage writes, where that combines copies
    early: by function, what such a stage reads, which need not wait for all that the kernel reads
    """

    __slots__ = ("early", "late", "reads", "writes")

    def __init__(self, reads: set[int], writes: set[int]) -> None:
        self.reads, self.writes = reads, writes
        self.late: set[int] = set()
        self.early: dict[str, set[int]] = {}


def _memory_of(
    values: Collection[int], homes: Mapping[int, int], taken: Mapping[int, int]
) -> set[int]:
    """Where values may lie: by the values that this memory belongs to."""
    found = {homes.get(i, i) for i in values}
    return found | {taken[i] for i in values if i in taken}


def accesses(
    steps: Sequence[object],
    homes: Mapping[int, int],
    taken: Mapping[int, int],
    together: Sequence[Collection[int]],
) -> dict[int, MemoryUse]:
    """What each kernel of a plan has to do with.

    homes: values that lie in another's memory     taken: those that may be written over a leaf
    together: steps that share a piece of memory, which the first of them fills
    """
    found: dict[int, MemoryUse] = {}
    for k, step in enumerate(steps):
        if not isinstance(step, Kernel):
            continue
        writes = _memory_of(step.writes, homes, taken)
        access = found[k] = MemoryUse(_memory_of(step.reads, homes, {}), writes)
        if step.nest is not None:
            access.late = _memory_of([op.out for op in step.nest.late_folds()], homes, taken)
        if not any(i in homes or i in taken for i in step.writes):
            access.early["clear"] = set()
            for function, name in (("pack", "right"), ("turn_weight", "weight")):
                if name in step.words:
                    value = step.slots[step.words.index(name)].a
                    access.early[function] = _memory_of([value], homes, {})
    for n, shared in enumerate(together):
        for k in shared:
            found[k].writes.add(_SHARED - n)
    return found


def rounds(
    first: int,
    end: int,
    schedules: Mapping[int, StagedTasks],
    found: Mapping[int, MemoryUse] | None,
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
    made_by: dict[int, int] = {}  # the round from which on a value may be read
    done_by: dict[int, int] = {}  # and overwritten, too
    for k in range(first, end):
        mine, begins = found[k], -1
        at = max(0, len(made) - _BACK) - 1
        behind = max([made_by.get(i, 0) for i in mine.reads] + [0])
        behind = max([max(made_by.get(i, 0), done_by.get(i, 0)) for i in mine.writes] + [behind])
        ready = 0  # behind all but the last stage, if that combines copies
        for s, stage in enumerate(schedules[k].stages):
            early = mine.early.get(stage.function)
            needed = [made_by.get(i, 0) for i in early] if early is not None else [behind]
            ready = at + 1
            at = max([ready, *needed])
            several = len(stage.blocks) > 1
            while at < len(made) and not (several or shared[at]):
                at += 1
            if at == len(made):
                made.append([])
                shared.append(False)
            made[at].append((k, s))
            shared[at] |= several
            begins = at if begins < 0 else begins
        combines = stage.function == "combine"
        for i in mine.reads:
            done_by[i] = max(done_by.get(i, 0), ready if combines else at + 1)
        for i in mine.writes:
            made_by[i] = ready if combines and i not in mine.late else at + 1
        spans.append((begins, at))
    for one in made:  # what is cut comes first: it takes longest
        one.sort(key=lambda pair: len(schedules[pair[0]].stages[pair[1]].blocks) < 2)
    return made, spans
