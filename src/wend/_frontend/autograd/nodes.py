"""The graph as users see it: `grad_fn`, nodes and edges, and the users' hooks on them.

A node object is made when somebody asks; the object holds a value of its op, so that looking at the
graph keeps the graph alive.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from wend._engine.base.errors import ArgumentTypeError, GraphError
from wend._engine.base.tracebacks import short_errors
from wend._engine.core import _hot
from wend._engine.core._hot import Leaf, Segment, Tensor, Value
from wend._engine.core._types import PrimitiveBase, TensorType
from wend._engine.core.graph import PathGraph
from wend._engine.core.provenance import Site, site_of
from wend._engine.core.symtrace import template
from wend._engine.transforms.differentiate import differentiable_ids
from wend._engine.transforms.hooks import Extra, NodeHooks, handle_of, node_hooks_of_leaf
from wend._engine.transforms.levels import behind, level_of
from wend._engine.transforms.walk import path_of
from wend._frontend.autograd.node_forms import Elsewhere, Made, Operand, Result, form_of
from wend._frontend.removable import RemovableHandle

#: Node objects in use, by (serial of the trace that recorded the op, position of the op's first
#: node, which of the nodes that PyTorch makes of the op).
_NODES: weakref.WeakValueDictionary[tuple[int, int, int], Node] = weakref.WeakValueDictionary()
_CLASSES: dict[str, type[Node]] = {}


class Region:
    """The pending trace or the segment that a value belongs to, as far as nodes need to know."""

    __slots__ = ("args", "inputs", "origin", "path", "segment", "values")

    def __init__(self, value: Value) -> None:
        trace = value.trace
        if value.buffer is None and trace is not None and trace is not _hot.current_trace():
            _hot.flush(trace)
            trace = None
        self.segment: Segment | None = None
        if value.buffer is None and trace is not None:
            self.path: PathGraph = path_of(trace)
            self.values = trace.values
            self.inputs = trace.values
            self.args = trace.args
            self.origin = trace.serial
            return
        segment = value.segment
        if segment is None:
            raise GraphError("grad_fn: this value has no history (any more)")
        self.segment = segment
        self.path = segment.structure
        self.values = None
        self.inputs = segment.inputs
        self.args = segment.args
        self.origin = segment.origin

    def op_at(self, k: int) -> tuple[int, Any, tuple[int, ...], tuple[int, ...]]:
        """(position of the op's first node, primitive, operand ids, result ids)."""
        path = self.path
        s = path.state_at(k)
        state = path.states[s]
        if state.is_step:
            node = path.nodes[k]
            return k, node.prim, node.inputs, node.outputs
        outputs = tuple(range(state.first, state.first + state.n_out))
        return path.node_of_state[s], state.prim, tuple(state.operand_indices()), outputs

    def args_at(self, k: int) -> list[Any]:
        """The sizes and numbers that the op at `k` was called with."""
        path = self.path
        state = path.states[path.state_at(k)]
        if state.is_step:
            return list(path.nodes[k].args)
        return list(self.args[state.arg0 : state.arg0 + len(state.prim.size_mask)])

    def form_at(self, k: int) -> list[Operand | Result | None] | None:
        """The nodes that PyTorch makes of the op at `k`: an entry per result; None for a plain
        node."""
        _, prim, inputs, outputs = self.op_at(k)
        if prim.grad_nodes is None:
            return None
        return form_of(prim, [self.operand(i) for i in inputs], self.args_at(k), len(outputs))

    def maker(self, i: int) -> tuple[Any, list[Operand], list[Any]] | None:
        """(op, operands, numbers) that made a value; None for leaves and parts of ops."""
        k = self.path.producer.get(i)
        if k is None:
            return None
        _, prim, inputs, outputs = self.op_at(k)
        if i not in outputs:
            return None
        return prim, [self.operand(j) for j in inputs], self.args_at(k)

    def part_at(self, k: int) -> tuple[int, int]:
        """(position of the first part, number of this part) of the parts that were cut off at `k`.

        Parts are recorded in a row, each with its start.
        """
        path, number = self.path, 0
        s = path.state_at(k)
        while s > 0:
            here, before = path.states[s], path.states[s - 1]
            if before.prim is not here.prim or (before.operand_indices() != here.operand_indices()):
                break
            start, *length = self.args[before.arg0 : before.arg0 + len(here.prim.size_mask)]
            if start + (length[0] if length else 1) != self.args[here.arg0]:
                break
            s -= 1
            number += 1
        return path.node_of_state[s], number

    def operand(self, i: int) -> Operand:
        """A value of the path, in the form that rules for nodes take."""
        shape = None
        if i >= 0:
            shape = tuple(self.value_type(i).shape)
        active = i in differentiable_ids(self.path)
        rank = len(self.path.shape_of(i)) if shape is None else len(shape)
        return Operand(i, active, rank, shape, self)

    def edges_at(self, k: int) -> list[Operand | None]:
        """The targets of the edges of the op at `k`, which is one node."""
        _, prim, inputs, _ = self.op_at(k)
        operands = [self.operand(i) for i in _differentiated(self, k, prim, inputs)]
        edges = [x if x.active else None for x in operands]
        if prim.name in _OF_NUMBERS and len(edges) == 1:
            edges.append(None)  # PyTorch makes a tensor of the number
        return edges

    def edges_of(self, i: int) -> list[Any]:
        """Where the edges go of the node that a value is the first result of."""
        k = self.path.producer[i]
        form = self.form_at(k)
        if form is None:
            return list(self.edges_at(k))
        if not isinstance(form[0], Result):
            return [form[0]]
        return [Elsewhere(k, e) if isinstance(e, Result) else e for e in form[0].made.edges]

    def value_type(self, i: int) -> TensorType:
        """The type of a value with a dense index."""
        if self.values is not None:
            return self.values[i].type
        assert self.segment is not None
        return self.segment.types[i]

    def extras(self, create: bool) -> dict[int, Extra]:
        """Users' hooks and functions on this region's values."""
        if self.segment is not None:
            if self.segment.hooks is None and create:
                self.segment.hooks = {}
            table = self.segment.hooks
        else:
            trace = _hot.current_trace()
            if trace.extra is None and create:
                trace.extra = {}
            table = trace.extra
        return {} if table is None else table  # type: ignore[no-any-return]


class Node:
    """An op in the graph, as `tensor.grad_fn` shows it."""

    _title = "Node"

    def __init__(self, anchor: Value, low: int, form: Made | None = None) -> None:
        self._anchor = anchor
        self._low = low
        self._made = form  # the node that PyTorch would make, where an op is not just one node

    def name(self) -> str:
        """The node's name, such as 'MulBackward0'."""
        name = type(self).__name__
        plain = self._made is None or any(map(str.isdigit, name))
        return name if plain else f"torch::autograd::{name}"  # those that PyTorch did not generate

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """Per operand: the node for its gradient (or None), and the number of the result."""
        region = Region(self._anchor)
        if self._made is not None:
            return tuple([_edge_to(self._anchor, region, self._low, e) for e in self._made.edges])
        _, _, inputs, outputs = region.op_at(self._low)
        record = self._record(region, outputs)
        if record is not None:
            return tuple(
                (None, 0) if j is None else _edge(self._anchor, region, inputs[j])
                for j in record.edges
            )
        edges = region.edges_at(self._low)
        return tuple([_edge_to(self._anchor, region, self._low, e) for e in edges])

    @staticmethod
    def _record(region: Region, outputs: tuple[int, ...]) -> Any:
        extra = region.extras(False).get(outputs[0])
        return None if extra is None else extra.function

    def _hooks(self, create: bool = True) -> NodeHooks | None:
        region = Region(self._anchor)
        _, prim, _, outputs = region.op_at(self._low)
        if self._made is not None:
            _result_of(self, 0, region)
        if prim.torch.cuts:
            raise GraphError(f"{self.name()}: has no hooks; register them on the parts")
        table = region.extras(create)
        extra = table.get(outputs[0])
        if extra is None:
            if not create:
                return None
            extra = table[outputs[0]] = Extra()
        if extra.node is None and create:
            extra.node = NodeHooks()
        return extra.node

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary of the user's that belongs to this node."""
        hooks = self._hooks()
        assert hooks is not None
        return hooks.metadata

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_inputs, grad_outputs)` after the node; a result replaces grad_inputs."""
        hooks = self._hooks()
        assert hooks is not None
        return RemovableHandle.add(hooks.after, fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_outputs)` before the node; a result replaces grad_outputs."""
        hooks = self._hooks()
        assert hooks is not None
        return RemovableHandle.add(hooks.before, fn)

    def _sequence_nr(self) -> int:
        return self._low

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and name not in ("_anchor", "_low", "_made"):
            region = Region(self._anchor)
            record = self._record(region, region.op_at(self._low)[3])
            if record is not None:
                return record.attribute(self._anchor, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class AccumulateGrad(Node):
    """Where the gradient of a leaf arrives."""

    def __init__(self, leaf: Leaf, value: Value) -> None:
        self._leaf = leaf
        self._value = value

    def name(self) -> str:
        """PyTorch's name of such nodes."""
        return "torch::autograd::AccumulateGrad"

    @property
    def variable(self) -> Tensor:
        """The leaf."""
        handle: Tensor = handle_of(self._leaf, self._value)
        return handle

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """None: gradients end here."""
        return ()

    def _hooks(self, create: bool = True) -> NodeHooks | None:
        return node_hooks_of_leaf(self._leaf)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"'AccumulateGrad' object has no attribute {name!r}")


class GradientEdge(NamedTuple):
    """A result of a node: gradients are taken with respect to this."""

    node: Node
    output_nr: int
    ownership_token: Any = None


def _class_of(name: str) -> type[Node]:
    node_class = _CLASSES.get(name)
    if node_class is None:
        node_class = _CLASSES[name] = type(name, (Node,), {"__module__": "torch.autograd"})
    return node_class


#: Operators of which PyTorch has no form for a tensor and a number.
_OF_NUMBERS = frozenset({"add", "sub", "mul", "div"})


def _differentiated(
    region: Region, low: int, prim: PrimitiveBase, inputs: tuple[int, ...]
) -> list[int]:
    """The operands that the op has a gradient for, whether or not a gradient is asked for."""
    if prim.is_composite:
        return [i for i in inputs if region.path.dtype_of(i).category >= 2]
    program = region.path.nodes[low].program
    flags = tuple([row[1].category >= 2 for row in program.outs])
    rule = template(program, (True,) * len(inputs), flags)
    return [i for i, g in zip(inputs, rule.outputs) if g is not None]


def _name_of(region: Region, prim: Any, outputs: tuple[int, ...]) -> str:
    if prim.facts.calls_user:
        record = Node._record(region, outputs)
        if record is not None:
            return str(record.name)
    if prim.torch.grad_name_along and prim.dim is not None:
        return str(prim.torch.grad_name_along)
    return str(prim.torch.grad_name)


def _node_at(anchor: Value, region: Region, k: int, form: Made | None = None) -> Node:
    low, prim, _, outputs = region.op_at(k)
    key = (region.origin, low, 0 if form is None else form.place)
    node = _NODES.get(key)
    if node is None:
        if region.values is not None and outputs[0] >= 0:
            anchor = region.values[outputs[0]]
        name = _name_of(region, prim, outputs) if form is None else form.name
        node = _NODES[key] = _class_of(name)(anchor, low, form)
    return node


def _edge_to(
    anchor: Value, region: Region, k: int, target: Operand | Result | Elsewhere | None
) -> tuple[Node | None, int]:
    """The edge, from the op at `k`, to the target that an entry of a form names."""
    if target is None:
        return None, 0
    if isinstance(target, Operand):
        return _edge(anchor, region, target.id)
    if isinstance(target, Elsewhere):
        return _edge_to(anchor, region, target.k, target.result)
    return _node_at(anchor, region, k, target.made), target.number


def _edge(anchor: Value, region: Region, i: int) -> tuple[Node | None, int]:
    k = region.path.producer.get(i)
    if k is None:
        value = region.inputs[i]
        return accumulate_node(value.leaf, value) if value.leaf is not None else edge_of(value)
    outputs = region.op_at(k)[3]
    number = outputs.index(i) if i in outputs else 0
    form = region.form_at(k)
    if form is not None:
        return _edge_to(anchor, region, k, form[number])
    if region.op_at(k)[1].torch.cuts:
        k, number = region.part_at(k)
    return _node_at(anchor, region, k), number


def accumulate_node(leaf: Leaf, value: Value) -> tuple[Node | None, int]:
    """The edge to a leaf."""
    if not leaf.requires_grad:
        return None, 0
    hooks = node_hooks_of_leaf(leaf)
    node = hooks.facade() if hooks.facade is not None else None
    if node is None:
        node = AccumulateGrad(leaf, value)
        hooks.facade = weakref.ref(node)
    return node, 0


def edge_of(value: Value) -> tuple[Node | None, int]:
    """(node, number of the result) of a value that is no leaf."""
    if not value.requires_grad:
        return None, 0
    region = Region(value)
    i = value.index if region.segment is None else value.seg_index
    return _edge(value, region, i)


def grad_fn(self: Tensor) -> Node | None:
    """The node that this tensor's gradient goes to; None for leaves."""
    if self.leaf is not None:
        return None
    value = _hot.value_of(self)
    if value.buffer is None and isinstance(value.extra, Tensor):
        return grad_fn(value.extra)  # inside vmap: the node of all examples
    return edge_of(value)[0] if value.requires_grad and value.leaf is None else None


def output_nr(self: Tensor) -> int:
    """The number of this tensor among the results of the op."""
    value = _hot.value_of(self)
    if self.leaf is not None or not value.requires_grad:
        return 0
    return edge_of(value)[1]


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge that the gradient of `tensor` goes to.  Raises GraphError for a tensor without."""
    if not tensor.requires_grad:
        raise GraphError(
            "get_gradient_edge: it is not possible to get the gradient edge for a "
            "Tensor that does not require gradients"
        )
    value = _hot.value_of(tensor)
    if tensor.leaf is not None:
        node, number = accumulate_node(tensor.leaf, value)
    else:
        node, number = edge_of(value)
    assert node is not None
    return GradientEdge(node, number)


def value_of_edge(edge: GradientEdge) -> Tensor:
    """A tensor with the gradient identity that an edge leads to."""
    node = edge.node
    if isinstance(node, AccumulateGrad):
        return node.variable
    region = Region(node._anchor)
    if region.op_at(node._low)[1].torch.cuts:
        first = region.path.state_at(node._low)
        i = region.path.states[first + edge.output_nr].first
    else:
        i = region.op_at(node._low)[3][_result_of(node, edge.output_nr, region)]
    if region.values is not None and i >= 0:
        return _hot.wrap(region.values[i])
    segment = region.segment
    if segment is None:
        _hot.flush(_hot.current_trace())
        segment = node._anchor.segment
    type_ = segment.types[i] if i >= 0 else node._anchor.type
    tensor: Tensor = _hot.wrap(_hot.held_in_segment(type_, b"", segment, i))
    return tensor


def _result_of(node: Node, number: int, region: Region) -> int:
    """The number of an op's result that is result `number` of the node, or GraphError."""
    if node._made is None:
        return number
    for k, target in enumerate(region.form_at(node._low) or ()):
        if isinstance(target, Result) and (target.made.place, target.number) == (
            node._made.place,
            number,
        ):
            return k
    raise GraphError(f"{node.name()}: this is only a part of an op; use the edge of its result")


def node_of(segment: Segment, k: int) -> tuple[str, Site]:
    """Name of the op that node `k` of a segment belongs to, and the user's line (slot)."""

    class Source:
        states = segment.structure.states
        sites = segment.sites

    path = segment.structure
    node = path.nodes[k]
    s = path.state_at(k)
    state = path.states[s]
    name = node.prim.torch.grad_name if state.is_step else state.prim.torch.grad_name
    extra = (segment.hooks or {}).get(node.outputs[0])
    if extra is not None and extra.function is not None:
        name = extra.function.name
    return name, site_of(Source, node.outputs[0], path)


# -- hooks of tensors -----------------------------------------------------------------------


@short_errors
def register_hook(self: Tensor, hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(grad)` when this tensor's gradient is known; a result replaces the gradient.

    Raises GraphError for a tensor that does not require grad.
    """
    from wend._engine.transforms.hooks import extra_of

    _checked_hook("register_hook", hook)
    if not self.requires_grad:
        raise GraphError("cannot register a hook on a tensor that doesn't require gradient")
    level = level_of(self)
    if level is not None:
        with level.suspended():
            return register_hook(behind(self), level.mapped_hook(hook))
    if self.leaf is None:
        return RemovableHandle.add(extra_of(_hot.value_of(self)).hooks, hook)
    leaf = self.leaf
    if leaf.hooks is None:
        leaf.hooks = {}
    return RemovableHandle.add(leaf.hooks, hook)


@short_errors
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(tensor)` after the gradient has been added to this leaf's `.grad`."""
    _checked_hook("register_post_accumulate_grad_hook", hook)
    if not self.requires_grad:
        raise GraphError("cannot register a hook on a tensor that doesn't require gradient")
    if self.leaf is None:
        raise GraphError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    leaf = self.leaf
    if leaf.post_hooks is None:
        leaf.post_hooks = {}
    return RemovableHandle.add(leaf.post_hooks, hook)


def _checked_hook(name: str, hook: object) -> None:
    if not callable(hook):
        raise ArgumentTypeError(f"{name}: expected a callable, got {type(hook).__name__}")


def tensor_hooks(self: Tensor) -> dict[int, Any] | None:
    """The hooks registered on this tensor, by handle id, or None."""
    if self.leaf is not None:
        return self.leaf.hooks or None
    value = _hot.value_of(self)
    if not value.requires_grad:
        return None
    region = Region(value)
    i = value.index if region.segment is None else value.seg_index
    extra = region.extras(False).get(i)
    return None if extra is None else extra.hooks or None


_hot.set_slot("node_of", node_of)
