"""A forward pass that is recorded and not computed, with the ops of each module's call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

from wend._engine.base import config, tree
from wend._engine.core import _hot, _types
from wend._engine.core._hot import FlushJob, Tensor
from wend._engine.core.graph import PathGraph
from wend._engine.runtime.flush import dismantle
from wend._engine.runtime.measure.recorder import SliceRecorder, scope_at
from wend._engine.runtime.measure.shares import macs_of_convolution
from wend._engine.runtime.verify.flushes import unwatched, watch
from wend._frontend.autograd.grad_modes import no_grad
from wend.nn.modules.module import (
    Module,
    register_module_forward_hook,
    register_module_forward_pre_hook,
)


@dataclass
class Call:
    """A call of a module.

    flops: operations of the ops inside     macs: multiply-adds of products and convolutions
    """

    module: Module
    inputs: list[tuple[int, ...]]
    outputs: list[tuple[int, ...]] = field(default_factory=list)
    bytes_out: int = 0
    flops: int = 0
    macs: int = 0
    calls: list[Call] = field(default_factory=list)


@dataclass
class Recorded:
    """The calls of a forward pass; `computed` tells whether the program has asked for values."""

    calls: list[Call] = field(default_factory=list)
    computed: bool = False
    ops: int = 0


def record(
    model: Module, make: Callable[[], tuple[Any, ...]], kwargs: dict[str, Any]
) -> tuple[Recorded, tuple[Any, ...]]:
    """Call a model without computing, unless the model asks for values.

    The calls go below a separate trie, and buffers and random numbers are as before.

    make: returns the arguments; tensors made there are not computed either
    Returns the record and these arguments, of which only the types are of use.
    """
    call_record = Recorded()
    recorder = SliceRecorder()
    calls: dict[int, Call] = {}  # by number of the scope

    def enter(module: Module, inputs: Any) -> None:
        call, outer = Call(module, _shapes(inputs)), recorder.innermost("module")
        (call_record.calls if outer is None else calls[outer.number].calls).append(call)
        calls[recorder.enter("module", type(module).__name__).number] = call

    def leave(module: Module, inputs: Any, result: Any) -> None:
        scope = recorder.end("module")
        assert scope is not None, "enter() comes first"
        call = calls[scope.number]
        call.outputs = _shapes(result)
        call.bytes_out = sum([t.numel() * t.element_size() for t in _tensors(result)])

    def add(recorded: Any) -> None:
        """Add the operations of recorded ops to all calls around."""
        scopes = recorder.scopes_of(recorded.states)
        costs = _costs(list(recorded.states), list(recorded.values), list(recorded.args))
        call_record.ops += len(costs)
        for k, (flops, macs) in enumerate(costs):
            scope = scope_at(scopes, k)
            for outer in () if scope is None else scope.around():
                calls[outer.number].flops += flops
                calls[outer.number].macs += macs

    def execute(batch: FlushJob, live: list[int]) -> None:
        call_record.computed = True
        add(batch)
        unwatched("execute")(batch, live)

    with ExitStack() as blocks:
        blocks.enter_context(config.override(autobatch=False))
        blocks.enter_context(_unchanged(model))
        blocks.enter_context(_separate_trie())
        blocks.enter_context(no_grad())
        before = watch({"execute": execute})
        blocks.callback(watch, before)
        for handle in (
            register_module_forward_pre_hook(enter),
            register_module_forward_hook(leave),
        ):
            blocks.callback(handle.remove)
        args = make()
        result = model(*args, **kwargs)
        add(_hot.current_trace())
        del result
    return call_record, args


def _costs(states: list[Any], values: list[Any], args: list[Any]) -> list[tuple[int, int]]:
    """(operations, multiply-adds) of each step of a path."""
    path = PathGraph(states, values, args)
    types = [v.type for v in values]
    sizes: dict[int, tuple[int, ...]] = {}

    def size(i: int) -> tuple[int, ...]:
        if i not in sizes:
            extents = types[i].shape if i >= 0 else path.shape_of(i)
            sizes[i] = tuple([int(_types.evaluate(e, types, args)) for e in extents])
        return sizes[i]

    costs = []
    for k in range(path.n_states):
        rows = [cost_of(node, size) for node in path.nodes_of(k)]
        costs.append((sum([f for f, _ in rows]), sum([m for _, m in rows])))
    return costs


#: Ops over all steps of recurrent layers.
RECURRENT = frozenset({"rnn_scan", "gru_scan", "lstm_scan"})


def cost_of(node: Any, size: Any) -> tuple[int, int]:
    """(operations, multiply-adds) of a primitive: two operations are a multiply-add.

    Any other op counts an operation for each element of the result, or of the largest operand;
    views and copies count none.

    size: returns the extents of a value
    """
    prim = node.prim
    if prim.name == "contract":
        x = size(node.inputs[0])
        macs = prod(size(node.outputs[0])) * prod([x[d] for d in prim.attrs["sum_x"]])
        return 2 * macs, macs
    if prim.name.startswith("attend") and len(node.inputs) >= 3:
        q, k, v = [size(i) for i in node.inputs[:3]]
        macs = prod(q[:-1]) * k[-2] * (q[-1] + v[-1])
        return 2 * macs, macs
    if prim.name.startswith("conv") and len(node.inputs) > 1:
        x, weight, out = [size(i) for i in (*node.inputs[:2], node.outputs[0])]
        macs = macs_of_convolution(prim.name, x, weight, out)
        return 2 * macs, macs
    if prim.name in RECURRENT:  # a product with each state
        rows, weight = size(node.outputs[0]), size(node.inputs[1])
        macs = prod(rows[:-1]) * prod(weight[-2:])
        return 2 * macs, macs
    if prim.is_view or not node.inputs:
        return 0, 0
    return max([prod(size(i)) for i in (*node.inputs, *node.outputs)]), 0


def _tensors(value: Any) -> list[Tensor]:
    return [x for x in tree.leaves(value) if isinstance(x, Tensor)]


def _shapes(value: Any) -> list[tuple[int, ...]]:
    return [tuple(map(int, t.shape)) for t in _tensors(value)]


#: Attributes of a trace that say how much may be pending.
_LIMITS = ("soft_nodes", "hard_nodes", "soft_bytes", "hard_bytes")


@contextmanager
def _separate_trie() -> Iterator[None]:
    """Record below a new root, and drop all that is pending at the end."""
    _hot.synchronize()
    trace = _hot.current_trace()
    before = trace.root
    limits = {name: getattr(trace, name) for name in _LIMITS}
    trace.root = root = _hot.State(None, None)
    trace.reset()
    for name in _LIMITS:
        setattr(trace, name, 1 << 62)
    try:
        yield
    finally:
        for name, limit in limits.items():
            setattr(trace, name, limit)
        trace.reset()
        trace.root = before
        trace.reset()
        dismantle(root)


@contextmanager
def _unchanged(model: Module) -> Iterator[None]:
    """Parameters, buffers and the state of random numbers are as before at the end."""
    from wend.random import get_rng_state, set_rng_state

    held = [(t, t.value) for t in (*model.parameters(), *model.buffers())]
    state = get_rng_state()
    try:
        yield
    finally:
        for tensor, value in held:
            tensor.value = value
        set_rng_state(state)
