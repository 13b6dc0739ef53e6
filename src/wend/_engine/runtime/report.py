"""Reports of flushes: the steps of a plan with the user's lines, bytes and operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from wend._engine.compiler import pipeline
from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.ir.loops import CONTRACT, CONVOLVE, STEPS, Function, Op
from wend._engine.compiler.ir.symbolic_extents import Poly, mul, product, scale
from wend._engine.compiler.kernels.conv.lowering import ROLES
from wend._engine.compiler.kernels.recurrent.lowering import multiplications
from wend._engine.compiler.pipeline import Pass
from wend._engine.compiler.stages import CompiledPath, finished
from wend._engine.core._hot import State
from wend._engine.core._types import LeafPrimitive
from wend._engine.core.graph import Node
from wend._engine.core.provenance import Site, Sites, step_site
from wend._engine.core.step_log import NEVER_BACK
from wend._engine.runtime.flush_log import Flush
from wend._engine.runtime.native.launcher import launcher
from wend._engine.runtime.numpy_executor.plan import ReferencePlan
from wend._engine.runtime.tiers import TieredPlan

#: How many known paths are named where a new path has parted from these.
MAX_WAYS = 3

#: Texts for the kinds of `LeafPrimitive.grad`.
HISTORIES = ("", ", which requires grad", ", with a history", ", of inference mode")

#: Plans of paths on the trie.
AnyPlan: TypeAlias = TieredPlan | ReferencePlan


@dataclass
class StepReport:
    """A kernel or host step.

    ops: the loops' ops, as the compiler names these, each with the user's line
    recorded: the ops as recorded that these are part of, each with its line; those of a backward
        pass are named after the forward op, and have its line
    number: place in the plan
    read: bytes that the step reads
    written: bytes that the step writes
    flops: operations: one per op and element, see `work_of`

    Bytes and flops are those of the sizes seen last; None where there is no bound plan.
    """

    kind: str
    ops: list[tuple[str, str]]  # (op, the user's line)
    read: int | None = None
    written: int | None = None
    flops: int | None = None
    reason: str = ""  # why a host step is no kernel
    recorded: list[tuple[str, str]] = field(default_factory=list)
    number: int = 0


#: How the path of a flush that the trie does not keep is told.
NO_REPEATS = "does not repeat"
#: The tier of a flush whose parts alone were met before.
PART_BY_PART = "part by part"


@dataclass
class FlushReport:
    """A flush: how the path came about, which tier ran, and the steps of the plan."""

    path: str
    tier: str
    n_ops: int
    steps: list[StepReport] = field(default_factory=list)
    arena: int | None = None  # bytes of temporaries
    plan: AnyPlan | None = None
    asked: tuple[tuple[str, str], ...] = ()  # (executor, why it declined, or "")
    lanes: Sequence[tuple[str, int, str]] = ()  # see `flush_log.Flush.lanes`

    @property
    def kernels(self) -> list[StepReport]:
        """The steps that are machine code."""
        return [step for step in self.steps if not step.reason]

    @property
    def host_steps(self) -> list[StepReport]:
        """The steps that run a reference rule."""
        return [step for step in self.steps if step.reason]


@dataclass
class PassText:
    """The outcome of a pass of the compiler, as text."""

    name: str
    purpose: str
    text: str


def report(flush: Flush) -> FlushReport:
    """Return the report of a flush."""
    plan = flush.plan
    if flush.lanes:
        n = sum(count for _, count, _ in flush.lanes)
        path = f"{n} calls side by side" if n > 1 else "one call, the others wait or have ended"
        return FlushReport(path, "the ways below", flush.n_ops, lanes=flush.lanes)
    if plan is None:
        in_parts = ("parts", "") in flush.asked
        path = "new as a whole: its parts were met before" if in_parts else why_new(flush)
        tier = PART_BY_PART if in_parts else "group by group"
        return FlushReport(path, tier, flush.n_ops, asked=flush.asked)
    lines = Lines(plan.reference.path if isinstance(plan, TieredPlan) else plan.path, flush.sites)
    flush_report = FlushReport(
        why_new(flush), tier_of(plan), flush.n_ops, plan=plan, asked=flush.asked
    )
    if isinstance(plan, TieredPlan) and plan.compiled is not None:
        compiled = plan.compiled
        frame = compiled.native_plan.frame
        value = None if frame is None else launcher.owner_of(frame).value
        flush_report.arena = None if frame is None else frame.arena_bytes
        flush_report.steps = [
            describe(step, compiled.code, value, lines) for step in compiled.code.steps
        ]
    elif isinstance(plan, TieredPlan) and plan.linked is not None:
        flush_report.arena, flush_report.steps = steps_of_link(plan.linked.native_plan.frame)
    for k, step in enumerate(flush_report.steps):
        step.number = k
    return flush_report


def steps_of_link(frame: Any) -> tuple[int | None, list[StepReport]]:
    """Return the bytes of temporaries, and the steps of all parts, of a link of parts."""
    if frame is None:  # none for the present number of threads
        return None, []
    steps: list[StepReport] = []
    for part in frame.linked:
        if part.frame is not None:
            owner = launcher.owner_of(part.frame)
            code = owner.plan.code
            lines = Lines(owner.plan.native_plan.path, part.sites)
            steps += [describe(step, code, owner.value, lines) for step in code.steps]
    return frame.arena_bytes, steps


def passes_of(plan: AnyPlan | None) -> list[PassText]:
    """Run the passes on a plan's path again; return the text of each outcome.

    The list is empty if the path was not kept.
    """
    reference = plan.reference if isinstance(plan, TieredPlan) else plan
    if reference is None or reference.path is None:
        return []
    texts: list[PassText] = []

    def watch(done: Pass, value: object) -> None:
        texts.append(PassText(done.name, done.purpose, done.show(value)))

    finished(pipeline.compile_path(reference.path, reference.wanted | reference.saved, watch))
    return texts


# -- the path -----------------------------------------------------------------------------------


def why_new(flush: Flush) -> str:
    """Say whether the path was known, and if not, where and how it parted from known paths."""
    if flush.state is None:
        return f"{NO_REPEATS}: {NEVER_BACK}"
    if flush.parted is None:
        more = ", planned for what is wanted now" if flush.planned else ""
        return f"known, taken {flush.state.passed} times{more}"
    child = flush.parted
    parent = child.parent
    others = [] if parent is None or parent.children is None else list(parent.children.values())
    others = [other for other in others if other is not child]
    here = f"{name_of(child)} at {site_text(first_line(child, flush.state))}"
    if not others:
        if parent is None or parent.parent is None:
            return f"new: the first that begins with {here}"
        return f"new: goes on with {here}, where an earlier path ended"
    ways = [difference(child, other) for other in others[-MAX_WAYS:]]
    return f"new: {here}; known there: {'; '.join(ways)}"


def difference(child: State, other: State) -> str:
    """Say how a known step differs from a new step."""
    if isinstance(child.prim, LeafPrimitive) or child.prim is not other.prim:
        where = "" if other.code is None else f" at {site_text(other)}"
        return name_of(other) + where
    if child.operand_indices() != other.operand_indices():
        return f"{name_of(other)} of other operands, at {site_text(other)}"
    if child.mode is not other.mode:
        return f"{name_of(other)} in another mode (gradients, autocast, ...)"
    return f"{name_of(other)} where other extents were equal, 1 or 0"


def first_line(state: State, last: State | None) -> State:
    """Return the first state with a user's line between `state` and `last`: leaves have none."""
    first = state
    while last is not None and last is not state.parent:
        first = last if last.code is not None else first
        last = last.parent
    return first


def name_of(state: State) -> str:
    """Return the name of a state's op, for people."""
    if not isinstance(state.prim, LeafPrimitive):
        return str(state.prim.name)
    return f"a tensor from outside ({state.prim.kind}{HISTORIES[state.prim.grad]})"


def site_text(state: State) -> str:
    """Return the user's line of a state."""
    return str(Site(state.code, state.lasti))


# -- the plan -----------------------------------------------------------------------------------


def counted(n: int, noun: str, more: str = "s") -> str:
    """A number and its noun; `more` makes the plural."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}{more}"


def tier_of(plan: object) -> str:
    """Say which tier runs a plan, and why."""
    if not isinstance(plan, TieredPlan):
        return "reference: compilation is off (WEND_COMPILE)"
    if plan.compiled is not None:
        n, place = len(plan.compiled.bound), plan.reference.place
        device = "" if place is None else f" for {place}"
        return f"machine code{device}, bound to {counted(n, 'set')} of sizes"
    if plan.linked is not None:
        n = len(plan.linked.native_plan.frames)
        return f"machine code of its parts, linked for {counted(n, 'set')} of sizes"
    return f"reference: {plan.why_no_code()}"


class Lines:
    """The user's line of each value of a path."""

    def __init__(self, path: Any, sites: Sites | None) -> None:
        self.makers: dict[int, tuple[int, Node]] = {} if path is None else path.makers()
        self.path = path
        self.sites = sites
        self.texts: dict[int, str] = {}

    def of(self, op: Op, function: Function) -> str:
        """Return "file:line in function" of an op; a copy has the line of its operand."""
        maker = maker_of(op, function, self.makers)
        return "" if maker is None else self._text(maker[0])

    def recorded(self, op: Op, function: Function) -> tuple[str, str]:
        """Return (name, line) of the op as recorded; ("", "") where it is not known."""
        maker = maker_of(op, function, self.makers)
        if maker is None:
            return "", ""
        k, source = maker[0], maker[1].source
        if source is None or source.code is None:
            return str(self.path.states[k].prim.name), self._text(k)
        return f"{source.name}_backward", str(Site(source.code, source.lasti))

    def _text(self, k: int) -> str:
        if k not in self.texts:
            self.texts[k] = str(step_site(self.path.states, self.sites, k))
        return self.texts[k]


def maker_of(
    op: Op, function: Function, makers: dict[int, tuple[int, Node]]
) -> tuple[int, Node] | None:
    """Return the entry of `PathGraph.makers` for a compiler's op; for a copy, that of its operand.

    None where the path does not have the value.
    """
    maker = makers.get(op.outputs[0])
    if maker is None and op.reads:
        maker = makers.get(function.base(op.reads[0].value))
    return maker


def describe(
    step: Kernel | Op, code: CompiledPath, value: Callable[[Poly], int] | None, lines: Lines
) -> StepReport:
    """Return the report of a step.

    value: a function from polynomials to numbers; None where there is no bound plan
    """
    f = code.function
    if not isinstance(step, Kernel):
        step_report = StepReport("host", [(step.name, lines.of(step, f))])
        step_report.reason = f.reasons.get(step.outputs[0], "")
        step_report.recorded = [lines.recorded(step, f)]
        reads, writes, ops = [f.base(r.value) for r in step.reads], list(step.outputs), [step]
    else:
        kind = "loops" if step.nest is not None else step.ops[0].kind
        step_report = StepReport(kind, [(op.name, lines.of(op, f)) for op in step.ops])
        step_report.recorded = list(dict.fromkeys(lines.recorded(op, f) for op in step.ops))
        reads, writes, ops = step.reads, step.writes, step.ops
    if value is not None:
        step_report.read = sum(value(size_of(f, i)) for i in set(reads) - set(writes))
        step_report.written = sum(value(size_of(f, i)) for i in set(writes))
        if isinstance(step, Kernel):
            step_report.flops = sum(value(work_of(f, op)) for op in ops)
    return step_report


def size_of(f: Function, i: int) -> Poly:
    """Return the bytes of a value."""
    return scale(product(f.shape(i)), f.dtypes[i].itemsize)


def work_of(f: Function, op: Op) -> Poly:
    """Return an op's operations: two per multiplication and addition, else one per element."""
    if op.kind == CONTRACT:
        p = op.product
        extents = [a.extent for a in (*p.batch, p.m, p.n, p.k)]
        return scale(product(extents), 2)
    if op.kind == CONVOLVE:
        shapes = {role: f.shape(i) for role, i in convolved(op).items()}
        return scale(mul(product(shapes["out"]), product(shapes["weight"][1:])), 2)
    if op.kind == STEPS:
        return scale(multiplications(f, op), 2)
    return product(op.space)


def convolved(op: Op) -> dict[str, int]:
    """Return the values of a convolution by role."""
    values = [*(read.value for read in op.reads), op.out]
    return dict(zip(ROLES[op.node.prim.name], values, strict=True))
