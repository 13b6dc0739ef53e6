"""Wrappers for several devices: with one device they call the wrapped module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wend._engine.base.devices import DeviceLike
from wend.nn.modules.module import Module
from wend.nn.parallel.parallel_apply import parallel_apply
from wend.nn.parallel.replicate import replicate
from wend.nn.parallel.scatter_gather import gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Calls the wrapped module: the CPU is the only device."""

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: DeviceLike = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []
        self.output_device = output_device
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
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


def data_parallel(
    module: Module,
    inputs: object,
    device_ids: Sequence[Any] | None = None,
    output_device: DeviceLike = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """The module called with the inputs: the CPU is the only device."""
    if not isinstance(inputs, tuple):
        inputs = (inputs,) if inputs is not None else ()
    return module(*inputs, **(module_kwargs or {}))
