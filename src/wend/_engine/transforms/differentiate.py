"""Differentiating a path: which nodes matter, the nodes of the backward pass, the values read
there.

Everything here is structure: valid for all sizes, and kept on the `PathGraph`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from wend._engine.base.collecting import CollectionPaused
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import GraphError
from wend._engine.core import _types
from wend._engine.core._backward import StepPrimitive
from wend._engine.core._types import Program
from wend._engine.core.body import Body, Bundle, Total, total_program
from wend._engine.core.graph import (
    Expander,
    Graph,
    Node,
    PathGraph,
    Shapes,
    Step,
    dtype_of,
    extents,
    live_nodes,
    place_all,
    source_of,
)
from wend._engine.core.primitive import Primitive, ops
from wend._engine.core.symbolic import ARG, Expr, Known
from wend._engine.core.symtrace import template
from wend._engine.transforms.residuals import choose_anew

FREED = (
    "backward: trying to go backward through the graph a second time, or to read saved values "
    "after they have been freed: the first backward() or grad() freed them. Give it "
    "retain_graph=True if you need to go backward again"
)
END = 1 << 60  # a position behind all nodes
_ONE: tuple[bool, ...] = (True,)


class Part:
    """A stretch of a backward pass, without users' code in between."""

    __slots__ = ("rules", "targets")

    def __init__(self, rules: list[Any], targets: tuple[int, ...]) -> None:
        self.rules = rules  # (position, node, results with gradients, gradient rule)
        self.targets = targets  # ids whose gradients the part hands over


class Way:
    """Where gradients of some ids flow: the positions of nodes in order, the entries."""

    __slots__ = ("entries", "positions")

    def __init__(self, path: PathGraph, ids: Iterable[int]) -> None:
        producer, nodes, roles = path.producer, path.nodes, path.roles
        seen: set[int] = set()
        entries: set[int] = set()
        stack = list(ids)
        while stack:
            i = stack.pop()
            k = producer.get(i)
            if k is None:
                if i in roles:
                    entries.add(i)
            elif k not in seen:
                node = nodes[k]
                if node.grad:
                    seen.add(k)
                    stack.extend(node.inputs)
        self.positions = sorted(seen)
        self.entries = [(i, roles[i]) for i in sorted(entries)]  # (id, gradient role)


def entries_met(path: PathGraph, ids: tuple[int, ...]) -> list[tuple[int, int]]:
    """(id, role) of the entries that gradients of these ids flow to."""
    key = ("met", ids)
    entries: list[tuple[int, int]] | None = path.caches.get(key)
    if entries is None:
        entries = path.caches[key] = Way(path, ids).entries
    return entries


class Survey:
    """The nodes between the seeds of a backward pass and the targets."""

    __slots__ = ("active", "live", "parts")

    def __init__(self, path: PathGraph, seeds: Iterable[int], targets: Iterable[int]) -> None:
        self.parts: dict[Any, Part | None] = {}
        nodes = path.nodes
        active = set(targets)
        live = []
        for k in Way(path, seeds).positions:
            node = nodes[k]
            if not active.isdisjoint(node.inputs):
                live.append(k)
                if len(node.outputs) == 1:
                    active.add(node.outputs[0])
                else:
                    active.update(floating(node))
        self.active = active
        self.live = live  # positions of the nodes to pass, in order

    def part(
        self, path: PathGraph, order: tuple[int, ...], high: int, low: int, kept: frozenset[int]
    ) -> Part | None:
        """The stretch of nodes low <= position < high from the seeds `order`.

        kept: ids inside of the stretch whose gradients are wanted too.  None if the stretch has no
        effect.
        """
        key = (order, high, low, kept)
        if key not in self.parts:
            with CollectionPaused():
                self.parts[key] = self._part(path, order, high, low, kept)
        return self.parts[key]

    def _part(
        self, path: PathGraph, order: tuple[int, ...], high: int, low: int, kept: frozenset[int]
    ) -> Part | None:
        active = self.active
        nodes = path.nodes
        reached = {i for i in order if i in active}
        rules = []
        seeds: tuple[int, ...]
        for k in reversed(self.live):
            if k >= high or k < low:
                continue
            node = nodes[k]
            inputs, outputs = node.inputs, node.outputs
            if len(outputs) == 1:
                if outputs[0] not in reached:
                    continue
                seeded, seeds = _ONE, outputs
            else:
                seeded = tuple([o in reached for o in outputs])
                if True not in seeded:
                    continue
                seeds = tuple([o for o in outputs if o in reached])
            needs = tuple([i in active for i in inputs])
            graph = node.program.templates.get((needs, seeded))
            if graph is None:
                graph = template(node.program, needs, seeded)
            rules.append((k, node, seeds, graph))
            for i, g in zip(inputs, graph.outputs):
                if g is not None:
                    reached.add(i)
        producer = path.producer
        targets = [i for i in reached if producer.get(i, -1) < low or i in kept]
        return Part(rules, tuple(sorted(targets))) if targets else None


def floating(node: Node) -> list[int]:
    """Those results of a node that can have a gradient."""
    rows = node.program.outs
    return [o for o, row in zip(node.outputs, rows, strict=True) if row[1].category >= 2]


def survey(path: PathGraph, seeds: tuple[int, ...], targets: tuple[int, ...]) -> Survey:
    """The survey for these seeds and targets, kept on the path."""
    key = ("survey", seeds, targets)
    flow = path.caches.get(key)
    if flow is None:
        if len(path.caches) > 500:
            path.caches.clear()
        flow = path.caches[key] = Survey(path, seeds, targets)
    return flow


# -- values that a later backward reads -----------------------------------------------------


def reads(path: PathGraph, node: Node, active: set[int], reached: set[int] | None) -> list[int]:
    """Ids of the values that the gradient rule of a node reads."""
    needs = tuple([i in active for i in node.inputs])
    seeded = tuple([reached is None or o in reached for o in node.outputs])
    if True not in needs or True not in seeded or node.prim.facts.calls_user:
        return []
    names = node.inputs + node.outputs
    return [names[i] for i in template(node.program, needs, seeded).saved]


def saved_ids(path: PathGraph, roots: Iterable[int]) -> set[int]:
    """Ids whose data a later backward from the roots can need."""
    targets = [i for i, grad in path.leaves if grad]
    flow = Survey(path, roots, targets)
    spent = path.spent
    reached = {i for i in roots if i in flow.active}
    kept = Kept(path)
    for k in reversed(flow.live):
        node = path.nodes[k]
        if reached.isdisjoint(node.outputs):
            continue
        reached.update([i for i in node.inputs if i in flow.active])
        if node.outputs[0] not in spent:
            kept.add(k, reads(path, node, flow.active, reached))
    return kept.ids


def saved_inputs(graph: Graph, needs: list[bool]) -> set[int]:
    """Which inputs of a composite's body the backward pass reads."""
    active = {i for i, need in enumerate(needs) if need}
    saved: set[int] = set()
    for node in graph.nodes:
        if node.grad and not active.isdisjoint(node.inputs):
            active.update(floating(node))
            wanted = tuple([i in active for i in node.inputs])
            names = node.inputs + node.outputs
            rule = template(node.program, wanted, (True,) * len(node.outputs))
            saved.update(names[i] for i in rule.saved)
    return {i for i in saved if i < graph.n_inputs}


def still_needed(path: PathGraph, spent: frozenset[int]) -> frozenset[int]:
    """Ids that backward passes through the nodes not yet spent can need."""
    key = ("needed", spent)
    ids = path.caches.get(key)
    if ids is None:
        active = differentiable_ids(path)
        kept = Kept(path)
        for k, node in enumerate(path.nodes):
            if node.grad and node.outputs[0] not in spent and node.outputs[0] not in path.spent:
                kept.add(k, reads(path, node, active, None))
        ids = path.caches[key] = frozenset(kept.ids)
    return ids


def differentiable_ids(path: PathGraph) -> set[int]:
    """Ids that depend on an entry that requires grad, through nodes that record gradients."""
    ids: set[int] | None = path.caches.get("differentiable")
    if ids is None:
        ids = {i for i, grad in path.leaves if grad}
        for node in path.nodes:
            if node.grad and not ids.isdisjoint(node.inputs):
                ids.update(floating(node))
        path.caches["differentiable"] = ids
    return ids


class Kept:
    """The values to save so that given values can be read, or made anew, in the backward pass."""

    def __init__(self, path: PathGraph) -> None:
        self.path = path
        self.ids: set[int] = set()
        self._seen: set[tuple[int, int]] = set()

    def add(self, k: int, ids: list[int]) -> None:
        """The gradient rule of the node at position `k` reads these values.

        Inside of a checkpoint block the values are made anew, from the inputs of the block.
        """
        path = self.path
        block = path.block_at.get(k)
        if block is None:
            anew = computed_anew(path)
            if anew:
                self._add_sources(ids, anew)
            else:
                self.ids.update(ids)
            return
        stack = list(ids)
        while stack:
            i = stack.pop()
            if (block, i) in self._seen:
                continue
            self._seen.add((block, i))
            maker = path.producer.get(i)
            if (
                maker is None
                or path.block_at.get(maker) != block
                or path.nodes[maker].prim.facts.calls_user
            ):
                self.ids.add(i)
            else:
                stack.extend(path.nodes[maker].inputs)

    def _add_sources(self, ids: list[int], anew: frozenset[int]) -> None:
        """The values from which values that are not saved are computed again."""
        stack = list(ids)
        while stack:
            i = stack.pop()
            if i not in anew:
                self.ids.add(i)
            elif (0, i) not in self._seen:
                self._seen.add((0, i))
                stack.extend(self.path.nodes[self.path.producer[i]].inputs)


def computed_anew(path: PathGraph) -> frozenset[int]:
    """The ids that a backward pass through this path, once flushed, computes again."""
    if path.anew is None:
        active = differentiable_ids(path)
        nodes = path.nodes[: path.n_nodes]
        wanted = {i for node in nodes if node.grad for i in reads(path, node, active, None)}
        path.anew = choose_anew(path, wanted)
    return path.anew


# -- the backward pass as nodes -------------------------------------------------------------


class Differentiator:
    """Builds the nodes of a stretch of a backward pass.

    create: the nodes record gradients themselves     whole: each gradient rule is one node,
    and so is each sum of gradients; for structure that does not come back     anew: ids that are
    not at hand, but computed again
    """

    def __init__(
        self,
        path: PathGraph,
        expander: Expander,
        create: bool,
        whole: bool = False,
        anew: frozenset[int] = frozenset(),
    ) -> None:
        self.path = path
        self.anew = anew
        self._again: dict[int, int] = {}
        self.expander = expander
        self.create = create
        self.whole = whole and not create
        self.gradients: dict[int, int] = {}
        self.visited: list[int] = []
        self._parts: dict[int, list[int]] = {}  # contributions not added up yet
        self._blocks: dict[int, dict[int, int]] = {}

    def add(self, i: int, g: int) -> None:
        """Add a contribution to the gradient of value `i`."""
        have = self.gradients.get(i)
        if have is None:
            self.gradients[i] = g
        elif self.whole:
            self._parts.setdefault(i, [have]).append(g)
        else:
            path = self.path
            prim, program = add_program(path.dtype_of(i), len(path.shape_of(i)))
            self.gradients[i] = self._append(i, prim, program, (have, g))

    def gradient(self, i: int) -> int:
        """The gradient of value `i`, to which nothing is added any more."""
        parts = self._parts.pop(i, None)
        if parts is not None:
            program = total_program(self.path.dtype_of(i))
            self.gradients[i] = self._append(i, program.prim, program, tuple(parts))
        return self.gradients[i]

    def _append(self, i: int, prim: Primitive, program: Program, parts: tuple[int, ...]) -> int:
        total = self.expander.temporary(self.path.shape_of(i), self.path.dtype_of(i))
        self.expander.nodes.append(Node(prim, program, parts, (total,), (), self.create))
        return total

    def run(self, rules: list[Any], spent: Container[int]) -> None:
        """Push gradients back through nodes, latest first.

        Raises GraphError where a node's saved values have been freed.
        """
        gradients, expand, create = self.gradients, self.expander.expand, self.create
        nodes = self.expander.nodes
        block_at = self.path.block_at
        for k, node, results, graph in rules:
            inputs, outputs = node.inputs, node.outputs
            names = inputs + outputs
            if graph.saved:
                if outputs[0] in spent:
                    raise GraphError(FREED)
                if k in block_at:
                    clones = self._clones(block_at[k])
                    names = tuple([clones.get(i, i) for i in names])
                elif self.anew:
                    read = set(graph.saved)
                    names = tuple([self._made(i) if j in read else i for j, i in enumerate(names)])
            self.visited.append(outputs[0])
            start = len(nodes)
            names += tuple([self.gradient(o) for o in results])
            if self.whole and len(graph.nodes) > 1:
                grads = self._bundled(graph, node, results, names)
            else:
                grads = expand(graph, names, node.args, create)
            for i, g in zip(inputs, grads):
                if g is not None:
                    if i in gradients:
                        self.add(i, g)
                    else:
                        gradients[i] = g
            if len(nodes) > start:
                source = source_of(self.path, k)
                for new in nodes[start:]:
                    new.source = source

    def _bundled(
        self, graph: Graph, node: Node, seeds: tuple[int, ...], names: tuple[int, ...]
    ) -> list[int | None]:
        """A gradient rule as a node; returns the ids of the gradients."""
        bundle = graph.bundle
        if bundle is None:
            seeded = [o in seeds for o in node.outputs]
            bundle = graph.bundle = bundle_of(graph, node.program, seeded)
        expander = self.expander
        shapes, inner, args = expander.shapes, expander.inner, node.args
        gradients: dict[int, int] = {}
        known: Known = {}
        for local in bundle.outputs:
            inner += 1
            shapes[-inner] = (graph, local, names, args, known)
            gradients[local] = -inner
        expander.inner = inner
        exprs = bundle.exprs
        if exprs:
            exprs = place_all(exprs, names, args, shapes, known)
        operands = tuple([names[i] for i in bundle.inputs])
        outputs = tuple(gradients.values())
        expander.nodes.append(Node(bundle.prim, bundle.program, operands, outputs, exprs, False))
        n = graph.n_inputs
        return [None if i is None else names[i] if i < n else gradients[i] for i in graph.outputs]

    def _made(self, i: int) -> int:
        """A value that is at hand, or computed again."""
        again, anew, path = self._again, self.anew, self.path
        if i not in anew:
            return i
        if i not in again:
            positions: set[int] = set()
            stack = [i]
            while stack:
                j = stack.pop()
                if j in anew and j not in again and path.producer[j] not in positions:
                    positions.add(path.producer[j])
                    stack.extend(path.nodes[path.producer[j]].inputs)
            for k in sorted(positions):
                self._clone(path.nodes[k], again)
        return again[i]

    def _clone(self, node: Node, names: dict[int, int]) -> None:
        """A node again, on values under new names; adds the names of the results."""
        path, expander = self.path, self.expander
        inputs = tuple([names.get(i, i) for i in node.inputs])
        for o in node.outputs:
            names[o] = expander.temporary(path.shape_of(o), path.dtype_of(o))
        outputs = tuple([names[o] for o in node.outputs])
        grad = node.grad and self.create
        expander.nodes.append(Node(node.prim, node.program, inputs, outputs, node.args, grad))

    def _clones(self, block: int) -> dict[int, int]:
        """The values of a checkpoint block, made anew from the values before the block."""
        names = self._blocks.get(block)
        if names is not None:
            return names
        names = self._blocks[block] = {}
        path = self.path
        for k in sorted([k for k, b in path.block_at.items() if b == block]):
            node = path.nodes[k]
            if node.outputs[0] not in path.producer or node.prim.facts.calls_user:
                continue
            self._clone(node, names)
        return names


def bundle_of(graph: Graph, program: Program, seeded: list[bool]) -> Bundle:
    """The gradient rule of a pattern as an op.  seeded: which results have a gradient"""
    results = [row[1] for row in program.outs]
    dtypes = [t.dtype for t in program.sample_types] + results
    dtypes += [dtype for dtype, on in zip(results, seeded, strict=True) if on]
    inputs = sorted({i for node in graph.nodes for i in node.inputs if i < graph.n_inputs})
    node_outputs = {o for node in graph.nodes for o in node.outputs}
    outputs = list(dict.fromkeys([i for i in graph.outputs if i in node_outputs]))
    rows = tuple([graph.shapes[o] for o in outputs])
    used = [dtypes[i] for i in inputs]
    return Bundle(f"{program.prim.name}_backward", graph.nodes, inputs, outputs, used, rows)


_ADD: dict[Any, Any] = {}


def add_program(dtype: DType, rank: int) -> tuple[Primitive, Program]:
    """(primitive, program) of the sum of two tensors of the same shape, for all sizes."""
    entry = _ADD.get((dtype, rank))
    if entry is None:
        from wend._engine.base.devices import CPU

        prim = ops.add.primitive.of(("T", "T"))
        type_ = _types.intern_type((2,) * rank, dtype, CPU)
        entry = _ADD[(dtype, rank)] = (prim, prim.typed([type_, type_], [])[0])
    return entry


def finish(
    differ: Differentiator, targets: tuple[int, ...], first: int, spent: frozenset[int]
) -> Step:
    """Name the gradients of the targets as the step's results; drop nodes that nothing needs."""
    expander = differ.expander
    names: dict[int, int] = {}
    copies: list[tuple[int, int]] = []
    node_outputs = {o for node in expander.nodes for o in node.outputs}
    for k, target in enumerate(targets):
        g = differ.gradient(target)
        if g in node_outputs and g not in names:
            names[g] = first + k
        else:
            copies.append((g, first + k))
    for g, result in copies:
        expander.copy(g, result, differ.create)
    nodes = live_nodes(expander.nodes, set(names) | {r for _, r in copies})
    renamed = names.keys()
    for node in nodes:
        if not renamed.isdisjoint(node.outputs):
            node.outputs = tuple([names.get(i, i) for i in node.outputs])
        if not renamed.isdisjoint(node.inputs):
            node.inputs = tuple([names.get(i, i) for i in node.inputs])
    return Step(nodes, expander.inner, dict(expander.shapes), spent)


def history_flags(path: PathGraph, step: Step, results: Iterable[int]) -> tuple[bool, ...]:
    """Per result of a step whether the result depends on anything that requires grad."""
    active = differentiable_ids(path)
    mine: set[int] = set()
    for node in step.nodes or ():
        if node.grad and any(i in active or i in mine for i in node.inputs):
            mine.update(node.outputs)
    return tuple([i in mine for i in results])


class Layered(dict[int, Any]):
    """Shapes of a step's temporaries, over the shapes of the path before the step."""

    def __init__(self, below: Shapes) -> None:
        super().__init__()
        self.below = below

    def __missing__(self, key: int) -> Any:
        return self.below[key]


# -- the backward pass of a segment, wherever its values come from ---------------------------


class SegmentStep:
    """A stretch of a segment's backward pass as a graph that can be put into any trace.

    graph: the inputs are the seeds, then the saved values `inputs`
    args: the graph's run-time args, over the segment's types and args
    """

    __slots__ = ("args", "graph", "inputs", "prim", "spent", "targets")

    def __init__(
        self,
        graph: Graph,
        inputs: list[int],
        args: list[Expr],
        targets: tuple[int, ...],
        create: bool,
        spent: frozenset[int],
    ) -> None:
        self.graph = graph
        self.inputs = inputs
        self.args = args
        self.targets = targets
        self.spent = spent
        self.prim = StepPrimitive("segment_backward", None)
        self.prim.is_differentiable = create


def segment_step(
    path: PathGraph,
    part: Part,
    order: tuple[int, ...],
    create: bool,
    spent: Container[int],
    whole: bool = False,
) -> SegmentStep:
    """Differentiate a stretch of a segment.  whole: each gradient rule as a node"""
    with CollectionPaused():
        base = len(path.types)  # seeds get ids that no value of the path has
        expander = Expander(path.inner, Layered(path.shapes))
        differ = Differentiator(path, expander, not whole, whole, computed_anew(path))
        for k, i in enumerate(order):
            differ.add(i, base + k)
        differ.run(part.rules, spent)
        targets = part.targets
        outputs = [differ.gradient(t) for t in targets]
        graph, inputs, args = _relocate(expander, outputs, base, len(order), create)
    return SegmentStep(graph, inputs, args, targets, create, frozenset(differ.visited))


def _relocate(
    expander: Expander, outputs: list[int], base: int, n_seeds: int, create: bool
) -> tuple[Graph, list[int], list[Expr]]:
    """Turn nodes with a segment's ids into a graph whose inputs are seeds and saved values."""
    nodes = live_nodes(expander.nodes, set(outputs))
    node_outputs = {o for node in nodes for o in node.outputs}
    names: dict[int, int] = {base + k: k for k in range(n_seeds)}
    saved: list[int] = []
    for ids in [node.inputs for node in nodes] + [tuple(outputs)]:
        for i in ids:
            if i not in node_outputs and i not in names:
                names[i] = n_seeds + len(saved)
                saved.append(i)
    counter = n_seeds + len(saved)
    args: dict[Expr, int] = {}

    def placed(expr: Expr) -> Expr:
        if type(expr) is not tuple:
            return expr
        return (ARG, args.setdefault(expr, len(args)))

    moved = []
    shapes: Shapes = {}
    for node in nodes:
        for o in node.outputs:
            names[o] = counter
            dtype = dtype_of(expander.shapes[o])
            # a pass through the step asks for the expressions, and a compiler asks for some
            exprs = None
            if create or isinstance(node.prim, (Body, Total)):
                exprs = tuple(map(placed, extents(expander.shapes, o)))
            shapes[counter] = (exprs, dtype)
            counter += 1
        moved.append(
            Node(
                node.prim,
                node.program,
                tuple([names[i] for i in node.inputs]),
                tuple([names[o] for o in node.outputs]),
                tuple(map(placed, node.args)),
                node.grad,
                node.source,
            )
        )
    graph = Graph(n_seeds + len(saved), moved, [names[o] for o in outputs], shapes)
    return graph, saved, list(args)
