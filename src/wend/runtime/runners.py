"""How the reference rules of primitives, and whole graphs of them, are called with arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend.core import _hot
from wend.core.body import Body, Total
from wend.core.graph import Graph
from wend.core.types import Number, Spec

#: Of arrays and run-time args; and of what ops that `overwrites` or `turns` take besides.
Runner = Callable[..., Any]


def runner_of(program: Any) -> Runner:
    """How a primitive of this pattern is called with arrays and run-time args; made once."""
    found: Runner | None = program.runner
    if found is None:
        found = program.runner = make_runner(program)
    return found


def make_runner(program: Any) -> Runner:
    """A caller of the reference rule of a pattern."""
    prim = program.prim
    if isinstance(prim, Body):
        run = graph_runner(prim.graph)
        return lambda arrays, args: run(arrays, [], args)
    if isinstance(prim, Total):
        return lambda arrays, args: total(arrays)
    maker = getattr(prim, "runner", None)
    if maker is None:
        rule = prim.reference
    else:
        specs = [Spec(t.shape, t.dtype) for t in program.sample_types]
        numbers = [Number(c) for c in prim.categories]
        rule = maker(prim.arrange(specs, numbers))
    if prim.turns:
        return lambda arrays, args, turned=False: rule(*arrays, turned=turned)
    if prim.plain_form:
        if prim.overwrites:
            return lambda arrays, args, out=None: (
                rule(*arrays) if out is None else rule(*arrays, out=out)
            )
        return lambda arrays, args: rule(*arrays)
    if prim.overwrites:
        return lambda arrays, args, out=None: rule(*prim.arrange(arrays, args), out=out)
    return lambda arrays, args: rule(*prim.arrange(arrays, args))


def total(arrays: list[Any]) -> Any:
    """The sum of arrays of one type, from the first to the last."""
    found = arrays[0] + arrays[1]
    for array in arrays[2:]:
        found += array
    return found


def graph_runner(graph: Graph) -> Callable[[list[Any], Any, Any], list[Any]]:
    """A function of a graph's inputs, their types and its run-time args; made once per graph."""
    if graph.runner is None:
        graph.runner = _make_graph_runner(graph)
    return graph.runner  # type: ignore[no-any-return]


def _make_graph_runner(graph: Graph) -> Callable[[list[Any], Any, Any], list[Any]]:
    last = {i: k for k, node in enumerate(graph.nodes) for i in node.inputs + node.outputs}
    for i in graph.outputs:
        last.pop(i, None)  # type: ignore[arg-type]
    steps: list[Any] = []
    for k, node in enumerate(graph.nodes):
        single = node.prim.result_wrap() is None
        frees = tuple([i for i in {*node.inputs, *node.outputs} if last.get(i) == k])
        outputs = node.outputs[0] if single else node.outputs
        steps.append((runner_of(node.program), node.inputs, node.args, outputs, frees))
    room = [None] * (graph.size - graph.n_inputs)
    results = graph.outputs
    evaluate = _hot.evaluate

    def run(arrays: list[Any], types: Any, args: Any) -> list[Any]:
        env: list[Any] = arrays + room
        for runner, inputs, exprs, outputs, frees in steps:
            numbers = [evaluate(e, types, args) for e in exprs] if exprs else ()
            found = runner([env[i] for i in inputs], numbers)
            if type(outputs) is int:
                env[outputs] = found
            else:
                for o, item in zip(outputs, found):
                    env[o] = item
            for i in frees:
                env[i] = None
        return [None if i is None else env[i] for i in results]

    return run
