"""The straight parts of an explored graph: ops between two places that need a value.

A part has a plan for each pattern of ops.  The sizes of a visit find the pattern.  Nothing is
recorded when a part runs.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from wend._engine.base import config, random_state
from wend._engine.core import _hot
from wend._engine.core._hot import FlushJob, Value
from wend._engine.core._types import PrimitiveBase
from wend._engine.core.symbolic import ARG, DIM, Expr, args_in, evaluate
from wend._engine.runtime.batching.calls import kernel_if_ready
from wend._engine.runtime.batching.templates import TemplateFunction, region_path
from wend._engine.transforms.exploring.program import (
    Apply,
    Compute,
    Draw,
    Give,
    Go,
    Info,
    Point,
    ReadNumber,
    StaticGraph,
    Stretch,
)

__all__ = ["PartFunction", "StraightPart", "asked_of", "dims_in", "parts_of", "uses_of"]

#: The number of sizes, and of patterns, whose plans a part keeps.
MOST_SIZES, MOST_PATTERNS = 2048, 32
#: The number of kernels for certain sizes that wait for a call: as many calls may run at once.
MOST_KERNELS = 8


class TypeShapes:
    """The shapes of values by id, for expressions."""

    __slots__ = ("types",)

    def __init__(self, types: dict[int, Any]) -> None:
        self.types = types

    def __getitem__(self, i: int) -> tuple[int, ...]:
        return self.types[i].shape


class PartFunction(TemplateFunction):
    """The plan of a part for a pattern of ops, which several threads may call."""

    programs: tuple[Any, ...]  # of the pattern: ids stay taken

    def compute(self, operands: list[Value], types: list[Any], numbers: list[Any]) -> list[Any]:
        """Return the results: arrays, or operands that are results."""
        table: list[Any] = list(operands)
        if self.plan is not None:
            outs = [_hot.held(t, None) for t in self.made_types(types, numbers)]
            self.plan.run(FlushJob([], operands + outs, numbers, None, None, 0, [], None))
            owners = {id(value.buffer): value for value in operands}
            table += [owners.get(id(value.buffer), value.buffer) for value in outs]
        return [table[k] for k in self.picks]


@dataclass(slots=True)
class PartOp:
    """An op of a part, for `region_path`.  refs: -1 - k is operand k"""

    prim: PrimitiveBase
    refs: tuple[int, ...]
    args: list[Any]
    grad: bool = False


@dataclass(slots=True)
class SizedPart:
    """A part for operands of certain types.

    numbers: the run-time numbers     drawn: (place among these, id) of the numbers that draws make
    made: ids and values of the numbers that the part computes
    draws: seed, offset and how many numbers of each draw
    results: types of the results
    kernels: machine code for these types, which is not in use
    """

    function: PartFunction
    types: list[Any]
    numbers: list[Any]
    drawn: list[tuple[int, int]]
    made: list[tuple[int, Any]]
    draws: list[tuple[int, int, int]]
    results: list[Any]
    kernels: list[Any] = field(default_factory=list)
    tried: bool = False

    def run(self, operands: list[Value], env: dict[int, Any]) -> list[Any]:
        """Return the results; numbers that the part makes are put into the environment."""
        for i, number in self.made:
            env[i] = number
        function, numbers = self.function, self.numbers
        if self.draws:
            for seed, offset, count in self.draws:
                env[seed], env[offset] = random_state.current().reserve(count)
            numbers = numbers.copy()
            for k, i in self.drawn:
                numbers[k] = env[i]
        else:
            kernel = self.kernel()
            if kernel is not None:
                results = kernel.run(operands)
                if len(self.kernels) < MOST_KERNELS:
                    self.kernels.append(kernel)
                if results is not None:
                    return results  # type: ignore[no-any-return]
        return function.compute(operands, self.types, numbers)

    def kernel(self) -> Any:
        """Return machine code that no thread uses now, or None."""
        settings = config.settings
        if settings.deterministic or settings.verify:
            return None
        if self.kernels:
            try:
                return self.kernels.pop()
            except IndexError:  # another thread has taken the last
                pass
        plan = self.function.plan
        if self.tried or getattr(plan, "compiled", None) is None:
            return None
        code = kernel_if_ready(self.function, self.types, self.numbers)
        self.tried = code is None
        return code


class StraightPart:
    """Ops in a row, and the numbers that are read afterwards.

    items: ops, computed numbers and draws
    reads: (id of a number, id of the tensor that holds the number)
    operands, results: ids of tensors     numbers: ids of the numbers from before
    """

    def __init__(
        self,
        items: list[Any],
        reads: list[tuple[int, int]],
        after: set[int],
        captured: Container[int],
    ) -> None:
        """Sort the ids.

        after: the ids that are read after the part
        captured: ids of tensors whose types are fixed
        """
        self.items, self.reads = items, reads
        wanted = after | {value for _, value in reads}
        outputs: set[int] = set()
        used: dict[int, None] = {}
        numbers: dict[int, None] = {}
        results: dict[int, None] = {}
        for item in items:
            tensors, scalars = uses_of(item)
            used.update(dict.fromkeys([i for i in tensors if i not in outputs]))
            numbers.update(dict.fromkeys([i for i in scalars if i not in outputs]))
            outputs.update(_made(item))
            if isinstance(item, Apply):
                results.update(dict.fromkeys([i for i in item.outputs if i in wanted]))
        self.operands, self.numbers, self.results = tuple(used), tuple(numbers), tuple(results)
        #: The operands whose types may differ from call to call.
        self.varying = tuple([i for i in self.operands if i not in captured])
        self.sized: dict[Any, SizedPart] = {}
        self.functions: dict[Any, PartFunction] = {}
        self.offer: Any = None  # machine code that a file has brought along

    def run(self, env: dict[int, Any], lock: Any) -> None:
        """Compute the results in an environment: values and numbers by id."""
        operands = [env[i] for i in self.operands]
        key: Any = tuple([env[i].type for i in self.varying])
        if self.numbers:
            key = _with_numbers(key, [env[i] for i in self.numbers])
        part = self.sized.get(key)
        if part is None:
            with lock:
                part = self.for_sizes(
                    key, [v.type for v in operands], [env[i] for i in self.numbers]
                )
        for k, x in enumerate(part.run(operands, env)):
            env[self.results[k]] = x if type(x) is Value else _hot.held(part.results[k], x)
        for number, value in self.reads:
            env[number] = _hot.wrap(env[value]).item()

    def rehearse(self, env: dict[int, Any], info: dict[int, Info]) -> None:
        """Do as `run` does, with values that have types and no data.

        info: numbers that a run would read are as while exploring
        """
        types = [env[i].type for i in self.operands]
        numbers = [env[i] for i in self.numbers]
        key: Any = tuple([env[i].type for i in self.varying])
        if numbers:
            key = _with_numbers(key, numbers)
        part = self.sized.get(key) or self.for_sizes(key, types, numbers)
        env.update(part.made)
        for seed, offset, _ in part.draws:
            env[seed] = env[offset] = 0
        for i, type_ in zip(self.results, part.results, strict=True):
            env[i] = _hot.held(type_, None)
        for number, _ in self.reads:
            hint = info[number].hint
            env[number] = hint[0] if hint else 2

    def for_sizes(self, key: object, operand_types: list[Any], numbers: list[Any]) -> SizedPart:
        """Return the part for operands of these types, made if need be.

        operand_types: types of the operands     numbers: values of the numbers from before
        """
        if len(self.sized) >= MOST_SIZES:
            self.sized.clear()
        types: dict[int, Any] = dict(zip(self.operands, operand_types, strict=True))
        known: dict[int, Any] = dict(zip(self.numbers, numbers, strict=True))
        refs = {i: -1 - k for k, i in enumerate(self.operands)}
        shapes, ops = TypeShapes(types), []
        programs: list[Any] = []
        flat: list[Any] = []
        drawn: list[tuple[int, int]] = []
        draws: list[tuple[int, int, int]] = []
        computed_numbers: list[tuple[int, Any]] = []
        hidden: set[int] = set()  # numbers that draws make
        n = 0
        for item in self.items:
            if isinstance(item, Compute):
                known[item.output] = evaluate(item.expr, shapes, known)
                computed_numbers.append((item.output, known[item.output]))
            elif isinstance(item, Draw):
                draws.append((item.seed, item.offset, evaluate(item.count, shapes, known)))
                hidden |= {item.seed, item.offset}
                known[item.seed] = known[item.offset] = 0
            else:
                args = [evaluate(e, shapes, known) for e in item.args]
                at = len(flat)
                drawn += [(at + k, i) for k, i in _drawn(item.args, hidden)]
                flat += args
                ins = [types[i] for i in item.inputs]
                program, outs = item.prim.typed(ins, args)
                programs.append(program)
                ops.append(PartOp(item.prim, tuple([refs[i] for i in item.inputs]), args))
                for i, type_ in zip(item.outputs, outs, strict=True):
                    types[i], refs[i] = type_, n
                    n += 1
        results = [types[i] for i in self.results]
        pattern = tuple(map(id, programs))
        function = self.functions.get(pattern)
        if function is None:
            if len(self.functions) >= MOST_PATTERNS:
                self.functions.clear()
            path, values = region_path(ops, operand_types)
            outputs = [values[refs[i]] for i in self.results]
            function = PartFunction(path, outputs, operand_types, flat)
            function.programs = tuple(programs)
            if hasattr(function.plan, "offer"):
                function.plan.offer = self.offer
            self.functions[pattern] = function
        part = SizedPart(function, operand_types, flat, drawn, computed_numbers, draws, results)
        self.sized[key] = part
        return part


def _with_numbers(key: object, numbers: list[Any]) -> tuple[Any, ...]:
    """Return a key that also holds the exact bits of numbers."""
    for x in numbers:
        if type(x) is not int:
            return key, repr(numbers)
    return key, *numbers


def _drawn(args: Sequence[Expr], hidden: set[int]) -> list[tuple[int, int]]:
    """Return place and id of the args that are numbers of draws."""
    if not hidden:
        return []
    pairs = [(k, e[1]) for k, e in enumerate(args) if type(e) is tuple and e[0] == ARG]
    return [(k, i) for k, i in pairs if i in hidden]


def dims_in(expr: Expr) -> set[int]:
    """Return the ids of the values whose extents an expression reads."""
    if type(expr) is not tuple or expr[0] == ARG:
        return set()
    if expr[0] == DIM:
        return {expr[1]}
    return {i for part in expr[1:] for i in dims_in(part)}


def _all_in(exprs: Iterable[Expr]) -> tuple[set[int], set[int]]:
    """Return the ids of the values whose extents expressions read, and of the numbers."""
    exprs = list(exprs)
    return {i for e in exprs for i in dims_in(e)}, {i for e in exprs for i in args_in(e)}


def uses_of(item: Any) -> tuple[list[int], set[int]]:
    """Return the ids of tensors, and of numbers, that an item reads."""
    if isinstance(item, Apply):
        dims, numbers = _all_in(item.args)
        return [*item.inputs, *sorted(dims)], numbers
    if isinstance(item, ReadNumber):
        return [item.value], set()
    dims, numbers = _all_in([item.count if isinstance(item, Draw) else item.expr])
    return sorted(dims), numbers


def _made(item: Any) -> tuple[int, ...]:
    """Return the ids that an item makes."""
    if isinstance(item, Apply):
        return item.outputs
    return (item.seed, item.offset) if isinstance(item, Draw) else (item.output,)


# -- the values that are read later ---------------------------------------------------------


def asked_of(point: Point) -> set[int]:
    """Return the ids that a point's question reads."""
    question = point.question
    if question is None:
        return set()
    if question[0] == "value":
        return {question[1]}
    dims, numbers = _all_in(question[2:])
    return dims | numbers


def _read_at_end(stretch: Stretch, entering: list[set[int]], graph: StaticGraph) -> set[int]:
    """Return the ids that are read after the items of a stretch."""
    end = stretch.end
    if isinstance(end, Go):
        return {*end.args, *(entering[end.point] - set(graph.points[end.point].params))}
    if not isinstance(end, Give):
        return set()
    ids = {x for kind, x in end.leaves if kind == "value"} | {value for _, value in end.writes}
    dims, numbers = _all_in([x for kind, x in end.leaves if kind == "number"])
    return ids | dims | numbers


def _read_before(items: Iterable[Any], after: set[int]) -> set[int]:
    """Return the ids that items, and all behind these, read from before."""
    ids = set(after)
    for item in reversed(list(items)):
        ids.difference_update(_made(item))
        tensors, numbers = uses_of(item)
        ids.update(tensors, numbers)
    return ids


def parts_of(graph: StaticGraph, folded: Iterable[int] = ()) -> list[list[list[StraightPart]]]:
    """Return the straight parts by point and answer, in order.

    folded: ids of further tensors whose types are fixed
    """
    entering: list[set[int]] = [set() for _ in graph.points]
    captured = {*(c.id for c in graph.captured), *folded}
    changed = True
    while changed:
        changed = False
        for number, point in enumerate(graph.points):
            ids = asked_of(point)
            for stretch in point.answers:
                ids |= _read_before(stretch.items, _read_at_end(stretch, entering, graph))
            if ids != entering[number]:
                entering[number], changed = ids, True
    return [
        [_cut(s, _read_at_end(s, entering, graph), captured) for s in point.answers]
        for point in graph.points
    ]


def _cut(stretch: Stretch, after: set[int], captured: set[int]) -> list[StraightPart]:
    """Return the parts of a stretch; after: the ids that are read behind the items."""
    parts: list[StraightPart] = []
    items = stretch.items
    k = 0
    while k < len(items):
        first = k
        while k < len(items) and not isinstance(items[k], ReadNumber):
            k += 1
        ops = items[first:k]
        reads = []
        while k < len(items) and isinstance(item := items[k], ReadNumber):
            reads.append((item.output, item.value))
            k += 1
        parts.append(StraightPart(ops, reads, _read_before(items[k:], after), captured))
    return parts
