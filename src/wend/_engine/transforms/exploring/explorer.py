"""Explores a function: records many runs, with forced answers where values are asked for.

n branches in a row take n + 1 runs and not 2^n, as a run ends at a point that is known.
"""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from wend._engine.base import random_state, tree
from wend._engine.base.collecting import CollectionPaused
from wend._engine.base.errors import WendError
from wend._engine.base.switching import SwitchingSeldom
from wend._engine.base.tree import Structure
from wend._engine.core import _backward, _hot
from wend._engine.core._hot import Tensor, Value
from wend._engine.core.provenance import Site
from wend._engine.core.symbolic import DIM, EQ, SymInt, SymNumber
from wend._engine.core.whole import held_by
from wend._engine.transforms.exploring import text
from wend._engine.transforms.exploring.attributes import Attributes, ChangedAttribute, objects_of
from wend._engine.transforms.exploring.conversions import conversions
from wend._engine.transforms.exploring.lists import Unroll
from wend._engine.transforms.exploring.loops import symbolic_loops
from wend._engine.transforms.exploring.program import (
    Fail,
    Give,
    Go,
    Info,
    Point,
    StaticGraph,
    Stretch,
)
from wend._engine.transforms.exploring.recording import (
    ENGINE,
    Again,
    Draws,
    Elsewhere,
    Exploration,
    ExploreError,
    Known,
    Pending,
    Probe,
    Probed,
    Run,
)
from wend._engine.transforms.exploring.replaying import MOST_REPLAYED, Continued, Enough
from wend._engine.transforms.exploring.running import SizesDiffer, holds
from wend._engine.transforms.exploring.simplify import simplify
from wend._engine.transforms.exploring.sizes import SizeFacts, SizesOfInputs, candidates, dims_of
from wend._engine.transforms.exploring.snapshot import hidden_iterators
from wend._engine.transforms.exploring.unseen import counted_lines

Free = list[tuple[int | None, ...]]
BATCH = 2  # the extent that stands for that of a batch while exploring with a single example
MOST_ATTEMPTS = 200  # each of which finds further extents or lists that change in a loop
MOST_PROBED = 4  # sizes on the far side of a comparison, for which the function fails
MOST_KEPT = 16  # sizes of runs that a program tells
MOST_RETRIED = 24  # further sizes for a stretch in which an op refuses the sizes
#: How much of a function becomes branches and loops: each way is tried if the way before fails.
LEVELS = ("loops over sizes", "questions for sizes", "nothing: what is asked fixes the sizes")


# -- the whole ------------------------------------------------------------------------------


@contextmanager
def _entered(run: Run) -> Iterator[None]:
    """Inside the block, ops are recorded by the run; then handles from outside are put back."""
    trace = run.trace
    start = (trace.serial, len(trace.touched))
    # Snapshots look through the youngest objects, of all threads.
    with SwitchingSeldom(), CollectionPaused():
        gc.collect(0)
        before, trace.symbolic = trace.symbolic, run
        own = [*hidden_iterators({}), run.live, run.given, run.numbers]
        run.before = {id(x): x for x in own}
        stream = random_state.swap(Draws(run))
        try:
            lines = counted_lines(ENGINE) if run.shared.facts.counts_lines else nullcontext()
            with symbolic_loops(), conversions(run.shared.converting), lines:
                yield
        finally:
            trace.symbolic = before
            random_state.swap(stream)
            for handle, old, _ in reversed(trace.touched[start[1] :]):
                if held_by(handle).serial == run.serial:
                    value = trace.values[old] if isinstance(old, int) else old
                    if value.serial != run.serial:
                        _backward.restore(handle, value)
            del trace.touched[start[1] :]
            run.end()


class Arguments:
    """The arguments that a function is explored with.

    free: per tensor among the arguments and axis, the extent that stands for a symbol while
    exploring; None for an extent that is a constant
    """

    def __init__(self, args: Sequence[Any], kwargs: dict[str, Any], free: Free | None) -> None:
        self.leaves, self.structure = tree.flatten((tuple(args), dict(kwargs)))
        self.tensors = [x for x in self.leaves if isinstance(x, Tensor)]
        self.constants = {i: x for i, x in enumerate(self.leaves) if not isinstance(x, Tensor)}
        self.free = free if free is not None else _all_free(self.tensors)

    def numbered(self, shared: Exploration) -> list[int]:
        """Ids for the tensors."""
        ids = []
        for x, free in zip(self.tensors, self.free, strict=True):
            number = shared.new_id(Info((), x.dtype))
            hints = [n if h is None else h for n, h in zip(x.shape, free, strict=True)]
            extents = [
                n if free[a] is None else (DIM, number, a) for a, n in enumerate(tuple(x.shape))
            ]
            shared.info[number] = Info(tuple(extents), x.dtype, tuple(hints))
            ids.append(number)
        return ids


def _all_free(tensors: list[Tensor]) -> Free:
    """All extents are symbols but those of 0 and 1, which often mean that a dim is missing.

    A single example is a batch: where dim 0 of all tensors has extent 1, the extent is a symbol.
    """
    batch = all(x.dim() == 0 or x.shape[0] == 1 for x in tensors)
    return [
        tuple(
            [
                n if n > 1 else BATCH if batch and n == 1 and a == 0 else None
                for a, n in enumerate(tuple(x.shape))
            ]
        )
        for x in tensors
    ]


def explore(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    *,
    free: Free | None = None,
    name: str = "",
    names: dict[int, tuple[str, str]] | None = None,
    level: int = 0,
) -> StaticGraph:
    """The explored graph of function(*args, **kwargs).

    free: which extents are symbols, see `Arguments`; by default all but those of 0 and 1
    names: by id() of a tensor from outside (name, kind)
    level: 0: loops over sizes are loops, and comparisons of sizes branches; 1: a loop over a size
    fixes the size; 2: comparisons of sizes do so too

    Raises ExploreError where the function has no static graph, and the errors of the function.
    """
    _hot.synchronize()
    arguments = Arguments(args, kwargs or {}, free)
    title = name or getattr(function, "__name__", type(function).__name__)
    single = free is None and any(BATCH in row for row in arguments.free)
    search = Search(function, arguments, names or {}, title, level)
    try:
        program = search.compared()
        if not single or holds(program, [tuple(x.shape) for x in arguments.tensors]):
            return program
    except ExploreError:
        raise
    except Exception:
        if not single:
            raise
    # The function fails for batches of another size than that of the example, or fixes the size.
    fixed = [tuple([n if n > 1 else None for n in x.shape]) for x in arguments.tensors]
    search = Search(function, Arguments(args, kwargs or {}, fixed), names or {}, title, level)
    return search.compared()


def _alike(a: StaticGraph, b: StaticGraph) -> bool:
    """Whether two programs of a function are the same, with the same constants."""
    if list(text.lines(a)) != list(text.lines(b)) or len(a.captured) != len(b.captured):
        return False
    data = [[_hot.ensure(_hot.refreshed(c.tensor)) for c in p.captured] for p in (a, b)]
    return all(
        x is y or (x.shape == y.shape and bool((x == y).all())) for x, y in zip(*data, strict=True)
    )


def _refuse_state(state: ChangedAttribute) -> None:
    """Raise ExploreError for an attribute that a call changes and the next call starts from."""
    raise ExploreError(
        f"explore: the call changes {state}, which the next call starts from: a static graph has "
        "no Python state. Give the state as an argument and return it, or keep it in a "
        "buffer that is written in place, as by copy_() or add_()"
    )


@dataclass
class Search:
    """The attempts to explore a function. Each tells the next more; the last makes the program.

    wide, growing, converting, int_hints: see `Exploration`
    """

    function: Callable[..., Any]
    given: Arguments
    names: dict[int, tuple[str, str]]
    title: str
    level: int
    facts: SizeFacts = field(default_factory=SizeFacts)
    wide: dict[Any, set[tuple[int, int]]] = field(default_factory=dict)
    growing: dict[Any, dict[int, Info]] = field(default_factory=dict)
    converting: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)
    int_hints: dict[Any, int] = field(default_factory=dict)
    questions: list[int] = field(default_factory=lambda: [0])
    watches: bool = True  # whether unseen results count: see `unseen`

    def compared(self) -> StaticGraph:
        """The program.

        A number that the call counts in an attribute is no state if the program is the same for
        further values of the number.
        """
        program, states = self.program()
        for state in states:
            attributes = vars(state.holder)
            before = attributes[state.name]
            try:
                for value in state.further():
                    attributes[state.name] = value
                    again = Search(self.function, self.given, self.names, self.title, self.level)
                    other, _ = again.program()
                    if not _alike(program, other):
                        _refuse_state(state)
            finally:
                attributes[state.name] = before
        return program

    def program(self) -> tuple[StaticGraph, list[ChangedAttribute]]:
        """A program, and the attributes that the call changes to further numbers.

        Answers that results without a name may follow from are part of the state at first. Where
        this leads to too many states, such results are taken for tensors, which the run knows.
        """
        try:
            return self.attempts()
        except (ExploreError, Unroll):
            if not self.facts.watched:
                raise
        again = Search(self.function, self.given, self.names, self.title, self.level)
        again.watches = False
        return again.attempts()

    def attempts(self) -> tuple[StaticGraph, list[ChangedAttribute]]:
        """`program`, one attempt after the other."""
        attributes = Attributes(objects_of(self.function, self.given.leaves))
        for _ in range(MOST_ATTEMPTS):
            shared = self.exploration()
            inputs = self.given.numbered(shared)
            sizes = _sizes_of(shared, inputs)
            for dim, (n, site) in self.facts.pinned.items():
                shared.guards[EQ, dim, n] = (True, site)
            try:
                states = _explore_all(shared, self, inputs, sizes, attributes)
            except Again:  # the exploration begins again, with symbols for extents that differ
                continue
            except Probe as probe:
                # Both answers to a comparison of sizes are looked at; then the exploration begins
                # again.
                self.look_past(probe, inputs, sizes, attributes)
                continue
            except Unroll:  # the exploration begins again, with loops over extents unrolled
                if self.watches and self.facts.watched:
                    raise
                self.level += 1
                self.wide, self.growing = {}, {}
                continue
            captured = sorted(shared.captured.values(), key=lambda c: c.id)
            program = StaticGraph(
                self.title,
                inputs,
                self.given.structure,
                self.given.constants,
                captured,
                shared.points,
                shared.info,
                shared.guards,
                [_shapes(shared, inputs, sizes) for sizes in shared.tried[:MOST_KEPT]],
            )
            return simplify(program), states
        raise ExploreError(
            f"explore: {self.title}: sizes differ in each turn of a loop in many ways"
        )

    def exploration(self) -> Exploration:
        """The points of an attempt, so far none."""
        shared = Exploration(
            self.wide,
            self.growing,
            self.level < 1,
            self.questions,
            self.converting,
            self.int_hints,
            self.facts,
            self.level < 2,
        )
        shared.names, shared.watches = self.names, self.watches
        shared.points.append(Point((), None, [Stretch()], None))
        return shared

    def look_past(
        self, probe: Probe, inputs: list[int], sizes: SizesOfInputs, attributes: Attributes
    ) -> None:
        """Find out whether the program goes on for both answers to a comparison of sizes.

        If it does not, as behind a check that raises an error, the comparison is a guard.
        """
        facts = self.facts
        constraints = [*facts.constraints(), (*probe.question, not probe.outcome)]
        focus = [d for e in probe.question[1:] for d in dims_of(e)]
        tried = candidates(sizes, constraints, focus, facts.pinned)
        for other in itertools.islice(tried, MOST_PROBED):
            shared = self.exploration()
            self.given.numbered(shared)
            run = Run(shared, (), other)
            run.probe = probe.question
            run.stretch = shared.points[0].answers[0]
            try:
                goes_on = _run(run, self.function, self.given.leaves, self.given.structure, inputs)
            except Again:  # more is known now
                return
            except (Probed, Unroll):  # the run has come past the comparison
                goes_on = run.is_past_probe
            except Elsewhere:  # these sizes do not lead to the comparison
                continue
            except Exception:
                # The function refuses these sizes: the comparison is a guard, which names the line.
                goes_on = False
            finally:
                attributes.restore()
            if goes_on:
                facts.open.add(probe.question)
                return
        facts.certain[probe.question] = (probe.outcome, probe.site)


def _sizes_of(shared: Exploration, inputs: list[int]) -> SizesOfInputs:
    """The sizes of inputs that are symbols, while exploring."""
    sizes: SizesOfInputs = {}
    for number in inputs:
        info = shared.info[number]
        for e, n in zip(info.extents or (), info.hint, strict=True):
            if type(e) is tuple:
                sizes[e] = n
    return sizes


def _shapes(shared: Exploration, inputs: list[int], sizes: SizesOfInputs) -> list[tuple[int, ...]]:
    """The shapes of the inputs in a run."""
    return [
        tuple([sizes[e] if type(e) is tuple else e for e in shared.info[i].extents or ()])
        for i in inputs
    ]


def _explore_all(
    shared: Exploration,
    search: Search,
    inputs: list[int],
    sizes: SizesOfInputs,
    attributes: Attributes,
) -> list[ChangedAttribute]:
    """Run the function until all answers of all points have been taken."""
    states: dict[tuple[int, str], ChangedAttribute] = {}
    arguments = search.given

    def runs(script: tuple[bool, ...], sizes: SizesOfInputs) -> Run:
        """A run that has ended."""
        run = Run(shared, script, sizes)
        if not script:
            run.stretch = shared.points[0].answers[0]
        try:
            run.goes_on = _run(run, search.function, arguments.leaves, arguments.structure, inputs)
            read = {id(_hot.refreshed(c.tensor)) for c in shared.captured.values()}
            for state in attributes.changed(lambda x: id(_hot.refreshed(x)) in read):
                if state.value is None:
                    _refuse_state(state)
                states[id(state.holder), state.name] = state
        finally:
            attributes.restore()
        return run

    shared.scripts = [Pending((), sizes, (), None, None)]
    while shared.scripts:
        pending = shared.scripts.pop()
        _take(shared, pending, runs)
    if shared.begins_again:
        raise Again
    _replay(shared, search, inputs, attributes)
    for point in shared.points:
        for stretch in point.answers:
            if stretch.end is None:  # further sizes for the way have led elsewhere
                _leave(shared, stretch)
    ends = [stretch.end for point in shared.points for stretch in point.answers]
    if all(isinstance(end, Go) for end in ends):
        raise ExploreError(
            f"explore: {search.title}: a loop has no end, or counts in Python without a bound"
        )
    return list(states.values())


def _replay(shared: Exploration, search: Search, inputs: list[int], attributes: Attributes) -> None:
    """Compare the program with runs that go on where earlier runs have ended."""
    arguments = search.given
    for seed, (script, sizes) in enumerate(shared.came_again[:MOST_REPLAYED]):
        run = Continued(shared, script, sizes, seed)
        try:
            _run(run, search.function, arguments.leaves, arguments.structure, inputs)
        except (Elsewhere, Enough):  # this way leads elsewhere, or asks on and on
            continue
        finally:
            attributes.restore()


def _take(shared: Exploration, pending: Pending, runs: Callable[..., Run]) -> None:
    """Explore the stretch behind an answer, with sizes that give the answer."""
    script, base, path, focus, end = pending
    pinned = shared.facts.pinned
    constraints = [*shared.facts.constraints(), *path]
    waiting: Iterable[SizesOfInputs] = [base]
    if focus is not None:
        waiting = candidates(base, constraints, focus, pinned)
    for sizes in waiting:
        try:
            run = runs(script, sizes)
        except Elsewhere:  # these sizes take another way; further sizes are tried
            continue
        if run.goes_on and sizes not in shared.tried:
            shared.tried.append(sizes)
        if isinstance(run.stretch.end, Go):
            shared.came_again.append((run.script, sizes))
        if not run.goes_on and run.is_resized() and not run.turned:
            _retry(shared, run, runs)
        return
    assert end is not None
    _leave(shared, end)


def _leave(shared: Exploration, end: Stretch) -> None:
    """End a way that no sizes have been found for."""
    site = shared.site_of(end)
    end.items.clear()
    end.end = Fail(
        SizesDiffer(
            f"explore: no sizes have been found for which the program goes on here: {site}; the "
            "graph does not hold for such sizes"
        ),
        site,
    )


def _retry(shared: Exploration, failed: Run, runs: Callable[..., Run]) -> None:
    """Take a way that has ended in an error of an op again, with further sizes."""
    constraints = [*shared.facts.constraints(), *failed.path]
    tried = candidates(failed.sizes, constraints, (), shared.facts.pinned)
    for sizes in itertools.islice(tried, MOST_RETRIED):
        try:
            if runs(failed.script, sizes).goes_on:
                return
        except Elsewhere:  # these sizes take another way; further sizes are tried
            continue


def _run(
    run: Run,
    function: Callable[..., Any],
    leaves: list[Any],
    structure: Structure,
    inputs: list[int],
) -> bool:
    """Run the function; whether it goes on to its end, or to a point that is known.

    It does so too where it raises an error of its own, which is then the end; but not where an op
    refuses the sizes.
    """
    with _entered(run):
        left = inputs[::-1]  # an iterator would be one of the function's
        arguments = []
        for x in leaves:
            if isinstance(x, Tensor):
                number = left.pop()
                info = run.shared.info[number]
                hint = tuple(
                    [
                        run.sizes.get(e, n) if type(e) is tuple else n
                        for e, n in zip(info.extents or (), info.hint, strict=True)
                    ]
                )
                own = Info(info.extents, info.dtype, hint)
                run.given.append(run.tensor(own, number, x.device))
                arguments.append(run.given[-1])
                run.inputs.append((run.live[-1], number))
            else:
                arguments.append(x)
        args, kwargs = tree.unflatten(structure, arguments)
        del arguments
        run.frames_from = sys._getframe()
        try:
            result = function(*args, **kwargs)
            run.refuse_shown()
            run.finish(_end(run, result))
        except Known:  # the run has come to a point that is known
            pass
        except ExploreError:
            raise
        except Exception as error:
            if not run.script:
                raise
            site = getattr(error, "site", None) if isinstance(error, WendError) else None
            run.finish(Fail(_without_frames(error), site or Site(None, 0)))
            return not isinstance(error, WendError)
    return True


def _without_frames(error: Exception) -> Exception:
    """Return an error without the frames, and all they hold, of itself and of the errors before."""
    if any(isinstance(x, (SymInt, SymNumber)) for x in error.args):  # a key that is missing
        error.args = ("a number that is no key",)
    waiting: list[BaseException] = [error]
    while waiting:
        each = waiting.pop()
        each.__traceback__ = None
        before = (each.__context__, each.__cause__)
        waiting += [e for e in before if e is not None and e.__traceback__ is not None]
    return error


def _end(run: Run, result: object) -> Give:
    leaves, structure = tree.flatten(result)
    entries: list[tuple[str, Any]] = []
    for x in leaves:
        if isinstance(x, Tensor):
            entries.append(("value", run.id_of(_hot.refreshed(x), x)))
        elif isinstance(x, (SymInt, SymNumber)):
            entries.append(("number", x.expr))
        else:
            entries.append(("constant", x))
    return Give(tuple(entries), structure, _writes(run))


def _writes(run: Run) -> tuple[tuple[int, int], ...]:
    """The tensors from outside, and the arguments, that hold a new value, and these values."""
    writes: dict[int, tuple[int, Value]] = {}
    for handle, old, _ in run.trace.touched:
        if isinstance(old, int) or isinstance(handle, _hot.Storage):
            continue
        if handle.value.serial == run.serial and old.serial != run.serial:
            writes.setdefault(id(handle), (run.id_of(old, handle), handle.value))
    for captured in run.shared.captured.values():  # written by way of tensors that share the memory
        now = _hot.refreshed(captured.tensor)
        if now.serial == run.serial:
            writes.setdefault(id(captured.tensor), (captured.id, now))
    for handle, (value, number) in zip(run.given, run.inputs, strict=True):
        if _hot.refreshed(handle) is not value:
            writes[id(handle)] = (number, handle.value)
    return tuple([(target, int(value.index)) for target, value in writes.values()])
