"""Makes an `OpGraph` of the flushes that were watched, or of the history of a tensor."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from wend._engine.base.devices import CPU
from wend._engine.base.errors import CompileError, ShapeError
from wend._engine.compiler.ir.loops import Op
from wend._engine.core import _hot, _types
from wend._engine.core._types import LeafPrimitive
from wend._engine.core.graph import Node
from wend._engine.core.provenance import step_site
from wend._engine.core.symbolic import evaluate
from wend._engine.runtime.measure.recorder import scope_at
from wend._engine.runtime.measure.shares import flops_of
from wend._engine.runtime.tiers import TieredPlan
from wend._frontend.seeing.op_graph import Call, OpGraph, OpNode, dtype_name
from wend.debug._watch import Watch, WatchedFlush

__all__ = ["Collector"]

#: An op of a backward pass that only gives a value another id.
_NO_WORK = "identity"


@dataclass
class Collector:
    """Adds the ops of flushes to a graph, in order.

    made: id of a value, of an array, or (id of a segment, place there) -> id of the node that makes
    the value
    """

    graph: OpGraph
    watch: Watch = field(default_factory=Watch)
    made: dict[Any, int] = field(default_factory=dict)
    #: The same, with the number of the result for ops that have several.
    results: dict[int, tuple[int, int]] = field(default_factory=dict)
    #: (serial, number in its path, name, user's line) of an op -> node, for partners of backward
    #: ops; the last node of all flushes has None in place of the serial.
    of_source: dict[Any, int] = field(default_factory=dict)
    kernels: int = 0
    #: (record or flush, group there) -> number of the group.
    groups: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, flush: WatchedFlush) -> None:
        """Add all ops of a flush."""
        part = _Part(self, flush)
        path = flush.path
        for k in range(path.n_states):
            part.add_state(k, path.nodes_of(k))
        if flush.segment is not None:
            self.made.update(((id(flush.segment), i), k) for i, k in part.env.items())
        for i, value in flush.values.items():
            if i in part.env:
                self.made.setdefault(id(value), part.env[i])
                if value.buffer is not None:  # a saved value comes back as another object
                    self.made[id(value.buffer)] = part.env[i]

    def finish(self) -> OpGraph:
        """Say which ops after a backward pass belong to the forward pass."""
        nodes = self.graph.nodes
        behind = [False] * len(nodes)  # depends on a backward pass
        for node in nodes:
            behind[node.id] = node.phase == "backward" or any(behind[i] for i in node.inputs)
        feeds = [node.phase == "backward" for node in nodes]  # a backward pass depends on the node
        for node in reversed(nodes):
            if feeds[node.id]:
                for i in node.inputs:
                    feeds[i] = True
        users: list[set[str]] = [set() for _ in nodes]
        for node in nodes:
            for i in node.inputs:
                users[i].add(node.phase)
        for node in nodes:
            if node.phase != "forward" or node.is_leaf:
                continue
            if behind[node.id] and not feeds[node.id]:
                node.phase = "update"
            elif not node.inputs and users[node.id] == {"backward"}:
                node.phase = "backward"  # the gradient that a pass begins with
        return self.graph


class _Part:
    """The ops of a flush."""

    def __init__(self, whole: Collector, flush: WatchedFlush) -> None:
        self.whole = whole
        self.flush = flush
        #: id in the path -> id of the node
        self.env: dict[int, int] = {} if flush.env is None else flush.env
        self.types: dict[int, Any] = dict(enumerate(flush.types))
        self.shapes = {i: type_.shape for i, type_ in self.types.items()}
        #: value of the path -> why the processor computed it for a device
        self.on_host: dict[int, str] = {}
        self.kernel_of = self._kernels()
        self.origin = flush.serial  # of the flush whose gradients are computed
        self.open: OpNode | None = None  # of a backward pass, while nodes of the same op follow

    def _kernels(self) -> dict[int, int]:
        """Number of the kernel that makes a value of the path, where a plan is known."""
        plan = self.flush.plan
        if not isinstance(plan, TieredPlan) or plan.compiled is None:
            return {}
        kernels = {}
        reasons = {} if plan.reference.place is None else plan.compiled.code.function.reasons
        for step in plan.compiled.code.steps:
            if isinstance(step, Op):
                self.on_host.update((i, reasons[i]) for i in step.outputs if i in reasons)
            for op in getattr(step, "ops", [step]):
                kernels.update(dict.fromkeys(op.outputs, self.whole.kernels))
            self.whole.kernels += 1
        return kernels

    def add_state(self, k: int, nodes: list[Node]) -> None:
        state = self.flush.path.states[k]
        for node in nodes:
            self._note_types(node)
        if isinstance(state.prim, LeafPrimitive):
            self._add_leaf(state.first)
        elif state.is_step:
            first = len(self.whole.graph.nodes)
            self.open = None
            serial = self.flush.serial
            self.origin = self.whole.watch.passes.get((serial, k), serial)
            for node in nodes:
                self._add_backward(node, k)
            self._share_time(k, self.whole.graph.nodes[first:])
        else:
            self._add_op(k, state, nodes)

    def _share_time(self, k: int, nodes: list[OpNode]) -> None:
        """Share the time of a backward pass among the ops, by the bytes that each writes."""
        total = sum(node.nbytes for node in nodes)
        time = self.flush.nanoseconds.get(k)
        if time is not None and total:
            for node in nodes:
                node.ns = round(time * node.nbytes / total)

    def _add_leaf(self, i: int) -> None:
        value, type_ = self.flush.values.get(i), self.types[i]
        known = None if self.flush.env is None else self.env.get(i)
        if value is not None:
            known = self.whole.made.get(id(value))
            if known is None and value.segment is not None:
                known = self.whole.made.get((id(value.segment), value.seg_index))
            if known is None and value.buffer is not None:
                known = self.whole.made.get(id(value.buffer))
        if known is None:
            node = self._new("input", (), type_)
            if value is not None:
                watch = self.whole.watch
                node.name = watch.names.get(id(value), "")
                # The user's tensor where known: gradients reach a parameter by that tensor alone.
                tensor = watch.tensors.get(id(value))
                self.whole.graph.leaves[node.id] = _hot.wrap(value) if tensor is None else tensor
            node.values = self.flush.summaries.get(i)
            known = node.id
        self.env[i] = known

    def _add_op(self, k: int, state: Any, nodes: list[Node]) -> None:
        type_ = self.types[state.first]
        operands = tuple(self.env[i] for i in state.operand_indices())
        node = self._new(state.prim.name, operands, type_)
        outputs = range(state.first, state.first + state.n_out)
        args = self.flush.args[state.arg0 : state.arg0 + len(state.prim.size_mask)]
        self._place(node, k)
        self._own(node, k)
        node.results = state.n_out
        node.numbers = _numbers(state.prim, args)
        node.values = self.flush.summaries.get(state.first)
        node.flops = flops_of(state, self.flush.types)
        if k in self.flush.nanoseconds:
            node.ns = round(self.flush.nanoseconds[k])
        for i in outputs:
            self.env[i] = node.id
        for inner in nodes:  # a backward pass may read the values inside of a composite
            self.env.update((o, node.id) for o in inner.outputs if o not in outputs)
        values = [*outputs, *(o for inner in nodes for o in inner.outputs)]
        node.kernel = self._kernel(values)
        node.on_host = self._reason(values)
        self._note_group(node, values)
        for serial in (self.flush.serial, None):
            key = (serial, k, state.prim.name, state.code, state.lasti)
            self.whole.of_source[key] = node.id
        if None in args or any(i not in self.flush.values for i in outputs):
            return  # of a step that is over, and cannot be run again
        operand_ids = state.operand_indices()
        self.whole.graph.calls[node.id] = Call(
            state.prim, args, state.mode, [self._result(i) for i in operand_ids]
        )
        for n, i in enumerate(outputs):
            self.whole.results[id(self.flush.values[i])] = (node.id, n)

    def _note_group(self, node: OpNode, values: Any) -> None:
        """Note which group has computed an op."""
        flush = self.flush
        local = next((flush.groups[i] for i in values if i in flush.groups), None)
        if local is None:
            return
        key = (id(flush) if flush.record is None else flush.record, local)
        node.group = self.whole.groups.setdefault(key, len(self.whole.groups))
        node.members = flush.members[local] if local < len(flush.members) else None

    def _result(self, i: int) -> tuple[int, int]:
        """(node, number of the result) of an operand."""
        value = self.flush.values.get(i)
        return self.whole.results.get(id(value), (self.env[i], 0))

    def _add_backward(self, node: Node, k: int) -> None:
        """Add an op of a backward pass; those of the same forward op in a row are one node."""
        operands = tuple(self.env[i] for i in node.inputs)
        if node.prim.name == _NO_WORK and len(operands) == 1:
            self.env[node.outputs[0]] = operands[0]
            return
        partner = self._partner(node.source)
        op_node = self.open
        if op_node is None or partner is None or op_node.partner != partner:
            op_node = self._new_backward(node, operands, partner)
            if partner is None:
                self._place(op_node, k)
                self._own(op_node, k)
                op_node.phase = "backward"
            self.open = op_node
        else:
            op_node.results += len(node.outputs)
            op_node.shape = tuple(int(n) for n in self.types[node.outputs[0]].shape)
            op_node.dtype = dtype_name(self.types[node.outputs[0]].dtype)
            further = [i for i in operands if i != op_node.id and i not in op_node.inputs]
            op_node.inputs += tuple(dict.fromkeys(further))
        op_node.nbytes += sum(self.types[o].nbytes for o in node.outputs)
        if op_node.kernel is None:
            op_node.kernel = self._kernel(node.outputs)
        op_node.on_host = op_node.on_host or self._reason(node.outputs)
        for o in node.outputs:
            self.env[o] = op_node.id

    def _partner(self, source: Any) -> int | None:
        """The node of a forward op; that of the last flush where the right flush is not known."""
        if source is None:
            return None
        key = (source.at, source.name, source.code, source.lasti)
        partner = self.whole.of_source.get((self.origin, *key))
        return self.whole.of_source.get((None, *key)) if partner is None else partner

    def _new_backward(self, node: Node, operands: tuple[int, ...], partner: int | None) -> OpNode:
        type_ = self.types[node.outputs[0]]
        op_node = self._new(node.prim.name, tuple(dict.fromkeys(operands)), type_)
        op_node.phase, op_node.results, op_node.partner = "backward", len(node.outputs), partner
        op_node.nbytes = 0
        if partner is not None:
            forward = self.whole.graph.nodes[partner]
            op_node.op = f"{forward.op}_backward"
            op_node.module, op_node.module_class = forward.module, forward.module_class
            op_node.file, op_node.line = forward.file, forward.line
            op_node.function = forward.function
        return op_node

    def _note_types(self, node: Node) -> None:
        """Keep the types of the values that the path does not know by itself: inside of ops."""
        if all(o in self.types for o in node.outputs):
            return
        types = self._types_by_path(node) or self._types_by_program(node)
        for o, type_ in zip(node.outputs, types, strict=True):
            if o not in self.types:
                self.types[o], self.shapes[o] = type_, type_.shape

    def _types_by_path(self, node: Node) -> list[Any]:
        """The types of a node's results as the path has these, or nothing."""
        path = self.flush.path
        types = []
        try:
            place = node.prim.place_of([self.types[i] for i in node.inputs]) or CPU
            for o in node.outputs:
                extents = path.shape_of(o)
                shape = tuple([evaluate(e, self.shapes, self.flush.args) for e in extents])
                types.append(_types.intern_type(shape, path.dtype_of(o), place))
        except (
            CompileError,
            TypeError,
            KeyError,
            IndexError,
        ):  # no extents, or something is not known
            return []
        return types

    def _types_by_program(self, node: Node) -> list[Any]:
        """The types of a node's results, from the operands."""
        try:
            args = [evaluate(e, self.shapes, self.flush.args) for e in node.args]
            types = [self.types[i] for i in node.inputs]
            return list(node.program.out_types(types, args))
        except (TypeError, KeyError, IndexError, ShapeError):  # what is not known any more decides
            return [_types.intern_type((), row[1], CPU) for row in node.program.outs]

    def _kernel(self, ids: Any) -> int | None:
        return next((self.kernel_of[i] for i in ids if i in self.kernel_of), None)

    def _reason(self, ids: Any) -> str:
        """Why the processor computed some of the values for a device; "" if it did not."""
        return next((self.on_host[i] for i in ids if i in self.on_host), "")

    def _new(self, op: str, operands: tuple[int, ...], type_: Any) -> OpNode:
        nodes = self.whole.graph.nodes
        extents = tuple(int(n) for n in type_.shape)
        node = OpNode(len(nodes), op, operands, shape=extents, dtype=dtype_name(type_.dtype))
        node.nbytes = math.prod(extents) * type_.dtype.itemsize
        node.device = str(type_.device)
        nodes.append(node)
        return node

    def _own(self, node: OpNode, k: int) -> None:
        """Note the module that step k was recorded in, and whether an optimizer did so."""
        scope = scope_at(self.flush.scopes, k)
        if scope is not None:
            node.module = next(iter(scope.modules()), "")
            node.module_class = self.whole.watch.modules.get(node.module, "")
            if any(outer.kind == "optimizer" for outer in scope.around()):
                node.phase = "update"

    def _place(self, node: OpNode, k: int) -> None:
        site = step_site(self.flush.path.states, self.flush.sites, k)
        if site.code is not None:
            node.file, node.line = site.code.co_filename, site.line
            node.function = site.code.co_qualname


def _numbers(prim: Any, args: list[Any]) -> str:
    """The parameters and numbers of an op, as text."""
    attrs = [f"{name}={value!r}" for name, value in prim.attrs.items() if value is not None]
    known = [a for a in args if a is not None]
    return ", ".join([*attrs, *(f"{a:.6g}" if isinstance(a, float) else str(a) for a in known)])
