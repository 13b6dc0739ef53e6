"""Users' code on gradients: hooks of tensors, leaves and nodes, functions of their own."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from wend._engine.base.errors import ArgumentTypeError, GradientRefused, GraphError
from wend._engine.core import _backward, _hot, _types
from wend._engine.core._hot import Leaf, Tensor, Value
from wend._engine.core.primitive import ops


class UserCode(Protocol):
    """The code behind a user-defined function's place in the graph."""

    n_inputs: int

    def backward(self, gradients: list[Any], resolve: Any) -> list[Any]:
        """Gradients of the inputs (or None), given the gradients of the results (or None).

        resolve(k, data): result number k, with the data, as a tensor of its gradient identity
        """

    def free(self) -> None:
        """Drop the saved values."""


class NodeHooks:
    """Hooks of a node of the graph, and the object that shows the node to the user."""

    __slots__ = ("after", "before", "facade", "metadata")

    def __init__(self) -> None:
        self.before: dict[int, Any] = {}
        self.after: dict[int, Any] = {}
        self.metadata: dict[Any, Any] = {}
        self.facade: Callable[[], Any] | None = None  # weak reference

    def __bool__(self) -> bool:
        return bool(self.before or self.after)


class Extra:
    """Users' code on a value of a trace or segment."""

    __slots__ = ("function", "hooks", "node")

    def __init__(self) -> None:
        self.hooks: dict[int, Any] = {}
        self.function: UserCode | None = None
        self.node: NodeHooks | None = None


def extras_of(value: Value) -> tuple[dict[int, Extra], int]:
    """(all extras of the trace or segment that a value belongs to, the value's id there)."""
    if value.buffer is None and value.trace is not None:
        trace = value.trace
        if trace is _hot.current_trace():
            if trace.extra is None:
                trace.extra = {}
            return trace.extra, value.index
        _hot.flush(trace)
    segment = value.segment
    if segment is None:
        raise GraphError("this tensor has no gradient history that anything could be hung on")
    if segment.hooks is None:
        segment.hooks = {}
    return segment.hooks, value.seg_index


def extra_of(value: Value) -> Extra:
    """The Extra of a value that is no leaf; made at the first need."""
    table, i = extras_of(value)
    return table.setdefault(i, Extra())


def node_hooks_of_leaf(leaf: Leaf) -> NodeHooks:
    """The hooks of the node that accumulates a leaf's gradient."""
    if leaf.node is None:
        leaf.node = NodeHooks()
    node: NodeHooks = leaf.node
    return node


# -- calling hooks --------------------------------------------------------------------------


def plain(g: Tensor) -> Tensor:
    """A handle of its own on the value of `g`: a write to either does not reach both."""
    if made_of_parts(g) or (type(g) is not _hot.Tensor and g.is_meta):
        return g
    value = _hot.value_of(g)
    fresh = _hot.wrap(value)
    fresh.leaf = value.leaf
    return fresh


def run_tensor_hooks(hooks: dict[int, Any], g: Tensor) -> Tensor:
    """Call tensor hooks in order; each may replace the gradient."""
    for hook in list(hooks.values()):
        changed = hook(g)
        if changed is not None:
            check_replacement(hook, g, changed)
            g = changed
    return g


def check_replacement(hook: object, g: Tensor, changed: object) -> None:
    """Raise ArgumentTypeError or GraphError if a hook's result cannot stand for the gradient."""
    name = getattr(hook, "__name__", type(hook).__name__)
    if not isinstance(changed, Tensor):
        raise ArgumentTypeError(
            f"hook '{name}': a hook should return a Tensor or None, "
            f"but it returned {type(changed).__name__}"
        )
    if tuple(changed.shape) != tuple(g.shape):
        raise GraphError(
            f"hook '{name}' has changed the size of value: it was given {tuple(g.shape)} and "
            f"returned {tuple(changed.shape)}"
        )
    if changed.dtype is not g.dtype:
        raise GraphError(
            f"hook '{name}' has changed the type of value: it was given {g.dtype} and "
            f"returned {changed.dtype}"
        )


def run_node_hooks(hooks: dict[int, Any], grads: tuple[Any, ...], *more: object) -> tuple[Any, ...]:
    """Call hooks of a node on a tuple of gradients; each may replace the tuple."""
    for hook in list(hooks.values()):
        changed = hook(grads, *more)
        if changed is None:
            continue
        changed = changed if isinstance(changed, (tuple, list)) else (changed,)
        if len(changed) != len(grads):
            name = getattr(hook, "__name__", type(hook).__name__)
            raise GraphError(
                f"hook '{name}' has returned an incorrect number of values: "
                f"{len(changed)} for {len(grads)}"
            )
        for before, after in zip(grads, changed):
            if before is not None and after is not None:
                check_replacement(hook, before, after)
        grads = tuple(changed)
    return grads


# -- leaves ---------------------------------------------------------------------------------


def has_hooks(leaf: Leaf) -> bool:
    """Whether users' code runs when this leaf gets a gradient."""
    return bool(leaf.hooks) or bool(leaf.post_hooks) or bool(leaf.node)


def handle_of(leaf: Leaf, value: Value | None = None) -> Tensor | None:
    """The tensor of a leaf; a new tensor on `value` if the user's is gone."""
    handle: Tensor | None = leaf.ref()
    if handle is None and value is not None:
        handle = _hot.wrap(value)
        handle.leaf = leaf
        leaf.ref = weakref.ref(handle)
    return handle


def accumulate(leaf: Leaf, g: Tensor, create_graph: bool) -> None:
    """Run the leaf's hooks on a gradient and add the result to `.grad` of the leaf's tensor."""
    if leaf.hooks:
        g = run_tensor_hooks(leaf.hooks, g)
    accumulate_hooked(leaf, g, create_graph)


def accumulate_hooked(leaf: Leaf, g: Tensor, create_graph: bool) -> None:
    """`accumulate` where the tensor's own hooks have run already."""
    if not leaf.requires_grad:
        return
    node = leaf.node
    if node:
        (g,) = run_node_hooks(node.before, (g,))
    handle = leaf.ref()
    if handle is not None:
        add_to_grad(handle, g, create_graph)
        if leaf.post_hooks:
            for hook in list(leaf.post_hooks.values()):
                if (answer := hook(handle)) is not None:
                    raise GradientRefused(
                        "register_post_accumulate_grad_hook: such hooks should return None, "
                        f"not {type(answer).__name__}"
                    )
    if node:
        run_node_hooks(node.after, (), (g,))


#: Nonempty once a gradient has been made of parts: its class, a sparse tensor's.
MADE_OF_PARTS: list[type] = []


def made_of_parts(g: object) -> bool:
    """Whether a gradient is no value of the core, but parts that are: a sparse tensor."""
    return type(g) is not Tensor and getattr(type(g), "made_of_parts", False)


def sum_of(have: Tensor, g: Tensor) -> Tensor:
    """A gradient and a further one; a dense one comes first, as its sum with a sparse one is
    dense."""
    return g + have if made_of_parts(have) and not made_of_parts(g) else have + g


def _add_parts(handle: Tensor, have: Tensor | None, g: Tensor, create_graph: bool) -> bool:
    """`add_to_grad` where the gradient, or the present gradient `have`, is made of parts.

    Returns False if another thread has come in between.
    """
    if not MADE_OF_PARTS:
        MADE_OF_PARTS.append(type(g))
    total = g if have is None else sum_of(have, g)
    return _backward.add_gradient(handle, have, total if create_graph else total.detach())


def add_to_grad(handle: Tensor, g: Tensor, create_graph: bool) -> None:
    """`handle.grad += g`: the same `.grad` handle is rebound, unless a graph is being created."""
    while True:  # another thread may come in between
        have = handle._grad
        if made_of_parts(g) or (have is not None and made_of_parts(have)):
            if _add_parts(handle, have, g, create_graph):
                return
            continue
        if have is None:
            first = plain(g) if create_graph or not g.requires_grad else ops.detach(g)
            if _backward.add_gradient(handle, None, first):
                return
            continue
        if create_graph:
            if _backward.add_gradient(handle, have, have + g):
                return
            continue
        old = _hot.value_of(have)
        total = ops.add(have, g)
        if (
            have.alias is None
            and have.leaf is None
            and _types.same_type(total.value.type, old.type)
            and not old.requires_grad
        ):
            if _backward.renew_value(have, old, total.value):
                return
        else:
            _hot.slot("assign")(have, total, None)
            return


class Given:
    """The gradients of handles before a backward pass added more."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, Any]] = []
        self._held: dict[int, tuple[Any, Any]] = {}

    def note(self, handle: Tensor) -> None:
        """Remember `handle.grad` as it is before the pass adds to it.

        Both are kept: the tensor, which the pass may replace, and the data, which the pass may
        change in place. Gradients that are views of one tensor have this tensor's data kept once.
        """
        have = handle._grad
        self._before.append((handle, have))
        if have is not None and not made_of_parts(have):
            _backward.note_holders(self._held, have)

    def take_back(self) -> None:
        """Give handles back the earlier gradients: the pass was cut short."""
        for handle, have in reversed(self._before):
            handle._grad = have
        for holder, value in self._held.values():
            _backward.restore(holder, value)


# -- gradients of tensors that are no leaves ---------------------------------------------------

#: Handles that retain gradients, by id (equality of handles is elementwise).
_RETAINED: dict[int, Any] = {}
_backward.set_retained(_RETAINED)


def retain_grad(handle: Tensor) -> None:
    """Let `handle.grad` be set in backward passes, whatever the handle's value is then."""
    key = id(handle)
    if not retains_grad(handle):
        _RETAINED[key] = weakref.ref(handle, lambda _: _RETAINED.pop(key, None))


def retains_grad(handle: Tensor) -> bool:
    """Whether `retain_grad` has been called on the handle."""
    reference = _RETAINED.get(id(handle))
    return reference is not None and reference() is handle


def retaining() -> bool:
    """Whether any live handle retains gradients."""
    return bool(_RETAINED)


def retained_handles() -> Iterator[Any]:
    """Those that are alive and no leaves."""
    for reference in list(_RETAINED.values()):
        handle = reference()
        if handle is not None and handle.leaf is None:
            yield handle


# -- gradients of tensors that were written to without gradient ---------------------------------

#: Handles written to under no_grad, by id: (handle, new value, value for gradients).
_WRITTEN: dict[int, tuple[weakref.ref[Any], Value, Value]] = {}


def note_written(handle: Tensor, value: Value, history: Value) -> None:
    """Let gradients by a handle whose data became `value` be the gradients by `history`.

    Earlier readers of the handle count too; later readers hand their gradients on to `history`.
    """
    key = id(handle)
    history = _written(handle, history)
    reference = weakref.ref(handle, lambda _: _WRITTEN.pop(key, None))
    _WRITTEN[key] = reference, value, history


def differentiated(handle: Tensor) -> Value:
    """The value that gradients by a handle are those of."""
    value: Value = _hot.value_of(handle)
    return _written(handle, value) if _WRITTEN else value


def forget_rewritten() -> None:
    """Drop the entries of handles that have new values by now."""
    for key in list(_WRITTEN):  # keys alone: pairs may start the collector, which takes entries out
        entry = _WRITTEN.get(key)
        if entry is None:
            continue
        handle = entry[0]()
        if handle is None or handle.value is not entry[1]:
            _WRITTEN.pop(key, None)


def _written(handle: Tensor, value: Value) -> Value:
    entry = _WRITTEN.get(id(handle))
    return entry[2] if entry is not None and entry[1] is value else value
