"""Writes the pickle of a checkpoint: tensors by PyTorch's names, bytes aside, in storages."""

from __future__ import annotations

import functools
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import IO, Any, ClassVar

from wend._engine.base.devices import device
from wend._engine.base.dtypes import AbsentDType, DType
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, ExecutionError
from wend._engine.base.shapes import Size
from wend._engine.core._hot import OpFunction, Tensor
from wend._frontend.formats import layout
from wend._frontend.interop.exchange import user_attributes
from wend._frontend.parameters.parameter import Parameter
from wend._frontend.qschemes import QScheme, per_tensor_affine
from wend._frontend.removable import HookTable
from wend.serialization._renaming import torch_path
from wend.serialization._storages import QUANTIZED_STORAGES, STORAGE_NAMES
from wend.serialization._tensors import StoredView, stored_view

__all__ = ["StorageWriter", "TorchName", "checkpoint_pickler"]

STORAGE_NAME_OF: dict[Any, str] = {dtype: name for name, dtype in STORAGE_NAMES.items()}
STORAGE_NAME_OF |= {dtype: name for name, (dtype, _) in QUANTIZED_STORAGES.items()}


class TorchName:
    """A name of PyTorch's; pickled as such, without the object having to exist here."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self, *arguments: object) -> Any:
        raise ArgumentTypeError(f"{self.module}.{self.name} only stands for a name")


@functools.cache
def torch_name(module: str, name: str) -> TorchName:
    """The single TorchName of that name: the pickle then holds the name once."""
    return TorchName(module, name)


class StorageReference:
    """Pickled as a persistent id: the bytes are a separate record."""

    def __init__(self, dtype: Any, key: str, count: int, place: str = "cpu") -> None:
        self.dtype = dtype
        self.key = key
        self.count = count
        self.place = place


class StorageWriter:
    """The storages that a pickle refers to, each once, numbered in order of arrival."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[str, StoredView]] = {}

    def reference(self, view: StoredView) -> StorageReference:
        key, first = self._known.setdefault(view.identity, (str(len(self._known)), view))
        if first.dtype is not view.dtype:
            raise ExecutionError(
                "save: cannot save tensors that view the same data as different types, "
                f"{first.dtype} and {view.dtype}; save a clone() of one"
            )
        return StorageReference(view.dtype, key, view.elements.size, str(view.place))

    def counted(self) -> Iterator[tuple[str, int, memoryview]]:
        """(key, number of elements, bytes) of each storage."""
        for (key, view), (_, data) in zip(self._known.values(), self.records(), strict=True):
            yield key, view.elements.size, data

    def records(self) -> Iterator[tuple[str, memoryview]]:
        """(key, bytes) of each storage."""
        for key, view in self._known.values():
            yield key, memoryview(view.elements.view("u1"))  # type: ignore[arg-type]


def reduce_tensor(storages: StorageWriter, tensor: Tensor) -> tuple[Any, ...]:
    """A tensor as a rebuild call on a storage, with class and the user's attributes."""
    view = stored_view(tensor)
    reference = storages.reference(view)
    place = (view.offset, tuple(tensor.shape), view.strides)
    arguments: tuple[Any, ...] = (reference, *place, tensor.requires_grad, OrderedDict())
    make = torch_name("torch._utils", "_rebuild_tensor_v2")
    if view.dtype not in STORAGE_NAME_OF:
        arguments = (*arguments, view.dtype)
        make = torch_name("torch._utils", "_rebuild_tensor_v3")
    state = user_attributes(tensor)
    if type(tensor) is Tensor and not state:
        return make, arguments
    own = torch_name("torch._tensor", "_rebuild_from_type_v2")
    return own, (make, type(tensor), arguments, state)


def reduce_meta(tensor: Tensor) -> tuple[Any, ...]:
    """A tensor on the device meta as a rebuild call without a storage."""
    make = torch_name("torch._utils", "_rebuild_meta_tensor_no_storage")
    facts = (tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.requires_grad)
    state = user_attributes(tensor)
    cls = getattr(type(tensor), "plain_class", Tensor)
    if cls is Tensor and not state:
        return make, facts
    return torch_name("torch._tensor", "_rebuild_from_type_v2"), (make, cls, facts, state)


def reduce_sparse(tensor: Any) -> tuple[Any, ...]:
    """A sparse tensor as a rebuild call on dense parts."""
    parts = (*tensor.parts(), tuple(tensor.shape))
    if tensor.is_sparse:
        parts = (*parts, tensor.is_coalesced())
    return torch_name("torch._utils", "_rebuild_sparse_tensor"), (tensor.layout, parts)


def reduce_quantized(storages: StorageWriter, tensor: Any) -> tuple[Any, ...]:
    """A quantised tensor as a rebuild call on its whole numbers, scale and zero point."""
    view = stored_view(tensor._whole)
    plain = storages.reference(view)
    reference = StorageReference(tensor.dtype, plain.key, plain.count)
    if tensor.qscheme() is per_tensor_affine:
        facts: tuple[Any, ...] = (per_tensor_affine, tensor.q_scale(), tensor.q_zero_point())
    else:
        scales, points = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
        facts = (tensor.qscheme(), scales, points, tensor.q_per_channel_axis())
    place = (view.offset, tuple(tensor.shape), view.strides)
    make = torch_name("torch._utils", "_rebuild_qtensor")
    return make, (reference, *place, facts, False, OrderedDict())


def reduce_float8(storages: StorageWriter, tensor: Any) -> tuple[Any, ...]:
    """A tensor of float8 as a rebuild call on a storage of bytes."""
    view = stored_view(tensor._bits)
    place = (view.offset, tuple(tensor.shape), view.strides)
    make = torch_name("torch._utils", "_rebuild_tensor_v3")
    reference = storages.reference(view)
    return make, (reference, *place, False, OrderedDict(), tensor.dtype)


def reduce_parameter(parameter: Parameter) -> tuple[Any, ...]:
    """A parameter as a rebuild call on the data, with the user's attributes."""
    arguments: tuple[Any, ...] = (parameter.detach(), parameter.requires_grad, OrderedDict())
    state = user_attributes(parameter)
    if state:
        name = torch_name("torch._utils", "_rebuild_parameter_with_state")
        return name, (*arguments, state)
    return torch_name("torch._utils", "_rebuild_parameter"), arguments


class Reducers:
    """The pickler's dispatch table: how objects of Wend's classes are taken apart."""

    def __init__(self, storages: StorageWriter, fallback: Any) -> None:
        self.storages = storages
        self.fallback = fallback
        self.exact: dict[type, Callable[[Any], Any]] = {
            Tensor: functools.partial(reduce_tensor, storages),
            Parameter: reduce_parameter,
            layout: lambda kind: (torch_name("torch.serialization", "_get_layout"), (repr(kind),)),
            Size: lambda size: (torch_name("torch", "Size"), (tuple(size),)),
            device: lambda where: (torch_name("torch", "device"), _device_arguments(where)),
        }

    def get(self, cls: type, default: object = None) -> Any:
        known = self.exact.get(cls) or self.fallback.get(cls)
        if known is None:
            if getattr(cls, "made_of_parts", False):
                return reduce_sparse
            if getattr(cls, "made_of_whole_numbers", False):
                return functools.partial(reduce_quantized, self.storages)
            if getattr(cls, "made_of_bits", False):
                return functools.partial(reduce_float8, self.storages)
            if hasattr(cls, "plain_class"):
                return reduce_parameter if issubclass(cls, Parameter) else reduce_meta
            if issubclass(cls, HookTable):
                return _as_ordered_dict
            # A subclass without a rule of its own is written like its base.
            for base in (Parameter, Tensor):
                if issubclass(cls, base) and cls.__reduce_ex__ is base.__reduce_ex__:
                    return self.exact[base]
        return known or default


def _as_ordered_dict(table: HookTable) -> tuple[Any, ...]:
    # The containers of hooks in PyTorch's modules.
    return OrderedDict, (), None, None, iter(table.items())


def _device_arguments(where: device) -> tuple[Any, ...]:
    return (where.type,) if where.index is None else (where.type, where.index)


def checkpoint_pickler(file: IO[bytes], protocol: int, module: ModuleType = pickle) -> Any:
    """A pickler of `module` that writes tensors as PyTorch does; `storages` holds the bytes."""
    base = module._Pickler if module is pickle else getattr(module, "Pickler", None)
    if not isinstance(getattr(base, "dispatch", None), dict):
        raise ArgumentError(
            f"save: {getattr(module, '__name__', module)!r} has no pickler written in Python, "
            "which is needed to write PyTorch's names; leave pickle_module out"
        )
    return _pickler_class(base)(file, protocol)


@functools.cache
def _pickler_class(base: Any) -> type:
    class CheckpointPickler(base):
        dispatch: ClassVar[dict[type, Any]] = dict(base.dispatch)
        legacy = False  # whether the format is that before PyTorch 1.6

        def __init__(self, file: IO[bytes], protocol: int) -> None:
            super().__init__(file, protocol)
            self.storages = StorageWriter()
            fallback = getattr(self, "dispatch_table", pickle.dispatch_table)  # type: ignore[attr-defined]
            self.dispatch_table = Reducers(self.storages, fallback)

        def persistent_id(self, obj: object) -> Any:
            if type(obj) is not StorageReference:
                return None
            if obj.dtype not in STORAGE_NAME_OF:
                kind, count = torch_name("torch.storage", "UntypedStorage"), obj.dtype.itemsize
                return "storage", kind, obj.key, obj.place, obj.count * count
            kind = torch_name("torch", STORAGE_NAME_OF[obj.dtype])
            place = ("storage", kind, obj.key, obj.place, obj.count)
            return (*place, None) if self.legacy else place  # None: not a part of a storage

        def save_global(self, obj: object, name: str | None = None) -> None:
            renamed = torch_path(obj)
            if renamed is None:
                super().save_global(obj, name)
            else:
                self.write_name(obj, *renamed)

        def save_torch_name(self, obj: TorchName) -> None:
            self.write_name(obj, obj.module, obj.name)

        def save_dtype(self, obj: Any) -> None:
            self.write_name(obj, "torch", obj.name)

        def write_name(self, obj: object, module: str, name: str) -> None:
            if self.proto >= 4:
                self.save(module)
                self.save(name)
                self.write(pickle.STACK_GLOBAL)
            else:
                self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
            self.memoize(obj)

        def save_op(self, obj: OpFunction) -> None:
            if torch_path(obj) is None:  # an op that PyTorch has no name for, or an in-place op
                self.save_reduce(*obj.__reduce__(), obj=obj)
            else:
                self.save_global(obj)

        dispatch[TorchName] = save_torch_name
        dispatch[DType] = dispatch[AbsentDType] = dispatch[QScheme] = save_dtype
        dispatch[OpFunction] = save_op

    # Classes and functions are dispatched by type, not by a call of the method.
    for kind, method in base.dispatch.items():
        if method is base.save_global:
            CheckpointPickler.dispatch[kind] = CheckpointPickler.save_global
    return CheckpointPickler
