"""Counts the work of a process: what ran, and how much of it.  No times.

Nothing is added to Wend for this.  Functions of the runtime that run once a flush, or once an op of
the reference, are wrapped here.  The launcher's C helpers are Python in the uncompiled core.  There
kernels and copied bytes are also counted one by one (`exact`).

Choices that depend on time are taken out (`be_timeless`): a path is planned at its third visit, and
the program waits after each flush until the machine code that was asked for is there.
"""

from __future__ import annotations

import cProfile
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import volume

from wend._engine.compiler import pipeline
from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.llvm_ir import jit
from wend._engine.core import _hot
from wend._engine.core._select import is_compiled
from wend._engine.core.step_log import ROWS
from wend._engine.runtime import flush
from wend._engine.runtime.batching import _grouper_select, backward, deferred_backward, executor
from wend._engine.runtime.batching.noted import Noted
from wend._engine.runtime.batching.per_op import PerOpExecution
from wend._engine.runtime.batching.report import flushed
from wend._engine.runtime.compiled.plan import CompiledPlan
from wend._engine.runtime.native.launcher import launcher
from wend._engine.runtime.numpy_executor.runners import NodeRun, ReadyRule
from wend._engine.runtime.parts import parts
from wend._engine.runtime.parts.links import LinkedPlan
from wend._engine.runtime.tiers import TieredPlan

COUNTS: Counter[str] = Counter()
#: Counts that are the most of all flushes, and not their sum.
MOST: Counter[str] = Counter()
#: Counts Python calls of the compiler's passes; comprehensions are calls in old Pythons only.
PLANNING = cProfile.Profile(builtins=False)
COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>")


def before(owner: Any, name: str, count: Callable[..., None]) -> None:
    """Have `count` called with the arguments of a function, before the function."""
    function = getattr(owner, name)

    def counted(*given: Any, **named: Any) -> Any:
        count(*given, **named)
        return function(*given, **named)

    setattr(owner, name, counted)


def after(owner: Any, name: str, count: Callable[..., None]) -> None:
    """Have `count` called with the arguments of a function, after the function."""
    function = getattr(owner, name)

    def counted(*given: Any, **named: Any) -> Any:
        found = function(*given, **named)
        count(*given, **named)
        return found

    setattr(owner, name, counted)


def be_timeless() -> None:
    """Take choices out that depend on time: see above."""
    TieredPlan.is_slow = lambda plan: False
    parts.OFTEN = parts.SELDOM
    ReadyRule.is_due = staticmethod(lambda: False)
    depth = [0]  # a flush may ask for another one

    def execute(job: Any, live: list[int]) -> None:
        depth[0] += 1
        try:
            flush.execute(job, live)
        finally:
            depth[0] -= 1
        if not depth[0]:
            settle()

    launcher.fill("planner", execute)


def install() -> None:
    """Begin to count in this process."""
    be_timeless()
    before(NodeRun, "call", count_op)
    after(NodeRun, "call", count_results)
    before(NodeRun, "run", count_op_of_arrays)
    count_planning()
    before(executor, "note_share", count_groups)
    before(executor, "note", count_gathered)
    before(backward.Execution, "push_back", count_backward)
    before(backward, "run_tail", count_tail)
    before(deferred_backward, "run_tail", count_tail)
    before(PerOpExecution, "backward", count_ops_backward)
    after(CompiledPlan, "run", count_run)
    after(LinkedPlan, "run", lambda plan, *_: count_kernels(plan))
    launcher.fill("recent", count_recent)
    if not is_compiled(launcher):
        grouper: Any = _grouper_select.select()
        before(launcher, "run_kernels", lambda code, n, *_: COUNTS.update(exact=n))
        before(grouper, "copy", lambda to, source, n: COUNTS.update({"exact bytes": int(n)}))


def count_planning() -> None:
    """Count the calls of the compiler's passes."""
    work = pipeline.compile_path

    depth = [0]  # a plan in the making may ask for a flush that makes another one

    def counted(path: Any, needed: Any, watch: Any = None) -> Iterator[None]:
        rest = work(path, needed, watch)
        COUNTS["planned"] += len(path.nodes)
        while True:
            if not depth[0]:
                PLANNING.enable(subcalls=False, builtins=False)
            depth[0] += 1
            try:
                next(rest)
            except StopIteration as end:
                return end.value
            finally:
                depth[0] -= 1
                if not depth[0]:
                    PLANNING.disable()
            yield

    pipeline.compile_path = counted


def planned() -> int:
    """How many calls the compiler's passes have made."""
    return sum(
        row.callcount
        for row in PLANNING.getstats()
        if getattr(row.code, "co_name", "") not in COMPREHENSIONS
    )


def count_op(step: NodeRun, env: list[Any], *_: Any) -> None:
    """An op of the reference."""
    COUNTS["reference"] += 1
    COUNTS["bytes"] += volume.of_operands(step, env)


def count_results(step: NodeRun, env: list[Any], *_: Any) -> None:
    """The results of an op of the reference."""
    COUNTS["bytes"] += volume.of_results(step, env)


def count_op_of_arrays(step: NodeRun, arrays: list[Any], *_: Any) -> None:
    """An op of the reference that takes its operands by themselves."""
    COUNTS["reference"] += 1
    COUNTS["bytes"] += 2 * sum(getattr(array, "nbytes", 0) for array in arrays)


def count_groups(state: Any, groups: list[Any]) -> None:
    """The forward pass of a flush by groups."""
    COUNTS["groups"] += len(groups)
    for group in groups:
        if not group.node.joined:
            COUNTS["kernels"] += kernels_of(template_of(group).forward.plan)
            COUNTS["bytes"] += volume.of_forward(template_of(group), group.n)


def count_backward(run: Any, seeds: Any, through: list[bool]) -> None:
    """The backward pass of a flush by groups."""
    for group, on in zip(run.groups, through, strict=True):
        if on and not group.node.joined and template_of(group).backward is not None:
            COUNTS["kernels"] += kernels_of(template_of(group).backward.plan)
            COUNTS["bytes"] += volume.of_backward(template_of(group), group.n)


def count_tail(template: Any, *_: Any) -> None:
    """The gradients of parameters of a kind of groups."""
    COUNTS["kernels"] += kernels_of(template.tail.plan)


def count_gathered(
    states: Any, sites: Any, groups: Any, why: str = "", owners: Any = None, steps: Any = None
) -> None:
    """A flush by groups: the rows that were copied so that they lie side by side."""
    gathered = flushed(Noted(states, sites, groups, why, None, [])).gathered
    COUNTS["gathered"] += gathered
    COUNTS["bytes"] += gathered


def count_ops_backward(run: Any, seeds: Any) -> None:
    """A flush of single ops: a kernel each, forward and backward."""
    COUNTS["kernels"] += sum(run.sorter.needed) + sum(run.sorter.reached)


def count_run(plan: CompiledPlan, job: Any) -> None:
    """A run of machine code for a path; functions of templates have no states."""
    if job.states:
        count_kernels(plan)


def count_recent(row: tuple[Any, ...]) -> None:
    """A flush that the launcher ran by itself."""
    count_kernels(row[0])
    ROWS.append(row)


def count_kernels(plan: Any) -> None:
    """A run of the kernels of a path."""
    COUNTS["kernels"] += kernels_of(plan)
    moved, memory = volume.of_plan(plan)
    COUNTS["bytes"] += moved
    MOST["memory"] = max(MOST["memory"], memory)


def template_of(group: Any) -> Any:
    """The template of a group, whichever way it ran."""
    return group.template if group.family is None else group.family.template


def kernels_of(plan: Any) -> int:
    """How many kernels a plan launches; 0 without machine code."""
    linked = volume.linked_frames(plan)
    if linked:
        return sum(kernels_of(launcher.owner_of(frame).plan) for frame in linked)
    compiled = plan if isinstance(plan, CompiledPlan) else getattr(plan, "compiled", None)
    if compiled is None:
        return 0
    return sum(isinstance(step, Kernel) for step in compiled.code.steps)


def settle() -> None:
    """Wait until all machine code that was asked for is there."""
    if not jit.drain(120):
        raise RuntimeError("compilation has not come to rest")


def snapshot() -> Counter[str]:
    """All counts so far."""
    found = Counter(COUNTS)
    found["flushes"] = _hot.count("flushes")
    found["planning"] = planned()
    found["modules"] = jit.counters.compiled + jit.counters.loaded + jit.counters.ready
    return found


def paths() -> int:
    """How many paths are kept: ends of the trie with plans, or without children."""
    states = flush.walk(_hot.current_trace().root)
    return sum(bool(state.plans) or not state.offspring() for state in states)
