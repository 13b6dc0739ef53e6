"""Wrappers for several devices: they call the wrapped module, on the first device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wend._engine.base.devices import (
    CPU,
    DeviceLike,
    accelerator_kind,
    count_of,
    device,
    usable,
)
from wend._engine.core._hot import Tensor
from wend.nn.modules.module import Module
from wend.nn.parallel.parallel_apply import parallel_apply
from wend.nn.parallel.replicate import replicate
from wend.nn.parallel.scatter_gather import gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Calls the wrapped module, with inputs moved to the first of the accelerators, if any.

    Raises DeviceError for a device that is not there.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: DeviceLike = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module = module
        places = _places(device_ids)
        self.device_ids: list[Any] = [place.index for place in places]
        self.output_device = self.device_ids[0] if places and output_device is None else None
        self.output_device = output_device if output_device is not None else self.output_device
        self._first = places[0] if places else None
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if self._first is not None:
            inputs, kwargs = tree_to(inputs, self._first), tree_to(kwargs, self._first)
        return self.module(*inputs, **kwargs)

    def replicate(self, module: Module, device_ids: Sequence[Any]) -> list[Module]:
        """Copies of a module on devices: see `nn.parallel.replicate`."""
        return replicate(module, device_ids)

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Sequence[Any]) -> Any:
        """The arguments for each device: see `nn.parallel.scatter`."""
        return scatter_kwargs(inputs, kwargs, device_ids, self.dim)

    def parallel_apply(self, replicas: Sequence[Module], inputs: Any, kwargs: Any) -> list[Any]:
        """The results of copies: see `nn.parallel.parallel_apply`."""
        return parallel_apply(replicas, inputs, kwargs)

    def gather(self, outputs: Any, output_device: DeviceLike) -> Any:
        """The result of all devices: see `nn.parallel.gather`."""
        return gather(outputs, output_device, self.dim)


def _places(device_ids: Sequence[Any] | None) -> list[device]:
    """The accelerators that are named, or all; [] if none is there, or the CPU is named."""
    kind = accelerator_kind()
    if kind is None:
        return []
    ids = range(count_of(kind)) if device_ids is None else device_ids
    named = [device(kind, i) if isinstance(i, int) else i for i in ids]
    places = [usable(place, "DataParallel") for place in named]
    return [place for place in places if place is not CPU]


def tree_to(value: Any, place: device) -> Any:
    """The tensors in a value, also in lists, tuples and dicts, on a device."""
    if isinstance(value, Tensor):
        return value.to(place)
    if isinstance(value, dict):
        return type(value)({key: tree_to(part, place) for key, part in value.items()})
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(tree_to(part, place) for part in value)
    if isinstance(value, (list, tuple)):
        return type(value)(tree_to(part, place) for part in value)
    return value


def data_parallel(
    module: Module,
    inputs: object,
    device_ids: Sequence[Any] | None = None,
    output_device: DeviceLike = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """The module called with the inputs, moved to the first of the accelerators, if any."""
    if not isinstance(inputs, tuple):
        inputs = (inputs,) if inputs is not None else ()
    wrapped = DataParallel(module, device_ids, output_device, dim)
    return wrapped(*inputs, **(module_kwargs or {}))
