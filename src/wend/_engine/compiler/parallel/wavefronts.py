"""Rounds: which calls of a plan's kernels threads may take side by side.

A stage of a kernel waits for the stage before. A stage also waits for the kernels that compute its
operands, or that use the memory to which the stage writes. The gradients of a layer's weight and
input are independent, and so are the updates of parameters: their stages share a round.
Threads then meet less often, and a thread that is done early finds more to do. Stages of a single
call do not share a round unless a stage of several calls is there: handing out a small call costs
more than making it.

On an accelerator the calls of a round are a single launch. So these are calls of the same function.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.parallel.tasks import StagedTasks

#: How many rounds back a stage may go: memory in the arena lives longer by no more rounds.
_BACK = 3
#: Shared pieces of memory are numbered down from here; no value has such a number.
_SHARED = -(1 << 40)

#: The stages of a round: (step, number of the stage in the step's schedule) of each.
Round = list[tuple[int, int]]


class MemoryUse:
    """The memory that a kernel reads and writes, by the values to which the memory belongs.

    reads: all memory that the kernel reads
    writes: all memory that the kernel writes
    late: the memory that the last stage writes, where this stage combines copies
    early: by function, the memory that a stage of this function reads; such a stage need not wait
        for all operands of the kernel
    """

    __slots__ = ("early", "late", "reads", "writes")

    def __init__(self, reads: set[int], writes: set[int]) -> None:
        self.reads, self.writes = reads, writes
        self.late: set[int] = set()
        self.early: dict[str, set[int]] = {}


def _memory_of(
    values: Collection[int], homes: Mapping[int, int], taken: Mapping[int, int]
) -> set[int]:
    """Return the memory in which values may lie, by the values to which the memory belongs."""
    memory = {homes.get(i, i) for i in values}
    return memory | {taken[i] for i in values if i in taken}


def accesses(
    steps: Sequence[object],
    homes: Mapping[int, int],
    taken: Mapping[int, int],
    together: Sequence[Collection[int]],
) -> dict[int, MemoryUse]:
    """Return the memory that each kernel of a plan uses, by step.

    homes: value -> the value in whose memory it lies
    taken: value -> the leaf over which it may be written
    together: lists of steps that share a piece of memory, which the first step fills
    """
    uses: dict[int, MemoryUse] = {}
    for k, step in enumerate(steps):
        if not isinstance(step, Kernel):
            continue
        writes = _memory_of(step.writes, homes, taken)
        access = uses[k] = MemoryUse(_memory_of(step.reads, homes, {}), writes)
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
            uses[k].writes.add(_SHARED - n)
    return uses


def rounds(
    first: int,
    end: int,
    schedules: Mapping[int, StagedTasks],
    uses: Mapping[int, MemoryUse] | None,
    launched: Mapping[int, Kernel] | None = None,
) -> tuple[list[Round], list[tuple[int, int]]]:
    """Return (rounds of the kernels first ... end - 1, (first round, last round) of each kernel).

    schedules: the stages of each kernel, by step
    uses: the memory that each kernel uses; None where no stage has several calls
    launched: the kernels by step, on an accelerator
    """
    stretch: list[Round] = []
    spans: list[tuple[int, int]] = []
    if uses is None:
        for k in range(first, end):
            n = len(schedules[k].stages)
            spans.append((len(stretch), len(stretch) + n - 1))
            stretch += [[(k, s)] for s in range(n)]
        return stretch, spans
    shared: list[bool] = []  # whether a round has a stage of several calls
    alike: list[object] = []  # on an accelerator: what its calls have in common
    made_by: dict[int, int] = {}  # the round from which on a value may be read
    done_by: dict[int, int] = {}  # and overwritten, too
    for k in range(first, end):
        mine, begins = uses[k], -1
        at = max(0, len(stretch) - _BACK) - 1
        behind = max([made_by.get(i, 0) for i in mine.reads] + [0])
        behind = max([max(made_by.get(i, 0), done_by.get(i, 0)) for i in mine.writes] + [behind])
        ready = 0  # behind all but the last stage, if that combines copies
        for s, stage in enumerate(schedules[k].stages):
            early = mine.early.get(stage.function)
            needed = [made_by.get(i, 0) for i in early] if early is not None else [behind]
            ready = at + 1
            at = max([ready, *needed])
            several = len(stage.blocks) > 1
            if launched is None:
                while at < len(stretch) and not (several or shared[at]):
                    at += 1
            else:
                mark = _mark(launched[k], s, stage.function)
                while at < len(stretch) and alike[at] != mark:
                    at += 1
                alike += [mark] * (at + 1 - len(alike))
            if at == len(stretch):
                stretch.append([])
                shared.append(False)
            stretch[at].append((k, s))
            shared[at] |= several
            begins = at if begins < 0 else begins
        combines = stage.function == "combine"
        for i in mine.reads:
            done_by[i] = max(done_by.get(i, 0), ready if combines else at + 1)
        for i in mine.writes:
            made_by[i] = ready if combines and i not in mine.late else at + 1
        spans.append((begins, at))
    for one in stretch:  # stages of several calls come first, because they take longest
        one.sort(key=lambda pair: len(schedules[pair[0]].stages[pair[1]].blocks) < 2)
    return stretch, spans


def _mark(kernel: Kernel, s: int, function: str) -> object:
    """Return what calls of an accelerator have in common that may be a single launch.

    Calls with scratch memory have the same memory in turn.
    """
    if any(slot.kind == "scratch" for slot in kernel.slots):
        return kernel, s
    return kernel.text, function
