"""From a program's function of a pair to a `PairFunction`: the ops that a call records.

The function is called with vectors of two pairs, which are never computed. Captured tensors are all
values that do not depend on the pair. Derivatives come from the rules of the recorded ops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from wend._engine.base.dtypes import INT, DType, bool_, int64
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.core.graph import Expander, Node, PathGraph, path_at
from wend._engine.core.primitive import ops
from wend._engine.core.symbolic import Expr, evaluate, reads_extents
from wend._engine.ops.creation import Full
from wend._engine.ops.indexing.index import Index
from wend._engine.ops.neural.pairs import (
    BATCH,
    CAPTURED,
    HEAD,
    KEY,
    NONE,
    QUERY,
    SCORE,
    PairFunction,
    PairNode,
)
from wend._engine.transforms.differentiate import END, Differentiator, Layered, Survey
from wend._engine.transforms.grad import with_grad

#: How a program changes a score, or tells which pairs take part.
Function = Callable[..., Any]
_PAIRS = 2  # so that no extent is 1, which would broadcast


class CapturedFunction(NamedTuple):
    """A function of pairs, and the operands of an op with that function."""

    function: PairFunction
    tensors: list[Tensor]
    numbers: list[float]


class _Form(NamedTuple):
    """The part of `CapturedFunction` that is the same whenever the same ops are recorded."""

    function: PairFunction
    tensors: tuple[int, ...]  # ids of values
    numbers: tuple[Expr, ...]


class _Refused(Exception):
    """The function is not a list of elementwise ops on numbers of the pair."""


def capture(score: Function | None, mask: Function | None, dtype: DType) -> CapturedFunction | None:
    """The functions of a score and of a mask as a `PairFunction`.

    score: gets the score, and the numbers of batch, head, query and key; None keeps the score
    mask: gets the four numbers; None shows all pairs
    dtype: of scores
    Returns None if a function does more than elementwise ops and reads of tensors at the numbers,
    or needs a value at once.
    """
    trace = _hot.current_trace()
    if trace.symbolic is not None:
        return None
    before = trace.mode
    trace.mode = with_grad(before, True)
    try:
        x = ops.variable(ops.full((_PAIRS,), 0, dtype=dtype))
        seed = ops.full((_PAIRS,), 1, dtype=dtype)
        places = [ops.full((_PAIRS,), 0, dtype=int64) for _ in range(4)]
        result = x if score is None else score(x, *places)
        shown = None if mask is None else mask(*places)
        if not all(isinstance(t, Tensor) for t in (result, shown) if t is not None):
            return None
        if result.dtype is not dtype:
            result = ops.cast(result, dtype)
        if shown is not None and shown.dtype is not bool_:
            shown = ops.ne(shown, 0)
    finally:
        trace.mode = before
    wanted = [x, seed, *places, result, *([] if shown is None else [shown])]
    if any(tuple(t.shape) not in ((), (_PAIRS,)) for t in wanted):
        return None
    values = [_hot.value_of(t) for t in wanted]
    if any(v.serial != trace.serial for v in values):
        return None  # a value was needed, and the ops before are gone
    try:
        form = _form(trace, tuple([v.index for v in values]), before.grad)
        numbers = [_as_float(evaluate(e, (), trace.args)) for e in form.numbers]
    except _Refused:  # the caller has another way
        return None
    return CapturedFunction(
        form.function, [_hot.wrap(trace.values[i]) for i in form.tensors], numbers
    )


def _as_float(x: complex) -> float:
    if isinstance(x, complex) or (float(x) != x and x == x):
        raise _Refused
    return float(x)


def _form(trace: Any, ids: tuple[int, ...], with_slopes: bool) -> _Form:
    """The form of the ops recorded last; kept where the path has come back.

    ids: score, seed, the four numbers, the result, and whether the pair is shown if there is a mask
    """
    last = trace.states[-1]
    key = ("pairs", ids, with_slopes)
    if last.plans is not None and key in last.plans:
        kept: _Form = last.plans[key]
        return kept
    path = path_at(trace.states, trace.values, trace.args)
    form = _Reader(path, ids).form(with_slopes)
    if last.passed > 0 and last.parent is not None:
        if last.plans is None:
            last.plans = {}
        last.plans[key] = form
    return form


class _Reader:
    """Reads a `PairFunction` from the nodes of a path."""

    def __init__(self, path: PathGraph, ids: tuple[int, ...]) -> None:
        self.x, self.seed, *places, self.result = ids[:7]
        self.shown = ids[7] if len(ids) > 7 else None
        self.known = dict(zip((self.x, *places), (SCORE, BATCH, HEAD, QUERY, KEY), strict=True))
        self.path = self._part(path, [i for i in (self.result, self.shown) if i is not None])
        self.varies: dict[int, bool] = {}
        self.tensors: list[int] = []
        self.numbers: dict[str, tuple[int, Expr]] = {}
        self.nodes: list[Any] = []
        self.places: dict[int, int] = {}  # id of a value -> position in `nodes`

    def _part(self, whole: PathGraph, ends: list[int]) -> PathGraph:
        """The nodes on which the ends depend, as a path of its own to which nodes are added."""
        positions: set[int] = set()
        ids = [*ends, self.seed]
        while ids:
            k = whole.producer.get(ids.pop(), -1)
            if k >= 0 and k not in positions:
                positions.add(k)
                ids.extend(whole.nodes[k].inputs)
        path = PathGraph([], [], [])
        path.types, path.inner = whole.types, whole.inner
        path.shapes = Layered(whole.shapes)
        path.nodes = [whole.nodes[k] for k in sorted(positions)]
        self._count(path)
        return path

    @staticmethod
    def _count(path: PathGraph) -> None:
        path.n_nodes = len(path.nodes)
        path.producer = {o: k for k, node in enumerate(path.nodes) for o in node.outputs}

    def form(self, with_slopes: bool) -> _Form:
        """The function, and what its operands are. Raises _Refused."""
        slope, bend = NONE, NONE
        ids: list[int | None] = [self.result, self.shown]
        if with_slopes and self.result != self.x:
            ids.append(self._derivative(self.result))
            ids.append(None if ids[2] is None else self._derivative(ids[2]))
        for i in ids:
            if i is not None:
                self._visit(i)
        first = CAPTURED + len(self.tensors)
        nodes = tuple([self._node(node, i, first) for i, node in self._made()])
        results = [NONE if i is None else self._place(i, first) for i in ids]
        score, shown = results[:2]
        if len(ids) > 2:
            slope, bend = results[2:]
            if ids[2] == self.seed:
                slope = NONE
            elif ids[2] is None:  # the result does not depend on the score
                zero = PairNode(None, (), (self._number(0.0),), self.path.dtype_of(self.x), 1)
                nodes, slope = (*nodes, zero), first + len(nodes)
        ranks = tuple([len(self.path.shape_of(i)) for i in self.tensors])
        numbers = tuple([expr for _, expr in self.numbers.values()])
        return _Form(
            PairFunction(ranks, nodes, score, shown, slope, bend), tuple(self.tensors), numbers
        )

    def _derivative(self, i: int) -> int | None:
        """The id of a value's derivative by the score; None if the value does not depend on it."""
        path = self.path
        if i == self.seed:
            return None
        part = Survey(path, (i,), [self.x]).part(path, (i,), END, 0, frozenset())
        if part is None:
            return None
        expander = Expander(path.inner, path.shapes)
        differ = Differentiator(path, expander, True)
        differ.add(i, self.seed)
        differ.run(part.rules, ())
        path.nodes = path.nodes + expander.nodes
        path.inner = expander.inner
        self._count(path)
        return differ.gradients.get(self.x)

    # -- values ---------------------------------------------------------------------------------

    def _varies(self, i: int) -> bool:
        """Whether a value depends on the pair."""
        if i in self.known:
            return True
        varies = self.varies.get(i)
        if varies is None:
            k = self.path.producer.get(i, -1)
            varies = k >= 0 and any(map(self._varies, self.path.nodes[k].inputs))
            self.varies[i] = varies
        return varies

    def _visit(self, i: int) -> None:
        """Note the nodes and captured tensors that a value is made of. Raises _Refused."""
        if i in self.known or i in self.places:
            return
        path = self.path
        k = path.producer.get(i, -1)
        node = path.nodes[k] if k >= 0 else None
        if node is not None and isinstance(node.prim, Full):
            operands: tuple[int, ...] = ()  # the same number everywhere, whatever the shape
        elif not self._varies(i) and i >= 0:
            if path.shape_of(i):
                raise _Refused
            self._capture(i)
            return
        elif node is None or not self._fits(node):
            raise _Refused
        elif isinstance(node.prim, Index):
            self._capture(node.inputs[0])
            operands = node.inputs[1:]
        else:
            operands = node.inputs
        for operand in operands:
            self._visit(operand)
        self.places[i] = len(self.nodes)
        self.nodes.append(node)

    def _capture(self, i: int) -> None:
        if i not in self.tensors:
            self.tensors.append(i)

    def _fits(self, node: Node) -> bool:
        """Whether a node is elementwise, or reads a captured tensor at the numbers of the pair."""
        prim, path = node.prim, self.path
        if any(map(reads_extents, node.args)) or len(node.outputs) != 1 or prim.facts.random:
            return False
        if any(len(path.shape_of(o)) > 1 for o in node.outputs):
            return False
        if isinstance(prim, Index):
            x, *places = node.inputs
            ints = all(path.dtype_of(i).category == INT for i in places)
            return ints and x >= 0 and not self._varies(x) and prim.dims == every(x, path)
        return bool(prim.facts.elementwise)

    def _made(self) -> list[tuple[int, Any]]:
        return [(i, self.nodes[k]) for i, k in self.places.items()]

    def _place(self, i: int, first: int) -> int:
        """The number of a value in the function."""
        if i in self.known:
            return self.known[i]
        return first + self.places[i] if i in self.places else CAPTURED + self.tensors.index(i)

    def _node(self, node: Node, i: int, first: int) -> PairNode:
        path = self.path
        dtype, rank = path.dtype_of(i), len(path.shape_of(i))
        if isinstance(node.prim, Full):
            return PairNode(None, (), (self._number(node.args[-1]),), dtype, rank)
        is_read = isinstance(node.prim, Index)
        operands = tuple([self._place(o, first) for o in node.inputs[is_read:]])
        if is_read:
            operands = (CAPTURED + self.tensors.index(node.inputs[0]), *operands)
        return PairNode(node.prim, operands, tuple(map(self._number, node.args)), dtype, rank)

    def _number(self, expr: Expr) -> int:
        """The place of a number in the list; equal constants share a place."""
        if reads_extents(expr):
            raise _Refused
        return self.numbers.setdefault(repr(expr), (len(self.numbers), expr))[0]


def every(i: int, path: PathGraph) -> tuple[int, ...]:
    """All dims of a value."""
    return tuple(range(len(path.shape_of(i))))
