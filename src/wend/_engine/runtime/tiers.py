"""Chooses the tier that runs a path: the reference at first, machine code when it comes back."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wend._engine.base import config, defects
from wend._engine.base.collecting import CollectionPaused
from wend._engine.base.devices import device
from wend._engine.base.errors import CompileDeclined
from wend._engine.base.forking import at_fork
from wend._engine.base.interrupts import is_interrupt
from wend._engine.base.system import system
from wend._engine.base.weak_objects import WeakObjects
from wend._engine.core._hot import FlushJob
from wend._engine.core._types import Program
from wend._engine.core.graph import PathGraph
from wend._engine.core.provenance import Site, last_site
from wend._engine.runtime.executors import Executor, FlushRun, always, compute
from wend._engine.runtime.native.launcher import launcher
from wend._engine.runtime.numpy_executor.plan import ReferencePlan
from wend._engine.runtime.numpy_executor.runners import NodeRun, ReadyRule
from wend._engine.runtime.verify.plans import verify

if TYPE_CHECKING:
    from wend._engine.runtime.compiled.plan import Compilation, CompiledPlan
    from wend._engine.runtime.compiled.ready_code import ReadyCode

#: The visit, counted from 1, at which compilation begins: of a path, or of its structure. A path is
#: compiled from the second visit on if the first has taken longer than planning will.
THIRD = 3
#: Seconds that planning takes for an op, about.
PLANNING = 0.0001
#: How many structures' visits are remembered.
MOST_STRUCTURES = 4096
#: Paths of more ops than this are not planned: planning would take too long. Where groups can run
#: a path, they do so for good beyond the second number, unless so many visits outlast planning.
MAX_OPS, MOST_AWAITED, VISITS = 60_000, 6_000, 50
#: Seconds of a run of the reference from which on free heap memory goes back to the system when
#: machine code takes over: arrays of machine code lie elsewhere.
LONG = 0.1
COUNTS = {"compiled": 0, "failed": 0}

#: One plan is made at a time: passes trace rules and fill tables that all plans share.  Taken
#: before LLVM's lock, never after it; a plan in the making may ask for a flush that makes another.
_planning = threading.RLock()


def _renew_lock() -> None:
    global _planning
    _planning = threading.RLock()


at_fork(lambda: _planning.acquire(), lambda: _planning.release(), _renew_lock)


#: How often each structure has been visited.
STRUCTURES: dict[int, int] = {}


def structure_of(path: PathGraph, wanted: frozenset[int]) -> int:
    """Return a hash of the ops of a path, their operands, and the wanted values.

    Paths that only a comparison of sizes has parted have one structure: a batch of 1, say, among
    larger batches.
    """
    ops: list[Any] = [(state.prim, tuple(state.operand_indices())) for state in path.states]
    if not ops:  # a template's
        ops = [(node.prim, node.inputs) for node in path.nodes]
    return hash((tuple(ops), wanted))


def count_visit(structure: int) -> int:
    """Count a visit of a structure; return how many there have been."""
    if len(STRUCTURES) >= MOST_STRUCTURES:
        STRUCTURES.clear()
    STRUCTURES[structure] = count = STRUCTURES.get(structure, 0) + 1
    return count


class TieredPlan:
    """Runs the reference until machine code is ready."""

    def __init__(self, path: PathGraph, wanted: frozenset[int], roots: frozenset[int]) -> None:
        self.reference = ReferencePlan(path, wanted, roots)
        self.wanted = wanted
        self.compiled: CompiledPlan | None = None
        self.native_plan: Any = None  # the native half, which the launcher looks for
        self.linked: Any = None  # the `LinkedPlan` of the path's parts
        self.compilation: Compilation | None = None
        self.offer: object = None  # machine code that a file has brought along for this plan
        self.fault: BaseException | None = None  # why there is no machine code
        self.structure = structure_of(path, wanted)
        self.visits = 0
        self.visited = time.perf_counter()  # when planning last went on
        self.seconds = 0.0  # duration of the reference's last run
        self.spent = 0.0  # duration of all runs of the reference
        self.hopeless = self.reference.n_ops > MAX_OPS

    def run(self, batch: FlushJob) -> None:
        """Compute; on a failure, mark the values that failed and undo later rebindings."""
        compute((COMPILED, REFERENCE), FlushRun(batch, list(self.wanted), self))

    def run_compiled(self, batch: FlushJob) -> str:
        """Compute by machine code, which is planned and compiled here when due.

        Returns why the reference has to run, or "": there is no machine code, or none for these
        sizes, or the machine code has failed and `batch.fault` says why.
        """
        compiled = self.compiled
        if compiled is None and not self.hopeless and (self.is_due() or self.at_once):
            self.reference.restore(batch, short=False)
            self.advance()
            compiled = self.compiled
            if compiled is not None and compiled.device is not None:
                tell_of_host_steps(compiled, batch)
        if compiled is None:
            return self.why_no_code()
        if config.settings.verify:
            verify(compiled, batch)
        return "" if compiled.run(batch) else "a kernel has failed, or cannot run these sizes"

    def run_reference(self, batch: FlushJob) -> None:
        """Compute by the reference, and count the seconds."""
        start = time.perf_counter()
        self.reference.run(batch)
        self.seconds = time.perf_counter() - start
        self.spent += self.seconds
        if _to_tell:  # now that nothing is half done, should warnings be errors here
            warnings.warn(_to_tell.pop(), RuntimeWarning, stacklevel=2)

    def why_no_code(self) -> str:
        """Return why there is no machine code."""
        if self.fault is not None:
            return str(self.fault)
        if self.hopeless:
            return "it has too many ops for one plan: read a value in between"
        if self.compilation is None:
            visit = f"visit {self.visits}, compiled from visit {THIRD} on"
            return visit if self.visits < THIRD else "other paths are compiled first"
        if not self.compilation.planned:
            return "being planned"
        return f"{len(self.compilation.left)} kernels are being compiled"

    @property
    def at_once(self) -> bool:
        """Whether the first visit waits for machine code: on an accelerator, and by force."""
        return self.reference.place is not None or config.settings.wait

    def begin(self, batch: FlushJob) -> None:
        """Begin planning in a first visit, of a path that is sure to come back."""
        if self.is_worth_planning(0.0):
            self.reference.restore(batch, short=False)
            self.advance()

    def awaited(self, seconds: float) -> bool:
        """Go on with planning in a visit that another executor may run.

        seconds: duration of that executor's last visit, which stands for the reference's
        Returns whether the executor is to run the visit: there is still no machine code.
        """
        if not self.may_wait(seconds):
            return False
        if self.is_worth_planning(seconds):
            self.visited = time.perf_counter()
            self.seconds = seconds
            self.spent += seconds
            if self.is_due() or self.compilation is not None:
                self.advance()
        return self.compiled is None

    def may_wait(self, seconds: float) -> bool:
        """Return whether another executor may run a visit: there is no machine code.

        The nodes that planning needs may have been dropped. A visit by this plan makes them again.

        seconds: duration of that executor's last visit
        """
        path = self.reference.path
        kept = path is not None and not path.short
        return self.compiled is None and (kept or not self.is_worth_planning(seconds))

    def is_worth_planning(self, seconds: float) -> bool:
        """Whether the plan is to be made while another executor runs the path.

        seconds: duration of that executor's last visit
        """
        is_short = PLANNING * self.n_ops <= VISITS * seconds
        return not self.hopeless and (is_short or self.n_ops <= MOST_AWAITED)

    def is_due(self) -> bool:
        """Count a visit; return whether planning may begin: the path is likely to come back."""
        self.visits += 1
        often = max(self.visits, count_visit(self.structure)) >= THIRD
        return often or self.is_slow()

    def is_slow(self) -> bool:
        """Return whether the reference has taken longer than planning would."""
        return self.spent >= max(PATIENCE, PLANNING * self.n_ops)

    def shed(self) -> None:
        """Drop all parts that can be made again when the path comes back."""
        if self.compiled is None and self.compilation is None:
            self.reference.shed()

    @property
    def steps(self) -> Sequence[NodeRun]:
        """Return the steps that the reference would run."""
        return self.reference.steps

    @property
    def place(self) -> device | None:
        """Return the accelerator of the path's values; None if all lie on the processor."""
        return self.reference.place

    @property
    def n_ops(self) -> int:
        """Return how many ops the path has."""
        return self.reference.n_ops

    def site(self) -> Site | None:
        """Return the user's line of the path's last op; None if the path was not kept."""
        path = self.reference.path
        return None if path is None else last_site(path.states)

    def give_up(self, fault: BaseException) -> None:
        """Stay with the reference for good; fault: the reason."""
        self.hopeless = True
        self.compilation = None
        _under_way.discard(self)
        # The traceback would keep the Python frames of this flush, and their arrays, for good.
        fault.__context__ = fault.__cause__ = None
        self.fault = fault.with_traceback(None)
        COUNTS["failed"] += 1

    def begin_again(self) -> None:
        """Forget a compilation that was cut short, because the passes are half done."""
        self.compilation = None
        _under_way.discard(self)

    def advance(self) -> None:
        """Begin to make machine code of the plan, go on with it, or take the finished code.

        Only if the first visit waits for machine code (`at_once`) does this wait for another
        thread that is planning.
        """
        lock = _planning
        if not lock.acquire(blocking=self.at_once):
            return
        try:
            if self.compiled is None and not self.hopeless:
                self.compile()
        finally:
            lock.release()

    def compile(self) -> None:
        """Compile now, or begin to, or take the finished code.

        On a failure the plan stays with the reference.
        """
        with CollectionPaused():  # the objects that the first import makes are no garbage
            from wend._engine.compiler.llvm_ir import jit
            from wend._engine.runtime.compiled.plan import Compilation, compile_plan

            if finish_planning not in jit.before_rest:
                jit.before_rest.append(finish_planning)
            obstacle = jit.obstacle()
        try:
            if obstacle is not None:
                do_without(obstacle)
                raise CompileDeclined(obstacle)
            if self.at_once:
                self.compiled = compile_plan(self.reference, offer=self.offer)
            elif self.compilation is None:
                if not makes_room(self):
                    return
                self.compilation = Compilation(self.reference, self.offer)
                _under_way.add(self)
            if self.compilation is not None:
                share = share_of(self)
                longest = max(LONGEST, min(1.0, share) * self.seconds)
                plan_a_slice(self.compilation, longest, share)
                if self.compilation.ready:
                    self.compiled = self.compilation.finish()
                else:
                    jit.give_way()
        except CompileDeclined as reason:
            # Noted, unless the compiler declined on purpose; the reference goes on.
            self.give_up(reason)
        except BaseException as fault:
            if passes(fault):
                self.begin_again()
                raise
            defects.note(fault, site=self.site())
            self.give_up(fault)
        if self.compiled is not None:
            _under_way.discard(self)
            self.compilation = None
            self.native_plan, self.linked = self.compiled.native_plan, None
            COUNTS["compiled"] += 1
            if self.seconds >= LONG:
                launcher.trim_lots()
                system.trim_heap()


#: The least share of all time for planning, and the most seconds at a time in short flushes.
SHARE, LONGEST = 0.1, 0.004
#: Seconds that the reference may take for a plan until planning may take as long as the reference.
PATIENCE = 0.2
#: The most seconds that planning rests after a slice that has taken more than its share. A step
#: within a slice is not divided, and may take as long as a short flush.
MOST_REST = 0.2
#: The most plans in the making: half-made ones hold more memory than finished ones.
MOST_UNDER_WAY = 64
_under_way: WeakObjects[TieredPlan] = WeakObjects()
_planned_last = _rests_until = time.perf_counter()


def share_of(plan: TieredPlan) -> float:
    """Return the share of all time for planning a plan: the more, the longer its visits have taken.

    From a share of 1 on, the visits have taken as long as planning will: a plan pays from then on
    if the path comes as often again as before.
    """
    patience = min(PATIENCE, PLANNING * max(1, plan.n_ops))
    return max(SHARE, plan.spent / patience)


def plan_a_slice(compilation: Compilation, longest: float, share: float) -> None:
    """Go on with planning, for a share of the time since the last slice.

    From a share of 1 on planning does not rest: it would only pay later.

    longest: seconds after which no further step of the slice begins
    """
    global _planned_last, _rests_until
    now = time.perf_counter()
    if compilation.planned or (now < _rests_until and share < 1.0):
        return
    seconds = longest if share >= 1.0 else min(share * (now - _planned_last), longest)
    try:
        compilation.plan(seconds)
    finally:
        _planned_last = time.perf_counter()
        _rests_until = _planned_last + min((_planned_last - now) / share, MOST_REST)


def makes_room(plan: TieredPlan) -> bool:
    """Return whether a plan may be begun, for which a less worthy plan may have to begin again.

    Where structures hardly repeat, more and more paths have come three times.
    """
    others = [
        other
        for other in _under_way.alive()
        if other.compilation is not None and not other.compilation.planned
    ]
    if len(others) < MOST_UNDER_WAY:
        return True
    least = min(others, key=share_of)
    if share_of(plan) <= share_of(least):
        return False
    least.begin_again()
    return True


def is_making_others(plan: TieredPlan | None) -> bool:
    """Return whether machine code is in the making, of any plan but this."""
    return any(other is not plan for other in _under_way.alive())


def passes(fault: BaseException) -> bool:
    """Return whether a failure is not due to the plan in the making, which may be made later."""
    return is_interrupt(fault) or isinstance(fault, (MemoryError, RecursionError))


def finish_planning() -> None:
    """Finish planning of all compilations under way; kernels are compiled in the background."""
    with _planning:
        for plan in _under_way.alive():
            try:
                if plan.compilation is not None:
                    plan.compilation.plan(float("inf"))
            except CompileDeclined as reason:
                # Noted, unless the compiler declined on purpose; the reference goes on.
                plan.give_up(reason)
            except BaseException as fault:
                if passes(fault):
                    plan.begin_again()
                    raise
                defects.note(fault, site=plan.site())
                plan.give_up(fault)


def tell_of_host_steps(compiled: CompiledPlan, batch: FlushJob) -> None:
    """Note ops that an accelerator leaves to the processor, to be told at the end of the flush."""
    from wend._engine.runtime.compiled.host_steps import note_host_steps

    note_host_steps(compiled, batch.sites)


def count_host_steps(place: device, n_ops: int) -> None:
    """Count the ops of a path of an accelerator's that the processor has computed."""
    from wend._engine.runtime.devices.queue import accelerator_at

    accelerator_at(place).host_steps += n_ops


_to_tell: list[str] = []


def do_without(obstacle: str) -> None:
    """Make no more attempts at machine code, and warn once.

    Does nothing if machine code was asked for by force (`settings.wait`).
    """
    if config.settings.compile and not config.settings.wait:
        config.settings.set(compile=False)
        _to_tell.append(
            f"wend: no machine code can be made here: {obstacle}. The NumPy executor computes "
            "everything, which is slower; WEND_COMPILE=0 asks for that, without this warning"
        )


def ready_code(program: Program) -> ReadyCode | None:
    """Make the machine code of a single op, see `ReadyRule`; None while another thread plans."""
    if not _planning.acquire(blocking=False):
        return None
    try:
        with CollectionPaused():  # the objects that the first import makes are no garbage
            from wend._engine.runtime.compiled.ready_code import ReadyCode

            return ReadyCode(program)
    finally:
        _planning.release()


ReadyRule.maker = ready_code


def no_machine_code(run: FlushRun) -> str:
    """Return why no plan is asked for machine code, or ""."""
    if config.settings.deterministic:
        # Fusion, and so the order of sums, depends on which other values are wanted.
        return "deterministic algorithms are on: sums keep their order, whichever values are read"
    return ""


def run_reference(run: FlushRun) -> str:
    """Compute a flush by the plan's reference; always returns ""."""
    plan = run.plan
    plan.run_reference(run.job)
    if plan.place is not None:
        count_host_steps(plan.place, plan.n_ops)
    return ""


COMPILED = Executor(
    "machine code", "a path that comes back: compiled for all sizes, bound to these",
    no_machine_code, lambda run: run.plan.run_compiled(run.job),
)  # fmt: skip
REFERENCE = Executor("NumPy", "everything, by the rules of the ops", always, run_reference, True)


class TieredPlanner:
    """Makes plans that become machine code when the path comes back."""

    def plan(
        self, path: PathGraph, wanted: frozenset[int], roots: frozenset[int]
    ) -> ReferencePlan | TieredPlan:
        """Return a plan that computes `wanted`, and saves values for a backward from `roots`."""
        if not config.settings.compile:
            return ReferencePlan(path, wanted, roots)
        return TieredPlan(path, wanted, roots)
