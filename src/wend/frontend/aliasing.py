"""Handles that share data: views, `detach`, `.data`, memory known outside; in-place changes.

Values are immutable.  An in-place op computes a new value and rebinds the handle.  What shares
data with it follows: a view writes through to its base (`put`, view by view), the base's other
views re-derive themselves when next used, and handles of another gradient identity (`detach`)
re-derive themselves from the storage they share.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from wend.base import dtypes
from wend.base.devices import CPU
from wend.base.errors import ArgumentTypeError, DTypeError, GraphError, ShapeError
from wend.core import _hot
from wend.core._hot import Alias, Storage, Tensor, Trace, Value
from wend.core.primitive import ops
from wend.transforms.grad import with_grad
from wend.transforms.hooks import note_written

LEAF_IN_PLACE = "a leaf Variable that requires grad is being used in an in-place operation"
VIEW_IN_PLACE = (
    "a view of a leaf Variable that requires grad is being used in an in-place operation"
)


def rederive(handle: Tensor) -> None:
    """Bring a handle up to date with its base or its storage."""
    alias = handle.alias
    root = alias.base
    if root is not None:
        while root.alias is not None and root.alias.base is not None:
            # The base has changed its shape in place, and is a view itself now.
            root = alias.base = root.alias.base
        _hot.refreshed(root)
        if alias.version != root.version or (_is_shared(root) and not _is_variable(root)):
            with _Grad(not alias.plain):
                part = root
                for prim, args in alias.chain:
                    part = _hot.record_list(prim, [part], list(args))
            old = handle.value
            if handle.leaf is None and old.requires_grad and not part.value.requires_grad:
                # A view of a leaf that is itself a detached view: its base knows of no gradient.
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
    if alias.storage_version == storage.version:
        return
    alias.storage_version = storage.version
    data = storage.data
    known = handle.value.extra is not _hot.VOLATILE and _is_variable(handle)
    if known and _same(handle.value, data):
        return  # it was only looked at: it stays the variable that it is, and so do its views
    handle.version += 1
    if storage.shared is not None:
        data = _hot.held(data.type, data.buffer.copy())
    if handle.leaf is None and handle.value.requires_grad:
        history = _hot.wrap(handle.value)
        with _Grad(True):
            found = ops.graft(_hot.wrap(data), history).value
        note_written(handle, found, handle.value)
        handle.value = found
    else:
        handle.value = data


def _same(a: Value, b: Value) -> bool:
    """Whether two values are known to be equal, bit for bit."""
    if a.buffer is None or b.buffer is None or a.type.dtype is not b.type.dtype:
        return False
    return all(map(np.array_equal, _bits(a.buffer), _bits(b.buffer)))


def _bits(array: Any) -> tuple[Any, ...]:
    """An array's elements as unsigned integers, in place; complex ones in two parts."""
    parts = (array.real, array.imag) if array.dtype.kind == "c" else (array,)
    return tuple([part.view(f"u{part.itemsize}") for part in parts])


def _is_shared(handle: Tensor) -> bool:
    alias = handle.alias
    return alias is not None and alias.storage is not None and alias.storage.shared is not None


def _is_variable(handle: Tensor) -> bool:
    """Whether a handle's value has an identity: it stands for what gradients are taken by."""
    return handle.leaf is not None or handle.value.requires_grad


def relabel(handle: Tensor) -> None:
    """Give the value of a handle the gradient identity of the handle."""
    value = handle.value
    leaf = handle.leaf
    if leaf is not None and not leaf.requires_grad:
        leaf = None
        if value.leaf is None:
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


class _Grad:
    """Gradient recording switched on or off inside a block, and inference mode off.

    What is recorded inside stands for tensors that were made elsewhere.
    """

    def __init__(self, on: bool) -> None:
        self.on = on

    def __enter__(self) -> None:
        self.trace: Trace = _hot.current_trace()
        self.mode = mode = self.trace.mode
        if mode.inference:
            mode = _hot.intern_mode(self.on, False, *mode.key[2:])
        self.trace.mode = with_grad(mode, self.on)

    def __exit__(self, *exc: object) -> None:
        self.trace.mode = self.mode


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
    root = handle.alias.base if handle.alias is not None else None
    if root is not None and root.leaf is not None and root.leaf.requires_grad:
        raise GraphError(f"{name}: {VIEW_IN_PLACE}; use torch.no_grad(), or work on a clone()")


def assign(handle: Tensor, result: Tensor, function: Any) -> None:
    """The general in-place op: checks, casts, rebinds, and lets aliases follow."""
    if _hot.rebind_alone(handle, result):
        return
    name = function.__name__ if function is not None else "assign"
    recorder = _hot.current_trace().symbolic
    if recorder is not None and not getattr(recorder, "maps", False):
        raise ArgumentTypeError(f"{name}: in-place ops cannot be used in the body of a composite")
    check_writable(handle, name)
    replace(handle, result, name)


def replace(handle: Tensor, result: Tensor, name: str) -> None:
    """Casts, rebinds, and lets aliases follow: `assign` to a handle that may be written to."""
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
    _expanded(handle, name)
    rebind(handle, result.value)


def become_view(handle: Tensor, view: Tensor, name: str) -> Tensor:
    """Make `handle` what `view`, a view of it, is: its shape changes, its data stays (`t_`).

    Views that were taken of it before stay views of what it was.
    """
    check_writable(handle, name)
    alias = view.alias
    if alias.base is handle:
        alias.base = whole = _hot.wrap(handle.value)
        whole.alias = handle.alias
        whole.version = handle.version
        whole._layout = handle._layout
        whole.__dict__["hidden"] = True
    handle.alias, handle._layout = alias, None
    handle.value = view.value
    handle.version += 1
    return handle


def hidden_base(handle: Tensor) -> Tensor | None:
    """What the handle was before its shape changed in place, if it was no view. See become_view."""
    base = handle.alias.base if handle.alias is not None else None
    return base if base is not None and "hidden" in base.__dict__ else None


def _expanded(handle: Tensor, name: str) -> None:
    if handle.alias is not None and any(p.name == "expand" for p, _ in handle.alias.chain):
        shape = handle.shape
        root = handle.alias.base.shape
        if int(np.prod(shape)) > int(np.prod(root)):
            raise GraphError(
                f"{name}: unsupported operation: more than one element of the written-to tensor "
                "refers to a single memory location. Please clone() the tensor before "
                "performing the operation."
            )


def rebind(handle: Tensor, value: Value) -> None:
    """Make `value` the handle's value, and that of everything that shares its data."""
    trace = _hot.current_trace()
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
        # With gradients, the view is one of the base's new value, and so derived again when used.
        alias.version = root.version - 1 if root.value.requires_grad else root.version
        return
    handle.value = value
    handle.version += 1
    if alias is not None and alias.storage is not None:
        storage = alias.storage
        data = value
        if value.requires_grad:
            with _Grad(False):
                data = ops.stop_gradient(_hot.wrap(value)).value
        memory = storage.shared
        note_rebinding(trace, storage, storage.data)
        storage.data = data
        storage.version += 1
        alias.storage_version = storage.version
        if memory is not None:
            storage.shared = memory
            write_shared(storage, data)


def give_back(trace: Trace, old: Value) -> None:
    """Let the memory budget know that a pending value has lost its handle.

    What replaces it is written into its memory: filling a tensor row by row needs no more.
    """
    if old.trace is trace and old.buffer is None:
        trace.nbytes = max(trace.nbytes - old.type.nbytes, 0)


def with_history_of(handle: Tensor, old: Value, value: Value) -> Value:
    """The new value of a handle that had a history, where what was written to it has none.

    Written under no_grad, the data changes and the history stays; written by an op without
    gradient (`zero_`, `fill_`), the old value gets a gradient of zeros.
    """
    if not old.requires_grad or value.requires_grad or old.leaf is not None:
        return value
    op = ops.overwrite if _hot.current_trace().mode.grad else ops.graft
    with _Grad(True):
        found: Value = op(_hot.wrap(value), _hot.wrap(old)).value
    if op is ops.graft:
        note_written(handle, found, old)
    return found


def note_rebinding(trace: Trace, holder: Tensor | Storage, old: Value) -> None:
    """Remember what a handle or a storage held, in case a later op of this flush fails."""
    pending_here = old.trace is trace and old.buffer is None
    trace.touched.append((holder, old.index if pending_here else old, trace.n))


# -- shared storage -------------------------------------------------------------------------


def storage_of(handle: Tensor) -> Storage:
    """The storage object of a handle that is no view; made at the first need."""
    alias = handle.alias
    if alias is None:
        alias = handle.alias = Alias()
    if alias.storage is None:
        alias.storage = Storage(handle.value)
        alias.storage_version = alias.storage.version
    storage: Storage = alias.storage
    return storage


def attach_detached(new: Tensor, source: Tensor) -> None:
    """Let `new` (a detached value) share the data of `source`: writes go both ways."""
    new.value.inference = source.value.inference
    parent = source.alias
    alias = Alias()
    if parent is not None and parent.base is not None:
        root = ops.detach(parent.base)
        alias.base = root
        alias.chain = parent.chain
        alias.version = root.version
    else:
        storage = storage_of(source)
        if storage.shared is None and (source.value.requires_grad or source.leaf is not None):
            storage.data = new.value
        alias.storage = storage
        alias.storage_version = storage.version
        new._layout = source._layout
    new.alias = alias


def share(handle: Tensor, other: Tensor) -> None:
    """`handle.data = other`: take over value and storage of `other`."""
    note_rebinding(_hot.current_trace(), handle, handle.value)
    plain = other.detach()
    handle.value = plain.value
    handle.alias, handle._layout = plain.alias, plain._layout
    handle.version += 1
    if handle.leaf is not None:
        relabel(handle)


# -- memory known outside -------------------------------------------------------------------


class Shared:
    """Memory that the outside world can write to: a storage's data is read from it at each use.

    pinned: the outside cannot be watched (data_ptr, DLPack): shared until the data is freed
    """

    __slots__ = ("array", "pinned")

    def __init__(self, array: Any, pinned: bool) -> None:
        self.array = array
        self.pinned = pinned

    def alive(self) -> bool:
        """Whether anything outside still refers to the memory."""
        if self.pinned:
            return True
        array = self.array
        if sys.getrefcount(array) > _OWN_REFERENCES:
            return True
        # NumPy collapses chains of views, but an adopted array may itself be a view of another.
        base = array.base
        del array
        while isinstance(base, np.ndarray):
            if sys.getrefcount(base) > _BASE_REFERENCES:
                return True
            base = base.base
        return base is not None


#: Shared memory of so many bytes is copied rather than read at once: to end a trace costs more.
LITTLE = 1 << 18
#: References to a shared array from here: Shared, the storage's value, a local, an argument.
_OWN_REFERENCES = 4
#: References to the base of an adopted view: the view, a local, the call's argument.
_BASE_REFERENCES = 3


def share_memory(storage: Storage, type_: Any, memory: Any, pinned: bool) -> None:
    """Let `memory` be where the data of `storage` lies from now on."""
    storage.shared = Shared(memory, pinned)
    storage.data = _volatile(type_, memory)


def _volatile(type_: Any, memory: Any) -> Value:
    """The value of memory that the outside may write to."""
    data: Value = _hot.held(type_, memory)
    data.extra = _hot.VOLATILE
    return data


def refresh_shared(handle: Tensor, storage: Storage) -> None:
    """Let `handle` read the shared memory in the op that is about to be recorded.

    Little memory is copied, where it is not what it was.  Else the value is the memory itself: the
    core computes the op at once, so that nothing written later shows in it, and no more is copied
    than what the op reads.
    """
    data = storage.data
    if not storage.shared.alive():
        storage.data = _hot.held(data.type, data.buffer)
        storage.shared = None
        storage.version += 1
        return
    if _is_variable(handle):
        storage.version += 1  # re-derived from a snapshot: its value must keep its identity
        storage.data = data
        return
    alias = handle.alias
    alias.storage_version = storage.version
    if data.buffer is not None and data.type.nbytes <= LITTLE:
        if handle.value is data or not _same(handle.value, data):
            handle.value = _hot.held(data.type, data.buffer.copy())
        return
    handle.value = data
    _hot.current_trace().volatile = True


def write_shared(storage: Storage, value: Value) -> None:
    """Put a new value into the shared memory at once."""
    buffer = _hot.ensure(value)
    memory = storage.shared.array
    np.copyto(memory, buffer)
    pinned = storage.shared.pinned
    share_memory(storage, value.type, memory, pinned)


def expose(handle: Tensor, watch: bool = True) -> Any:
    """A writable array that shares memory with `handle`, both ways.

    watch: sharing ends when nothing outside refers to the memory any more (False: it lasts as
    long as the data)
    """
    alias = handle.alias
    if alias is not None and alias.base is not None:
        part = expose(alias.base, watch)
        for prim, args in alias.chain:
            part = prim.reference(*prim.arrange([part], list(args)))
        return part
    _hot.refreshed(handle)
    _hot.current_trace().volatile = False
    storage = storage_of(handle)
    if storage.shared is None:
        _hot.ensure(handle.value)
        if sole_owner(handle, storage):
            share_memory(storage, handle.value.type, handle.value.buffer, not watch)
            handle.value = storage.data
        else:
            memory = np.array(handle.value.buffer, order="C", copy=True)
            share_memory(storage, handle.value.type, memory, not watch)
    elif not watch:
        storage.shared.pinned = True
    return storage.shared.array.view()


def references(handle: Tensor) -> tuple[int, int]:
    """How often the value of a handle, and its array, are referred to."""
    value = handle.value
    array = value.buffer
    return sys.getrefcount(value), sys.getrefcount(array)


def sole_owner(handle: Tensor, storage: Storage) -> bool:
    """Whether nobody but a handle and its storage can see its array, which may be written to.

    What a backward pass has saved, an op that waits, another handle: all refer to one of the two.
    False for little memory: it may lie in a larger piece, which it would keep.
    """
    value = handle.value
    array = value.buffer
    if storage.data is not value or value.extra is not None or value.leaf is not None:
        return False
    if type(array) is not np.ndarray or array.nbytes <= LITTLE:
        return False
    if not (array.flags.carray and array.flags.owndata):
        return False
    del value, array
    return references(handle) == _SOLE


def adopt(array: Any, pinned: bool = False) -> Tensor:
    """A tensor on the memory of `array` (from_numpy): writes on either side show on the other."""
    type_ = _hot.intern_type(array.shape, dtypes.from_numpy(array.dtype), CPU)
    handle: Tensor = _hot.wrap(_volatile(type_, array))
    storage_of(handle).shared = Shared(array, pinned)
    if not array.flags.c_contiguous:
        handle._layout = tuple([step // array.itemsize for step in array.strides]), 0
    return handle


def _references_of_one() -> tuple[int, int]:
    """`references` of a handle that shares its value with its storage only."""
    type_ = _hot.intern_type((1,), dtypes.float32, CPU)
    handle: Tensor = _hot.wrap(_hot.held(type_, np.empty(1, np.float32)))
    storage_of(handle)
    return references(handle)


_SOLE = _references_of_one()

_hot.set_slot("rederive", rederive)
_hot.set_slot("relabel", relabel)
_hot.set_slot("assign", assign)
_hot.set_slot("become_view", become_view)
_hot.set_slot("attach_detached", attach_detached)
