"""Functions that copy tensors between devices: there is a single one, and each call is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wend._engine.base.devices import DeviceLike
from wend._frontend.autograd.function import Function, FunctionCtx
from wend._frontend.platform import refuse

__all__ = ["Broadcast", "Gather", "ReduceAddCoalesced", "Scatter"]


class Broadcast(Function):
    """Copies of tensors on several devices. Raises DeviceError."""

    @staticmethod
    def forward(ctx: FunctionCtx, target_gpus: Sequence[Any] | None, *inputs: Any) -> Any:
        return refuse()


class Scatter(Function):
    """Parts of a tensor on several devices. Raises DeviceError."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, target_gpus: Sequence[Any] | None, chunk_sizes: Any, dim: int, input: Any
    ) -> Any:
        return refuse()


class Gather(Function):
    """A tensor of parts on several devices. Raises DeviceError."""

    @staticmethod
    def forward(ctx: FunctionCtx, target_device: DeviceLike, dim: int, *inputs: Any) -> Any:
        return refuse()


class ReduceAddCoalesced(Function):
    """Sums over several devices. Raises DeviceError."""

    @staticmethod
    def forward(ctx: FunctionCtx, destination: DeviceLike, num_inputs: int, *grads: Any) -> Any:
        return refuse()


def _get_stream(device: DeviceLike) -> None:
    """None: the CPU has no streams."""
