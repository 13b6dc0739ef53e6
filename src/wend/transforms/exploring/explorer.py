"""Explores a function: records many runs, with forced answers where values are asked for.

n branches in a row take n + 1 runs and not 2^n, as a run ends at a point that is known.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from wend.base import random_state, tree
from wend.base.errors import WendError
from wend.core import _backward, _hot
from wend.core._hot import Tensor, Value
from wend.core.provenance import Site
from wend.core.symbolic import DIM, SymInt, SymNumber
from wend.core.whole import held_by
from wend.transforms.exploring import text
from wend.transforms.exploring.attributes import Attributes, ChangedAttribute, objects_of
from wend.transforms.exploring.conversions import conversions
from wend.transforms.exploring.loops import symbolic_loops
from wend.transforms.exploring.program import Fail, Give, Info, Point, StaticGraph, Stretch
from wend.transforms.exploring.recording import (
    Again,
    Draws,
    Exploration,
    ExploreError,
    Known,
    Run,
    Unroll,
)
from wend.transforms.exploring.running import holds
from wend.transforms.exploring.simplify import simplify
from wend.transforms.exploring.snapshot import hidden_iterators

__all__ = ["ExploreError", "explore"]

Free = list[tuple[int | None, ...]]
BATCH = 2  # the extent that stands for that of a batch while exploring with a single example
MOST_ATTEMPTS = 50  # each of which finds further extents or lists that change in a loop


# -- the whole ------------------------------------------------------------------------------


@contextmanager
def _entered(run: Run) -> Iterator[None]:
    """Inside the block, ops are recorded by the run; then handles from outside are put back."""
    trace = run.trace
    start = (trace.serial, len(trace.touched))
    before, trace.symbolic = trace.symbolic, run
    collecting = gc.isenabled()
    gc.disable()
    gc.collect(0)  # snapshots look through the objects that are younger than this
    own = [*hidden_iterators({}), run.live, run.given, run.numbers]
    run.before = {id(x): x for x in own}
    stream = random_state.swap(Draws(run))
    try:
        with symbolic_loops(), conversions(run.shared.converting):
            yield
    finally:
        trace.symbolic = before
        random_state.swap(stream)
        if collecting:
            gc.enable()
        for handle, old, _ in reversed(trace.touched[start[1] :]):
            if held_by(handle).serial == run.serial:
                value = trace.values[old] if isinstance(old, int) else old
                if value.serial != run.serial:
                    _backward.restore(handle, value)
        del trace.touched[start[1] :]


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
    keeps_loops: bool = True,
) -> StaticGraph:
    """The explored graph of function(*args, **kwargs).

    free: which extents are symbols, see `Arguments`; by default all but those of 0 and 1
    names: by id() of a tensor from outside (name, kind)
    keeps_loops: whether loops over extents stay loops; else the number of turns is fixed

    Raises ExploreError where the function has no static graph, and the errors of the function.
    """
    _hot.synchronize()
    given = Arguments(args, kwargs or {}, free)
    title = name or getattr(function, "__name__", type(function).__name__)
    single = free is None and any(BATCH in row for row in given.free)
    try:
        program = _explored(function, given, names or {}, title, keeps_loops)
        if not single or holds(program, [tuple(x.shape) for x in given.tensors]):
            return program
    except ExploreError:
        raise
    except Exception:
        if not single:
            raise
    # The function fails for batches of another size than that of the example, or fixes the size.
    fixed = [tuple([n if n > 1 else None for n in x.shape]) for x in given.tensors]
    again = Arguments(args, kwargs or {}, fixed)
    return _explored(function, again, names or {}, title, keeps_loops)


def _explored(
    function: Callable[..., Any],
    given: Arguments,
    names: dict[int, tuple[str, str]],
    title: str,
    keeps_loops: bool,
) -> StaticGraph:
    """A program, not yet compared with the function.

    A number that the call counts in an attribute is no state if the program is the same for further
    values of the number.
    """
    program, states = _program(function, given, names, title, keeps_loops)
    for state in states:
        attributes = vars(state.holder)
        before = attributes[state.name]
        try:
            for value in state.further():
                attributes[state.name] = value
                other, _ = _program(function, given, names, title, keeps_loops)
                if not _alike(program, other):
                    _refuse_state(state)
        finally:
            attributes[state.name] = before
    return program


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


def _program(
    function: Callable[..., Any],
    given: Arguments,
    names: dict[int, tuple[str, str]],
    title: str,
    keeps_loops: bool,
) -> tuple[StaticGraph, list[ChangedAttribute]]:
    """A program, and the attributes that the call changes to further numbers."""
    wide: dict[Any, set[tuple[int, int]]] = {}
    growing: dict[Any, dict[int, Info]] = {}
    converting: dict[tuple[int, str], dict[str, Any]] = {}
    int_hints: dict[Any, int] = {}
    questions = [0]
    attributes = Attributes(objects_of(function, given.leaves))
    for _ in range(MOST_ATTEMPTS):
        shared = Exploration(wide, growing, keeps_loops, questions, converting, int_hints)
        shared.names = names
        entry = Point((), None, [Stretch()], None)
        shared.points.append(entry)
        inputs = given.numbered(shared)
        try:
            states = _explore_all(shared, function, given, inputs, attributes)
        except Again:
            continue
        except Unroll:
            keeps_loops = False
            wide, growing = {}, {}
            continue
        captured = sorted(shared.captured.values(), key=lambda c: c.id)
        program = StaticGraph(
            title,
            inputs,
            given.structure,
            given.constants,
            captured,
            shared.points,
            shared.info,
            shared.guards,
        )
        return simplify(program), states
    raise ExploreError(f"explore: {title}: sizes differ in each turn of a loop in many ways")


def _explore_all(
    shared: Exploration,
    function: Callable[..., Any],
    given: Arguments,
    inputs: list[int],
    attributes: Attributes,
) -> list[ChangedAttribute]:
    """Run the function until all answers of all points have been taken."""
    shared.scripts = [()]
    states: dict[tuple[int, str], ChangedAttribute] = {}
    while shared.scripts:
        script = shared.scripts.pop()
        run = Run(shared, script)
        if not script:
            run.stretch = shared.points[0].answers[0]
        try:
            _run(run, function, given.leaves, given.structure, inputs)
            read = {id(_hot.refreshed(c.tensor)) for c in shared.captured.values()}
            for state in attributes.changed(lambda x: id(_hot.refreshed(x)) in read):  # noqa: B023
                if state.value is None:
                    _refuse_state(state)
                states[id(state.holder), state.name] = state
        finally:
            attributes.restore()
    return list(states.values())


def _run(
    run: Run, function: Callable[..., Any], leaves: list[Any], structure: Any, inputs: list[int]
) -> None:
    with _entered(run):
        tensors = iter(inputs)
        given = []
        for x in leaves:
            if isinstance(x, Tensor):
                number = next(tensors)
                run.given.append(run.tensor(run.shared.info[number], number, x.device))
                given.append(run.given[-1])
                run.inputs.append((run.live[-1], number))
            else:
                given.append(x)
        args, kwargs = tree.unflatten(structure, given)
        del given
        run.frames_from = sys._getframe()
        try:
            result = function(*args, **kwargs)
            run.refuse_shown()
            run.stretch.end = _end(run, result)
        except Known:
            pass
        except ExploreError:
            raise
        except Exception as error:
            if not run.script:
                raise
            site = getattr(error, "site", None) if isinstance(error, WendError) else None
            run.stretch.end = Fail(error.with_traceback(None), site or Site(None, 0))


def _end(run: Run, result: Any) -> Give:
    leaves, structure = tree.flatten(result)
    found: list[tuple[str, Any]] = []
    for x in leaves:
        if isinstance(x, Tensor):
            found.append(("value", run.id_of(_hot.refreshed(x), x)))
        elif isinstance(x, (SymInt, SymNumber)):
            found.append(("number", x.expr))
        else:
            found.append(("constant", x))
    return Give(tuple(found), structure, _writes(run))


def _writes(run: Run) -> tuple[tuple[int, int], ...]:
    """The tensors from outside, and the arguments, that hold a new value, and these values."""
    found: dict[int, tuple[int, Value]] = {}
    for handle, old, _ in run.trace.touched:
        if isinstance(old, int) or isinstance(handle, _hot.Storage):
            continue
        if handle.value.serial == run.serial and old.serial != run.serial:
            found.setdefault(id(handle), (run.id_of(old, handle), handle.value))
    for captured in run.shared.captured.values():  # written by way of what shares the memory
        now = _hot.refreshed(captured.tensor)
        if now.serial == run.serial:
            found.setdefault(id(captured.tensor), (captured.id, now))
    for handle, (value, number) in zip(run.given, run.inputs, strict=True):
        if _hot.refreshed(handle) is not value:
            found[id(handle)] = (number, handle.value)
    return tuple([(target, int(value.index)) for target, value in found.values()])
