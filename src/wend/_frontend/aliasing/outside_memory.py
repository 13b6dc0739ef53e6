"""Memory of tensors that is known outside: NumPy, DLPack, addresses."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from wend._engine.base import dtypes
from wend._engine.base.devices import CPU
from wend._engine.core import _hot, _types
from wend._engine.core._hot import Alias, Storage, Tensor, Value
from wend._engine.core._types import TensorType
from wend._engine.core.primitive import ops
from wend._frontend.aliasing.versions import base_now, settle, storage_of
from wend._frontend.strides import overlaps, strides_on


class Shared:
    """Memory that the outside world can write to: a storage's data is read from there at each use.

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
#: Arrays of so many bytes are compared as copies: to ask NumPy takes longer.
FEW = 1 << 12
#: References to a shared array from here: Shared, the storage's value, a local, an argument.
_OWN_REFERENCES = 4
#: References to the base of an adopted view: the view, a local, the call's argument.
_BASE_REFERENCES = 3


def share_memory(storage: Storage, type_: TensorType, memory: object, pinned: bool) -> None:
    """Let `memory` be where the data of `storage` lies from now on."""
    storage.shared = Shared(memory, pinned)
    storage.data = _volatile(type_, memory)


def _volatile(type_: TensorType, memory: object) -> Value:
    """The value of memory that the outside may write to."""
    data: Value = _hot.held(type_, memory)
    data.extra = _hot.VOLATILE
    return data


def refresh_shared(handle: Tensor, storage: Storage) -> None:
    """Let `handle` read the shared memory in the op that is about to be recorded.

    Little memory is copied, where it has changed.  Else the value is the memory itself: the core
    computes the op at once. Later writes do not show in the result, and no more is copied than the
    op reads.
    """
    data, shared = storage.data, storage.shared
    if shared is None:  # as another thread has found by now
        return
    if not shared.alive():
        storage.data = _hot.held(data.type, data.buffer)
        storage.shared = None
        storage.version += 1
        return
    if is_variable(handle):
        storage.version += 1  # re-derived from a snapshot: the value must keep its identity
        storage.data = data
        return
    alias = handle.alias
    alias.storage_version = storage.version
    if data.buffer is not None and data.type.nbytes <= LITTLE:
        if handle.value is data or not same_bits(handle.value, data):
            handle.version += 1  # for views, which derive again only then
            settle(handle)
            handle.value = _hot.held(data.type, data.buffer.copy())
        return
    handle.value = data
    _hot.current_trace().volatile = True


def same_bits(a: Value, b: Value) -> bool:
    """Whether two values are known to be equal, bit for bit."""
    if a.buffer is None or b.buffer is None or a.type.dtype is not b.type.dtype:
        return False
    x, y = a.buffer, b.buffer
    if x.nbytes <= FEW and x.shape == y.shape:
        return bool(x.tobytes() == y.tobytes())
    return all(map(np.array_equal, _bits(x), _bits(y)))


def _bits(array: Any) -> tuple[Any, ...]:
    """An array's elements as unsigned integers, in place; complex numbers in two parts."""
    parts = (array.real, array.imag) if array.dtype.kind == "c" else (array,)
    return tuple([part.view(f"u{part.itemsize}") for part in parts])


def is_variable(handle: Tensor) -> bool:
    """Whether a handle's value has an identity: gradients are taken by this value."""
    return handle.leaf is not None or handle.value.requires_grad


def write_shared(storage: Storage, shared: Shared, value: Value) -> None:
    """Put a new value into the shared memory of a storage at once."""
    np.copyto(shared.array, _hot.ensure(value))
    share_memory(storage, value.type, shared.array, shared.pinned)


def write_back(storage: Storage, value: Value) -> None:
    """Put a former value back into the shared memory, if it has changed; handles find it when used.

    Memory that still has the value is left alone: nobody has to read it anew.
    """
    if same_bits(storage.data, value):
        return
    write_shared(storage, storage.shared, value)
    storage.version += 1


def expose(handle: Tensor, watch: bool = True) -> np.ndarray:
    """A writable array that shares memory with `handle`, both ways.

    watch: sharing ends when nothing outside refers to the memory any more (False: sharing lasts as
    long as the data)
    """
    alias = handle.alias
    if alias is None or alias.base is None:
        return _exposed(handle, watch).view()
    # Left pending, views that are only looked at from outside would grow into a path.
    _hot.ensure(handle.value)
    return _part(_exposed(base_now(alias), watch), handle, alias)


def _exposed(root: Tensor, watch: bool) -> np.ndarray:
    """The memory of a handle that is no view, which the outside knows from now on."""
    _hot.refreshed(root)
    _hot.current_trace().volatile = False
    storage = storage_of(root)
    if storage.shared is None:
        _hot.ensure(root.value)
        if root._layout is None and sole_owner(root, storage):
            share_memory(storage, root.value.type, root.value.buffer, not watch)
            root.value = storage.data
        else:
            share_memory(storage, root.value.type, _laid_out(root), not watch)
    elif not watch:
        storage.shared.pinned = True
    return storage.shared.array


def _laid_out(root: Tensor) -> np.ndarray:
    """A copy of a handle's array that lies in memory as the handle says."""
    array, place = root.value.buffer, root.value.type.device
    empty: Any = np.empty
    if place is not CPU:
        from wend._engine.runtime.devices.queue import accelerator_at

        empty = accelerator_at(place).empty
    steps = None if root._layout is None else root._layout[0]
    if steps is None or 0 in array.shape or 0 in steps:
        memory = empty(array.shape, array.dtype)
    else:
        room = 1 + sum((n - 1) * step for n, step in zip(array.shape, steps, strict=True))
        strides = tuple([step * array.itemsize for step in steps])
        memory = np.ndarray(array.shape, array.dtype, empty(room, array.dtype), 0, strides)
    np.copyto(memory, array)
    return memory


class _Window:
    """Elements of an array's memory, as described to NumPy; keeps the array alive."""

    def __init__(self, memory: object, interface: dict[str, Any]) -> None:
        self.memory = memory
        self.__array_interface__ = interface


def _part(memory: np.ndarray, handle: Tensor, alias: Alias) -> np.ndarray:
    """The elements of a view in the memory of the base, as an array that may be written to."""
    steps = tuple([step // memory.itemsize for step in memory.strides])
    layout = strides_on(alias, alias.base.value.type, steps)
    # the order of the base in memory is not the declared order: see `Tensor._layout`
    if layout is None:
        part = memory.view()
        for prim, args in alias.chain:
            part = prim.reference(*prim.arrange([part], list(args)))
        return part
    type_ = handle.value.type  # the handle's own shape and dtype would be read from memory anew
    dtype = type_.dtype.numpy
    start = layout[1] * dtype.itemsize
    strides = tuple([step * dtype.itemsize for step in layout[0]])
    shape = type_.shape
    if memory.flags.c_contiguous and 0 not in shape:
        return np.ndarray(shape, dtype, memory, start, strides)
    address = memory.__array_interface__["data"][0] + start
    bits = np.dtype(f"V{dtype.itemsize}")
    interface = {
        "version": 3,
        "shape": shape,
        "typestr": bits.str,
        "strides": strides,
        "data": (address, False),
    }
    return np.asarray(_Window(memory, interface)).view(dtype)


def references(handle: Tensor) -> tuple[int, int]:
    """The reference counts of the value of a handle, and of the value's array."""
    value = handle.value
    array = value.buffer
    return sys.getrefcount(value), sys.getrefcount(array)


def sole_owner(handle: Tensor, storage: Storage) -> bool:
    """Whether only a handle and its storage can see the value's array, which may be written to.

    All further users refer to the value or to the array: a backward pass that saved it, an op that
    waits, another handle. False for little memory, as it may lie in a larger piece and would keep
    the piece alive.
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
    """A tensor on the memory of `array` (from_numpy): writes to either show in both.

    The tensor of an array that shows elements at several places is a view of all of the memory.
    """
    steps = None
    if not array.flags.c_contiguous:
        steps = tuple([step // array.itemsize for step in array.strides])
        if overlaps(array.shape, steps):
            whole = adopt(_span(array, steps), pinned)
            view: Tensor = ops.as_strided(whole, array.shape, steps, 0)
            return view
    type_ = _types.intern_type(array.shape, dtypes.from_numpy(array.dtype), CPU)
    handle: Tensor = _hot.wrap(_volatile(type_, array))
    storage_of(handle).shared = Shared(array, pinned)
    if steps is not None:
        handle._layout = steps, 0
    return handle


def _span(array: Any, steps: tuple[int, ...]) -> np.ndarray:
    """The memory from an array's first element to the last, as a flat array."""
    room = 1 + sum((n - 1) * step for n, step in zip(array.shape, steps, strict=True))
    interface = {
        "version": 3,
        "shape": (room,),
        "typestr": f"|V{array.itemsize}",
        "data": (array.__array_interface__["data"][0], False),
    }
    return np.asarray(_Window(array, interface)).view(array.dtype)


def _references_of_one() -> tuple[int, int]:
    """`references` of a handle whose value is shared with the handle's storage only."""
    type_ = _types.intern_type((1,), dtypes.float32, CPU)
    handle: Tensor = _hot.wrap(_hot.held(type_, np.empty(1, np.float32)))
    storage_of(handle)
    return references(handle)


_SOLE = _references_of_one()


_hot.set_slot("write_back", write_back)
