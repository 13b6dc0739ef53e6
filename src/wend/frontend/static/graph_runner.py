"""Runs an explored graph by plans of straight parts: nothing is recorded, threads share plans."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from wend.base import defects, tree
from wend.base.devices import CPU
from wend.base.dtypes import from_numpy
from wend.base.interrupts import is_interrupt
from wend.core import _hot, _types
from wend.core._hot import Tensor, Value
from wend.core.symbolic import apply_binary, evaluate
from wend.frontend.autograd.grad_modes import no_grad
from wend.frontend.static.straight_parts import SizedPart, StraightPart, made_by, parts_of
from wend.transforms.exploring import running
from wend.transforms.exploring.program import Fail, Give, Go, StaticGraph

__all__ = ["GraphRunner", "fed_value", "is_array"]


def is_array(x: Any) -> bool:
    """Whether x is a tensor or NumPy array."""
    return isinstance(x, (Tensor, np.ndarray, np.generic))


def fed_value(x: Any) -> Value:
    """The value of a tensor or array, computed and dense.

    Raises TypeError for further objects, and for arrays of types that no tensor has.
    """
    if isinstance(x, Tensor):
        value = _hot.refreshed(x)
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

    def __init__(self, env: list[Any]) -> None:
        self.env = env

    def __getitem__(self, i: int) -> Any:
        return self.env[i].type.shape


class GraphRunner:
    """A graph with copies of captured tensors, which several threads may run at once.

    state: by id, the values of the captured tensors
    Calls of a graph that writes to captured tensors take turns.
    """

    def __init__(self, graph: StaticGraph) -> None:
        self.graph = graph
        self.parts = parts_of(graph)
        self.state: dict[int, Value] = {}
        self.lock = threading.RLock()  # held while plans are made
        ids = {*graph.info, *graph.inputs, *[c.id for c in graph.captured]}
        ids |= {i for p in self.all_parts() for item in p.items for i in made_by(item)}
        self.size = 1 + max(ids, default=0)
        self.checked: set[Any] = set()  # types of inputs that the guards allow
        captured = {c.id for c in graph.captured}
        ends = [s.end for _, _, s in graph.stretches()]
        self.writes = any(
            target in captured for end in ends if isinstance(end, Give) for target, _ in end.writes
        )
        self.turns: Any = threading.RLock() if self.writes else nullcontext()

    def all_parts(self) -> Iterator[StraightPart]:
        """All straight parts."""
        return (part for answers in self.parts for row in answers for part in row)

    def sized_parts(self) -> list[SizedPart]:
        """A part for each pattern of ops that is known: of the example, and of the calls so far."""
        found: dict[int, SizedPart] = {}
        with self.lock, no_grad():
            for part in self.all_parts():
                if part.results:
                    part.at_hints(self.graph.info)
                    found.update({id(p.function): p for p in part.sized.values()})
        return list(found.values())

    def set_state(self, number: int, tensor: Tensor) -> None:
        """Put a copy of a tensor in the place of a captured tensor."""
        array = np.array(_hot.ensure(_hot.refreshed(tensor)))
        self.state[number] = _hot.held(_hot.refreshed(tensor).type, array)

    def run(
        self, values: Sequence[Value], targets: Sequence[Any]
    ) -> tuple[list[Any], tree.Structure]:
        """Return the leaves of the result and the tree, given the values of the inputs.

        targets: per input, the tensor or array that takes the program's writes
        Raises SizesDiffer where a guard does not hold, and the errors of ops and of the program.
        """
        types = tuple([v.type for v in values])
        if types not in self.checked:
            self.check(values)
            if len(self.checked) > 1024:
                self.checked.clear()
            self.checked.add(types)
        with self.turns:
            try:
                end, env = self.walk(values)
            except Exception as fault:
                if is_interrupt(fault):
                    raise
                return self.recorded(values, targets, fault)
            if isinstance(end, Fail):
                raise copy.copy(end.error)
            found = self.give(end, env)
            self.write(end, env, targets)
        return found, end.structure

    def check(self, values: Sequence[Value]) -> None:
        """Raise SizesDiffer where a guard does not hold."""
        env = {i: _hot.wrap(v) for i, v in zip(self.graph.inputs, values, strict=True)}
        env.update({i: _hot.wrap(v) for i, v in self.state.items()})
        running.check_guards(self.graph, env)

    def walk(self, values: Sequence[Value]) -> tuple[Give | Fail, list[Any]]:
        """Run the parts from the entry to an end; return the end, and the values by id."""
        env: list[Any] = [None] * self.size
        for i, value in self.state.items():
            env[i] = value
        for i, value in zip(self.graph.inputs, values, strict=True):
            env[i] = value
        points, lock = self.graph.points, self.lock
        number = answer = 0
        while True:
            for part in self.parts[number][answer]:
                part.run(env, lock)
            end = points[number].answers[answer].end
            if not isinstance(end, Go):
                assert end is not None
                return end, env
            number = end.point
            point = points[number]
            moved = [env[i] for i in end.args]
            for i, x in zip(point.params, moved, strict=True):
                env[i] = x
            question = point.question
            assert question is not None
            if question[0] == "value":
                answer = int(bool(_hot.wrap(env[question[1]])))
            else:
                shapes = _Shapes(env)
                left, right = [evaluate(e, shapes, env) for e in question[2:]]
                answer = int(apply_binary(question[1], left, right))

    def give(self, end: Give, env: list[Any]) -> list[Any]:
        """Return the leaves of the result: tensors whose memory nothing else has."""
        kept: dict[int, Tensor] = {}
        found: list[Any] = []
        for kind, x in end.leaves:
            if kind == "value":
                if x not in kept:
                    kept[x] = _hot.wrap(self.parted(env[x], env))
                found.append(kept[x])
            else:
                found.append(evaluate(x, _Shapes(env), env) if kind == "number" else x)
        return found

    def parted(self, value: Value, env: list[Any]) -> Value:
        """Return a value, or a copy where an input or the state has the memory."""
        array = value.buffer
        foreign = isinstance(array.base, np.ndarray) or any(
            env[i].buffer is array for i in (*self.graph.inputs, *self.state)
        )
        return _hot.held(value.type, array.copy()) if foreign else value

    def write(self, end: Give, env: list[Any], targets: Sequence[Any]) -> None:
        """Put the new values into the state, and into tensors among the inputs."""
        if not end.writes:
            return
        given = dict(zip(self.graph.inputs, targets, strict=True))
        new = {target: self.parted(env[i], env) for target, i in end.writes}
        for target, value in new.items():
            if target in self.state:
                self.state[target] = _hot.held(value.type, value.buffer.copy())
            elif isinstance(given[target], Tensor):
                with no_grad():
                    given[target].copy_(_hot.wrap(value))
            else:
                np.copyto(given[target], value.buffer)

    def recorded(
        self, values: Sequence[Value], targets: Sequence[Any], fault: Exception
    ) -> tuple[list[Any], tree.Structure]:
        """Return the leaves of the result and the tree, by recording the ops after a failure.

        An op that refuses values raises the user's error here.  If no op does, the failure was
        a defect of the plans.
        """
        captured = {i: _hot.wrap(v) for i, v in self.state.items()}
        given = [
            t if isinstance(t, Tensor) else _hot.wrap(v)
            for t, v in zip(targets, values, strict=True)
        ]
        with no_grad():
            leaves, structure = tree.flatten(running.run(self.graph, given, captured))
            for x in leaves:
                if isinstance(x, Tensor):
                    _hot.ensure(_hot.refreshed(x))
        defects.note(fault)
        defects.tell()
        self.state = {i: _hot.refreshed(t) for i, t in captured.items()}
        return leaves, structure
