"""Records the pieces of an explored graph: each for all patterns of sizes that were found.

A stretch is cut where a number is read. The pattern of a piece is found from the sizes while
exploring, and from walks through the graph with the types of the examples.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from wend._engine.base.devices import CPU
from wend._engine.base.errors import ShapeError
from wend._engine.compiler.aot.recorded_path import (
    Growth,
    Output,
    Piece,
    RecordedGraph,
    RecordedPath,
)
from wend._engine.core import _hot, _types
from wend._engine.core.provenance import Site
from wend._engine.core.symbolic import (
    ARG,
    DIM,
    EQ,
    Expr,
    Guards,
    SymInt,
    SymNumber,
    apply_binary,
    evaluate,
    expr_of,
    substitute,
)
from wend._engine.core.symtrace import Recorder, flatten_outputs, symbolic_shape
from wend._engine.transforms.exploring.numbers import ids_of
from wend._engine.transforms.exploring.program import (
    Apply,
    Compute,
    Give,
    Go,
    Item,
    ReadNumber,
    StaticGraph,
    Stretch,
)
from wend._engine.transforms.exploring.simplify import asked, made_by, used_by
from wend._frontend.autograd.grad_modes import no_grad
from wend.aot._refusals import check, refuse
from wend.aot._weights import LibraryWeights

__all__ = ["record_graph"]

MOST_PATTERNS = 6  # of a piece
MOST_VISITS = 60  # of stretches in a walk
#: Numbers that are taken for numbers read from tensors, by category.
_USUAL = (True, 2, 0.5)


class PieceRecorder(Recorder):
    """Records the ops of a piece."""

    maps = True  # in-place ops of composites are allowed


class _Hints:
    """Sizes and numbers that stand for those of a run, by id.

    exact: ids of the numbers that follow from sizes and constants alone
    """

    def __init__(self) -> None:
        self.shapes: dict[int, tuple[int, ...]] = {}
        self.numbers: dict[int, Any] = {}
        self.exact: set[int] = set()

    def value(self, expr: Expr) -> Any:
        """Return the value of an expression. Raises KeyError where a part is not known."""
        return evaluate(expr, self.shapes, self.numbers)

    def is_exact(self, expr: Expr) -> bool:
        """Return whether a number follows from sizes and constants alone."""
        return all(i in self.exact or i in self.shapes for i in ids_of(expr))

    def key(self, ids: Sequence[int]) -> Any:
        """Return the facts about these ids."""
        return tuple([(self.shapes.get(i), self.numbers.get(i)) for i in ids])


class _Cut:
    """The items between two numbers that are read.

    reads: the ids of values and numbers from before
    hands: the tensors that are handed on, as (id in the graph, place among the user's results)
    """

    def __init__(self, items: list[Item], read: ReadNumber | None) -> None:
        self.items, self.read = items, read
        self.hands: list[tuple[int, int | None]] = []
        outputs = {i for item in items for i in made_by(item)}
        used = {i for item in items for i in used_by(item)}
        self.made = outputs
        self.reads = sorted(used - outputs)
        self.paths: dict[Any, RecordedPath] = {}
        self.seen: dict[Any, _Made] = {}
        self.error: ShapeError | None = None

    @property
    def site(self) -> Site | None:
        """The user's line of the first op."""
        return next((item.site for item in self.items if isinstance(item, Apply)), None)


class _Made:
    """The facts that a recorded piece adds: shapes of tensors, and values of numbers."""

    def __init__(self, shapes: dict[int, tuple[int, ...]], numbers: dict[int, Any]) -> None:
        self.shapes, self.numbers = shapes, numbers


class GraphRecorder:
    """Records the pieces of an explored graph."""

    def __init__(self, program: StaticGraph, weights: LibraryWeights) -> None:
        self.program, self.all_weights = program, weights
        self.captured = {c.id: c for c in program.captured}
        self.fixed = {*program.inputs, *self.captured}
        self.weights: dict[int, int] = {}
        self.live = _live(program)
        self.growths = {
            (point, answer): self._growths(stretch)
            for point, answer, stretch in program.stretches()
        }
        self.cuts = {
            (point, answer): self._cut(stretch, self.growths[point, answer])
            for point, answer, stretch in program.stretches()
        }

    def _growths(self, stretch: Stretch) -> list[Growth]:
        """Return the lists that a stretch makes longer and that nobody else reads."""
        if not isinstance(stretch.end, Go):
            return []
        target = stretch.end.point
        later = self.live[target] - set(self.program.points[target].params)
        uses = Counter(i for part in (*stretch.items, stretch.end) for i in used_by(part))
        growths = []
        for item in stretch.items:
            if not isinstance(item, Apply) or item.prim.name != "cat" or len(item.inputs) != 2:
                continue
            (output,), (rows, more) = item.outputs, item.inputs
            kinds = {self.program.info[i].dtype for i in (output, rows, more)}
            handed = output in stretch.end.args and uses[output] == stretch.end.args.count(output)
            alone = uses[rows] == 1 and rows not in later and rows not in self.fixed
            if item.prim.dim == 0 and len(kinds) == 1 and handed and alone:
                growths.append(Growth(output, rows, more))
        return growths

    def _cut(self, stretch: Stretch, growths: list[Growth]) -> list[_Cut]:
        """Return the pieces of a stretch, without the ops that make lists longer."""
        cuts = []
        items: list[Item] = []
        longer = {growth.output for growth in growths}
        for item in stretch.items:
            if longer.intersection(made_by(item)):
                continue
            if isinstance(item, ReadNumber):
                cuts.append(_Cut(items, item))
                items = []
            else:
                items.append(item)
        cuts.append(_Cut(items, None))
        wanted = set(used_by(stretch.end)) | {growth.item for growth in growths}
        if isinstance(stretch.end, Go):
            wanted |= self.live[stretch.end.point]
        for cut in reversed(cuts):
            if cut.read is not None:
                wanted.add(cut.read.value)
            cut.hands = [(i, None) for i in sorted(cut.made & wanted) if self._is_tensor(i)]
            wanted |= set(cut.reads)
        if isinstance(stretch.end, Give):
            values = [
                (i, place) for place, (kind, i) in enumerate(stretch.end.leaves) if kind == "value"
            ]
            cuts[-1].hands = [(i, place) for i, place in values if i in cuts[-1].made]
        return cuts

    def _is_tensor(self, i: int) -> bool:
        return self.program.info[i].extents is not None

    # -- patterns -----------------------------------------------------------------------------

    def record_explored(self) -> None:
        """Record all pieces with the sizes that exploring has taken."""
        hints = _Hints()
        for i, info in self.program.info.items():
            if info.extents is None:
                hints.numbers[i] = info.hint[0] if info.hint else _USUAL[info.dtype]
            else:
                hints.shapes[i] = tuple(info.hint)
        for cuts in self.cuts.values():
            for cut in cuts:
                try:
                    facts = self._record(cut, hints)
                except ShapeError as error:  # a walk may find sizes that fit each other
                    cut.error = error
                    continue
                hints.numbers |= facts.numbers

    def walk(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Record pieces with the sizes that follow from those of inputs.

        Questions of sizes have one answer, and questions of values have both.
        """
        first = _Hints()
        first.shapes = dict(zip(self.program.inputs, shapes, strict=True))
        first.shapes |= {c.id: tuple(c.tensor.shape) for c in self.program.captured}
        waiting = deque([(0, 0, first)])
        seen = set()
        for _ in range(MOST_VISITS):
            if not waiting:
                return
            point, answer, hints = waiting.popleft()
            try:
                target = self._walk_stretch(point, answer, hints)
            except Exception:  # no run has these sizes here
                continue
            if target is None:
                continue
            key = (target, hints.key(sorted(self.live[target])))
            if key not in seen:
                seen.add(key)
                waiting += [(target, k, after) for k, after in self._answers(target, hints)]

    def _walk_stretch(self, point: int, answer: int, hints: _Hints) -> int | None:
        """Note the facts that follow from a stretch, and return the next point."""
        stretch = self.program.points[point].answers[answer]
        for cut in self.cuts[point, answer]:
            exact = [
                item.output
                for item in cut.items
                if isinstance(item, Compute) and hints.is_exact(item.expr)
            ]
            facts = self._record(cut, hints)
            hints.shapes |= facts.shapes
            hints.numbers |= facts.numbers
            hints.exact |= set(exact)
            if cut.read is not None:
                number = cut.read.output
                hints.numbers[number] = _USUAL[self.program.info[number].dtype]
        for growth in self.growths[point, answer]:
            (n, *rest), (more, *_) = hints.shapes[growth.rows], hints.shapes[growth.item]
            hints.shapes[growth.output] = (n + more, *rest)
        if not isinstance(stretch.end, Go):
            return None
        target = stretch.end.point
        pairs = list(zip(self.program.points[target].params, stretch.end.args, strict=True))
        shapes = {p: hints.shapes[a] for p, a in pairs if a in hints.shapes}
        numbers = {p: hints.numbers[a] for p, a in pairs if a in hints.numbers}
        exact = [p for p, a in pairs if a in hints.exact]
        hints.exact -= {p for p, _ in pairs}
        hints.shapes |= shapes
        hints.numbers |= numbers
        hints.exact |= set(exact)
        return target

    def _answers(self, point: int, hints: _Hints) -> list[tuple[int, _Hints]]:
        """Return the answers that a question may have with these sizes, each with its facts."""
        question = self.program.points[point].question
        assert question is not None
        answers = [0, 1]
        if question[0] == "compare" and all(map(hints.is_exact, question[2:])):
            answers = [int(apply_binary(question[1], *map(hints.value, question[2:])))]
        outcomes = []
        for answer in answers:
            copy = _Hints()
            copy.shapes, copy.numbers = dict(hints.shapes), dict(hints.numbers)
            copy.exact = set(hints.exact)
            outcomes.append((answer, copy))
        return outcomes

    # -- pieces -------------------------------------------------------------------------------

    def _record(self, cut: _Cut, hints: _Hints) -> _Made:
        """Record a piece for a pattern of sizes, unless the same sizes were met before."""
        key = hints.key(cut.reads)
        facts = cut.seen.get(key)
        if facts is None:
            path, facts = self._recorded(cut, hints)
            cut.seen[key] = facts
            if len(cut.paths) < MOST_PATTERNS:
                cut.paths.setdefault(path.guards, path)
        return facts

    def _recorded(self, cut: _Cut, hints: _Hints) -> tuple[RecordedPath, _Made]:
        guards = Guards()
        recorder = PieceRecorder(guards)
        tensors: dict[int, Any] = {}
        inputs = [i for i in cut.reads if self._is_tensor(i) and i not in self.captured]
        for k, i in enumerate(inputs):
            type_ = _types.intern_type(hints.shapes[i], self.program.info[i].dtype, CPU)
            tensors[i] = recorder.tensor(symbolic_shape(k, type_, guards), type_)
        self._tell_sizes(inputs, guards)
        weights = {}
        for i in cut.reads:
            if i in self.captured:
                type_ = _hot.refreshed(self.captured[i].tensor).type
                weights[recorder.n] = self.weight(i)
                tensors[i] = recorder.tensor(tuple(type_.shape), type_)
        run = _PieceRun(recorder, tensors, hints)
        with no_grad():
            recorder.run(lambda: run.all(cut.items))
        outputs = [
            Output(recorder.id_of(None, tensors[i]), i if place is None else None, place or 0)
            for i, place in cut.hands
        ]
        path = RecordedPath(
            recorder.nodes,
            recorder.hints,
            recorder.shapes,
            tuple([(*key, outcome) for key, outcome in guards.items.items()]),
            tuple(inputs),
            weights,
            tuple(outputs),
            tuple([(i, expr) for i, (expr, _) in run.numbers.items()]),
            run.sites,
        )
        shapes = {
            i: tuple(recorder.hints[recorder.id_of(None, tensors[i])].shape)
            for i in cut.made
            if i in tensors
        }
        return path, _Made(shapes, {i: hint for i, (_, hint) in run.numbers.items()})

    def _tell_sizes(self, inputs: list[int], guards: Guards) -> None:
        """Add the sizes of a piece's inputs that are constants, or equal to others, as guards."""
        first: dict[Expr, Expr] = {}
        for k, i in enumerate(inputs):
            for axis, extent in enumerate(self.program.info[i].extents or ()):
                here = (DIM, k, axis)
                if type(extent) is not tuple:
                    guards.add(EQ, here, extent, True)
                elif first.setdefault(extent, here) != here:
                    guards.add(EQ, here, first[extent], True)

    def weight(self, i: int) -> int:
        """Return the number of the weight that a captured tensor is."""
        if i not in self.weights:
            self.weights[i] = self.all_weights.number(self.captured[i])
        return self.weights[i]

    def recorded(self) -> RecordedGraph:
        """Return the graph with its pieces."""
        program = self.program
        outside = set().union(*[used_by(stretch.end) for _, _, stretch in program.stretches()])
        outside |= {i for point in program.points for i in asked(point.question)}
        outside |= {
            item.value
            for _, _, stretch in program.stretches()
            for item in stretch.items
            if isinstance(item, ReadNumber)
        }
        outside |= {growth.item for growths in self.growths.values() for growth in growths}
        for i in sorted(outside & self.captured.keys()):
            self.weight(i)
        for cut in [cut for cuts in self.cuts.values() for cut in cuts]:
            if cut.error is not None and not cut.paths:
                raise refuse(
                    f"sizes follow from values, and no usual values fit ({cut.error.args[0]}); "
                    "give the size as an input, or use ops such as where",
                    cut.site,
                ) from cut.error
        pieces = {
            key: [Piece(list(cut.paths.values()), cut.site, cut.read) for cut in cuts]
            for key, cuts in self.cuts.items()
        }
        return RecordedGraph(program, self.weights, pieces, self.growths, self.live)


class _PieceRun:
    """Applies the items of a piece to symbolic tensors.

    numbers: id in the graph -> (expression over the piece's inputs, value while recording)
    sites: by id in the piece, the user's lines of results
    """

    def __init__(self, recorder: Recorder, tensors: dict[int, Any], hints: _Hints) -> None:
        self.recorder, self.tensors, self.hints = recorder, tensors, hints
        self.numbers: dict[int, tuple[Expr, Any]] = {}
        self.sites: dict[int, Site] = {}

    def all(self, items: list[Item]) -> None:
        """Apply all items."""
        for item in items:
            if isinstance(item, Apply):
                self.apply(item)
            elif isinstance(item, Compute):
                self.numbers[item.output] = self.number(item.expr)

    def apply(self, item: Apply) -> None:
        """Record an op."""
        prim, recorder = item.prim, self.recorder
        args = []
        for k, argument in enumerate(item.args):
            expr, hint = self.number(argument)
            if type(expr) is not tuple:
                args.append(expr)
            elif prim.size_mask[k]:
                args.append(SymInt(expr, hint, recorder.guards))
            else:
                args.append(SymNumber(expr, prim.categories[k], hint))
        first = recorder.n
        result = recorder.record(prim, [self.tensors[i] for i in item.inputs], args)
        for i, tensor in zip(item.outputs, flatten_outputs(result), strict=True):
            # Bodies of composites may have written into memory that the result is a view of.
            self.tensors[i] = _hot.wrap(_hot.refreshed(tensor))
        self.sites.update(dict.fromkeys(range(first, recorder.n), item.site))

    def number(self, expr: Expr) -> tuple[Expr, Any]:
        """Return (an expression over the piece's inputs, its value while recording)."""
        if type(expr) is not tuple:
            return expr, expr
        local = substitute(expr, self._dim, self._arg)
        return local, evaluate(expr, _Dims(self), _Numbers(self))

    def _dim(self, i: int, axis: int) -> Expr:
        return expr_of(self.tensors[i].value.type.shape[axis])

    def _arg(self, k: int) -> Expr:
        return self.numbers[k][0] if k in self.numbers else (ARG, k)


class _Dims:
    """The shapes of a piece's values while recording, by id in the graph."""

    def __init__(self, run: _PieceRun) -> None:
        self.run = run

    def __getitem__(self, i: int) -> Any:
        recorder = self.run.recorder
        return recorder.hints[recorder.id_of(None, self.run.tensors[i])].shape


class _Numbers:
    """The numbers of a piece while recording, by id in the graph."""

    def __init__(self, run: _PieceRun) -> None:
        self.run = run

    def __getitem__(self, k: int) -> Any:
        entry = self.run.numbers.get(k)
        return self.run.hints.numbers[k] if entry is None else entry[1]


def _live(program: StaticGraph) -> list[set[int]]:
    """Return, by point, the ids that are read there or later without being made anew."""
    live: list[set[int]] = [set() for _ in program.points]
    changed = True
    while changed:
        changed = False
        for number, point in enumerate(program.points):
            need = set(asked(point.question))
            for stretch in point.answers:
                need |= _needed(program, stretch, live)
            if need != live[number]:
                live[number] = need
                changed = True
    return live


def _needed(program: StaticGraph, stretch: Stretch, live: list[set[int]]) -> set[int]:
    """Return the ids that a stretch, or all that follows, reads from before."""
    need = set(used_by(stretch.end))
    if isinstance(stretch.end, Go):
        target = stretch.end.point
        need |= live[target] - set(program.points[target].params)
    for item in reversed(stretch.items):
        need.difference_update(made_by(item))
        need.update(used_by(item))
    return need


def record_graph(
    program: StaticGraph, weights: LibraryWeights, sizes: Sequence[Sequence[tuple[int, ...]]]
) -> RecordedGraph:
    """Return an explored graph with its pieces recorded.

    sizes: the shapes of inputs of examples

    Raises CompileError for graphs that no library can run.
    """
    check(program)
    recorder = GraphRecorder(program, weights)
    recorder.record_explored()
    for shapes in sizes:
        recorder.walk(shapes)
    return recorder.recorded()
