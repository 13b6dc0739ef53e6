"""Composites off the trie as single nodes: the body forward, and the gradient, as an op each."""

from __future__ import annotations

from typing import Any

from wend._engine.core import _hot
from wend._engine.core._types import Program
from wend._engine.core.body import Body, Bundle
from wend._engine.core.graph import (
    Expander,
    Graph,
    Node,
    PathGraph,
    Shapes,
    dtype_of,
    extents,
    live_nodes,
    runs_whole,
)
from wend._engine.core.symbolic import ARG, DIM, Expr, Known, substitute
from wend._engine.transforms.differentiate import END, Differentiator, Layered, Survey, reads


class CompositeGradient(Body, abstract=True):
    """The body of a composite, forward.

    The results are the composite's, then the values that gradient rules of inner ops read.
    """

    path: PathGraph  # the body: ids >= 0 are the operands, ids below 0 all else
    results: tuple[int, ...]  # ids there of the results that this op returns

    def gradient_graph(self, needs: tuple[bool, ...], seeded: tuple[bool, ...]) -> Graph:
        """The gradient rule of the body, from the rules of its ops; see `symtrace.template`."""
        return gradient_graph(self.path, self.results, needs, seeded)


def gradient_graph(
    path: PathGraph, results: tuple[int, ...], needs: tuple[bool, ...], seeded: tuple[bool, ...]
) -> Graph:
    """The gradient rule of a path whose operands are the first ids, from the rules of the ops.

    needs: which operands want a gradient     seeded: which of the results have a gradient
    Inputs of the graph: operands, results, then the gradients given.  Outputs: per operand the
    id of its gradient, or None.
    """
    n = len(needs)
    order = tuple([o for o, on in zip(results, seeded, strict=True) if on])
    targets = [i for i, need in enumerate(needs) if need]
    part = Survey(path, order, targets).part(path, order, END, 0, frozenset())
    expander = Expander(path.inner, Layered(path.shapes))
    differ = Differentiator(path, expander, True)
    for k, i in enumerate(order):
        differ.add(i, n + k)
    if part is not None:
        differ.run(part.rules, ())
    names = {i: i for i in range(n)}
    names.update({o: n + k for k, o in enumerate(results)})
    names.update({n + k: n + len(results) + k for k in range(len(order))})
    outputs = [differ.gradients.get(i) if need else None for i, need in enumerate(needs)]
    graph = _renamed(path.nodes + expander.nodes, expander.shapes, outputs, names)
    graph.saved = tuple(sorted(i for i in graph.used if i < n + len(results)))
    return graph


def _renamed(
    nodes: list[Node], shapes: Shapes, outputs: list[int | None], names: dict[int, int]
) -> Graph:
    """A gradient graph of nodes with a body's ids; values that are no inputs are computed again.

    names: ids that are inputs, and their ids in the graph
    """
    needed = {i for i in outputs if i is not None}
    kept = []
    for node in reversed(nodes):
        if any(o in needed and o not in names for o in node.outputs):
            kept.append(node)
            needed.update(node.inputs)
    kept.reverse()
    inputs = dict(names)
    n_inputs = count = len(names)

    def dim_of(i: int, axis: int) -> Expr:
        return (DIM, inputs[i], axis)

    def arg_of(k: int) -> Expr:
        return (ARG, k)

    known: Known = {}
    moved = []
    moved_shapes: Shapes = {}
    for node in kept:
        at = count
        for o in node.outputs:
            exprs = tuple([substitute(e, dim_of, arg_of, known) for e in extents(shapes, o)])
            moved_shapes[count] = (exprs, dtype_of(shapes[o]))
            count += 1
        operands = tuple([names[i] for i in node.inputs])
        for k, o in enumerate(node.outputs):
            names.setdefault(o, at + k)
        args = tuple([substitute(e, dim_of, arg_of, known) for e in node.args])
        outs = tuple(range(at, count))
        moved.append(Node(node.prim, node.program, operands, outs, args, node.grad))
    ids = [None if o is None else names[o] for o in outputs]
    return Graph(n_inputs, moved, ids, moved_shapes)


def whole(program: Program, grad: bool) -> Bundle | None:
    """The composite of this pattern as an op; None if it is better expanded.

    grad: whether to hand out the values that a backward pass reads
    """
    key: tuple[str, bool] = ("whole", grad)
    if key not in program.templates:
        program.templates[key] = _make(program, grad) if runs_whole(program.graph) else None
    return program.templates[key]  # type: ignore[no-any-return]


def _make(program: Program, grad: bool) -> Bundle:
    body: Graph = program.graph
    path = PathGraph([], [], [])
    path.types = list(program.sample_types)
    expander = Expander(0, path.shapes)
    operands = tuple(range(body.n_inputs))
    args: tuple[Expr, ...] = tuple([(ARG, k) for k in range(len(program.prim.size_mask))])
    results = [i for i in expander.expand(body, operands, args, True) if i is not None]
    path.nodes = expander.nodes
    path.inner = expander.inner
    path.n_nodes = len(path.nodes)
    path.producer = {o: k for k, node in enumerate(path.nodes) for o in node.outputs}
    if grad:
        operands_read = [i for i, t in enumerate(path.types) if t.dtype.category >= 2]
        results += sorted(read_later(path, results, operands_read), reverse=True)
    rows = tuple([(extents(path.shapes, i), dtype_of(path.shapes[i])) for i in results])
    nodes = live_nodes(path.nodes, set(results))
    dtypes = [t.dtype for t in path.types]
    name = program.prim.name
    bundle = Bundle(name, nodes, operands, results, dtypes, rows, CompositeGradient, len(args))
    bundle.program.differentiable = any(node.grad for node in body.nodes)
    prim: Any = bundle.prim
    prim.path = path
    prim.results = tuple(results)
    return bundle


def read_later(path: PathGraph, results: list[int], operands: list[int]) -> set[int]:
    """Ids in the middle of a path that gradient rules read.

    results: those that may have gradients     operands: those that may want a gradient
    """
    flow = Survey(path, results, operands)
    ids: set[int] = set()
    for k in flow.live:
        ids.update(reads(path, path.nodes[k], flow.active, None))
    return {i for i in ids if i < 0 and i not in results}


_hot.set_slot("whole", whole)
