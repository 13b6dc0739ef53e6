"""Runners: functions that call the reference rules of primitives, or of whole graphs, on arrays.

For some ops, convolutions above all, an installation brings machine code that serves all sizes.
Such code takes a third of the time of the rule in NumPy.  It is used from the moment that these
rules have taken `ENOUGH` seconds.  Loading the compiler takes about as long, which a short program
would not earn back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from wend._engine.base import config
from wend._engine.core import _types
from wend._engine.core._types import Program
from wend._engine.core.body import Body, Total
from wend._engine.core.graph import Graph, Node
from wend._engine.core.types import Number, Spec
from wend._engine.runtime.donation import WORTH, may_write, room_among, spent_operands
from wend._engine.runtime.numpy_executor import _step_select

#: A function of arrays and run-time args.  Ops with `overwrites` take `out` besides, and ops with
#: `turns` take `turned`.
Runner = Callable[..., Any]

#: A function of single operands and numbers.
Rule = Callable[..., Any]

_step: Any = _step_select.select()
RuleStep = _step.RuleStep
RuleRunner = _step.RuleRunner
steps_of = _step.steps_of

#: Seconds that rules have to take before machine code is loaded in their place.
ENOUGH = 0.4


def runner_of(program: Program) -> Runner:
    """Return the runner of a pattern's primitive; made once."""
    runner: Runner | None = program.runner
    if runner is None:
        runner = program.runner = make_runner(program)
    return runner


def make_runner(program: Program) -> Runner:
    """Make the function that calls the reference rule of a pattern."""
    prim = program.prim
    if isinstance(prim, Body):
        run = graph_runner(prim.graph)
        return lambda arrays, args: run(arrays, [], args)
    if isinstance(prim, Total):
        return lambda arrays, args: total(arrays)
    if prim.is_composite:
        run = graph_runner(program.graph)
        if prim.result_wrap() is None:
            return lambda arrays, args: run(arrays, [], args)[0]
        return lambda arrays, args: run(arrays, [], args)
    runner: Runner = RuleRunner(prim, rule_of(program))
    return runner


def rule_of(program: Program) -> Rule:
    """Return the reference rule of a pattern, or the function that a family makes of the rule for
    operands of known ranks and dtypes."""
    prim = program.prim
    maker = getattr(prim, "runner", None)
    rule: Rule
    if maker is None:
        rule = prim.reference
        return rule
    specs = [Spec(t.shape, t.dtype) for t in program.sample_types]
    numbers = [Number(c) for c in prim.categories]
    rule = maker(prim.arrange(specs, numbers))
    return rule


class ReadyRule:
    """The runner of an op whose machine code an installation may bring along.

    program: the pattern of the op
    """

    #: Makes the machine code of a pattern, or returns None: see `runtime.compiled.ready_code`.
    maker: ClassVar[Callable[[Any], Runner | None] | None] = None
    spent: ClassVar[float] = 0.0  # seconds that all such rules have taken

    def __init__(self, program: Program) -> None:
        self.program = program
        self.rule = runner_of(program)
        self.code: Runner | None = None

    def __call__(self, arrays: list[Any], args: list[Any]) -> Any:
        """Return the result of the op, or the results of an op that has several."""
        if self.is_due():
            if self.code is None:
                assert ReadyRule.maker is not None
                self.code = ReadyRule.maker(self.program)
            result = None if self.code is None else self.code(arrays, args)
            if result is not None:
                return result
        start = time.perf_counter()
        result = self.rule(arrays, args)
        ReadyRule.spent += time.perf_counter() - start
        return result

    @staticmethod
    def is_due() -> bool:
        """Return whether machine code is to run.

        The moment depends on time, so deterministic runs stay with the rules.  Verified runs
        compare machine code with the rules.
        """
        settings = config.settings
        if not settings.compile or settings.deterministic or settings.verify:
            return False
        return ReadyRule.maker is not None and ReadyRule.spent >= ENOUGH


def quick_runner_of(program: Program) -> Runner:
    """Return the fastest runner of a pattern; `runner_of` returns the one that repairs failures."""
    if not program.prim.schedule.ready:
        return runner_of(program)
    runner: Runner | None = program.templates.get("ready")
    if runner is None:
        runner = program.templates["ready"] = ReadyRule(program)
    return runner


def total(arrays: list[Any]) -> Any:
    """Return the sum of arrays of the same type, added from the first to the last."""
    accumulator = arrays[0] + arrays[1]
    for array in arrays[2:]:
        accumulator += array
    return accumulator


def run_plainly(program: Program, arrays: list[Any], args: list[Any]) -> list[Any]:
    """Return all results of a pattern by reference rules alone, op by op, with no write in place.

    This function shares as little code as possible with the faster ways whose failures it repairs.
    """
    graph = program.graph if program.prim.is_composite else None
    if isinstance(program.prim, Body):
        graph = program.prim.graph
    if graph is None:
        result = runner_of(program)(arrays, args)
        return [result] if program.prim.result_wrap() is None else list(result)
    env = list(arrays) + [None] * (graph.size - graph.n_inputs)
    for node in graph.nodes:
        numbers = [_types.evaluate(e, [], args) for e in node.args]
        results = run_plainly(node.program, [env[i] for i in node.inputs], numbers)
        for i, item in zip(node.outputs, results, strict=True):
            env[i] = item
    return [None if i is None else env[i] for i in graph.outputs]


def can_fail(program: Program) -> bool:
    """Return whether a pattern has an op that may refuse the user's values by its own rule."""
    prim = program.prim
    if prim.facts.fallible:
        return True
    graph = prim.graph if isinstance(prim, Body) else program.graph
    return graph is not None and any(can_fail(node.program) for node in graph.nodes)


class NodeRun(RuleStep):  # type: ignore[misc, valid-type]
    """A node of a graph, prepared to run.

    Most nodes run in the short way: `RuleStep.call` calls the rule with the operands.  Nodes that
    write over an operand, or whose runner is more than a rule, run in the long way.
    """

    # Fields of `RuleStep`:
    node: Node
    runner: Runner
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    output: int | None
    args: tuple[Any, ...]
    frees: tuple[int, ...]
    donates: bool
    overwrites: bool
    turned: bool
    spent: tuple[int, ...] | None  # see `room`; found when first needed

    def __init__(self, node: Node, frees: tuple[int, ...]) -> None:
        self.take(node, frees, quick_runner_of(node.program))

    def call_at_length(self, env: list[Any], types: list[Any], args: list[Any]) -> None:
        """Run the node on the environment: read operands, free values, store results."""
        arrays = [env[i] for i in self.inputs]
        values = [_types.evaluate(e, types, args) for e in self.args]
        for i in self.frees:
            env[i] = None
        if self.donates and may_write(env, self.node.prim, arrays, values):
            result = self.node.prim.reference_inplace(*self.node.prim.arrange(arrays, values))
        elif (
            self.overwrites
            and (arrays[0].nbytes >= WORTH or arrays[-1].nbytes >= WORTH)
            and (room := self.room(arrays)) is not None
        ):
            result = self.runner(arrays, values, room)
        elif self.turned:
            result = self.runner(arrays, values, True)
        else:
            result = self.runner(arrays, values)
        if self.output is not None:
            env[self.output] = result
        else:
            for i, item in zip(self.outputs, result, strict=True):
                env[i] = item

    def room(self, arrays: list[Any]) -> Any:
        """Return the operand that the result may be written over, or None."""
        if self.spent is None:
            self.spent = spent_operands(self.node, self.frees)
        return room_among(arrays, self.spent)

    def run(self, arrays: list[Any], numbers: Sequence[Any], env: list[Any]) -> None:
        """Run the node on given operands and run-time args; store the results in `env`."""
        result = self.runner(arrays, numbers)
        if self.output is not None:
            env[self.output] = result
        else:
            for i, item in zip(self.outputs, result, strict=True):
                env[i] = item


def graph_runner(graph: Graph) -> Callable[[list[Any], Any, Any], list[Any]]:
    """Return a function of a graph's inputs, their types and its run-time args; made once.

    The function takes the list of inputs over.  Inputs without other references may be written
    over.
    """
    if graph.runner is None:
        graph.runner = _make_graph_runner(graph)
    return graph.runner


def _make_graph_runner(graph: Graph) -> Callable[[list[Any], Any, Any], list[Any]]:
    last = {i: k for k, node in enumerate(graph.nodes) for i in node.inputs + node.outputs}
    for i in graph.outputs:
        last.pop(i, None)  # type: ignore[arg-type]
    frees: list[list[int]] = [[] for _ in graph.nodes]
    for i, k in last.items():
        frees[k].append(i)
    steps = [NodeRun(node, tuple(f)) for node, f in zip(graph.nodes, frees, strict=True)]
    room = [None] * (graph.size - graph.n_inputs)
    results = graph.outputs

    def run(env: list[Any], types: list[Any], args: list[Any]) -> list[Any]:
        env += room
        for step in steps:
            step.call(env, types, args)
        return [None if i is None else env[i] for i in results]

    return run
