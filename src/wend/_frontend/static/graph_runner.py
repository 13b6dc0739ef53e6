"""Runs an explored graph by plans of straight parts: nothing is recorded, threads share plans."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from wend._engine.base import defects, tree
from wend._engine.base.devices import CPU
from wend._engine.base.dtypes import from_numpy
from wend._engine.base.errors import GraphError, WendError
from wend._engine.base.interrupts import is_interrupt
from wend._engine.core import _hot, _types
from wend._engine.core._hot import Tensor, Value
from wend._engine.core.symbolic import ARG, DIM, Expr, compare, evaluate
from wend._engine.transforms.exploring import running
from wend._engine.transforms.exploring.program import Fail, Give, Go, StaticGraph, Stretch
from wend._frontend.autograd.grad_modes import no_grad
from wend._frontend.static.folding import Folding
from wend._frontend.static.straight_parts import PartFunction, StraightPart, parts_of

__all__ = ["GraphRunner", "copied", "fed_value", "is_array"]


#: The number of types of inputs that are known to fit.
MOST_CHECKED = 1024
#: The number of stretches that a rehearsal goes through.
MOST_REHEARSED = 4096


def copied(value: Value) -> Value:
    """A value with memory that nothing else has."""
    copy_of: Value = _hot.held(value.type, np.array(_hot.ensure(value)))
    return copy_of


def is_array(x: object) -> bool:
    """Whether x is a tensor or NumPy array."""
    return isinstance(x, (Tensor, np.ndarray, np.generic))


def fed_value(x: object) -> Value:
    """The value of a tensor or array, computed and dense.

    Raises TypeError for further objects, and for arrays of types that no tensor has.
    """
    if isinstance(x, Tensor):
        value = _hot.refreshed(x)
        if value.buffer is None:
            _hot.ensure(value)
        return value
    if not is_array(x):
        raise TypeError(f"a {type(x).__name__}; give a tensor or a NumPy array")
    array = np.asarray(x)
    try:
        dtype = from_numpy(array.dtype)
    except TypeError as fault:
        raise TypeError(f"an array of {array.dtype}: {fault}") from fault
    if not array.flags.c_contiguous:
        array = array.copy()
    return _hot.held(_types.intern_type(array.shape, dtype, CPU), array)


class _Shapes:
    """The shapes of the values of an environment."""

    __slots__ = ("env",)

    def __init__(self, env: dict[int, Any]) -> None:
        self.env = env

    def __getitem__(self, i: int) -> tuple[int, ...]:
        return self.env[i].type.shape


def _reader(expr: Expr) -> Callable[[dict[int, Any]], Any]:
    """Return the function that evaluates an expression in an environment."""
    if type(expr) is not tuple:
        return lambda env: expr
    if expr[0] == ARG:
        return itemgetter(expr[1])
    if expr[0] == DIM:
        _, i, axis = expr
        return lambda env: env[i].type.dims[axis]
    return lambda env: evaluate(expr, _Shapes(env), env)


def _asker(question: Any) -> Callable[[dict[int, Any]], bool]:
    """Return the function that answers a question in an environment."""
    if question[0] == "value":
        i = question[1]
        return lambda env: bool(env[i].buffer.item())
    opcode = question[1]
    left, right = map(_reader, question[2:])
    return lambda env: compare(opcode, left(env), right(env))


class Way:
    """A stretch, ready to run.

    end: the end of the function, or None where the stretch goes on to a point
    args, params: the ids of values that go there, and the new ids of these
    question: answers the point's question
    """

    def __init__(self, graph: StaticGraph, stretch: Stretch, parts: list[StraightPart]) -> None:
        self.parts = parts
        end = stretch.end
        assert end is not None
        self.end = None if isinstance(end, Go) else end
        self.point = 0
        self.args: list[int] = []
        self.params: list[int] = []
        if isinstance(end, Go):
            point = graph.points[end.point]
            pairs = [(a, p) for a, p in zip(end.args, point.params, strict=True) if a != p]
            self.point, self.question = end.point, _asker(point.question)
            self.args, self.params = [a for a, _ in pairs], [p for _, p in pairs]


class GraphRunner:
    """A graph with copies of captured tensors, which several threads may run at once.

    state: by id, the values of the captured tensors, and of ops that read these alone

    Calls of a graph that writes to captured tensors take turns.
    """

    def __init__(self, graph: StaticGraph, offer: object = None) -> None:
        """offer: machine code that a file has brought along for this graph"""
        self.graph = graph
        captured = {c.id for c in graph.captured}
        ends = [s.end for _, _, s in graph.stretches()]
        writes = [target for end in ends if isinstance(end, Give) for target, _ in end.writes]
        self.folding = Folding(graph, set(writes))
        self.parts = parts_of(self.folding.graph, self.folding.results)
        for part in self.all_parts():
            part.offer = offer
        self.ways = [
            [Way(graph, s, parts) for s, parts in zip(point.answers, row, strict=True)]
            for point, row in zip(graph.points, self.parts, strict=True)
        ]
        self.state = self.folded({c.id: copied(_hot.refreshed(c.tensor)) for c in graph.captured})
        self.lock = threading.RLock()  # held while plans are made
        self.checked: set[Any] = set()  # types of inputs that the guards allow
        self.writes = not captured.isdisjoint(writes)
        self.turns = threading.RLock()  # held by calls that write to captured tensors
        self.leaves = (*graph.inputs, *self.state)

    def all_parts(self) -> Iterator[StraightPart]:
        """All straight parts."""
        return (part for answers in self.parts for row in answers for part in row)

    def functions(self) -> list[PartFunction]:
        """The functions of all parts that are known: by a rehearsal, and by the calls so far."""
        with self.lock, no_grad():
            self.rehearse()
            return [f for part in self.all_parts() for f in part.functions.values()]

    def rehearse(self) -> None:
        """Walk through the graph without data, at the sizes of the example.

        Comparisons of sizes decide where to go on; questions for values are answered both ways.
        """
        graph, info = self.graph, self.graph.info
        env: dict[int, Any] = self.state.copy()
        for i in graph.inputs:
            env[i] = _hot.held(_types.intern_type(info[i].hint, info[i].dtype, CPU), None)
        left = [(self.ways[0][0], env)]
        seen: set[Any] = set()
        for _ in range(MOST_REHEARSED):
            if not left:
                return
            way, env = left.pop()
            try:
                for part in way.parts:
                    part.rehearse(env, info)
            except WendError:  # no run goes here with these sizes
                continue
            if way.end is not None:
                continue
            env.update(zip(way.params, [env[i] for i in way.args], strict=True))
            point = graph.points[way.point]
            assert point.question is not None
            types = [x.type if type(x) is Value else x for x in map(env.get, point.params)]
            for k in (0, 1) if point.question[0] == "value" else (int(way.question(env)),):
                key = way.point, k, repr(types)
                if key not in seen:
                    seen.add(key)
                    left.append((self.ways[way.point][k], env.copy()))

    def set_state(self, tensors: Mapping[int, Tensor]) -> None:
        """Put copies of tensors in the places of captured tensors; a call sees all or none."""
        with self.turns:
            new = {i: copied(_hot.refreshed(x)) for i, x in tensors.items()}
            self.state = self.folded({**self.state, **new})

    def folded(self, state: dict[int, Value]) -> dict[int, Value]:
        """The state with the values that follow from the state alone."""
        return {**state, **self.folding.values(state)}

    def run(
        self, values: Sequence[Value], targets: Sequence[Any]
    ) -> tuple[list[Any], tree.Structure]:
        """Return the leaves of the result and the tree, given the values of the inputs.

        targets: per input, the tensor or array that takes the program's writes
        Raises the errors of ops and of the program. `check` comes first for new sizes.
        """
        if self.writes:
            with self.turns:
                return self.run_now(values, targets)
        return self.run_now(values, targets)

    def run_now(
        self, values: Sequence[Value], targets: Sequence[Any]
    ) -> tuple[list[Any], tree.Structure]:
        """Do the work of `run`, with `turns` held where the graph writes to captured tensors."""
        try:
            end, env = self.walk(values)
        except Exception as fault:
            if is_interrupt(fault):
                raise
            return self.recorded(values, targets, fault)
        if isinstance(end, Fail):
            raise end.error
        leaves = self.give(end, env)
        if end.writes:
            self.write(end, env, targets)
        return leaves, end.structure

    def check(self, values: Sequence[Value]) -> None:
        """Raise SizesDiffer where a guard does not hold."""
        if len(self.checked) > MOST_CHECKED:
            self.checked.clear()
        env = {i: _hot.wrap(v) for i, v in zip(self.graph.inputs, values, strict=True)}
        env.update({i: _hot.wrap(v) for i, v in self.state.items()})
        running.check_guards(self.graph, env)
        self.checked.add(tuple([v.type for v in values]))

    def walk(self, values: Sequence[Value]) -> tuple[Give | Fail, dict[int, Any]]:
        """Run the parts from the entry to an end; return the end, and the values by id."""
        env: dict[int, Any] = self.state.copy()
        env.update(zip(self.graph.inputs, values, strict=True))
        lock = self.lock
        way = self.ways[0][0]
        while True:
            for part in way.parts:
                part.run(env, lock)
            if way.end is not None:
                return way.end, env
            moved = [env[i] for i in way.args]
            for i, x in zip(way.params, moved, strict=True):
                env[i] = x
            way = self.ways[way.point][way.question(env)]

    def give(self, end: Give, env: dict[int, Any]) -> list[Any]:
        """Return the leaves of the result: tensors whose memory nothing else has."""
        kept: dict[int, Tensor] = {}
        leaves: list[Any] = []
        for kind, x in end.leaves:
            if kind == "value":
                if x not in kept:
                    kept[x] = _hot.wrap(self.parted(env[x], env))
                leaves.append(kept[x])
            else:
                leaves.append(evaluate(x, _Shapes(env), env) if kind == "number" else x)
        return leaves

    def parted(self, value: Value, env: dict[int, Any]) -> Value:
        """Return a value, or a copy where an input or the state has the memory."""
        array = value.buffer
        if isinstance(array.base, np.ndarray) or value in [env[i] for i in self.leaves]:
            return copied(value)
        return value

    def write(self, end: Give, env: dict[int, Any], targets: Sequence[Any]) -> None:
        """Put the new values into the state, and into tensors among the inputs."""
        destinations = dict(zip(self.graph.inputs, targets, strict=True))
        new = {target: self.parted(env[i], env) for target, i in end.writes}
        for target, value in new.items():
            if value.type != env[target].type and repr(value.type) != repr(env[target].type):
                raise GraphError(
                    f"{self.graph.name}: writes {value.type} into a tensor of {env[target].type}"
                )
        kept = {i: copied(value) for i, value in new.items() if i in self.state}
        if kept:
            self.state = {**self.state, **kept}
        for target, value in new.items():
            if target in kept:
                continue
            if isinstance(destinations[target], Tensor):
                with no_grad():
                    destinations[target].copy_(_hot.wrap(value))
            else:
                np.copyto(destinations[target], value.buffer)

    def recorded(
        self, values: Sequence[Value], targets: Sequence[Any], fault: Exception
    ) -> tuple[list[Any], tree.Structure]:
        """Return the leaves of the result and the tree, by recording the ops after a failure.

        An op that refuses values raises the user's error here.  If no op does, the failure was
        a defect of the plans.
        """
        captured = {i: _hot.wrap(v) for i, v in self.state.items()}
        inputs = [
            t if isinstance(t, Tensor) else _hot.wrap(v)
            for t, v in zip(targets, values, strict=True)
        ]
        with no_grad():
            leaves, structure = tree.flatten(running.run(self.graph, inputs, captured))
            for x in leaves:
                if isinstance(x, Tensor):
                    _hot.ensure(_hot.refreshed(x))
        defects.note(fault)
        defects.tell()
        self.state = {i: _hot.refreshed(t) for i, t in captured.items()}
        return leaves, structure
