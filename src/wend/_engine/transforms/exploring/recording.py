"""A run of a function that is being explored: takes the place of the thread's trace.

Tensors have types, and no data.  A script says how the first questions are to be answered; at
the first further question the run is at a point of the program.  If the point is known, by the
snapshot of the Python state, the run ends there.
"""

from __future__ import annotations

import functools
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import CodeType, FrameType
from typing import Any, NamedTuple

from wend._engine.base.devices import CPU
from wend._engine.base.devices import device as Device
from wend._engine.base.dtypes import float32, float64, int64
from wend._engine.base.errors import GraphError, ShapeError
from wend._engine.base.random_state import RandomState
from wend._engine.base.shapes import Size
from wend._engine.core import _hot, _types
from wend._engine.core._hot import Tensor, Value
from wend._engine.core._types import Program, TensorType
from wend._engine.core.primitive import Primitive, ops
from wend._engine.core.provenance import Site, current_site, user_level
from wend._engine.core.symbolic import (
    ARG,
    DIM,
    DIV,
    EQ,
    GE,
    GT,
    LT,
    MAX,
    NE,
    NEG,
    AnyInt,
    Expr,
    Guards,
    SymInt,
    SymNumber,
    expr_of,
    hint_of,
    make,
)
from wend._engine.core.symtrace import over_rule
from wend._engine.ops.views.slicing import bounds_for_all_sizes
from wend._engine.transforms.exploring import loops, numbers
from wend._engine.transforms.exploring.conversions import module_that_converts
from wend._engine.transforms.exploring.counters import NumbersInNames, is_on_stack, set_local
from wend._engine.transforms.exploring.keys import UNLIKE, Unknown, keys_at
from wend._engine.transforms.exploring.lists import NOT_RECORDED, LongLists, Unroll
from wend._engine.transforms.exploring.loops import PartsAlong, Steps, asked_by_user
from wend._engine.transforms.exploring.numbers import AskedNumber, Extent, ids_of, noted
from wend._engine.transforms.exploring.patterns import (
    Guard,
    broadcast,
    is_not_negative,
    leaves_of,
    matters,
)
from wend._engine.transforms.exploring.program import (
    Apply,
    Captured,
    Compute,
    Draw,
    Fail,
    Give,
    Go,
    Info,
    Item,
    Point,
    ReadNumber,
    Stretch,
    number_category,
)
from wend._engine.transforms.exploring.running import SizesDiffer, apply
from wend._engine.transforms.exploring.sizes import (
    Question,
    SizeFacts,
    SizesOfInputs,
    dims_of,
    size_of,
)
from wend._engine.transforms.exploring.snapshot import (
    Snapshot,
    TooMuch,
    counts_in,
    hidden_iterators,
    hidden_lists,
    take,
)
from wend._engine.transforms.exploring.unseen import History, NotCounted, Unseen
from wend._engine.transforms.levels import _note_view

#: Whose frames are no part of the function: those of this module and of the numbers, whose locals
#: are sizes of a run, and those of the uncompiled core.
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(_hot.__file__)))
ENGINE = tuple([os.path.join(_PACKAGE, name) + os.sep for name in ("_engine", "_frontend")])
_REPLAYS = os.path.join(os.path.dirname(__file__), "replaying.py")
_NOT_OF_THE_FUNCTION = (
    __file__, _REPLAYS, numbers.__file__, os.path.dirname(_hot.__file__) + os.sep,
)  # fmt: skip
MOST_POINTS = 300
#: The most of them where answers are kept that results without a name may follow from.
MOST_WATCHED = 64
MOST_AT_PLACE = 40  # points at a place in the code, before loops over extents are unrolled
MOST_COUNTED = 12  # points at a place that may differ in numbers and in lengths of lists
MOST_GROWING = 48  # turns of a loop that ends by values, each with further tensors
MOST_OPS = 200_000  # of a run
MOST_QUESTIONS = 20_000  # of all runs, before loops over extents are unrolled
SMALL = 1 << 12  # bytes of a constant that is compared by content
ROUNDING: dict[str, Callable[[Any], int]] = {
    "trunc": int,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
}
INT_HINT, FLOAT_HINT = 2, 0.5  # of numbers read from tensors, while exploring


class ExploreError(GraphError):
    """A function has no static graph: the message names the user's line and the remedy."""

    def __init__(self, message: str, site: Site | None = None) -> None:
        super().__init__(message)
        self.site = site or current_site()


class Known(BaseException):
    """Ends a run at a point whose rest is known.  No `except Exception` catches this."""


class Again(BaseException):
    """Begins the exploration again: extents at a point differ from those of an earlier run."""


class Elsewhere(BaseException):
    """Ends a run whose sizes take another way than its script."""


class Probe(BaseException):
    """Ends a run at a comparison of sizes, of which nobody knows whether both answers matter."""

    def __init__(self, question: Question, outcome: bool, site: Site) -> None:
        super().__init__()
        self.question, self.outcome, self.site = question, outcome, site


class Probed(BaseException):
    """Ends a run that has come past the comparison that it was made for."""


class Asked(ExploreError):
    """The error of reading the data of a tensor that has none."""

    def __init__(self, fill: Callable[[Value], bool] | None = None) -> None:
        self.fill = fill
        super().__init__(
            "explore: the values of a tensor were read by NumPy, int, float, print, tolist or the "
            "like: a static graph would freeze them. Use tensor ops, or item() or bool() of one "
            "element"
        )

    def anew(self) -> Asked:
        """The same error, at the line that is running."""
        return Asked()


class Pending(NamedTuple):
    """Answers that are still to be taken.

    sizes: of the run that has come to the last question     path: comparisons of sizes on the way
    focus: the dims that are to be changed for the last answer; None where the sizes give it
    end: the stretch of the last answer
    """

    script: tuple[bool, ...]
    sizes: SizesOfInputs
    path: tuple[tuple[int, Expr, Expr, bool], ...]
    focus: tuple[Expr, ...] | None
    end: Stretch | None


class Exploration:
    """The points and captured tensors that all runs share.

    wide: per coarse key of a point, the axes of slots whose extents differ between arrivals
    growing: per loose key, which lists are longer in each turn, and the facts of an item
    keeps_loops: whether loops over extents stay loops
    questions: how many were asked so far, in all attempts
    converting: the modules that convert numbers of the graph, see `conversions`
    int_hints: by place in the code, the hint of an int that is read from a tensor there
    facts: of the sizes of inputs
    asks_sizes: whether comparisons of sizes are questions; else they fix the sizes
    came_again: the answers and sizes of runs that have ended at a point that was known
    """

    def __init__(
        self,
        wide: dict[Any, set[tuple[int, int]]],
        growing: dict[Any, dict[int, Info]],
        keeps_loops: bool,
        questions: list[int],
        converting: dict[tuple[int, str], dict[str, Any]],
        int_hints: dict[Any, int],
        facts: SizeFacts,
        asks_sizes: bool,
    ) -> None:
        self.facts = facts
        self.asks_sizes = asks_sizes
        self.tried: list[SizesOfInputs] = []
        self.came_again: list[tuple[tuple[bool, ...], SizesOfInputs]] = []
        self.watches = True  # whether results without a name count: see `unseen`
        self.begins_again = False  # after this attempt, which may find more
        self.at_place: dict[Any, int] = {}
        self.first_at: dict[Any, Any] = {}  # by place, the slots and counts of its first point
        self.asked_at: dict[Any, Any] = {}  # by key of a point, the sizes that are compared there
        self.int_hints = int_hints
        self.converting = converting
        self.questions = questions
        self.wide = wide
        self.keeps_loops = keeps_loops
        self.points: list[Point] = []
        self.keys: dict[Any, int] = {}
        self.histories: dict[int, History] = {}  # by point, of the run that has come there first
        self.fine: dict[int, tuple[Any, ...]] = {}
        self.scripts: list[Pending] = []
        self.captured: dict[Any, Captured] = {}
        self.guards: dict[tuple[int, Expr, Expr], tuple[bool, Site]] = {}
        self.info: dict[int, Info] = {}
        self.n_ids = 0
        self.names: dict[int, tuple[str, str]] = {}
        self.kept: list[Any] = []  # so that no id is taken twice
        self.lengths: dict[Any, list[int]] = {}
        self.kinds: dict[int, str] = {}  # of captured tensors
        self.growing = growing
        self.warned_of: set[str] = set()

    def site_of(self, stretch: Stretch) -> Site:
        """The line of the question that a stretch follows from."""
        for point in self.points:
            if point.site is not None and any(s is stretch for s in point.answers):
                return point.site
        return Site(None, 0)

    def new_id(self, info: Info) -> int:
        """The next id."""
        self.info[self.n_ids] = info
        self.n_ids += 1
        return self.n_ids - 1


class Draws(RandomState):
    """The random stream of a run: each draw is an item of the program."""

    __slots__ = ("run",)

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run

    def reserve(self, count: int) -> tuple[int, int]:
        """Symbols for a seed and an offset."""
        run = self.run
        seed, offset = [run.shared.new_id(Info(None, 1, (0,))) for _ in range(2)]
        run.add(Draw(seed, offset, expr_of(count)))
        return Extent((ARG, seed), 0, run), Extent((ARG, offset), 0, run)  # type: ignore[return-value]


class Run:
    """A run of the function.

    maps: in-place ops rebind handles here as anywhere
    """

    maps = True

    def __init__(self, shared: Exploration, script: tuple[bool, ...], sizes: SizesOfInputs) -> None:
        self.sizes = sizes
        self.path: list[tuple[int, Expr, Expr, bool]] = []  # comparisons of sizes, and answers
        self.vague: set[int] = set()  # ids whose numbers are not those of the sizes of this run
        self.turned = False  # whether a loop has been left early, as if after all turns
        self.probe: Question | None = None  # the comparison to be answered against the sizes
        self.is_past_probe = False
        #: By id(), the number of a turn, with the first number and that at which the loop ends.
        self.turns: dict[int, tuple[Any, Expr, Expr]] = {}
        self.natural: set[int] = set()  # ids of numbers that are never below 0
        self.progress: object = None  # how far an op is whose rule asks for sizes
        self.goes_on = True  # whether the run has not ended in an error of an op
        self.keeps_loops = shared.keeps_loops
        self.shared = shared
        self.script = script
        self.asked = 0
        #: A number, the plain number that it was equal to, and the questions asked before.
        self.as_key: tuple[Expr, Any, int] = (0, 0, -1)
        self.latest: tuple[Any, ...] = ()  # the last point: key, which slots are tensors, params
        self.row: tuple[bool, ...] = ()  # answers before, in a row, with the same key and params
        self.unseen = Unseen(ENGINE)
        self.serial = _hot.fresh_serial()
        self.trace = _hot.current_trace()
        self.stretch = Stretch()  # thrown away, unless the script is at the end
        self.live: list[Value] = []
        self.numbers: list[Any] = []  # those that may be in use
        self.given: list[Tensor] = []
        self.inputs: list[tuple[Value, int]] = []
        self.lists = LongLists(self)
        self.counters = NumbersInNames(self)
        self.stepped = False  # whether a loop over an extent has begun
        self.n_ops = 0
        self.error = Asked(self.fill)
        self.fixed: dict[int, Apply] = {}  # by result, ops on nothing but constants
        self.frames_from: FrameType | None = None
        #: Objects that are no part of the function; kept, so that no id is taken twice.
        self.before: dict[int, Any] = {}
        self.modules: tuple[Any, ...] = ()
        self.shown_at: Site | None = None
        #: By id(): the value, the tensor, the dim, the place, and whether the part keeps the dim.
        self.parts_asked: dict[int, tuple[Value, Tensor, int, int, bool]] = {}
        self.read_at: dict[Expr, Any] = {}  # by number, the place in the code that has read it

    def end(self) -> None:
        """Let go of all values: the collector does not see that their types know the run."""
        self.live, self.numbers, self.given, self.inputs = [], [], [], []
        self.turns, self.parts_asked, self.read_at, self.fixed, self.before = {}, {}, {}, {}, {}
        self.frames_from = None
        self.unseen.keep([])

    def finish(self, end: Give | Fail) -> None:
        """Note the end of the function."""
        self.stretch.end = end

    # -- tensors and numbers ----------------------------------------------------------------

    def tensor(self, info: Info, number: int, device: Device = CPU) -> Tensor:
        """A handle on the value with this id."""
        value = _hot.symbolic_value(self.type_of(info, device), self.serial, number)
        value.error = self.error
        self.live.append(value)
        handle: Tensor = _hot.wrap(value)
        return handle

    def type_of(self, info: Info, device: Device = CPU) -> TensorType:
        """The type of a value; interned where no extent is a symbol."""
        assert info.extents is not None
        if not any(type(e) is tuple for e in info.extents):
            return _types.intern_type(tuple(info.extents), info.dtype, device)
        shape = tuple(
            [
                Extent(e, n, self) if type(e) is tuple else e
                for e, n in zip(info.extents, info.hint, strict=True)
            ]
        )
        return _types.symbolic_type(tuple.__new__(Size, shape), info.dtype, device)

    def id_of(self, value: Value, handle: Tensor) -> int:
        """The id of an operand; tensors from outside are captured."""
        if value.serial == self.serial:
            if value.index == NOT_RECORDED:
                self.record_part(value)
            if id(value) in self.lists.wholes:
                raise Unroll
            return int(value.index)
        key = self.outside_key(value, handle)
        entry = self.shared.captured.get(key)
        if entry is None:
            entry = self.shared.captured[key] = self.capture(value, handle)
        return entry.id

    def outside_key(self, value: Value, handle: Tensor) -> object:
        """A key for a tensor from outside.

        This is the content of a small constant, which each run may make anew. Buffers that hold
        equal numbers differ: each may be written to.
        """
        held = value.leaf is None and value.buffer is not None
        if held and value.buffer.nbytes <= SMALL and id(handle) not in self.shared.names:
            shape = tuple(value.type.shape)
            return shape, value.type.dtype, value.buffer.tobytes()
        self.shared.kept.append(value)
        return id(value)

    def explores(self, tensor: Tensor) -> bool:
        """Whether a tensor has no data, as a result of this run."""
        value = _hot.refreshed(tensor)
        return bool(value.serial == self.serial) and not self.fill(value)

    def capture(self, value: Value, handle: Tensor) -> Captured:
        """Note a tensor from outside of the function."""
        if isinstance(value.error, Asked):
            raise ExploreError(
                "explore: a tensor of an earlier call is read, which a Python object keeps: a "
                "static graph has no such state. Give the state as an argument and return it, or "
                "keep it in a buffer"
            )
        if value.error is not None:
            raise value.error
        if value.buffer is None:
            before, self.trace.symbolic = self.trace.symbolic, None
            try:
                _hot.ensure(value)
            finally:
                self.trace.symbolic = before
        shape = tuple(value.type.shape)
        number = self.shared.new_id(Info(shape, value.type.dtype, shape))
        name, kind = self.shared.names.get(
            id(handle), (f"constant{len(self.shared.captured)}", "constant")
        )
        if kind == "constant" and value.leaf is not None:
            kind = "parameter"
        self.shared.kinds[number] = kind
        return Captured(number, handle, name, kind)

    # -- recording --------------------------------------------------------------------------

    def warn_of_backward(self, name: str) -> None:
        """Warn that the graph has the ops of a function's forward, and not its backward."""
        if name not in self.shared.warned_of:
            self.shared.warned_of.add(name)
            warnings.warn(
                f"explore: the graph has the ops of {name}.forward, and not {name}.backward: "
                "gradients through the graph are those of the ops. Make the graph under "
                "torch.no_grad() if no gradients are wanted",
                stacklevel=user_level(),
            )

    def no_gradients(self, name: str) -> None:
        """Raise ExploreError: the function itself asks for gradients."""
        raise ExploreError(
            f"explore: {name} is called inside of the function, and a static graph computes no "
            "gradients of its own. Make a graph of the part that comes before; the graph's results "
            "have gradients where its inputs or parameters require them"
        )

    def shown(self, text: str) -> str:
        """A text that holds a value, as for print or an error's message.

        A text that the program goes on with would freeze a value: only an error may hold the text.
        """
        if self.shown_at is None:
            self.shown_at = current_site()
        return text

    def refuse_shown(self) -> None:
        """Raise ExploreError if a value was printed or formatted."""
        if self.shown_at is not None and self.counters.give_up():
            raise Again
        if self.shown_at is not None:
            raise ExploreError(
                "explore: a value was printed or formatted, which a static graph does not do. "
                "Leave the line out of the function that becomes a graph",
                self.shown_at,
            )

    def add(self, item: Item) -> None:
        """Append to the stretch."""
        self.stretch.items.append(item)
        self.n_ops += 1
        if self.n_ops > MOST_OPS:
            raise ExploreError(
                f"explore: more than {MOST_OPS} ops between the start and this line: a loop has no "
                "end, or its length is fixed at a large number"
            )

    def record(self, prim: Primitive, tensors: list[Tensor], args: list[Any]) -> Any:
        """Record an op of the function (called by the core)."""
        if prim.facts.calls_user:
            raise ExploreError(
                f"explore: {prim.name} calls the user's code, and has no static graph; make the "
                "graph under torch.no_grad()"
            )
        if self.lists.is_long(tensors):
            return self.lists.op(prim, tensors)
        args = [self.own_number(a) for a in args]
        program, outs, rows = self.typed(prim, tensors, args)
        values = [_hot.refreshed(t) for t in tensors]
        ids = tuple([self.id_of(v, t) for v, t in zip(values, tensors, strict=True)])
        site = current_site()
        handles, outputs = [], []
        for (_, dtype), extents, hint in zip(program.outs, rows, outs, strict=True):
            info = Info(extents, dtype, tuple(hint.shape))
            number = self.shared.new_id(info)
            outputs.append(number)
            handles.append(self.tensor(info, number, hint.device))
        numbers = tuple([expr_of(a) for a in args])
        grad = bool(self.trace.mode.grad)
        modules = tuple(self.trace.modules)
        item = Apply(prim, program, ids, tuple(outputs), numbers, grad, site, modules)
        self.add(item)
        if (
            not prim.facts.random
            and all(map(self.is_constant, ids))
            and not any(type(n) is tuple for n in numbers)
        ):
            self.fixed.update(dict.fromkeys(outputs, item))
        if prim.is_view and tensors:
            # Numbers of the view's own: those of the program stay known by who else refers to them.
            own = [Extent(a.expr, a.hint, self) if isinstance(a, Extent) else a for a in args]
            _note_view(handles[0], tensors[0], prim, own)
        wrap = prim.result_wrap()
        return handles[0] if wrap is None else wrap(handles)

    def own_number(self, a: object) -> object:
        """A number of a call, known to the run: a question may come before the op is recorded."""
        if isinstance(a, Extent) and not self.is_of_inputs(a.expr):
            return noted(Extent(a.expr, a.hint, self))
        return a

    def typed(
        self, prim: Primitive, tensors: list[Tensor], args: list[Any]
    ) -> tuple[Any, list[Any], list[tuple[Expr, ...]]]:
        """(pattern of an op, the types of the results, their extents for all sizes).

        Comparisons of sizes on which the extents depend are questions.
        """
        asked: set[Any] = set()
        while True:
            values = [_hot.refreshed(t) for t in tensors]
            for v, t in zip(values, tensors, strict=True):
                self.id_of(v, t)
            hints = [self.hint_type(v) for v in values]
            shapes = [v.type.shape for v in values]
            before, self.trace.symbolic = self.trace.symbolic, None
            try:
                program, outs = prim.typed(hints, [hint_of(a) for a in args])
            except ShapeError:
                self.trace.symbolic = before
                self.fit_hints(prim, values, hints, args)
                raise
            finally:
                self.trace.symbolic = before
            guards = self.comparisons(prim, program, hints, shapes, args)
            new = next((k for k in guards if k not in asked), None)
            if new is None:
                return program, outs, self.extents_of(prim, program, shapes, args)
            asked.add(new)
            before_op, self.progress = self.progress, (prim, len(asked))
            try:
                self.rely(*guards[new])
            finally:
                self.progress = before_op

    def comparisons(
        self,
        prim: Primitive,
        program: Program,
        types: Sequence[TensorType],
        shapes: list[Any],
        args: Sequence[Any],
    ) -> dict[Any, Guard]:
        """The comparisons of sizes on which the extents of an op's results depend."""
        if prim.facts.elementwise:
            return {}
        if getattr(prim, "is_slice", False):
            return {
                k: (LT, a.expr, 0, a.hint < 0)
                for k, a in enumerate(args)
                if isinstance(a, Extent) and not self.is_not_negative(a)
            }
        if not program.guards:
            return {}
        leaves = {x for guard in program.guards for e in guard[1:3] for x in leaves_of(e)}
        symbols = {x for x in leaves if type(over_rule(x, shapes, args)) is tuple}
        key = id(program), tuple(sorted(symbols))
        # The program is kept too, so that the id stays taken.
        known = self.shared.facts.patterns.setdefault(key, (program, {}))[1]
        questions = {}
        for guard in program.guards:
            a, b = [over_rule(e, shapes, args) for e in guard[1:3]]
            if a == b or (type(a) is not tuple and type(b) is not tuple):
                continue  # sure: so are all comparisons of operands of one shape, as of a list's
            if guard not in known:
                before, self.trace.symbolic = self.trace.symbolic, None
                try:
                    numbers = [hint_of(x) for x in args]
                    known[guard] = matters(prim, program, guard, types, numbers, symbols)
                finally:
                    self.trace.symbolic = before
            if known[guard]:
                questions[guard] = (guard[0], a, b, guard[3])
        return questions

    def is_not_negative(self, number: Extent) -> bool:
        """Whether a number is known not to be below 0."""
        return is_not_negative(number.expr, self.natural)

    def rely(self, op: int, a: Expr, b: Expr, outcome: bool) -> None:
        """Go on where a comparison has this outcome; further sizes go another way."""
        if self.decide(op, a, b, outcome) is not outcome:
            raise SizesDiffer(
                "explore: the graph does not hold for sizes with which this op gives a result of "
                "another shape"
            )

    def extents_of(
        self, prim: Any, program: Program, shapes: list[Any], args: list[Any]
    ) -> list[tuple[Expr, ...]]:
        """The extents of an op's results, without facts of the sizes of this run alone."""
        rows = [tuple([over_rule(e, shapes, args) for e in row]) for row, _ in program.outs]
        if prim.facts.elementwise and len(rows) == 1:
            chosen = broadcast([list(map(expr_of, s)) for s in shapes])
            if len(chosen) == len(rows[0]):
                return [tuple([functools.reduce(partial(make, MAX), row) for row in chosen])]
        if getattr(prim, "is_slice", False):
            dim = prim.dim % len(rows[0])
            plain = [SymInt(a.expr, a.hint, Guards()) if isinstance(a, Extent) else a for a in args]
            n = shapes[0][dim]
            if isinstance(n, Extent):
                n = SymInt(n.expr, n.hint, Guards())
            _, start, end, step = prim.arrange([None], plain)
            count = expr_of(bounds_for_all_sizes(n, start, end, step)[2])
            return [(*rows[0][:dim], count, *rows[0][dim + 1 :])]
        return rows

    def fit_hints(
        self, prim: Primitive, values: list[Value], hints: list[Any], args: list[Any]
    ) -> None:
        """Begin again with a hint for a number of elements that fits a reshape.

        How many elements a mask selects is not known while exploring; a program that gives the
        result a shape knows.
        """
        if prim.name not in ("reshape", "view"):
            return
        (value,), (type_,) = values, hints
        asked = [n for n in value.type.shape if not self.is_of_inputs(expr_of(n))]
        target = [int(hint_of(a)) for a in args]
        if len(asked) != 1 or type(expr_of(asked[0])) is not tuple or any(n < 0 for n in target):
            return
        (number,) = asked
        others = math.prod(type_.shape) // number.hint
        place = self.read_at.get(number.expr)
        wanted, rest = divmod(math.prod(target), max(others, 1))
        if place is not None and not rest and self.shared.int_hints.get(place) != wanted:
            self.shared.int_hints[place] = wanted
            raise Again

    def is_constant(self, i: int) -> bool:
        """Whether a value follows from constants alone."""
        return i in self.fixed or self.shared.kinds.get(i) == "constant"

    def fill(self, value: Value) -> bool:
        """Compute the data of a value that follows from constants alone; whether that was done."""
        if value.serial != self.serial or value.index not in self.fixed:
            return False
        env = {c.id: c.tensor for c in self.shared.captured.values()}
        order: dict[int, Apply] = {}
        waiting = [int(value.index)]
        while waiting:
            item = self.fixed.get(waiting[-1])
            if item is None or id(item) in order:
                waiting.pop()
                continue
            missing = [i for i in item.inputs if i in self.fixed and id(self.fixed[i]) not in order]
            waiting.extend(missing)
            if not missing:
                order[id(item)] = item
                waiting.pop()
        before, self.trace.symbolic = self.trace.symbolic, None
        try:
            for item in order.values():
                apply(item, env)
            value.buffer = _hot.ensure(_hot.refreshed(env[int(value.index)]))
        finally:
            self.trace.symbolic = before
        return True

    def hint_type(self, value: Value) -> TensorType:
        """The concrete type that stands for a symbolic type."""
        type_ = value.type
        shape = tuple([hint_of(n) for n in type_.shape])
        return _types.intern_type(shape, type_.dtype, type_.device)

    # -- guards and questions ---------------------------------------------------------------

    def require(self, op: int, a: Expr, b: Expr, outcome: bool, site: Site) -> None:
        """A comparison of sizes of inputs that the program relies on."""
        if type(a) is not tuple and type(b) is not tuple:
            return
        self.shared.guards.setdefault((op, a, b), (outcome, site))

    def is_of_inputs(self, expr: Expr) -> bool:
        """Whether a number follows from the sizes of the inputs alone."""
        return self.known_ids().issuperset(ids_of(expr))

    def decide(self, op: int, a: Expr, b: Expr, outcome: bool) -> bool:
        """A comparison in the user's code, a question; but where it can only have one outcome.

        outcome: for the sizes of this run
        """
        if not self.is_of_inputs(a) or not self.is_of_inputs(b):
            is_of_sizes = not self.is_vague(a) and not self.is_vague(b)
            return self.ask(("compare", op, a, b), outcome if is_of_sizes else None)
        facts, question = self.shared.facts, (op, a, b)
        certain = facts.certain.get(question)
        if certain is not None and self.probe != question:
            self.require(*question, *certain)
            if certain[0] is not outcome:
                raise Elsewhere
            return outcome
        left, right = facts.canonical(a), facts.canonical(b)
        if (a, b) != (left, right) and self.probe != question:
            if left == right or not (type(left) is tuple or type(right) is tuple):
                return outcome
            return self.decide(op, left, right, outcome)
        if facts.is_pinned(a, b):
            return outcome
        if not self.shared.asks_sizes:
            self.pin((a, b), current_site())
            return outcome
        if self.probe is not None:
            if self.probe != question or self.is_past_probe:
                raise Probed
            self.is_past_probe = True
            return outcome
        if not self.asked and question not in facts.open:
            raise Probe(question, outcome, current_site())
        return self.ask(("compare", op, a, b), outcome)

    def known_order(self, op: int, number: SymInt, other: object) -> bool | None:
        """The answer to a comparison with the number of a turn, where the loop's bounds tell it."""
        below_0 = op in (LT, GE) and type(other) is int and other <= 0
        if below_0 and is_not_negative(number.expr, self.natural):
            return op == GE
        bounds = self.turns.get(id(number))
        if bounds is None:
            return None
        _, first, stop = bounds
        limit = expr_of(other)
        if limit == stop and op in (LT, GE, NE, EQ):
            return op in (LT, NE)
        if type(first) is int and first >= 0:
            below = type(limit) is int and limit <= first
            if below and (op in (GE, LT) or limit < first):
                return op in (GE, GT, NE)
            if type(limit) is tuple and limit[0] == NEG and op in (GE, LT):
                return op == GE if is_not_negative(limit[1], self.natural) else None
        return None

    def is_vague(self, expr: Expr) -> bool:
        """Whether an expression has no number that belongs to the sizes of this run."""
        ids = set(ids_of(expr)) - self.known_ids()
        return not self.vague.isdisjoint(ids) or (self.turned and bool(ids))

    def pin(self, exprs: tuple[Expr, ...], site: Site) -> None:
        """Fix the sizes of inputs in expressions to those of the example."""
        pinned = self.shared.facts.pinned
        new = [d for e in exprs for d in dims_of(e) if d not in pinned]
        for d in new:
            pinned[d] = (self.shared.info[d[1]].hint[d[2]], site)
            self.shared.guards[EQ, d, pinned[d][0]] = (True, site)
        if new and (self.asked or self.probe is not None or self.is_resized()):
            raise Again

    def is_resized(self) -> bool:
        """Whether the sizes of the run differ from those of the example."""
        return any(n != self.shared.info[i].hint[axis] for (_, i, axis), n in self.sizes.items())

    def fix(self, expr: Expr, hint: Any) -> Any:
        """A number that the user's code needs as a plain number."""
        if not self.is_of_inputs(expr):
            if self.counters.give_up():
                raise Again
            raise ExploreError(
                "explore: Python needs the value of a number that was read from a tensor "
                "(range, int, float, an index of a list): a static graph would freeze it. Use "
                "tensor ops, or a comparison"
            )
        self.pin((expr,), current_site())
        return hint

    def hash_of(self, number: Extent) -> int:
        """The hash of an int: that of the plain number that the int is equal to, if any.

        The int is fixed where nobody knows with which numbers it is compared.
        """
        frame = sys._getframe(2)
        try:
            keys = keys_at(frame, ENGINE)
        except Unknown:  # nobody knows with which keys the number is compared
            return hash(number._fixed())
        for key in keys:
            if number == key:
                self.as_key = (number.expr, key, self.asked)
                return hash(key)
        return UNLIKE

    def is_key(self, number: SymInt, other: object) -> bool:
        """Whether the hash of the number was just asked for, and was that of the plain number."""
        expr, key, asked = self.as_key
        return asked == self.asked and expr == number.expr and type(other) is int and key == other

    def number(self, tensor: Tensor) -> Any:
        """The single element of a tensor, as a number."""
        value = _hot.refreshed(tensor)
        category = value.type.dtype.category
        if category == 0:
            return self.ask(("value", self.id_of(value, tensor)))
        number = self.shared.new_id(Info(None, category))
        self.vague.add(number)
        self.add(ReadNumber(number, self.id_of(value, tensor), current_site()))
        if category == 1:
            place = _place(current_site())
            self.read_at[ARG, number] = place
            hint = self.shared.int_hints.get(place, INT_HINT)
            return noted(Extent((ARG, number), hint, self))
        if category == 2:
            return noted(AskedNumber((ARG, number), 2, FLOAT_HINT, self))
        raise ExploreError("explore: a complex number was read from a tensor")

    def convert(self, name: str) -> None:
        """Begin again where the user's code calls `int` or `float`, with a stand-in there."""
        module = module_that_converts(name)
        if module is not None:
            self.shared.converting[id(module), name] = module
            raise Again

    def rounded(self, number: SymNumber, how: str) -> Any:
        """A float as an int.

        how: "trunc", "floor", "ceil" or "round" (to even)
        """
        expr = number.expr
        if not self.is_of_inputs(expr):
            whole = getattr(ops, how)(ops.full((), number, dtype=float64))
            return self.number(ops.cast(whole, int64))
        if type(expr) is tuple and expr[0] == DIV and how != "round":
            a, b = expr[1:]
            whole_parts = max(number_category(e, self.shared.info) for e in (a, b)) == 1
            if whole_parts and (how != "trunc" or self.decide(GE, expr, 0, number.hint >= 0)):
                top, below = [Extent(e, size_of(e, self.sizes), self) for e in (a, b)]
                return -(-top // below) if how == "ceil" else top // below
        return ROUNDING[how](self.fix(expr, number.hint))

    def parts(self, x: Tensor) -> Iterator[Any]:
        """The parts along the first dim, as a loop over an extent."""
        if isinstance(x.shape[0], Extent):
            return Steps(self, 0, x.shape[0], 1, PartsAlong.of(self, x, 0, False, ()))
        return iter([x.select(0, i) for i in range(x.shape[0])])

    def parts_along(
        self, x: Tensor, dim: int, keeps_dim: bool, size: AnyInt = 1
    ) -> PartsAlong | None:
        """The parts of a tensor along a dim whose extent is a symbol; None for a fixed tuple.

        size: the extent of each part, but of the last, which may be smaller
        """
        extent = x.shape[dim]
        if not self.keeps_loops or not isinstance(extent, Extent) or not asked_by_user():
            return None
        info = self.shared.info[self.id_of(_hot.refreshed(x), x)]
        assert info.extents is not None
        extents, hint = list(info.extents), [hint_of(n) for n in x.shape]
        if keeps_dim:
            extents[dim], hint[dim] = expr_of(size), hint_of(size)
        else:
            del extents[dim], hint[dim]
        part = Info(tuple(extents), info.dtype, tuple(hint))
        handles = []
        for k in range(-(-int(hint_of(extent)) // max(int(hint_of(size)), 1))):
            value = _hot.symbolic_value(self.type_of(part, x.device), self.serial, NOT_RECORDED)
            value.error = self.error
            self.parts_asked[id(value)] = (value, x, dim, k, keeps_dim)
            handles.append(_hot.wrap(value))
        return PartsAlong.of(self, x, dim, keeps_dim, handles, size)

    def record_part(self, value: Value) -> None:
        """Record an item of a list; or a part in a tuple, which fixes the number of parts."""
        item = self.lists.item(value)
        if item is not None:
            value.index = _hot.refreshed(item).index
            self.live.append(value)
            return
        _, x, dim, k, keeps_dim = self.parts_asked[id(value)]
        self.fix(expr_of(x.shape[dim]), hint_of(x.shape[dim]))
        part = ops.narrow(x, dim, k, 1) if keeps_dim else ops.select(x, dim, k)
        value.index = _hot.refreshed(part).index
        self.live.append(value)

    def counter(self, start: AnyInt) -> Extent:
        """A number that begins with `start` and is a slot of snapshots."""
        self.stepped = True
        number = self.computed(expr_of(start), 1)
        self.vague.add(number)
        return Extent((ARG, number), hint_of(start), self)

    def ran_through(self, at: Extent, first: int, stop: int) -> None:
        """After a loop by steps of 1 or -1: sizes that have counted turns get that of all turns.

        A list of all items then fits the loop, also while exploring.
        """
        self.turned = self.turned or at.hint != stop
        done, turns = abs(at.hint - first), abs(stop - first)
        for value in self.live:
            shape = tuple(value.type.shape)
            own = [
                type(expr_of(n)) is tuple and expr_of(n)[:2] == (DIM, value.index) for n in shape
            ]
            if not any(o and hint_of(n) == done for o, n in zip(own, shape, strict=True)):
                continue
            hints = [
                turns if o and hint_of(n) == done else hint_of(n)
                for o, n in zip(own, shape, strict=True)
            ]
            info = Info(tuple(map(expr_of, shape)), value.type.dtype, tuple(hints))
            value.type = self.type_of(info, value.type.device)
        at.hint = stop

    def as_slot(self, x: Extent) -> Extent:
        """The number with a fresh id."""
        return x if x.expr[0] == ARG else self.counter(x)

    def truth(self, tensor: Tensor) -> bool:
        """The answer to `if tensor:`."""
        value = _hot.refreshed(tensor)
        return self.ask(("value", self.id_of(value, tensor)))

    # -- points -----------------------------------------------------------------------------

    def ask(self, question: tuple[Any, ...], outcome: bool | None = None) -> bool:
        """The answer to a question: by the script, and where the script has ended, by the sizes.

        outcome: the answer that the sizes of this run give; None for a question about values
        """
        if self.probe is not None:
            raise Probed
        self.refuse_shown()
        place = self.asked
        self.asked += 1
        self.shared.questions[0] += 1
        if self.shared.questions[0] > MOST_QUESTIONS and self.stepped and self.keeps_loops:
            raise Unroll
        script = self.script
        replayed = place < len(script)
        if replayed and outcome is not None and script[place] is not outcome:
            raise Elsewhere
        compared = question[1:] if outcome is not None else ()
        of_inputs = bool(compared) and all(map(self.is_of_inputs, compared[1:]))
        point = self.arrive(question, replayed)
        if not replayed:
            first = bool(outcome)
            other, path = (*script, not first), list(self.path)
            if of_inputs:
                path.append((*compared, not first))
            focus = None
            if compared:
                focus = tuple(d for e in compared[1:] for d in dims_of(e)) if of_inputs else ()
            end = point.answers[not first]
            self.shared.scripts.append(Pending(other, self.sizes, tuple(path), focus, end))
            self.script = (*script, first)
        answer = self.script[place]
        self.row = (*self.row, answer)
        self.unseen.answered.append(answer)
        if of_inputs:
            self.path.append((*compared, answer))
        if not replayed or place == len(self.script) - 1:
            self.stretch = point.answers[answer]
            self.stretch.items.clear()  # of a failed run whose sizes differ from the example's
            self.stretch.end = None
        else:
            self.stretch = Stretch()
        return answer

    def arrive(self, question: tuple[Any, ...], replayed: bool) -> Point:
        """The point of a question.  Ends the run where the point is known."""
        shared = self.shared
        if question[0] == "compare":
            question = (*question[:2], *[self.as_number(e) for e in question[2:]])
        self.unseen.keep(self.callers())
        self.shorten_lists(question)
        shot = self.snapshot(question)
        if shared.keeps_loops and shot.names:
            if self.counters.turn(shot):
                shot = self.snapshot(question)
            if self.counters.found(shot):
                raise Again
        earlier = self.earlier() if shared.watches else ()
        place = self.point_key(shot, earlier)
        if question[0] == "compare":
            sizes = tuple([None if _is_number(e) else e for e in question[2:]])
            if place in shared.facts.loose:
                question = (*question[:2], *[self.as_number(e, True) for e in question[2:]])
                shot = self.snapshot(question)
            elif shared.asked_at.setdefault(place, sizes) != sizes:
                shared.facts.loose.add(place)
                raise Again
        site = current_site()
        slots = list(shot.slots)
        coarse = self.point_key(shot, earlier)
        self.row = coarse[2]
        wide = shared.wide.get(coarse, set())
        fine = tuple(
            [
                tuple([None if (k, a) in wide else e for a, e in enumerate(self.extents(s))])
                for k, s in enumerate(slots)
                if type(s) is Value
            ]
        )
        known = shared.keys.get(coarse)
        if known is not None:
            if shared.fine[known] != fine:
                self.widen(coarse, slots, shared.fine[known])
                shared.begins_again = True
                if replayed:
                    raise Again
            point = shared.points[known]
            self.stretch.end = Go(known, tuple([self.slot_id(s) for s in slots]))
            if not replayed:
                raise Known
            self.unseen.adopt(shared.histories[known])
            self.latest = (*coarse[:2], point.params)
            self.rename(slots, point.params)
            return point
        if replayed:
            raise ExploreError(
                "explore: the function did not come to this line again with the same Python state: "
                "it depends on something that changes between two calls"
            )
        return self.new_point(question, coarse, fine, wide, slots, site)

    def earlier(self) -> tuple[tuple[int, tuple[bool, ...]], ...]:
        """The answers that results without a name may follow from: see `unseen`."""
        frames, facts = self.callers(), self.shared.facts
        by_loop = sys._getframe(3).f_code is Steps.__next__.__code__
        try:
            self.unseen.follow(frames, by_loop)
        except NotCounted:
            facts.counts_lines = True
            raise Again from None
        answers = self.unseen.answers(frames)
        facts.watched = facts.watched or bool(answers)
        return answers

    def callers(self) -> list[FrameType]:
        """The frames that a question has come through; those of loops over sizes are Python's."""
        return [f for f in self.frames() if f.f_code.co_filename != loops.__file__]

    def new_point(
        self,
        question: tuple[Any, ...],
        coarse: tuple[Any, ...],
        fine: tuple[Any, ...],
        wide: set[tuple[int, int]],
        slots: list[Any],
        site: Site,
    ) -> Point:
        """A point that no run has come to before."""
        shared = self.shared
        row, place = shared.at_place, _place(site)
        row[place] = n = row.get(place, 0) + 1
        most = MOST_WATCHED if shared.facts.watched and shared.watches else MOST_POINTS
        too_many = len(shared.points) >= most or n > MOST_AT_PLACE
        if self.stepped and shared.keeps_loops and too_many:
            raise Unroll
        counts = counts_in(coarse[0]) if n in (1, MOST_GROWING) else ()
        first = shared.first_at.setdefault(place, (len(slots), counts))
        if n == MOST_GROWING and len(slots) - first[0] >= n - 1 and counts == first[1]:
            raise ExploreError(
                f"explore: a list, tuple or dict has further tensors in each of {MOST_GROWING} "
                "turns of a loop that ends by values. Of such loops a graph keeps lists of "
                "tensors of one shape: append each tensor to a list of its own, or loop over a "
                "range",
                site,
            )
        if len(shared.points) >= most:
            raise ExploreError(
                f"explore: more than {most} questions, and none of them with the Python "
                "state of an earlier one: a loop counts in Python without a bound. Keep the count "
                "in a tensor, or bound the loop",
                site,
            )
        args = tuple([self.slot_id(s) for s in slots])
        params = []
        for k, slot in enumerate(slots):
            info = shared.info[args[k]]
            if type(slot) is Value:
                assert info.extents is not None
                number = shared.n_ids
                extents = tuple(
                    [(DIM, number, a) if (k, a) in wide else e for a, e in enumerate(info.extents)]
                )
                info = Info(extents, info.dtype, tuple([hint_of(n) for n in slot.type.shape]))
            else:
                info = Info(None, info.dtype, (slot.hint,))
            params.append(shared.new_id(info))
        number = len(shared.points)
        self.stretch.end = Go(number, args)
        renamed = dict(zip(args, params, strict=True))
        if question[0] == "value":
            question = ("value", renamed.get(question[1], question[1]))
        else:
            left, right = [
                (ARG, renamed[e[1]]) if type(e) is tuple and e[0] == ARG else e
                for e in question[2:]
            ]
            question = ("compare", question[1], left, right)
        point = Point(tuple(params), question, [Stretch(), Stretch()], site)
        shared.points.append(point)
        shared.keys[coarse] = number
        shared.histories[number] = self.unseen.history()
        shared.fine[number] = fine
        self.latest = (*coarse[:2], point.params)
        self.rename(slots, point.params)
        return point

    def point_key(self, shot: Snapshot, earlier: tuple[Any, ...]) -> tuple[Any, ...]:
        """The key of a point: the state of Python, which slots are tensors, earlier answers.

        The answers tell questions apart between which Python did nothing: a function in C asks them
        in a row, such as the comparison of two shapes. Nobody sees how far it has counted.

        earlier: see `Unseen.answers`
        """
        kinds = tuple([type(s) is Value for s in shot.slots])
        ids = tuple([self.slot_id(s) for s in shot.slots])
        in_a_row = self.latest == (shot.key, kinds, ids) and not self.stretch.items
        return shot.key, kinds, self.row if in_a_row else (), earlier

    def widen(self, coarse: tuple[Any, ...], slots: list[Any], fine: tuple[Any, ...]) -> None:
        """Note the extents that differ here: the next attempt has fresh symbols for these."""
        wide = self.shared.wide.setdefault(coarse, set())
        values = [(k, s) for k, s in enumerate(slots) if type(s) is Value]
        for (k, slot), others in zip(values, fine, strict=True):
            for a, (e, other) in enumerate(zip(self.extents(slot), others, strict=True)):
                if other is not None and e != other:
                    wide.add((k, a))

    def extents(self, slot: Value) -> tuple[Expr, ...]:
        """The extents of a slot; none of a number."""
        return tuple([expr_of(n) for n in slot.type.shape])

    def slot_id(self, slot: Any) -> int:
        """The id of a slot."""
        return int(slot.index) if type(slot) is Value else int(slot.expr[1])

    def rename(self, slots: list[Any], params: Sequence[int]) -> None:
        """From here on the slots are known by the params of the point."""
        for slot, number in zip(slots, params, strict=True):
            if type(slot) is Value:
                slot.index = number
                info = self.shared.info[number]
                if any(map(self.is_vague, map(expr_of, slot.type.shape))):
                    self.vague.add(number)
                hint = tuple([hint_of(n) for n in slot.type.shape])
                slot.type = self.type_of(Info(info.extents, info.dtype, hint), slot.type.device)
            else:
                if self.is_vague(slot.expr):
                    self.vague.add(number)
                if is_not_negative(slot.expr, self.natural):
                    self.natural.add(number)
                slot.expr = (ARG, number)
        mine = {id(s) for s in slots if type(s) is Value}
        mine |= set(self.lists.wholes)
        for value, first in self.inputs:  # which the call keeps alive, used or not
            if id(value) not in mine:
                value.index = first
            mine.add(id(value))
        self.live = [v for v in self.live if id(v) in mine]
        used = {id(s) for s in slots if type(s) is not Value}
        self.numbers[:] = [n for n in self.numbers if id(n) in used]

    def as_number(self, expr: Expr, sizes: bool = False) -> Expr:
        """An expression of numbers as a single number.

        sizes: whether this holds for sizes of inputs too
        """
        if _is_number(expr) or (self.is_of_inputs(expr) and not sizes):
            return expr
        return (ARG, self.computed(expr, number_category(expr, self.shared.info)))

    def computed(self, expr: Expr, category: int) -> int:
        """The id of a number that is computed from numbers."""
        number = self.shared.new_id(Info(None, category))
        if self.is_vague(expr):
            self.vague.add(number)
        if category == 1 and is_not_negative(expr, self.natural):
            self.natural.add(number)
        self.add(Compute(number, expr))
        return number

    def is_number(self, x: Extent | AskedNumber) -> bool:
        """Whether a number is a slot; numbers that were computed get an id."""
        if self.is_of_inputs(x.expr):
            return False
        if x.expr[0] != ARG:
            x.expr = (ARG, self.computed(x.expr, 1 if isinstance(x, SymInt) else x.category))
        return True

    # -- lists that grow --------------------------------------------------------------------

    def shorten_lists(self, question: tuple[Any, ...]) -> None:
        """Lists that are longer in each turn of a loop become a single tensor, of all items.

        Arrivals at the same place with lists of unlike lengths show which lists grow; the
        exploration then begins again. After many arrivals that differ in a count of the
        turns, too, the numbers that names hold are left out of the comparison.
        """
        shared = self.shared
        if not shared.keeps_loops:
            return
        shot = self.snapshot(question, loose=True)
        if not shot.lists:
            return
        lengths = [len(x) for x in shot.lists]
        place = _place(current_site())
        counted = ("counted", place) in shared.growing
        if shot.names and not counted and shared.at_place.get(place, 0) > MOST_COUNTED:
            shared.growing["counted", place] = {}
            raise Again
        key = shot.but_names()[0] if counted else shot.key
        known = shared.lengths.setdefault(key, lengths)
        growing = shared.growing.setdefault(key, {})
        infos = {}
        for k, (items, before) in enumerate(zip(shot.lists, known, strict=True)):
            if k in growing:
                self.lists.shorten(items, growing[k])
            elif len(items) != before:
                last = _hot.refreshed(items[-1]) if items else None
                if last is None or last.index == NOT_RECORDED:
                    raise Unroll
                infos[k] = shared.info[last.index]
        if infos:
            growing.update(infos)
            raise Again

    def is_recorded_now(self, value: Value) -> bool:
        """Record an item of a list that a name holds; whether the value is such an item."""
        if value.index != NOT_RECORDED or id(value) not in self.lists.ends:
            return any(value is v for v in self.live)
        self.record_part(value)
        return True

    def is_computed(self, x: object) -> bool:
        """Whether x is a tensor that this run has computed."""
        return type(x) is Tensor and x.value.serial == self.serial

    def known_ids(self) -> set[int]:
        """The ids that are known at each place of the program."""
        return {number for _, number in self.inputs}

    def frames(self) -> list[Any]:
        """The frames of the function, outermost first."""
        frames: list[Any] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame is not self.frames_from:
            if not frame.f_code.co_filename.startswith(_NOT_OF_THE_FUNCTION):
                frames.append(frame)
            frame = frame.f_back
        frames.reverse()
        return frames

    def split(self, frame: FrameType, name: str, x: Extent | AskedNumber) -> Extent | AskedNumber:
        """A number of a name's own, in place of a number that a further name holds.

        Another run may come to the same question with different numbers in these names.
        """
        if is_on_stack(frame, name):
            return x
        own: Extent | AskedNumber
        if isinstance(x, SymInt):
            own = noted(Extent(x.expr, x.hint, self))
        else:
            own = noted(AskedNumber(x.expr, x.category, x.hint, self))
        if id(x) in self.turns:
            self.turns[id(own)] = (own, *self.turns[id(x)][1:])
        set_local(frame, name, own)
        return own

    def snapshot(self, question: tuple[Any, ...], loose: bool = False) -> Snapshot:
        """The state of the Python program."""
        frames = self.frames()
        trace = self.trace
        trace.touched[:] = [  # these would keep values alive that nothing else refers to
            entry
            for entry in trace.touched
            if isinstance(entry[1], int) or entry[1].serial != self.serial
        ]
        known = {id(v) for v in self.live}  # of which there are more as items are recorded

        def hidden(seen: set[int]) -> list[Value]:
            seen |= {id(v) for v, _ in self.inputs}
            own = (self.lists.wholes, self.lists.ends)
            return [
                v
                for v in self.live
                if id(v) not in seen and sys.getrefcount(v) > _ALONE + sum(id(v) in x for x in own)
            ]

        def hidden_numbers(seen: set[int]) -> list[Any]:
            return [
                n
                for n in self.numbers
                if id(n) not in seen and sys.getrefcount(n) > _ALONE + (id(n) in self.turns)
            ]

        asked = [("question", *question[:2])] if question[0] == "compare" else []
        numbers = [e for e in question[2:] if _is_number(e)]
        wrapped = [_Holder(e) for e in numbers]
        noted_ids = {id(n) for n in self.numbers if not self.is_of_inputs(n.expr)}
        lists = hidden_lists(self.before, self.is_computed, lambda x: id(x) in noted_ids)
        values = [v for v in self.live if question[0] == "value" and v.index == question[1]]
        handles = [_hot.wrap(v) for v in values]
        also = [
            asked,
            repr(self.progress),
            id(trace.mode),
            [id(m) for m in trace.modules],
            wrapped,
            handles,
        ]
        del values
        try:
            shot = take(
                frames,
                also,
                lambda v: v.serial == self.serial and (id(v) in known or self.is_recorded_now(v)),
                self.outside_key,
                self.is_number,
                hidden,
                hidden_numbers,
                [*hidden_iterators(self.before, ENGINE), *lists],
                self,
                loose,
                self.is_computed,
                self.lists.shown,
                self.split,
            )
        except TooMuch:
            raise ExploreError("explore: the function refers to too many Python objects") from None
        return shot


def _place(site: Site) -> tuple[CodeType | None, int]:
    """A place in the code, equal in each run."""
    return site.code, site.lasti


def _is_number(expr: Expr) -> bool:
    """Whether an expression is a single number of the graph."""
    return type(expr) is tuple and expr[0] == ARG


class _Holder:
    """Keeps an expression in a snapshot."""

    def __init__(self, expr: Expr) -> None:
        self.number = AskedNumber(expr, 2, 0.0, None)


def _alone() -> int:
    """References to a value that only the list of live values has, by the count of `hidden`."""
    live = [_hot.symbolic_value(_types.intern_type((), float32, CPU), 0, 0)]
    return max([sys.getrefcount(v) for v in live])


_ALONE = _alone()
