"""The graph of a function explored: branches and loops as nodes, and the graph run with edits."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable
from functools import partial
from itertools import takewhile
from typing import Any

from wend._engine.base import tree
from wend._engine.base.errors import ArgumentError
from wend._engine.core._hot import Tensor
from wend._engine.core.provenance import Site, module_path
from wend._engine.core.symbolic import ARG, DIM, Expr, substitute
from wend._engine.transforms.exploring import text
from wend._engine.transforms.exploring.numbers import ids_of
from wend._engine.transforms.exploring.program import (
    Apply,
    Captured,
    Compute,
    Draw,
    Fail,
    Give,
    Go,
    Point,
    ReadNumber,
    StaticGraph,
)
from wend._engine.transforms.exploring.running import apply, number_of, run
from wend._frontend.seeing.op_graph import Call, OpGraph, OpNode, dtype_name
from wend._frontend.seeing.rerun import fitting, leaves_given

__all__ = ["explored_graph", "program_of"]

#: A line of a program from a file: "file:line in function", and maybe " (module)".
_PLACE = re.compile(r"(?P<file>.*):(?P<line>\d+) in (?P<function>.*?)(?: \((?P<module>.*)\))?")
#: Dtypes of numbers, by category.
_NUMBERS = ("bool", "int64", "float64", "complex128")


def program_of(target: Any) -> StaticGraph | None:
    """The static graph of an exported program, a session, a scripted function; None for others.

    Raises GraphError for a scripted function whose types are not known yet.
    """
    if isinstance(target, StaticGraph):
        return target
    # The classes are of packages that must not be imported here.
    getter = getattr(type(target), "_static_graph", None)
    program: StaticGraph | None = None if getter is None else getter(target)
    return program


def explored_graph(program: StaticGraph) -> OpGraph:
    """The graph of a function explored.

    A question is a node `if`, or `while` where a loop comes back. A value that comes from
    several ways is a node `merge`; of a loop, an operand is made later than the node. Shapes are
    those of the example, `numbers` has the sizes as expressions: d0.1 is dim 1 of %0.
    """
    return _Reader(program).whole()


class _Reader:
    """Makes nodes of the items of a program."""

    def __init__(self, program: StaticGraph) -> None:
        self.program = program
        self.graph = OpGraph(f"{program.name}, explored")
        self.node_of: dict[int, tuple[int, int]] = {}  # id in the program -> (node, result)
        self.at: dict[int, int] = {}  # id of an item -> node; the program keeps the items
        self.merged: list[tuple[OpNode, Point, int]] = []
        self.ways: dict[int, list[Go]] = {}
        for _, _, stretch in program.stretches():
            if isinstance(stretch.end, Go):
                self.ways.setdefault(stretch.end.point, []).append(stretch.end)
        self.same = self.without_choice()

    def without_choice(self) -> dict[int, int]:
        """Params that always have the same value -> that value; no turn of a loop changes these."""
        same: dict[int, int] = {}

        def value(i: int) -> int:
            while i in same:
                i = same[i]
            return i

        changed = True
        while changed:
            changed = False
            for number, ways in self.ways.items():
                for k, i in enumerate(self.program.points[number].params):
                    if i in same:
                        continue
                    sources = {value(way.args[k]) for way in ways} - {i}
                    if len(sources) == 1:
                        same[i] = sources.pop()
                        changed = True
        return {i: value(i) for i in same}

    def of(self, i: int) -> tuple[int, int]:
        """(node, number of the result) of a value."""
        return self.node_of[self.same.get(i, i)]

    def whole(self) -> OpGraph:
        graph, program = self.graph, self.program
        leaves: dict[int, Captured | None] = dict.fromkeys(program.inputs)
        leaves.update({c.id: c for c in program.captured})
        for k, i in enumerate(sorted(leaves)):
            captured = leaves[i]
            node = self.new("input", (), (i,), None, "")
            if captured is None:
                node.name = f"input {program.inputs.index(i)}"
            else:
                node.name, graph.leaves[node.id] = captured.name or f"constant {k}", captured.tensor
        self.follow()
        for node, point, k in self.merged:
            operands = [self.of(way.args[k])[0] for way in self.ways.get(self.number(point), ())]
            node.inputs = tuple(dict.fromkeys(operands))
        self.name_merged()
        graph.runner = partial(_run, program, self.at, self.node_of)
        return graph

    def name_merged(self) -> None:
        """Give merged values the names of the user's variables, where all ways assign the same."""
        nodes = self.graph.nodes
        read = {i for node in nodes if node.op not in ("if", "while", "merge") for i in node.inputs}
        for node, _, k in self.merged:
            operands = [nodes[i] for i in node.inputs]
            names = {assigned(x.source) for x in operands if not x.is_leaf and x.op != "merge"}
            name = names.pop() if len(names) == 1 else ""
            if not name and node.id not in read and node.dtype == "bool":
                name = "condition"
            node.name = name or f"value {k}"

    def number(self, point: Point) -> int:
        return next(k for k, other in enumerate(self.program.points) if other is point)

    def follow(self) -> None:
        """Make the nodes of all stretches, each behind all that leads there but by a loop."""
        points = self.program.points
        order = self.order()
        place = {key: k for k, key in enumerate(order)}
        asked: dict[int, int] = {}  # number of a point -> node
        ways: dict[
            int, list[tuple[int, int]]
        ] = {}  # number of a point -> stretches that lead there
        around: dict[int, tuple[tuple[int, int], ...]] = {0: ()}  # stretches around each point
        for key in order:
            if isinstance(key, tuple):
                end = points[key[0]].answers[key[1]].end
                if isinstance(end, Go):
                    ways.setdefault(end.point, []).append(key)
        for key in order:
            if isinstance(key, int):
                if key:
                    before = [way for way in ways[key] if place[way] < place[key]]
                    chains = [(*around[way[0]], way) if way[0] else () for way in before]
                    shared = takewhile(lambda same: len(set(same)) == 1, zip(*chains))
                    around[key] = tuple(same[0] for same in shared)
                    branch = self.branch(around[key], asked)
                    heads = any(place[way] > place[key] for way in ways[key])
                    asked[key] = self.ask(key, points[key], branch, heads)
                continue
            number, answer = key
            stretch = points[number].answers[answer]
            branch = self.branch((key,) if number else (), asked)
            for item in stretch.items:
                self.add(item, branch)
            if not isinstance(stretch.end, Go):
                self.end(stretch.end, branch)

    def order(self) -> list[int | tuple[int, int]]:
        """Points, by number, and stretches, as (point, answer), each after all that lead there.

        Turns of loops do not count. Those after "true" come first.
        """
        points = self.program.points
        order: list[int | tuple[int, int]] = []
        seen: set[int] = set()
        stack: list[tuple[int | tuple[int, int], bool]] = [((0, 0), False)]
        while stack:
            key, is_done = stack.pop()
            if is_done:
                order.append(key)
            elif isinstance(key, int):
                if key not in seen:
                    seen.add(key)
                    stack += [(key, True), ((key, 1), False), ((key, 0), False)]
            else:
                end = points[key[0]].answers[key[1]].end
                stack.append((key, True))
                if isinstance(end, Go) and end.point not in seen:
                    stack.append((end.point, False))
        return order[::-1]

    def branch(self, chain: tuple[tuple[int, int], ...], asked: dict[int, int]) -> str:
        """The innermost answer of a chain, as nodes have it."""
        if not chain:
            return ""
        number, answer = chain[-1]
        return f"%{asked[number]} {'true' if answer else 'false'}"

    def ask(self, number: int, point: Point, branch: str, heads: bool) -> int:
        """Make the nodes of a point: merged values, and the question.  heads: a loop"""
        for k, i in enumerate(point.params):
            if i in self.same:
                continue
            self.merged.append((self.new("merge", (), (i,), point.site, branch), point, k))
        question = point.question
        assert question is not None
        ids = [question[1]] if question[0] == "value" else self.read(question[2:])
        node = self.new("while" if heads else "if", ids, (), point.site, branch)
        node.dtype, node.results = "bool", 0
        if question[0] != "value":
            left, right = map(self.expression, question[2:])
            node.numbers = text.comparison(question[1], left, right)
        return node.id

    def add(self, item: Any, branch: str) -> None:
        if isinstance(item, Apply):
            self.call(item, branch)
        elif isinstance(item, ReadNumber):
            self.new("item", (item.value,), (item.output,), item.site, branch)
        elif isinstance(item, Compute):
            node = self.new("number", self.read([item.expr]), (item.output,), None, branch)
            node.numbers = self.expression(item.expr)
        elif isinstance(item, Draw):
            outputs = (item.seed, item.offset)
            node = self.new("draw", self.read([item.count]), outputs, None, branch)
            node.numbers = self.expression(item.count)

    def call(self, item: Apply, branch: str) -> None:
        """Make the node of an op."""
        ids = [*item.inputs, *self.read(item.args, dims=False)]
        node = self.new(item.prim.name, ids, item.outputs, item.site, branch)
        attrs = [f"{name}={x!r}" for name, x in item.prim.attrs.items() if x is not None]
        numbers = [*attrs, *map(self.expression, item.args)]
        sizes = self.sizes(item.outputs[0])
        node.numbers = ", ".join([*numbers, f"sizes {sizes}"] if sizes else numbers)
        if item.modules:
            node.module = module_path(list(item.modules)) or item.site.module
            node.module_class = type(item.modules[-1]).__name__
        if node.module:
            self.graph.modules.setdefault(node.module, node.module_class)
        operands = [self.of(i) for i in item.inputs]
        self.graph.calls[node.id] = Call(item.prim, list(item.args), item.grad, operands)
        self.at[id(item)] = node.id

    def end(self, end: Any, branch: str) -> None:
        """Make the nodes of writes, of an error; note the results."""
        if isinstance(end, Fail):
            node = self.new("raise", (), (), end.site, branch)
            node.numbers = f"{type(end.error).__name__}: {end.error}"
        if not isinstance(end, Give):
            return
        for target, value in end.writes:
            node = self.new("write", (target, value), (), None, branch)
            node.phase = "update"
            node.shape, node.dtype = self.facts(target)
        for kind, x in end.leaves:
            if kind == "value":
                node_id, place = self.of(x)
                self.graph.outputs.append(node_id)
                self.graph.places.append(place)

    def new(
        self, op: str, ids: Iterable[int], outputs: tuple[int, ...], site: Site | None, branch: str
    ) -> OpNode:
        nodes = self.graph.nodes
        operands = dict.fromkeys([self.of(i)[0] for i in ids])
        node = OpNode(len(nodes), op, tuple(operands), branch=branch, results=len(outputs))
        if outputs:
            node.shape, node.dtype = self.facts(outputs[0])
            node.nbytes = self.bytes(outputs[0])
        self.place(node, site)
        nodes.append(node)
        self.node_of.update((i, (node.id, n)) for n, i in enumerate(outputs))
        return node

    def place(self, node: OpNode, site: Site | None) -> None:
        if site is None:
            return
        node.module = site.module
        if site.code is not None:
            node.file, node.line = site.code.co_filename, site.line
            node.function = site.code.co_qualname
        else:  # of a program from a file
            match = _PLACE.fullmatch(getattr(site, "text", ""))
            if match is not None:
                node.file, node.line = match["file"], int(match["line"])
                node.function, node.module = match["function"], match["module"] or ""
        if node.module:
            self.graph.modules.setdefault(node.module, "")

    def facts(self, i: int) -> tuple[tuple[int, ...], str]:
        """(shape in the example, dtype) of a value."""
        info = self.program.info[i]
        if info.extents is None:
            return (), _NUMBERS[info.dtype]
        return tuple(map(int, info.hint)), info.dtype.name

    def bytes(self, i: int) -> int:
        info = self.program.info[i]
        return 0 if info.extents is None else math.prod(info.hint) * int(info.dtype.itemsize)

    def sizes(self, i: int) -> str:
        """The extents of a value, if these depend on those of the inputs."""
        extents = self.program.info[i].extents or ()
        if all(type(e) is not tuple for e in extents):
            return ""
        return f"[{', '.join(map(self.expression, extents))}]"

    def expression(self, expr: Expr) -> str:
        """An expression over the nodes of the graph."""
        over_nodes = substitute(
            expr, lambda i, axis: (DIM, self.named(i), axis), lambda i: (ARG, self.named(i))
        )
        return text.expression(over_nodes)

    def named(self, i: int) -> int:
        return self.of(i)[0] if self.same.get(i, i) in self.node_of else i

    def read(self, exprs: Iterable[Expr], dims: bool = True) -> list[int]:
        """Ids of the values that expressions read.  dims: those of which only sizes are read too"""
        ids = [i for e in exprs for i in ids_of(e)]
        return [i for i in ids if dims or self.program.info[i].extents is None]


def assigned(source: str) -> str:
    """The variable that a line of the user's assigns, or ""."""
    try:
        (statement,) = ast.parse(source).body
    except (SyntaxError, ValueError):
        # The line is a part of a statement, or the head of a block, and assigns no variable.
        return ""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AugAssign | ast.AnnAssign):
        targets = [statement.target]
    return ast.unparse(targets[0]) if len(targets) == 1 else ""


def _run(
    program: StaticGraph,
    at: dict[int, int],
    node_of: dict[int, tuple[int, int]],
    graph: OpGraph,
    values: dict[str | int, Any],
) -> list[Any]:
    """Run a static graph with the edits of its `OpGraph`; return the tensors among the results."""
    leaf_tensors = leaves_given(graph, values, _fault)
    by_id = {i: node for i, (node, _) in node_of.items()}
    missing = [graph[by_id[i]].name for i in program.inputs if by_id[i] not in leaf_tensors]
    if missing:
        raise ArgumentError(
            f"run: no tensor is given for {', '.join(map(repr, missing))}: a static graph has no "
            "inputs of its own, so give run({name: tensor, ...})"
        )
    tensors = [leaf_tensors[by_id[i]] for i in program.inputs]
    captured = {c.id: leaf_tensors.get(by_id[c.id], c.tensor) for c in program.captured}

    def call(item: Apply, env: dict[int, Any]) -> None:
        node = graph[at[id(item)]]
        edit = graph.edits.get(node.id)
        if edit is None or edit.kind == "probe":
            apply(item, env)
        elif edit.kind == "drop":
            value = env[item.inputs[edit.operand]]
            env[item.outputs[0]] = _fitting(program, item, node, value, env, "operand")
        elif edit.function is not None:
            value = edit.function(*[env[i] for i in item.inputs])
            env[item.outputs[0]] = _fitting(program, item, node, value, env, "function")
        if edit is not None and edit.kind == "probe" and edit.function is not None:
            edit.function(env[item.outputs[0]])

    for i, tensor in [*zip(program.inputs, tensors, strict=True), *captured.items()]:
        edit = graph.edits.get(by_id[i])
        if edit is not None and edit.function is not None:
            edit.function(tensor)
    results = tree.leaves(run(program, tensors, captured, call))
    return [x for x in results if isinstance(x, Tensor)]


def _fitting(
    program: StaticGraph, item: Apply, node: OpNode, tensor: Any, env: dict[int, Any], who: str
) -> Tensor:
    """The tensor in place of an op's result.  Raises GraphError if the tensor does not fit."""
    text = f"the {who} in place of %{node.id} ({node.op} at {node.place}) is"
    extents = program.info[item.outputs[0]].extents or ()

    def wanted() -> tuple[int, ...]:
        # Extents are over values that are there by now, but for those of the result itself.
        known = {**env, item.outputs[0]: tensor}
        return tuple([int(number_of(e, known)) for e in extents])

    return fitting(tensor, text, wanted, node.dtype)


def _fault(node: OpNode, tensor: Any) -> str:
    """Why a tensor cannot stand in place of a leaf; sizes may differ, as far as guards allow."""
    n, dtype = len(tensor.shape), dtype_name(tensor.dtype)
    if (n, dtype) == (len(node.shape), node.dtype):
        return ""
    return f"has {len(node.shape)} dims of {node.dtype}, got {n} of {dtype}"
