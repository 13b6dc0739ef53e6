"""Templates: the structure of a region as a forward and a backward function, made once.

A group of regions of equal structure runs the functions of its template.  The functions are plans
like the plans of paths: the reference executor runs each until machine code is there.  Gradients
of leaves that are the same for all members are put off.  The arrays that these gradients read are
kept, group by group; the gradients are then computed once, over the rows of all groups.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from wend._engine.base import defects
from wend._engine.base.collecting import CollectionPaused
from wend._engine.base.devices import CPU, device
from wend._engine.base.dtypes import INT
from wend._engine.core import _hot, _types
from wend._engine.core._hot import FlushJob, Value
from wend._engine.core._types import Program
from wend._engine.core.graph import Expander, Graph, Node, PathGraph, dtype_of, extents, live_nodes
from wend._engine.core.symbolic import ARG, DIM, Expr, args_in, substitute
from wend._engine.ops.creation import Arange
from wend._engine.runtime.batching.calls import run_at_once
from wend._engine.runtime.batching.flat_rows import KEPT, Kept, flat_type, flattened
from wend._engine.runtime.batching.signatures import GRAD, PARAMETER, ops_of, role_of
from wend._engine.runtime.devices.queue import accelerator_at
from wend._engine.runtime.tiers import TieredPlanner
from wend._engine.transforms.batch import batch_graph
from wend._engine.transforms.rows import with_rows
from wend._engine.transforms.whole import gradient_graph, read_later

_NONE: frozenset[int] = frozenset()
Ids = dict[int, int]


class TemplateFunction:
    """A plan for some values of a path: called with the operands' arrays, gives the values' arrays.

    types: example types of the operands
    numbers: example run-time args
    place: where the function runs
    """

    def __init__(
        self,
        path: PathGraph,
        outputs: Sequence[int],
        types: list[Any],
        numbers: list[Any],
        place: device = CPU,
    ) -> None:
        n = len(types)
        self.place = place
        self.n = n
        made = list(dict.fromkeys(i for i in outputs if i < 0))
        self.picks = [i if i >= 0 else n + made.index(i) for i in outputs]
        self.rows = [(extents(path.shapes, i), dtype_of(path.shapes[i])) for i in made]
        self.sized = sorted({k for exprs, _ in self.rows for e in exprs for k in args_in(e)})
        self.known: dict[Any, list[Any]] = {}
        #: Types and numbers of the last run, and the kernel bound to both: see `run_at_once`.
        self.last: list[Any] | None = None
        self.plan: Any = None
        if not made:
            return
        names = {i: n + k for k, i in enumerate(made)}
        own = PathGraph([], [], [])
        own.types = [*types, *self.made_types(types, numbers)]
        own.nodes = [renamed(node, names) for node in live_nodes(path.nodes, set(made))]
        own.shapes = path.shapes
        own.inner = path.inner
        own.asked, own.same = path.asked, path.same
        settle(own)
        own.leaves = [(i, 0) for i in range(n)]
        self.plan = TieredPlanner().plan(own, frozenset(names.values()), _NONE)

    def made_types(self, types: list[Any], numbers: list[Any]) -> list[Any]:
        """Return the types of the values that the plan makes."""
        # Numbers are in the key: regions that only differ by a slice's bounds share a template.
        key = (*types, *[numbers[k] for k in self.sized])
        found = self.known.get(key)
        if found is None:
            if len(self.known) > 256:
                self.known.clear()
            found = self.known[key] = []
            for exprs, dtype in self.rows:
                shape = tuple([_types.evaluate(e, types, numbers) for e in exprs])
                found.append(_types.intern_type(shape, dtype, self.place))
        return found

    def out_types(self, types: list[Any], numbers: list[Any]) -> list[Any]:
        """The types of the results."""
        table = [*types, *self.made_types(types, numbers)]
        return [table[k] for k in self.picks]

    def run_at_once(
        self, arrays: list[Any], types: list[Any], numbers: list[Any]
    ) -> list[Any] | None:
        """Return the outputs, by machine code that is ready; None if the plan has to run."""
        try:
            return run_at_once(self, arrays, types, numbers)
        except Exception as fault:  # noted; the plan runs
            defects.note(fault)
            return None

    def __call__(self, arrays: list[Any], types: list[Any], numbers: list[Any]) -> list[Any]:
        """Return the arrays of the outputs.

        arrays: arrays or held values of the operands; None for operands that are not used
        """
        found = None if self.plan is None else self.run_at_once(arrays, types, numbers)
        if found is None:
            table = arrays
            if self.plan is not None:
                if self.place is not CPU:
                    accelerator_at(self.place).settle()
                values = [
                    a if type(a) is Value else _hot.held(t, a)
                    for t, a in zip(types, arrays, strict=True)
                ]
                outs = [_hot.held(t, None) for t in self.made_types(types, numbers)]
                self.plan.run(FlushJob([], values + outs, numbers, None, None, 0, [], None))
                table = arrays + [v.buffer for v in outs]
            found = [table[k] for k in self.picks]
        return [x.buffer if type(x) is Value else x for x in found]


def renamed(node: Node, names: Ids) -> Node:
    """Return the node with the ids replaced by `names`."""
    return Node(
        node.prim,
        node.program,
        tuple([names.get(i, i) for i in node.inputs]),
        tuple([names.get(i, i) for i in node.outputs]),
        node.args,
        node.grad,
    )


def settle(path: PathGraph) -> None:
    """Note how many nodes a path has, and which node makes each value."""
    path.n_nodes = len(path.nodes)
    path.producer = {o: k for k, node in enumerate(path.nodes) for o in node.outputs}


def expanded(graph: Graph, types: list[Any], n_args: int) -> tuple[PathGraph, list[Any]]:
    """Return a graph as a path over operands of these types, and the ids of the outputs there."""
    path = PathGraph([], [], [])
    path.types = list(types)
    expander = Expander(0, path.shapes)
    args: tuple[Expr, ...] = tuple([(ARG, k) for k in range(n_args)])
    outputs = expander.expand(graph, tuple(range(len(types))), args, True)
    path.nodes, path.inner = expander.nodes, expander.inner
    settle(path)
    return path, outputs


def read_by(producers: dict[int, Node], value: int) -> set[int]:
    """Return the operands of a region that gradients of the value flow to."""
    seen, stack = {value}, [value]
    while stack:
        node = producers.get(stack.pop())
        if node is not None and node.grad:
            fresh = set(node.inputs) - seen
            seen |= fresh
            stack += fresh
    return {i for i in seen if i >= 0}


def region_path(nodes: list[Any], types: list[Any]) -> tuple[PathGraph, list[int]]:
    """Return the ops of a region as a path over operands of these types, and the values' ids."""
    path = PathGraph([], [], [])
    path.types = list(types)
    expander = Expander(0, path.shapes)
    values: list[int] = []
    at = 0
    concrete: dict[int, Any] = dict(enumerate(types))
    for op in nodes:
        prim = op.prim
        ins = tuple([values[ref] if ref >= 0 else -1 - ref for ref in op.refs])
        program, outs = prim.typed([concrete[i] for i in ins], list(op.args))
        args: tuple[Expr, ...] = tuple([(ARG, at + k) for k in range(len(op.args))])
        at += len(op.args)
        if prim.is_composite:
            path.asked.append(guards_of(program, ins, args, expander, len(types)))
            made: list[Any] = expander.expand(program.graph, ins, args, op.grad)
        else:
            made = [
                expander.temporary(row, dtype)
                for row, dtype in placed(program, ins, args, expander)
            ]
            grad = op.grad and program.differentiable
            expander.nodes.append(Node(prim, program, ins, tuple(made), args, grad))
        for i, type_ in zip(made, outs, strict=True):
            assert i is not None
            values.append(i)
            concrete[i] = type_
    path.nodes, path.inner = expander.nodes, expander.inner
    settle(path)
    return path, values


def places_of(path: PathGraph) -> set[int]:
    """Return the integers that may tell the members of a group apart.

    Batching rules index members by `arange`.  A backward function that runs for some members only
    has to number these anew, so it computes such integers again.
    """
    found: set[int] = set()
    for node in path.nodes:
        counts = isinstance(node.prim, Arange) or not found.isdisjoint(node.inputs)
        if node.prim.facts.random or not counts:
            continue
        found.update(o for o in node.outputs if dtype_of(path.shapes[o]).category == INT)
    return found


def guards_of(
    program: Program, ins: tuple[int, ...], args: Sequence[Expr], expander: Expander, n: int
) -> tuple[Any, ...]:
    """Return a composite's guards on extents, over n operands of a path: see `PathGraph.asked`."""

    def dim_of(k: int, axis: int) -> Expr:
        i = ins[k]
        return (0, i, axis) if i >= 0 else extents(expander.shapes, i)[axis]

    guards = [
        (op, substitute(a, dim_of, args.__getitem__), substitute(b, dim_of, args.__getitem__), on)
        for op, a, b, on in program.guards
    ]
    every = tuple([e for guard in guards for e in (*args_in(guard[1]), *args_in(guard[2]))])
    known = tuple([(ARG, k) for k in range(max(every, default=-1) + 1)])
    return guards, tuple(range(n)), (0,) * n, known


def placed(
    program: Program, ins: tuple[int, ...], args: Sequence[Expr], expander: Expander
) -> list[Any]:
    """Return (extents, dtype) of a primitive's results, over the extents of a path's operands."""

    def dim_of(k: int, axis: int) -> Expr:
        i = ins[k]
        return (0, i, axis) if i >= 0 else extents(expander.shapes, i)[axis]

    return [
        (tuple([substitute(e, dim_of, args.__getitem__) for e in row]), dtype)
        for row, dtype in program.outs
    ]


def with_members(types: list[Any], flags: list[bool], n: int) -> list[Any]:
    """Return the types of operands of which the flagged ones have a leading dim of n."""
    return [
        _types.intern_type((n, *t.dims), t.dtype, t.device) if on else t
        for t, on in zip(types, flags, strict=True)
    ]


def stacked(
    path: PathGraph, outputs: list[int], flags: list[bool], n: int, numbers: list[Any]
) -> tuple[PathGraph, list[Any], list[Any], Any]:
    """Return (path, outputs, types, program) of a region of n members.

    The flagged operands have a leading dim of n. The program's guards tell for which sizes the path
    holds: the batching rules compare sizes that the ops of a single member do not compare.
    """
    types = path.types
    lifted = with_members(types, flags, n)
    names: Ids = {}
    moved = []
    for node in path.nodes:
        for o in node.outputs:
            names[o] = len(types) + len(names)
        moved.append(renamed(node, names))
    graph = Graph(len(types), moved, [names.get(i, i) for i in outputs], {})
    program = batch_graph(graph, tuple(flags), lifted, numbers)
    wide, results = expanded(program.graph, lifted, len(numbers))
    wide.asked = [
        (guards, ins, tuple([int(flags[i]) for i in ins]), args)
        for guards, ins, _, args in path.asked
    ]
    return wide, results, lifted, program


def template_for(
    templates: dict[Any, list[Template]],
    key: object,
    types: list[Any],
    n: int,
    numbers: list[Any],
    make: Callable[[], Template],
) -> Template:
    """Return the template of a structure that holds for these sizes; made where there is none.

    templates: by structure, whatever the sizes, the templates for different outcomes of comparisons
    types: the types of one member's operands
    n: the number of members that are stacked; 0 for none
    numbers: the run-time args of one member
    """
    kept = templates.setdefault(key, [])
    for found in kept:
        if found.suits(types, n, numbers):
            return found
    with CollectionPaused():
        kept.append(make())
    return kept[-1]


class Template:
    """A region's structure, for operands of certain kinds.

    types      example types of the operands
    grows      by operand: whether it has a row, or a place in a stack, for each member
    exported   the values of the region that are read outside of the region
    given      by exported value: whether it can have a gradient
    needs      by operand: whether a gradient of the operand is wanted
    targets    the operands whose gradients are computed group by group
    late       the operands whose gradients are put off until all groups have run
    border     the values that the put-off gradients read
    """

    def __init__(
        self, node: Any, types: list[Any], lift: int, mask: int, grad: bool, at_once: bool = True,
        place: device = CPU,
    ) -> None:  # fmt: skip
        """Make the functions of a region.

        lift: how many members are stacked; 0 for none
        mask: bit k is set if value k of the region is read outside of the region
        at_once: False if only the templates that `seeded` returns have backward functions
        place: where the functions run
        """
        self.place = place
        nodes = ops_of(node)
        self.numbers: list[Any] = [a for op in nodes for a in op.args]
        self.exported = [k for k in range(node.n_values) if mask >> k & 1]
        self.grows = [not flag and (node.rows or lift > 0) for flag in node.shared]
        path, values = region_path(nodes, types)
        results: list[Any] = [values[k] for k in self.exported]
        producers = {o: node for node in path.nodes for o in node.outputs} if grad else {}
        reads = {k: read_by(producers, values[k]) for k in self.exported}
        self.program: Program | None = None  # of a stacked region: see `stacked`
        if lift:
            path, results, types, self.program = stacked(
                path, results, self.grows, lift, self.numbers
            )
        path.same = [k for k, on in enumerate(self.grows) if on]
        self.types = list(types)
        flows = [op.grad for op in nodes for _ in range(op.n_out)]
        # Ids >= 0 are operands: a result may be an unchanged operand.
        dtypes = [types[i].dtype if i >= 0 else dtype_of(path.shapes[i]) for i in results]
        self.given = tuple(
            [
                grad and flows[k] and dtype.category >= 2
                for k, dtype in zip(self.exported, dtypes, strict=True)
            ]
        )
        roles = roles_of(nodes)
        self.needs = tuple([grad and bool(role & GRAD) for role in roles])
        #: Per exported value that can have a gradient, the operands that this gradient flows to.
        #: `even` is true if each flows to all operands that want a gradient.
        self.flows = {
            k: frozenset(i for i in reads[k] if self.needs[i])
            for k, on in zip(self.exported, self.given, strict=True)
            if on
        }
        wanted = {k for k, need in enumerate(self.needs) if need}
        self.even = all(found == wanted for found in self.flows.values())
        self.backward: TemplateFunction | None = None
        self.tail: TemplateFunction | None = None
        self.tails: dict[Any, Any] = {}  # see `deferred_backward.tail_kernel`
        self.keeps: frozenset[int] = _NONE
        self.gives = False  # whether a backward pass has anything to hand on
        self.targets: list[int] = []
        self.late: list[int] = []
        self.border: list[int] = []
        self.n_given = sum(self.given)
        seeds = [i for i, on in zip(results, self.given, strict=True) if on]
        active = [i for i, on in enumerate(self.needs) if on]
        if seeds and active:
            later = read_later(path, seeds, active) - set(results)
            if lift:
                later -= places_of(path)
            results += sorted(later, reverse=True)
        self.n_results = len(results)
        self.forward = TemplateFunction(path, results, self.types, self.numbers, place)
        self.body: Any = None
        self.variants: dict[frozenset[int], Template] = {}
        if seeds and active:
            may_wait = [
                flag and role & PARAMETER == PARAMETER
                for flag, role in zip(node.shared, roles, strict=True)
            ]
            self.body = path, tuple(results), may_wait
            if at_once:
                self.divide()

    def suits(self, types: list[Any], n: int, numbers: list[Any]) -> bool:
        """Whether the template holds for regions of these sizes.

        types: the types of one member's operands
        n: the number of members that are stacked
        numbers: the run-time args of one member
        """
        program = self.program
        return program is None or program.matches(with_members(types, self.grows, n), numbers)

    def seeded(self, on: frozenset[int]) -> Template:
        """Return the same structure with a backward function that begins at some results only.

        on: numbers of these results in the region; each is `exported` and `given`
        """
        found = self.variants.get(on)
        if found is not None:
            return found
        found = copy.copy(self)
        flags = zip(self.exported, self.given, strict=True)
        found.given = tuple([given and k in on for k, given in flags])
        found.n_given = sum(found.given)
        found.divide()
        self.variants[on] = found
        return found

    def divide(self) -> None:
        """Divide the gradient's graph into a part per group, and a tail that runs once.

        The tail computes gradients of parameters, over the rows of all groups.
        """
        body, results, may_wait = self.body
        given = (*self.given, *[False] * (len(results) - len(self.given)))
        graph = gradient_graph(body, results, self.needs, given)
        asked = body.asked
        types = self.gradient_types(self.types, self.numbers)
        path, outputs = expanded(graph, types, len(self.numbers))
        growing = self.which_grow(path, list(range(len(types))), types) or self.grows
        path.asked, path.same = asked, [k for k, on in enumerate(growing) if on]
        targets = [k for k, i in enumerate(outputs) if i is not None]
        late = [k for k in targets if may_wait[k]] if True in self.grows else []
        now = [k for k in targets if k not in late]
        self.tail_types = []
        head = live_nodes(path.nodes, {outputs[k] for k in now})
        made = {o for node in head for o in node.outputs}
        rest = live_nodes(path.nodes, {outputs[k] for k in late})
        rest = [node for node in rest if node.outputs[0] not in made]
        rest, kept = self.flattened(path, rest, [outputs[k] for k in late], types)
        inside = {o for node in rest for o in node.outputs}
        read = {i for node in rest for i in node.inputs} | {outputs[k] for k in late}
        border: list[int] = sorted(i for i in read if i is not None and i not in inside)
        border += unseen(path, rest, border, kept)
        flags = self.which_grow(path, border, types)
        if late and border and flags is not None:
            self.late = late
            self.border, self.border_grows = border, flags
            self.border_keeps = [kept.get(i) for i in border]
            self.tail_types = [
                flat_type(type_at(path, i, types, self.numbers, self.place), kept.get(i))
                for i in border
            ]
            results = [outputs[k] for k in late]
            self.tail = tail_of(
                path, rest, border, results, self.tail_types, self.numbers, kept, self.place
            )
        else:
            now, border = targets, []
        self.targets = now
        #: The values of the border that the backward function makes.
        self.carried = [i for i in border if i < 0]
        wanted: list[Any] = [outputs[k] for k in now] + self.carried
        n = len(self.types) + self.n_results
        used = {i for i in border if 0 <= i < n + self.n_given}
        if wanted:
            self.backward = TemplateFunction(path, wanted, types, self.numbers, self.place)
            nodes = live_nodes(path.nodes, set(wanted))
            used |= {i for node in nodes for i in node.inputs if i >= 0}
            used |= {i for i in wanted if i >= 0}
        self.keeps = frozenset(used)
        self.gives = bool(self.targets or self.late)

    def flattened(
        self, path: PathGraph, nodes: list[Node], outputs: list[int], types: list[Any]
    ) -> tuple[list[Node], Kept]:
        """Return the nodes with flat sums of rows, and the flat values: see `flat_rows.flattened`.

        Returns the nodes unchanged if any node depends on the number of rows of a single run.
        """
        body, results, _ = self.body
        # The gradient's operands: the region's own, then results, then gradients of given results.
        shown = [*results, *[i for i, on in zip(results, self.given, strict=False) if on]]
        n = len(self.types)

        def extents_of(i: int) -> tuple[Expr, ...]:
            return shape_at(path, i) if i < n else shape_at(body, shown[i - n])

        def typed(node: Node, ins: tuple[int, ...]) -> Any:
            each = [type_at(path, i, types, self.numbers, self.place) for i in ins]
            args = [_types.evaluate(e, types, self.numbers) for e in node.args]
            return node.prim.typed(list(map(flat_type, each, KEPT)), args)[0]

        found, kept = flattened(nodes, outputs, extents_of, typed)
        inputs = {i for node in found for i in node.inputs}
        border = sorted(inputs - {o for node in found for o in node.outputs})
        grow = self.which_grow(path, list(kept), types) or [False]
        if all(grow) and kept.keys().isdisjoint(unseen(path, found, border, kept)):
            return found, kept
        return nodes, {}

    def gradient_types(self, types: list[Any], numbers: list[Any]) -> list[Any]:
        """Return the types of the gradient's operands: operands, results, gradients of results."""
        results = self.forward.out_types(types, numbers)
        seeds = [t for t, on in zip(results, self.given, strict=False) if on]
        return [*types, *results, *seeds]

    def widened(self, types: list[Any], n: int) -> list[Any]:
        """Return the types of the operands for n rows."""
        return [with_rows(t, n) if on else t for t, on in zip(types, self.grows, strict=True)]

    def which_grow(self, path: PathGraph, ids: list[int], types: list[Any]) -> list[bool] | None:
        """Return which values have a row per member.

        None if a value depends on the number of members in another way.
        """
        n = (
            next(t.dims[0] for t, on in zip(self.types, self.grows, strict=True) if on)
            if True in self.grows
            else 0
        )
        if not n:
            return None
        wider = self.gradient_types(self.widened(self.types, more(n)), self.numbers)
        found = []
        for i in ids:
            if i >= 0:
                a, b = types[i].dims, wider[i].dims
            else:
                exprs = extents(path.shapes, i)
                a = tuple([_types.evaluate(e, types, self.numbers) for e in exprs])
                b = tuple([_types.evaluate(e, wider, self.numbers) for e in exprs])
            if a != b and (a[0] != n or b[0] != more(n) or a[1:] != b[1:]):
                return None
            found.append(a != b)
        return found


def more(n: int) -> int:
    """Return a number of rows that differs from n: tells which dims depend on that number."""
    return 2 * n + 1


def tail_of(
    path: PathGraph,
    nodes: list[Node],
    border: list[int],
    outputs: list[Any],
    types: list[Any],
    numbers: list[Any],
    kept: Kept,
    place: device,
) -> TemplateFunction:
    """Return the nodes as a function of the border.

    types: the types of the border's values, flat for the values in `kept`
    """
    places = {i: k for k, i in enumerate(border)}
    made = list(dict.fromkeys(o for node in nodes for o in node.outputs))
    names = {**places, **{o: -1 - k for k, o in enumerate(made)}}
    own = PathGraph([], [], [])
    own.types = list(types)
    rows: dict[Any, Expr] = {}
    for i, k in reversed(places.items()):
        for axis, e in shown_by(path, i, kept):
            rows[e] = (0, k, axis)

    def over_border(e: Expr) -> Expr:
        if type(e) is not tuple or e in rows:
            return rows.get(e, e)
        if e[0] == 1:
            return e
        return (e[0], *[over_border(x) for x in e[1:]])

    def is_shown(e: Expr) -> bool:
        if type(e) is not tuple or e in rows or e[0] == ARG:
            return True
        return e[0] != DIM and all(is_shown(x) for x in e[1:])

    own.nodes = [
        Node(
            node.prim,
            node.program,
            tuple([names[i] for i in node.inputs]),
            tuple([names[o] for o in node.outputs]),
            tuple([over_border(e) for e in node.args]),
            False,
        )
        for node in nodes
    ]
    own.inner = len(made)
    own.same = [k for k, i in enumerate(border) if i in path.same and i not in kept]
    shown = [
        (op, over_border(a), over_border(b), on)
        for op, a, b, on in asked_of(path)
        if is_shown(a) and is_shown(b)
    ]
    every = range(max((k for _, a, b, _ in shown for k in args_in(a) | args_in(b)), default=-1) + 1)
    n = len(border)
    own.asked = [(shown, tuple(range(n)), (0,) * n, tuple([(ARG, k) for k in every]))]
    for o in made:
        exprs = tuple([over_border(e) for e in extents(path.shapes, o)])
        own.shapes[names[o]] = (exprs, dtype_of(path.shapes[o]))
    settle(own)
    return TemplateFunction(own, [names[i] for i in outputs], own.types, numbers, place)


def asked_of(path: PathGraph) -> list[tuple[Any, ...]]:
    """Return the guards of composites, as expressions over the extents of the path's operands."""
    found = []
    for guards, ins, shifts, args in path.asked:

        def dim_of(
            k: int, axis: int, ins: Sequence[int] = ins, shifts: Sequence[int] = shifts
        ) -> Expr:
            return (DIM, ins[k], axis + shifts[k])

        for op, a, b, on in guards:
            pair = [substitute(e, dim_of, args.__getitem__) for e in (a, b)]
            found.append((op, *pair, on))
    return found


def type_at(path: PathGraph, i: int, types: list[Any], numbers: list[Any], place: device) -> Any:
    """Return the type of value i."""
    if i >= 0:
        return types[i]
    shape = tuple([_types.evaluate(e, types, numbers) for e in extents(path.shapes, i)])
    return _types.intern_type(shape, dtype_of(path.shapes[i]), place)


def unseen(path: PathGraph, nodes: list[Node], border: list[int], kept: Kept) -> list[int]:
    """Return the operands whose extents the nodes read, and no value of the border shows."""
    known = {e for i in border for _, e in shown_by(path, i, kept)}
    found: list[int] = []
    stack: list[Any] = [e for node in nodes for e in node.args]
    stack += [e for node in nodes for o in node.outputs for e in extents(path.shapes, o)]
    while stack:
        e = stack.pop()
        if type(e) is not tuple or e in known or e[0] == 1:
            continue
        if e[0] == 0:
            if e[1] not in found:
                found.append(e[1])
        else:
            stack.extend(e[1:])
    return found


def shape_at(path: PathGraph, i: int) -> tuple[Expr, ...]:
    """Return the extents of a value as expressions."""
    if i >= 0:
        return tuple([(0, i, axis) for axis in range(len(path.types[i].dims))])
    return extents(path.shapes, i)


def shown_by(path: PathGraph, i: int, kept: Kept) -> list[tuple[int, Expr]]:
    """Return (axis, extent) pairs of a value of the border; of a flat value, the kept dims only."""
    shape = shape_at(path, i)
    if i not in kept:
        return list(enumerate(shape))
    return list(enumerate(shape[len(shape) - kept[i] :], 1))


def roles_of(nodes: list[Any]) -> list[int]:
    """Return the gradient role of each operand from outside: see `_grouper.Grouper.role`."""
    found: dict[int, int] = {}
    for op in nodes:
        for ref, kind, type_ in zip(op.refs, op.kinds, op.types, strict=True):
            if type_ is not None:
                found[-1 - ref] = role_of(kind)
    return [found[k] for k in range(len(found))]
