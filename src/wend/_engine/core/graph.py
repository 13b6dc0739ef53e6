"""Graphs: the computation of a path or of the body of a rule, as a flat list of nodes.

Ids: in a `Graph` (the body of a composite, a gradient rule, a segment's backward) inputs come
first, then temporaries.  In a `PathGraph` ids >= 0 are the dense indices of the trace's values and
ids < 0 are temporaries inside composites and steps. The first temporary is -1, so that a single
Python list addressed from both ends holds all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any, NamedTuple

from wend._engine.base import config
from wend._engine.base.collecting import CollectionPaused
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import CompileError
from wend._engine.core import _hot, _types
from wend._engine.core._hot import State
from wend._engine.core._types import LeafPrimitive, Program, TensorType
from wend._engine.core.primitive import Primitive, ops
from wend._engine.core.symbolic import ARG, DIM, Expr, Known, reads_extents, substitute

#: Extents and dtype of temporaries: (extents, dtype), or, while nobody has asked for the extents,
#: (graph, local id, ids of the graph's inputs, args, `Known` of these) of the graph that the
#: temporary came from.
#: In a graph, extents of None are known from the node's program alone.
Shapes = dict[int, Any]


class Source(NamedTuple):
    """The recorded op that a node of a backward pass belongs to.

    code, lasti: the user's line; `code` is None in the body of a rule
    at: the number of the op's state in its path; -1 in the body of a rule
    """

    name: str
    grad_name: str
    code: CodeType | None
    lasti: int
    at: int


class Node:
    """A primitive applied: operand ids, result ids, run-time args as expressions.

    grad: whether gradients flow through the node (as recorded, by op and dtype of the result)
    source: for a node of a backward pass, the `Source` of the op that it differentiates
    """

    __slots__ = ("args", "grad", "inputs", "outputs", "prim", "program", "source")

    def __init__(
        self,
        prim: Any,
        program: Program,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        args: tuple[Expr, ...],
        grad: bool,
        source: Source | None = None,
    ) -> None:
        self.prim = prim
        self.program = program
        self.inputs = inputs
        self.outputs = outputs
        self.args = args
        self.grad = grad
        self.source = source

    def __repr__(self) -> str:
        outs = ", ".join(f"%{i}" for i in self.outputs)
        ins = ", ".join(f"%{i}" for i in self.inputs)
        more = f", {', '.join(map(str, self.args))}" if self.args else ""
        return f"{outs} = {self.prim!r}({ins}{more})"


def source_of(path: PathGraph, k: int) -> Source:
    """Return the op that the node at position `k` of a path belongs to."""
    node = path.nodes[k]
    if node.source is not None:  # a node of a backward pass, differentiated again
        return node.source
    at = path.state_at(k)
    if not 0 <= at < len(path.states):  # the body of a rule: no line of its own
        return Source(node.prim.name, node.prim.torch.grad_name or node.prim.name, None, 0, -1)
    state = path.states[at]
    prim = node.prim if state.is_step else state.prim
    return Source(prim.name, prim.torch.grad_name or prim.name, state.code, state.lasti, at)


class Graph:
    """A body with inputs 0..n_inputs-1: nodes in order, the ids of the outputs (or None)."""

    __slots__ = (
        "bundle",
        "n_inputs",
        "nodes",
        "outputs",
        "runner",
        "saved",
        "shapes",
        "size",
        "used",
    )

    def __init__(
        self, n_inputs: int, nodes: list[Node], outputs: list[int | None], shapes: Shapes
    ) -> None:
        self.n_inputs = n_inputs
        self.outputs = outputs
        self.nodes = live_nodes(nodes, {i for i in outputs if i is not None})
        self.shapes = shapes
        self.size = n_inputs + 1  # number of local ids
        for node in nodes:
            self.size = max(self.size, *[o + 1 for o in node.outputs])
        used = {i for node in self.nodes for i in node.inputs if i < n_inputs}
        used |= {i for i in outputs if i is not None and i < n_inputs}
        self.used = frozenset(used)
        # of a gradient rule: the operands and results that the rule reads
        self.saved: tuple[int, ...] = ()
        self.bundle: Any = None  # the graph as an op (see `core.body`), once made
        # the form in which an executor runs the graph, once made
        self.runner: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.nodes)) + f"\nreturn {self.outputs}"


def live_nodes(nodes: Iterable[Node], needed: set[int]) -> list[Node]:
    """The nodes that the needed ids depend on, in order."""
    needed = set(needed)
    kept = []
    for node in reversed(nodes if isinstance(nodes, list) else list(nodes)):
        if not needed.isdisjoint(node.outputs):
            kept.append(node)
            needed.update(node.inputs)
    kept.reverse()
    return kept


# -- paths ----------------------------------------------------------------------------------


class Step:
    """The content of a recorded step: nodes with path ids."""

    __slots__ = ("flags", "inner", "nodes", "remake", "shapes", "spent")

    def __init__(
        self, nodes: list[Node], inner: int, shapes: Shapes, spent: frozenset[int]
    ) -> None:
        # per result whether there is a history, if a graph is created
        self.flags: Sequence[bool] | None = None
        self.nodes: list[Node] | None = nodes
        self.inner = inner  # temporaries in use after this step
        self.shapes = shapes
        self.spent = spent  # results whose node a backward pass has used up
        #: Makes the same step again from the path before; None if the step cannot be made again.
        self.remake: Callable[[PathGraph], Step] | None = None

    def drop(self) -> None:
        """Let go of the nodes until the path comes back; most do not."""
        if self.remake is not None:
            self.nodes = None
            self.shapes = {}

    def content(self, path: PathGraph) -> tuple[list[Node], Shapes]:
        """Nodes and shapes; `path` is the path before the step."""
        nodes, shapes = self.nodes, self.shapes
        if nodes is None:
            assert self.remake is not None
            fresh = self.remake(path)
            assert fresh.nodes is not None and fresh.inner == self.inner
            nodes, shapes = fresh.nodes, fresh.shapes
            self.shapes, self.nodes = shapes, nodes
        return nodes, shapes


class PathGraph:
    """The nodes of a recorded path, composites and backward steps expanded.

    base: the graph of a path that this path continues; the work of `base` is not done again.
    Within a trace the lists are handed on: items beyond `n_nodes` (and `n_states`) belong to graphs
    made later of the same trace.  Ids are never used twice there, so that looking up an id
    needs no care; going through all ids does.
    """

    __slots__ = (
        "anew",
        "args",
        "asked",
        "block_at",
        "caches",
        "calls",
        "inner",
        "known",
        "leaves",
        "n_nodes",
        "n_states",
        "node_of_state",
        "nodes",
        "producer",
        "roles",
        "same",
        "shapes",
        "short",
        "spent",
        "states",
        "types",
    )

    #: How the backward pass runs, if not node by node: see `batching.deferred_backward`.
    later: object = None

    def __init__(
        self,
        states: list[State],
        values: list[Any],
        args: list[Any],
        base: PathGraph | None = None,
        short: bool = False,
    ) -> None:
        """short: whether new composites may stay whole where no gradient flows through them"""
        self.states = states
        self.args = args
        self.anew: frozenset[int] | None = None  # the ids that backward computes again, once chosen
        self.caches: dict[Any, Any] = {}  # results of differentiation for this path
        self.asked: list[Any] = []  # (guards, operands, shifts, args): further facts known of sizes
        self.same: list[int] = []  # leaves of as many rows
        # backward passes from the results of this path, see `quick.KnownPass`
        self.known: list[Any] = []
        self.short = short
        self.n_states = len(states)
        done = 0 if base is None else base.n_states
        if base is None:
            self.nodes: list[Node] = []
            self.shapes: Shapes = {}
            self.inner = 0
            self.spent: set[int] = set()
            self.leaves: list[tuple[int, int]] = []  # (dense id, gradient role)
            self.roles: dict[int, int] = {}  # of the leaves that have a role
            self.node_of_state: list[int] = []  # per state, how many nodes before the state
            # id -> position of the node that makes it; none for leaves
            self.producer: dict[int, int] = {}
            self.block_at: dict[int, int] = {}  # position -> checkpoint block
            self.calls: list[int] = []  # positions of user-defined functions
            self.types: list[TensorType] = [v.type for v in values]
        elif base.states is states and len(base.node_of_state) == done:
            self._continue(base, values)
        else:
            self._copy(base, values)
        self._add(states[done:] if done else states)
        self.n_nodes = len(self.nodes)

    def _continue(self, base: PathGraph, values: list[Any]) -> None:
        """Take over the lists of the latest graph of the same trace, to append to these lists."""
        self.nodes = base.nodes
        self.shapes = base.shapes
        self.inner = base.inner
        self.spent = base.spent
        self.leaves = base.leaves
        self.roles = base.roles
        self.node_of_state = base.node_of_state
        self.producer = base.producer
        self.block_at = base.block_at
        self.calls = base.calls
        self.types = base.types
        self.types.extend([v.type for v in values[len(self.types) :]])
        base.caches = {}  # a trace that has gone on seldom asks again

    def _copy(self, base: PathGraph, values: list[Any]) -> None:
        """Begin with a copy of the content of another trace's graph."""
        at, inner = base.n_nodes, base.inner
        self.nodes = base.nodes[:at]
        self.inner = inner
        self.node_of_state = base.node_of_state[: base.n_states]
        self.producer = base.producer.copy()
        self.shapes = base.shapes.copy()
        self.roles = base.roles.copy()
        self.block_at = base.block_at.copy()
        self.spent = base.spent.copy()
        self.leaves = base.leaves.copy()
        self.calls = base.calls.copy()
        self.types = [v.type for v in values]
        if len(base.node_of_state) > base.n_states:  # the trace of `base` has gone on from there
            last = self.states[base.n_states - 1]
            n = last.first + last.n_out
            self.producer = {i: k for i, k in self.producer.items() if k < at}
            self.shapes = {i: entry for i, entry in self.shapes.items() if i >= -inner}
            self.roles = {i: role for i, role in self.roles.items() if i < n}
            self.block_at = {k: block for k, block in self.block_at.items() if k < at}
            steps = [state.step for state in self.states[: base.n_states] if state.is_step]
            self.spent = {i for step in steps for i in step.spent}
            self.leaves = [(i, role) for i, role in self.leaves if i < n]
            self.calls = [k for k in self.calls if k < at]

    @property
    def complete(self) -> bool:
        """Whether the lists end where this path ends."""
        return len(self.node_of_state) == self.n_states

    def state_at(self, k: int) -> int:
        """Return the position of the state that the node at position `k` belongs to."""
        return bisect_right(self.node_of_state, k) - 1

    def nodes_of(self, s: int) -> list[Node]:
        """Return the nodes of the state at position `s`."""
        starts = self.node_of_state
        return self.nodes[starts[s] : starts[s + 1] if s + 1 < len(starts) else None]

    def makers(self) -> dict[int, tuple[int, Node]]:
        """Return (position of the state, node) of each value that a node makes, in one walk."""
        starts = self.node_of_state
        return {
            o: (s, node)
            for s in range(min(self.n_states, len(starts)))
            for node in self.nodes_of(s)
            for o in node.outputs
        }

    def _add(self, states: list[State]) -> None:
        nodes, producer, node_of_state = self.nodes, self.producer, self.node_of_state
        for state in states:
            at = len(nodes)
            node_of_state.append(at)
            prim = state.prim
            if isinstance(prim, LeafPrimitive):
                role = prim.grad if state.requires_grad else 0
                self.leaves.append((state.first, role))
                if role:
                    self.roles[state.first] = role
                continue
            if state.is_step:
                self._add_step(state.step)
                continue
            mode = state.mode
            first = state.first
            n_out = state.n_out
            outputs = (first,) if n_out == 1 else tuple(range(first, first + n_out))
            inputs = tuple(state.operand_indices())
            n_args = len(prim.size_mask)
            args: tuple[Expr, ...] = ()
            if n_args:
                args = tuple([(ARG, state.arg0 + k) for k in range(n_args)])
            program = state.program
            whole = None
            if prim.is_composite and not mode.recompute and alone(state):
                whole = _hot.slot("whole")(program, state.requires_grad)
            if whole is not None:
                self._add_whole(whole, inputs, args, outputs, mode.grad)
            elif prim.is_composite and not (self.short and stays_whole(state)):
                builder = Expander(self.inner, self.shapes)
                builder.expand(program.graph, inputs, args, mode.grad, outputs)
                self.inner = builder.inner
                nodes.extend(builder.nodes)
                for k in range(at, len(nodes)):
                    for o in nodes[k].outputs:
                        producer[o] = k
            else:
                grad = mode.grad and program.differentiable
                nodes.append(Node(prim, program, inputs, outputs, args, grad))
                if prim.facts.labels_leaf:
                    self.leaves.append((first, 1))
                    self.roles[first] = 1
                else:
                    for o in outputs:
                        producer[o] = at
                if prim.facts.calls_user:
                    self.calls.append(at)
            if mode.recompute:
                for k in range(at, len(nodes)):
                    self.block_at[k] = mode.recompute

    def _add_whole(
        self,
        whole: Any,
        inputs: tuple[int, ...],
        args: tuple[Expr, ...],
        outputs: tuple[int, ...],
        grad: bool,
    ) -> None:
        """A composite off the trie: a node that also hands out the values that a gradient rule
        reads."""
        shapes, inner, path = self.shapes, self.inner, whole.prim.path
        known: Known = {}
        for local in whole.outputs[len(outputs) :]:
            inner += 1
            shapes[-inner] = (path, local, inputs, args, known)
            outputs += (-inner,)
        self.inner = inner
        at = len(self.nodes)
        for o in outputs:
            self.producer[o] = at
        if whole.exprs:
            args += place_all(whole.exprs, inputs, args, shapes, known)
        grad = grad and whole.program.differentiable
        self.nodes.append(Node(whole.prim, whole.program, inputs, outputs, args, grad))

    def _add_step(self, step: Step) -> None:
        at = len(self.nodes)
        nodes, shapes = step.content(self)
        self.nodes.extend(nodes)
        for k, node in enumerate(nodes, at):
            for o in node.outputs:
                self.producer[o] = k
        self.shapes.update(shapes)
        self.inner = step.inner
        self.spent |= step.spent

    def position(self, i: int) -> int:
        """Position of the node that makes a value; -1 for leaves."""
        return self.producer.get(i, -1)

    def shape_of(self, i: int) -> tuple[Expr, ...]:
        """Extents of a value as expressions."""
        if i < 0:
            return extents(self.shapes, i)
        return tuple([(DIM, i, a) for a in range(len(self.types[i].shape))])

    def dtype_of(self, i: int) -> Any:
        """Element type of a value."""
        return self.types[i].dtype if i >= 0 else dtype_of(self.shapes[i])


def alone(state: State | None) -> bool:
    """Whether a state (None for a state off the trie) stands for structure that does not come back.

    False where runs must be bit-equal: results may not depend on this.
    """
    off = state is None or state.parent is None
    return off and not config.settings.deterministic


def stays_whole(state: State) -> bool:
    """Whether a composite may be a single node where a path is run for the first time.

    The body is prepared once for all calls of a pattern: an optimizer's step is the same for each
    parameter. Not if a gradient rule may ask for values inside, or a failure or a write concerns a
    part of the body.
    """
    program = state.program
    mode = state.mode
    if state.passed > 0 or mode.recompute or (mode.grad and program.differentiable):
        return False
    is_whole = program.templates.get("stays whole")
    if is_whole is None:
        is_whole = program.templates["stays whole"] = runs_whole(program.graph) and not any(
            reads_extents(e) for node in program.graph.nodes for e in node.args
        )
    return bool(is_whole)


def runs_whole(body: Graph) -> bool:
    """Whether running a body at once changes nothing but the time.

    Not if its ops can fail at the user's values, write into an operand that is let go, or draw
    random numbers: no two draws are alike, so that bodies with draws never make a group.
    """
    results = {o for node in body.nodes for o in node.outputs}
    if len(results.intersection(body.outputs)) != len(body.outputs):
        return False
    prims = [node.prim for node in body.nodes]
    if len(prims) < 2 or all(prim.is_view for prim in prims):
        return False
    return not any(
        p.facts.fallible or p.schedule.donates or p.facts.random or p.facts.calls_user
        for p in prims
    )


def n_ops(node: Node) -> int:
    """How many primitives a node of a path is."""
    graph = node.program.graph
    return 1 if graph is None else len(graph.nodes)


#: The latest graph of each pending trace, by the id of the trace's list of states.
PENDING: dict[int, PathGraph] = {}
MOSTPENDING = 32  # traces; those that are flushed without being computed leave theirs behind


def path_at(
    states: list[State], values: list[Any], args: list[Any], short: bool = False
) -> PathGraph:
    """The graph of the recorded steps; where a path has come back, the graph is kept on its state.

    short: see `PathGraph`
    Keeps the lists `states` and `args`: both belong to a trace, and only ever grow.
    """
    n = len(states)
    last = states[n - 1]
    if last.plans is not None:
        kept: PathGraph | None = last.plans.get("path")
        if kept is not None and (kept.states is states or kept.complete):
            return kept
    base = PENDING.get(id(states))
    if base is not None and base.short and not short:
        base = None
    if base is None:
        for k in range(n, 0, -1):
            plans = states[k - 1].plans
            if plans is not None:
                base = plans.get("path")
                if base is not None:
                    break
    elif base.n_states == n:
        return base
    with CollectionPaused():
        path = PathGraph(states, values, args, base, short)
    if len(PENDING) >= MOSTPENDING:
        PENDING.clear()
    PENDING[id(states)] = path
    if last.passed > 0 and last.parent is not None and not short:
        if last.plans is None:
            last.plans = {}
        last.plans["path"] = path
    return path


def forget(states: list[State]) -> None:
    """The trace with this list of states has been computed."""
    PENDING.pop(id(states), None)


def dtype_of(entry: tuple[Any, ...]) -> Any:
    """Element type in an entry of `Shapes`."""
    return entry[1] if len(entry) == 2 else entry[0].shapes[entry[1]][1]


def extents(shapes: Shapes, i: int) -> tuple[Expr, ...]:
    """Extents of the temporary `i`; worked out when first asked for."""
    entry = shapes[i]
    if len(entry) > 2:
        graph, local, inputs, args, known = entry
        exprs, dtype = graph.shapes[local]
        if exprs is None:
            raise CompileError(f"nobody was to ask for the extents of %{i}")
        entry = (place_all(exprs, inputs, args, shapes, known), dtype)
        shapes[i] = entry
    return entry[0]  # type: ignore[no-any-return]


def place(
    expr: Expr, inputs: tuple[int, ...], args: tuple[Expr, ...], shapes: Shapes, known: Known
) -> Expr:
    """An expression over a graph's inputs and args, over those of the path around it."""
    if type(expr) is not tuple:
        return expr
    op = expr[0]
    if op == DIM:
        i = inputs[expr[1]]
        return (DIM, i, expr[2]) if i >= 0 else extents(shapes, i)[expr[2]]
    if op == ARG:
        return args[expr[1]]

    def dim_of(k: int, axis: int) -> Expr:
        i = inputs[k]
        return (DIM, i, axis) if i >= 0 else extents(shapes, i)[axis]

    return substitute(expr, dim_of, args.__getitem__, known)


def place_all(
    exprs: tuple[Expr, ...],
    inputs: tuple[int, ...],
    args: tuple[Expr, ...],
    shapes: Shapes,
    known: Known,
) -> tuple[Expr, ...]:
    """`place` for several; `known` is shared by expressions of a graph with the same inputs and
    args."""
    out: list[Expr] = []
    for e in exprs:
        if type(e) is tuple and e[0] == DIM:  # nearly all are
            i = inputs[e[1]]
            out.append((DIM, i, e[2]) if i >= 0 else extents(shapes, i)[e[2]])
        else:
            out.append(place(e, inputs, args, shapes, known))
    return tuple(out)


class Expander:
    """Instantiates graphs into a path: renames ids, substitutes extents."""

    def __init__(self, inner: int, shapes: Shapes) -> None:
        self.inner = inner
        self.shapes = shapes
        self.nodes: list[Node] = []

    def temporary(self, exprs: tuple[Expr, ...], dtype: DType) -> int:
        """A new temporary of the path."""
        self.inner += 1
        self.shapes[-self.inner] = (exprs, dtype)
        return -self.inner

    def expand(
        self,
        graph: Graph,
        inputs: tuple[int, ...],
        args: tuple[Expr, ...],
        grad: bool,
        outputs: tuple[int | None, ...] | None = None,
    ) -> list[int | None]:
        """Append the graph's nodes; returns the path ids of the graph's outputs.

        `outputs`, if given, are the ids that the results must get.
        """
        n = graph.n_inputs
        names: list[Any] = list(inputs)
        names += [None] * (graph.size - n)
        if outputs is not None:
            for local, wanted in zip(graph.outputs, outputs, strict=True):
                if local is not None and wanted is not None and names[local] is None:
                    names[local] = wanted
        shapes, nodes, inner = self.shapes, self.nodes, self.inner
        known: Known = {}
        for node in graph.nodes:
            for local in node.outputs:
                if names[local] is None:
                    inner += 1
                    names[local] = -inner
                    shapes[-inner] = (graph, local, inputs, args, known)
            exprs = node.args
            if exprs:
                exprs = place_all(exprs, inputs, args, shapes, known)
            nodes.append(
                Node(
                    node.prim,
                    node.program,
                    tuple([names[i] for i in node.inputs]),
                    tuple([names[i] for i in node.outputs]),
                    exprs,
                    grad and node.grad,
                    node.source,
                )
            )
        self.inner = inner
        result = [None if i is None else names[i] for i in graph.outputs]
        if outputs is not None:
            for have, wanted in zip(result, outputs, strict=True):
                if have is not None and wanted is not None and have != wanted:
                    self.copy(have, wanted, grad)
        return result

    def copy(self, source: int, target: int, grad: bool) -> None:
        """Give the value `source` the further id `target`."""
        prim, program = identity_program()
        self.nodes.append(Node(prim, program, (source,), (target,), (), grad))


_IDENTITY: list[Any] = []


def identity_program() -> tuple[Primitive, Program]:
    """(primitive, program) of the identity; the pattern holds for every rank."""
    if not _IDENTITY:
        from wend._engine.base.devices import CPU
        from wend._engine.base.dtypes import float32

        prim = ops.identity.primitive.of()
        program, _ = prim.typed([_types.intern_type((), float32, CPU)], [])
        _IDENTITY[:] = [prim, program]
    return _IDENTITY[0], _IDENTITY[1]


def is_primitive(prim: object) -> bool:
    """Whether this is an op (not a leaf, not a backward step)."""
    return isinstance(prim, Primitive)
