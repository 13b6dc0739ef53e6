"""Counts the work of a process: what ran, and how much of it.  No times.

Nothing is added to Wend for this.  Functions of the runtime that run once a flush, or once an op of
the reference, are wrapped here.  The launcher's C helpers are Python in the uncompiled core.  There
kernels and copied bytes are also counted one by one (`exact`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from wend.compiler.ir.kernel import Kernel
from wend.compiler.llvm_ir import jit
from wend.core import _hot
from wend.core._select import is_compiled
from wend.core.step_log import ROWS
from wend.runtime import flush
from wend.runtime.batching import _grouper_select, backward, deferred_backward, executor
from wend.runtime.batching.per_op import PerOpExecution
from wend.runtime.batching.report import Noted, flushed
from wend.runtime.compiled.plan import CompiledPlan
from wend.runtime.native.launcher import launcher
from wend.runtime.numpy_executor.runners import NodeRun

COUNTS: Counter[str] = Counter()


def before(owner: Any, name: str, count: Callable[..., None]) -> None:
    """Have `count` called with the arguments of a function, before the function."""
    function = getattr(owner, name)

    def counted(*given: Any, **named: Any) -> Any:
        count(*given, **named)
        return function(*given, **named)

    setattr(owner, name, counted)


def install() -> None:
    """Begin to count in this process."""
    before(NodeRun, "call", count_op)
    before(NodeRun, "run", count_op)
    before(executor, "note_share", count_groups)
    before(executor, "note", count_gathered)
    before(backward.Execution, "push_back", count_backward)
    before(backward, "run_tail", count_tail)
    before(deferred_backward, "run_tail", count_tail)
    before(PerOpExecution, "backward", count_ops_backward)
    before(CompiledPlan, "run", count_run)
    launcher.fill("recent", count_recent)
    if not is_compiled(launcher):
        grouper: Any = _grouper_select.select()
        before(launcher, "run_kernels", lambda code, n, *_: COUNTS.update(exact=n))
        before(grouper, "copy", lambda to, source, n: COUNTS.update({"exact bytes": int(n)}))


def count_op(step: NodeRun, *_: Any) -> None:
    """An op of the reference."""
    COUNTS["reference"] += 1


def count_groups(state: Any, groups: list[Any]) -> None:
    """The forward pass of a flush by groups."""
    COUNTS["groups"] += len(groups)
    for group in groups:
        if not group.node.joined:
            COUNTS["kernels"] += kernels_of(template_of(group).forward.plan)


def count_backward(run: Any, seeds: Any, through: list[bool]) -> None:
    """The backward pass of a flush by groups."""
    for group, on in zip(run.groups, through, strict=True):
        if on and not group.node.joined and template_of(group).backward is not None:
            COUNTS["kernels"] += kernels_of(template_of(group).backward.plan)


def count_tail(template: Any, *_: Any) -> None:
    """The gradients of parameters of a kind of groups."""
    COUNTS["kernels"] += kernels_of(template.tail.plan)


def count_gathered(
    states: Any, sites: Any, groups: Any, why: str = "", owners: Any = None, steps: Any = None
) -> None:
    """A flush by groups: the rows that were copied so that they lie side by side."""
    COUNTS["gathered"] += flushed(Noted(states, sites, groups, why, None, [])).gathered


def count_ops_backward(run: Any, seeds: Any) -> None:
    """A flush of single ops: a kernel each, forward and backward."""
    COUNTS["kernels"] += sum(run.sorter.needed) + sum(run.sorter.reached)


def count_run(plan: CompiledPlan, job: Any) -> None:
    """A run of machine code for a path; functions of templates have no states."""
    if job.states:
        COUNTS["kernels"] += kernels_of(plan)


def count_recent(row: tuple[Any, ...]) -> None:
    """A flush that the launcher ran by itself."""
    COUNTS["kernels"] += kernels_of(row[0])
    ROWS.append(row)


def template_of(group: Any) -> Any:
    """The template of a group, whichever way it ran."""
    return group.template if group.family is None else group.family.template


def kernels_of(plan: Any) -> int:
    """How many kernels a plan launches; 0 without machine code."""
    compiled = plan if isinstance(plan, CompiledPlan) else getattr(plan, "compiled", None)
    if compiled is None:
        return 0
    return sum(isinstance(step, Kernel) for step in compiled.recipe.steps)


def settle() -> None:
    """Wait until all machine code that was asked for is there."""
    if not jit.drain(120):
        raise RuntimeError("compilation has not come to rest")


def snapshot() -> Counter[str]:
    """All counts so far."""
    found = Counter(COUNTS)
    found["flushes"] = _hot.count("flushes")
    found["modules"] = jit.counters.compiled + jit.counters.loaded
    return found


def paths() -> int:
    """How many paths are kept: ends of the trie with plans, or without children."""
    states = flush.walk(_hot.current_trace().root)
    return sum(bool(state.plans) or not state.offspring() for state in states)
