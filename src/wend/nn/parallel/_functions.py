"""Functions that copy tensors between devices: there is a single one, and each call is refused."""

from __future__ import annotations

from typing import Any

from wend._frontend.autograd.function import Function
from wend._frontend.platform import refuse

__all__ = ["Broadcast", "Gather", "ReduceAddCoalesced", "Scatter"]


class Broadcast(Function):
    """Copies of tensors on several devices. Raises DeviceError."""

    @staticmethod
    def forward(ctx: Any, target_gpus: Any, *inputs: Any) -> Any:
        return refuse()


class Scatter(Function):
    """Parts of a tensor on several devices. Raises DeviceError."""

    @staticmethod
    def forward(ctx: Any, target_gpus: Any, chunk_sizes: Any, dim: int, input: Any) -> Any:
        return refuse()


class Gather(Function):
    """A tensor of parts on several devices. Raises DeviceError."""

    @staticmethod
    def forward(ctx: Any, target_device: Any, dim: int, *inputs: Any) -> Any:
        return refuse()


class ReduceAddCoalesced(Function):
    """Sums over several devices. Raises DeviceError."""

    @staticmethod
    def forward(ctx: Any, destination: Any, num_inputs: int, *grads: Any) -> Any:
        return refuse()


def _get_stream(device: Any) -> None:
    """None: the CPU has no streams."""
