"""Handles that share data: views, `detach`, `.data`, memory known outside; in-place changes.

Values are immutable.  An in-place op computes a new value and rebinds the handle.  Handles that
share the data follow. A view writes through to its base (`put`, view by view). Further views of the
base re-derive themselves when next used. Handles of another gradient identity (`detach`) re-derive
themselves from the shared storage.
"""

from __future__ import annotations

from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.errors import ArgumentTypeError, DTypeError, GraphError, ShapeError
from wend._engine.core import _backward, _hot, _modules, _types
from wend._engine.core._hot import Alias, Storage, Tensor, Trace, Value
from wend._engine.core._types import Mode
from wend._engine.core.primitive import ops
from wend._engine.core.whole import one_at_a_time
from wend._engine.transforms.grad import with_grad
from wend._engine.transforms.hooks import made_of_parts, note_written
from wend._frontend.aliasing.outside_memory import (
    is_variable,
    refresh_shared,
    same_bits,
    write_shared,
)
from wend._frontend.aliasing.versions import (
    base_now,
    count_write,
    keep_count,
    leave_memory,
    leave_to_views,
    settle,
    stands_for,
    storage_of,
)
from wend._frontend.strides import may_repeat, repeats

LEAF_IN_PLACE = "a leaf Variable that requires grad is being used in an in-place operation"
VIEW_IN_PLACE = (
    "a view of a leaf Variable that requires grad is being used in an in-place operation"
)


def rederive(handle: Tensor) -> None:
    """Bring a handle up to date with the base or the storage."""
    alias = handle.alias
    if alias.base is not None:
        root = base_now(alias)
        _hot.refreshed(root)
        if alias.version != root.version or _is_volatile(root):
            with _Grad(not alias.plain):
                part = root
                for prim, args in alias.chain:
                    part = _hot.record_list(prim, [part], list(args))
            old = handle.value
            if handle.leaf is None and old.requires_grad and not part.value.requires_grad:
                # A view of a leaf that is itself a detached view: the base knows of no gradient.
                with _Grad(True):
                    part = ops.graft(part, _hot.wrap(old))
                note_written(handle, part.value, old)
            handle.value = part.value
            handle.value.inference = root.value.inference
            alias.version = root.version
        return
    storage = alias.storage
    if storage.shared is not None:
        refresh_shared(handle, storage)
    version = storage.version
    if alias.storage_version == version:
        return
    data = storage.data
    known = handle.value.extra is not _hot.VOLATILE and is_variable(handle)
    if known and same_bits(handle.value, data):
        alias.storage_version = version
        return  # only looked at: the handle stays the same variable, and so do views of the handle
    if data.buffer is not None and data.extra is _hot.VOLATILE:
        data = _hot.held(data.type, data.buffer.copy())
    value = data
    if handle.leaf is None and handle.value.requires_grad:
        history = _hot.wrap(handle.value)
        with _Grad(True):
            value = ops.graft(_hot.wrap(data), history).value
        note_written(handle, value, handle.value)
    handle.version += 1
    settle(handle)
    # Nothing is called in between: an interrupt finds the handle up to date, or to be brought so.
    handle.value = value
    alias.storage_version = version


def _is_volatile(root: Tensor) -> bool:
    """Whether a root's value is memory that the outside may write to, of any size."""
    return root.value.extra is _hot.VOLATILE and not is_variable(root)


def relabel(handle: Tensor) -> None:
    """Give the value of a handle the gradient identity of the handle."""
    value = handle.value
    leaf = handle.leaf
    if leaf is not None and not leaf.requires_grad:
        leaf = None
        if value.leaf is None:
            return
    relabelled = getattr(value.extra, "relabelled", None)
    if relabelled is not None:  # on the device meta
        handle.value = relabelled(value, leaf)
        return
    if value.buffer is None:
        op = ops.stop_gradient if leaf is None else ops.variable
        bare = _hot.wrap(value)
        if value.leaf is not None:
            bare.leaf = value.leaf
        inference = value.inference
        with _Grad(_hot.current_trace().mode.grad):
            value = op(bare).value
        value.inference = inference
    else:
        inference = value.inference
        value = _hot.held(value.type, value.buffer)
        value.inference = inference
    value.leaf = leaf
    value.requires_grad = leaf is not None
    handle.value = value


class _Grad(_modules.ModeBlock):
    """Gradient recording switched on or off inside a block, and inference mode off.

    Ops recorded inside stand for tensors that were made elsewhere.
    """

    def __init__(self, on: bool) -> None:
        self.on = on

    def _mode(self, mode: Mode) -> Mode:
        if mode.inference:
            mode = _types.intern_mode(self.on, False, *mode.key[2:])
        return with_grad(mode, self.on)


# -- in-place -------------------------------------------------------------------------------


def check_writable(handle: Tensor, name: str) -> None:
    """Raise GraphError if an in-place op may not touch this handle."""
    if handle.value.inference and not _hot.current_trace().mode.inference:
        raise GraphError(
            f"{name}: Inplace update to inference tensor outside InferenceMode is not allowed. "
            "Make a clone() and work on that"
        )
    if not _hot.current_trace().mode.grad:
        return
    if handle.leaf is not None and handle.leaf.requires_grad:
        raise GraphError(f"{name}: {LEAF_IN_PLACE}; use torch.no_grad(), or work on a clone()")
    if _hot.own_attribute(handle, _WAS_OF_LEAF) or _is_of_leaf(handle):
        raise GraphError(f"{name}: {VIEW_IN_PLACE}; use torch.no_grad(), or work on a clone()")


#: Marks views of leaves that have got new data since (`.data = `): the history stays a view's.
_WAS_OF_LEAF = "_was_of_leaf"


def _is_of_leaf(handle: Tensor) -> bool:
    """Whether a handle is a view of a leaf that requires grad, whenever and however taken."""
    alias: Alias | None = handle.alias
    if alias is None or alias.base is None:
        return False
    value = _hot.refreshed(handle)
    root = alias.base
    if root.leaf is not None:
        if root.leaf.requires_grad:
            return True
    elif root.value.requires_grad:
        return False  # of a tensor with a history, which goes on with the write
    if value.requires_grad:
        return True
    outer: Alias | None = alias
    while outer is not None:  # a leaf that is a view itself, without the history of the base
        if outer.leaf and outer.leaf.requires_grad:
            return True
        outer = outer.outer
    return False


def assign(handle: Tensor, result: Tensor, function: Any) -> None:
    """The general in-place op: checks, casts, rebinds, and lets aliases follow."""
    if _backward.rebind_alone(handle, result):
        return
    name = function.__name__ if function is not None else "assign"
    recorder = _hot.current_trace().symbolic
    if recorder is not None and not getattr(recorder, "maps", False):
        raise ArgumentTypeError(f"{name}: in-place ops cannot be used in the body of a composite")
    check_writable(handle, name)
    replace(handle, result, name)


def replace(handle: Tensor, result: Tensor, name: str) -> None:
    """Casts, rebinds, and lets aliases follow: `assign` to a handle that may be written to."""
    with one_at_a_time():
        _replace(handle, result, name)


def _replace(handle: Tensor, result: Tensor, name: str) -> None:
    have = _hot.refreshed(handle).type
    new = result.value.type
    if new is not have:
        if tuple(new.shape) != tuple(have.shape):
            raise ShapeError(
                f"{name}: output with shape {list(have.shape)} doesn't match the broadcast shape "
                f"{list(new.shape)}"
            )
        if new.dtype is not have.dtype:
            if not dtypes.can_cast(new.dtype, have.dtype):
                raise DTypeError(
                    f"{name}: result type {new.dtype} can't be cast to the desired output type "
                    f"{have.dtype}"
                )
            result = ops.cast(result, have.dtype)
    check_repeats(handle, name)
    rebind(handle, result.value)


def become_view(handle: Tensor, view: Tensor, name: str) -> Tensor:
    """Turn `handle` into `view`, a view of the handle: the shape changes, the data stays (`t_`).

    Earlier views of the handle stay views of the former tensor.
    """
    check_writable(handle, name)
    alias = view.alias
    if handle.is_meta:
        handle.value = view.value.extra.rebound(handle, view.value, view.value.type)
        handle._layout = view._layout
        handle.version += 1
        return handle
    if alias.base is handle:
        _hot.rebase(alias, leave_to_views(handle))
    handle.alias, handle._layout = alias, None
    handle.value = view.value
    handle.version += 1
    count_write(alias.base)
    alias.version = alias.base.version
    return handle


def hidden_base(handle: Tensor) -> Tensor | None:
    """The handle's former self, if no view, before a change of shape in place. See become_view."""
    base = handle.alias.base if handle.alias is not None else None
    return base if base is not None and stands_for(base) is handle else None


#: In-place ops that may write an element of memory at several places.
_REPEATABLE = frozenset(
    "fill_ zero_ masked_fill_ index_fill_ index_put_ tril_ triu_ fill_diagonal_ setitem".split()
)


def check_repeats(handle: Tensor, name: str) -> None:
    """Raise GraphError if an in-place op would write elements that are the same in memory."""
    if name not in _REPEATABLE and repeats(handle, alike=name == "copy_"):
        raise GraphError(
            f"{name}: unsupported operation: more than one element of the written-to tensor "
            "refers to a single memory location. Please clone() the tensor before performing the "
            "operation."
        )


def rebind(handle: Tensor, value: Value) -> None:
    """Make `value` the value of the handle and of all handles that share the data."""
    trace = _hot.current_trace()
    check = getattr(trace.symbolic, "check_rebinding", None)
    if check is not None:
        check(handle)
    extra = handle.value.extra if value.extra is None else value.extra  # tensors have no truth
    rebound = None if extra is None else getattr(extra, "rebound", None)
    if rebound is not None:  # on the device meta
        handle.value = rebound(handle, value)
        handle.version += 1
        return
    note_rebinding(trace, handle, handle.value)
    old = _hot.refreshed(handle)
    give_back(trace, old)
    value = with_history_of(handle, old, value)
    value.inference = old.inference
    alias = handle.alias
    if alias is not None and alias.base is not None:
        root = alias.base
        steps = [root]
        for prim, args in alias.chain[:-1]:
            steps.append(_hot.record_list(prim, [steps[-1]], list(args)))
        part: Any = _hot.wrap(value)
        for (prim, args), whole in zip(reversed(alias.chain), reversed(steps), strict=True):
            part = prim.put(whole, part, *prim.arrange([whole], list(args))[1:])
        rebind(root, part.value)
        handle.value = value
        # With gradients, the view derives from the base's new value, and so is derived again when
        # used; so is a view that shows an element several times, of which perhaps one was written.
        stale = root.value.requires_grad or may_repeat(alias)
        alias.version = root.version - 1 if stale else root.version
        return
    if alias is None or alias.storage is None:
        count_write(handle)
        handle.value = value
        return
    storage = alias.storage
    data = value
    if value.requires_grad:
        with _Grad(False):
            data = ops.stop_gradient(_hot.wrap(value)).value
    memory = storage.shared
    before = storage.data
    if memory is not None and trace.journal is not None:
        # The write may be taken back, and the memory is about to be overwritten.
        before = _hot.held(before.type, before.buffer.copy())
    note_rebinding(trace, storage, before)
    count_write(handle)
    # Nothing is called in between: an interrupt finds either all of it done, or nothing.
    handle.value = value
    storage.data = data
    storage.version += 1
    alias.storage_version = storage.version
    if memory is not None:
        storage.shared = memory
        write_shared(storage, memory, data)


def give_back(trace: Trace, old: Value) -> None:
    """Let the memory budget know that a pending value has lost its handle.

    The new value is written into the old memory: filling a tensor row by row needs no more.
    """
    if old.trace is trace and old.buffer is None:
        trace.nbytes = max(trace.nbytes - old.type.nbytes, 0)


def with_history_of(handle: Tensor, old: Value, value: Value) -> Value:
    """The new value of a handle that had a history, where the written value has none.

    Written under no_grad, the data changes and the history stays. Written by an op without gradient
    (`zero_`, `fill_`), the old value gets a gradient of zeros.
    """
    if not old.requires_grad or value.requires_grad or old.leaf is not None:
        return value
    op = ops.overwrite if _hot.current_trace().mode.grad else ops.graft
    with _Grad(True):
        new_value: Value = op(_hot.wrap(value), _hot.wrap(old)).value
    if op is ops.graft:
        note_written(handle, new_value, old)
    return new_value


def note_rebinding(trace: Trace, holder: Tensor | Storage, old: Value) -> None:
    """Remember the value of a handle or a storage, in case a later op of this flush fails."""
    pending_here = old.trace is trace and old.buffer is None
    trace.touched.append((holder, old.index if pending_here else old, trace.n))


def note_holders(noted: dict[int, tuple[Any, Value]], handle: Tensor) -> None:
    """Note all that a write to an aliased handle changes, with its value: see `_hot.restore`."""
    noted.setdefault(id(handle), (handle, _hot.refreshed(handle)))
    alias = handle.alias
    if alias is None:  # `refreshed` has found that nobody shares the data any more
        return
    root = handle if alias.base is None else alias.base
    noted.setdefault(id(root), (root, root.value))
    storage = storage_of(root)
    if id(storage) in noted:
        return
    data = storage.data
    if storage.shared is not None:  # the new data goes into the same memory
        data = _hot.held(data.type, data.buffer.copy())
    noted[id(storage)] = storage, data


_hot.set_slot("note_holders", note_holders)


# -- shared storage -------------------------------------------------------------------------


def attach_detached(new: Tensor, source: Tensor) -> None:
    """Let `new` (a detached value) share the data of `source`: writes go both ways."""
    new.value.inference = source.value.inference
    parent = source.alias
    alias = Alias()
    if parent is not None and parent.base is not None:
        root = ops.detach(base_now(parent))
        _hot.rebase(alias, root)
        alias.chain = parent.chain
        alias.version = root.version
        alias.leaf = False  # may become a leaf
    else:
        storage = storage_of(source)
        alias.writes = source.alias.writes
        new.version = alias.writes[0]
        if storage.shared is None and (source.value.requires_grad or source.leaf is not None):
            if _hot.several():
                part_from_history(storage)
            else:
                storage.data = new.value
        alias.storage = storage
        # Another thread may have written since `new` was recorded: `new` then follows when used.
        alias.storage_version = storage.version - _hot.several()
        new._layout = source._layout
    new.alias = alias


def part_from_history(storage: Storage) -> None:
    """Let a storage hold bare data, unless another thread has written to the storage meanwhile."""
    data = storage.data
    if data.requires_grad or data.leaf is not None:
        with _Grad(False):
            bare = ops.stop_gradient(_hot.wrap(data)).value
        if storage.data is data:
            storage.data = bare


def uncounted(detached: Tensor) -> Tensor:
    """A tensor that `detach` has just made, with a count of writes of its own (`.data`)."""
    alias = detached.alias
    if alias is not None and alias.base is not None:
        alias = alias.base.alias
    if alias is not None and alias.writes is not None:
        alias.writes = [0]
        if detached.alias is alias:
            detached.version = 0
    return detached


def share(handle: Tensor, other: Tensor) -> None:
    """`handle.data = other`: take over value and storage of `other`.

    Raises GraphError for another kind of tensor, or for integers of a tensor that requires grad.
    """
    if other.is_meta and handle.is_meta:
        handle.data = other
        return
    _check_data(handle, other)
    _hot.refreshed(handle)
    old = handle.value
    if _is_of_leaf(handle):
        handle.__dict__[_WAS_OF_LEAF] = True
    plain = ops.detach(other)
    note_rebinding(_hot.current_trace(), handle, old)
    writes = leave_memory(handle)
    value = plain.value
    handle.alias, handle._layout = plain.alias, plain._layout
    if value.type.shape == old.type.shape and old.leaf is None and old.requires_grad:
        with _Grad(True):
            history = _hot.wrap(old)
            if value.type is not old.type:
                history = ops.cast(history, value.type.dtype)
            value = ops.graft(plain, history).value
        note_written(handle, value, old)
    handle.value = value
    if handle.leaf is not None:
        relabel(handle)
    keep_count(handle, writes)


def _check_data(handle: Tensor, other: Tensor) -> None:
    """Raise GraphError or DTypeError unless `handle.data = other` is possible."""
    fault = None
    if other.is_meta:
        fault = "the tensor on the device meta has no data"
    elif made_of_parts(handle) != made_of_parts(other):
        fault = f"{other.layout} in the place of {handle.layout}"
    if fault is not None:
        raise GraphError(
            "data: Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` "
            f"have incompatible tensor type: {fault}."
        )
    if other.dtype is not other.value.type.dtype:
        raise DTypeError(
            f"data: a tensor of {other.dtype} does not become the data of another; make a new "
            "tensor or parameter of it, or convert it where it is used"
        )
    if other.dtype.category < 2 and handle.requires_grad:  # integers or bools
        raise GraphError(
            "data: data set to a tensor that requires gradients must be floating point or complex "
            f"dtype, not {other.dtype}: call requires_grad_(False) first"
        )


_hot.set_slot("rederive", rederive)
_hot.set_slot("relabel", relabel)
_hot.set_slot("assign", assign)
_hot.set_slot("become_view", become_view)
_hot.set_slot("attach_detached", attach_detached)
