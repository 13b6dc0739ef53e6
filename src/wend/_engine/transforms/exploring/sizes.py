"""Sizes for runs: a question about sizes is answered by sizes that give this answer.

While exploring, each size stands for all, and has a number all the same: types, and what Python
code does, follow from it. A run on the other side of a comparison of sizes needs other numbers;
these are found by trying. So no stretch is explored with sizes for which the program never goes
there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from wend._engine.core.provenance import Site
from wend._engine.core.symbolic import ARG, DIM, EQ, NE, Expr, apply_binary, evaluate, substitute

Question = tuple[int, Expr, Expr]
#: By (DIM, id of an input, axis), the size of a run.
SizesOfInputs = dict[Expr, int]

MOST_TRIED = 60  # sizes for a way
FAR = (16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 100, 127, 128, 129, 256, 257, 512, 513, 1024)
NEAR = range(13)


class SizeFacts:
    """The knowledge of all attempts to explore a function about the sizes of inputs.

    pinned: dims that Python needs as plain numbers, each with the size and the line
    certain: comparisons with the only answer for which the program goes on, and the line
    open: comparisons that both ways follow from
    loose: places in the code that compare new sizes each time
    counters: by state of the program, the names whose numbers a loop changes
    plain: names whose numbers Python needs
    watched: whether results without a name have mattered: see `unseen`
    counts_lines: whether runs count the lines of frames, as loops are told apart by these alone
    patterns: by pattern of an op and the sizes that are symbols, whether comparisons matter
    """

    def __init__(self) -> None:
        self.pinned: dict[Expr, tuple[int, Site]] = {}
        self.certain: dict[Question, tuple[bool, Site]] = {}
        self.open: set[Question] = set()
        self.loose: set[Any] = set()
        self.patterns: dict[Any, Any] = {}
        self.counters: dict[Any, set[Any]] = {}
        self.plain: set[Any] = set()
        self.watched = False
        self.counts_lines = False

    def canonical(self, expr: Expr) -> Expr:
        """An expression with a single name for dims that are known to be equal."""
        if not self.certain:
            return expr
        same: dict[Expr, Expr] = {}
        for (op, a, b), (outcome, _) in self.certain.items():
            if (op, outcome) in ((EQ, True), (NE, False)):
                a, b = _named(a, same), _named(b, same)
                if type(b) is not tuple or (_is_dim(a) and _is_dim(b) and b < a):
                    a, b = b, a
                if _is_dim(b) and (type(a) is int or _is_dim(a)) and a != b:
                    same[b] = a
        return substitute(expr, lambda i, axis: _named((DIM, i, axis), same), lambda k: (ARG, k))

    def is_pinned(self, *exprs: Expr) -> bool:
        """Whether the sizes of inputs in these expressions are all fixed."""
        return all(d in self.pinned for e in exprs for d in dims_of(e))

    def constraints(self) -> list[tuple[int, Expr, Expr, bool]]:
        """The comparisons that hold in all runs."""
        return [(*question, outcome) for question, (outcome, _) in self.certain.items()]


def _is_dim(expr: Expr) -> bool:
    return type(expr) is tuple and expr[0] == DIM


def _named(expr: Expr, same: dict[Expr, Expr]) -> Expr:
    """The name of a dim that has further names."""
    while type(expr) is tuple and expr in same:
        expr = same[expr]
    return expr


def dims_of(expr: Expr) -> Iterator[Expr]:
    """The extents that an expression reads."""
    if type(expr) is tuple:
        if expr[0] == DIM:
            yield expr
        else:
            for part in expr[1:]:
                yield from dims_of(part)


def _numbers_in(expr: Expr) -> Iterator[int]:
    if type(expr) is int:
        yield expr
    elif type(expr) is tuple and expr[0] > 1:  # no (DIM, ...) and (ARG, ...)
        for part in expr[1:]:
            yield from _numbers_in(part)


class _Table:
    """Sizes as expressions read them."""

    def __init__(self, sizes: SizesOfInputs) -> None:
        self.sizes = sizes

    def __getitem__(self, i: int) -> _Row:
        return _Row(self.sizes, i)


class _Row:
    def __init__(self, sizes: SizesOfInputs, i: int) -> None:
        self.sizes, self.i = sizes, i

    def __getitem__(self, axis: int) -> int:
        return self.sizes[DIM, self.i, axis]


def size_of(expr: Expr, sizes: SizesOfInputs) -> Any:
    """The number of an expression over the sizes of inputs."""
    return evaluate(expr, _Table(sizes), ())


def allowed(sizes: SizesOfInputs, constraints: Iterable[tuple[int, Expr, Expr, bool]]) -> bool:
    """Whether sizes give these answers."""
    table = _Table(sizes)
    for op, a, b, outcome in constraints:
        try:
            answer = apply_binary(op, evaluate(a, table, ()), evaluate(b, table, ()))
        except ArithmeticError:  # these sizes make an expression divide by 0
            return False
        if bool(answer) is not outcome:
            return False
    return True


def candidates(
    base: SizesOfInputs,
    constraints: list[tuple[int, Expr, Expr, bool]],
    focus: Iterable[Expr],
    fixed: Iterable[Expr],
) -> Iterator[SizesOfInputs]:
    """Sizes that give these answers, nearest to `base` first.

    focus: the dims to be changed, if any are named     fixed: those that stay
    Dims of equal size often need to stay equal, and change together first.
    """
    fixed = set(fixed)
    free = [d for d in base if d not in fixed]
    chosen = [d for d in dict.fromkeys(focus) if d in base and d not in fixed] or free
    groups = []
    for d in chosen:
        groups.append([e for e in free if base[e] == base[d]])
        groups.append([d])
        groups.append([e for e in free if e[1:] == d[1:] or (base[e] == base[d] and e[2] == d[2])])
    named = {n for c in constraints for e in c[1:3] for n in _numbers_in(e)}
    near = {n + k for n in named for k in (-1, 0, 1, 2)} | {2 * n for n in named}
    tried = {tuple(base.values())}
    count = 0
    for row in _changed(base, groups, chosen, {n for n in near if n >= 0}):
        key = tuple(row.values())
        if key not in tried and allowed(row, constraints):
            tried.add(key)
            yield row
            count += 1
            if count >= MOST_TRIED:
                return


def _changed(
    base: SizesOfInputs, groups: list[list[Expr]], chosen: list[Expr], near: set[int]
) -> Iterator[SizesOfInputs]:
    """Sizes like `base` but for a group, then for pairs of dims."""
    tried = {*NEAR, *FAR, *near}
    for small in (False, True):  # a size of 0 or 1 often means something else
        rows = []
        for group in groups:
            n = base[group[0]]
            sizes = sorted(tried, key=lambda m: (abs(m - n), -m))
            rows.append([(group, size) for size in sizes if (size < 2) is small])
        for row in zip(*rows, strict=False):
            for group, size in row:
                yield {**base, **dict.fromkeys(group, size)}
    for k, a in enumerate(chosen[:4]):
        for b in chosen[k + 1 : 5]:
            for m in range(1, 10):
                for n in range(1, 10):
                    yield {**base, a: m, b: n}
