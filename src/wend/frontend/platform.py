"""Answers to questions about accelerators: there are none, and each answer is clear."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wend.base.devices import CPU, device, usable
from wend.base.errors import DeviceError, NotImplementedInWend

NO_CUDA = "cuda: no CUDA device is available; Wend computes on 'cpu' so far"


def is_available() -> bool:
    """False: there is no such device."""
    return False


def device_count() -> int:
    """0: there is no such device."""
    return 0


def nothing(*args: Any, **kwargs: Any) -> None:
    """Seeding, synchronising or emptying the cache of devices that are not there."""


def refuse(*args: Any, **kwargs: Any) -> Any:
    """Raises DeviceError: the call needs a device that is not there."""
    raise DeviceError(NO_CUDA)


def current_accelerator(check_available: bool = False) -> device | None:
    """None: there is no accelerator."""
    return None


@contextmanager
def _flags(**unused: Any) -> Iterator[None]:
    yield


class autocast:
    """torch.amp.autocast: for a missing device it does nothing, with a warning.

    Raises NotImplementedInWend when asked for on the CPU.
    """

    def __init__(
        self,
        device_type: str = "cuda",
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        self.device = device_type
        if enabled and device_type == "cpu":
            raise NotImplementedInWend(
                "autocast: lower precision on 'cpu' is not available yet; pass enabled=False, or "
                "convert the model with .to(torch.bfloat16)"
            )
        if enabled:
            warnings.warn(
                f"User provided device_type of '{device_type}', but {device_type.upper()} is not "
                "available. Disabling",
                stacklevel=2,
            )

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def __call__(self, function: Any) -> Any:
        return function


class GradScaler:
    """torch.amp.GradScaler without a device to scale for: every call passes through."""

    def __init__(self, device: str = "cuda", *args: Any, enabled: bool = True, **kw: Any) -> None:
        if enabled:
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                stacklevel=2,
            )

    def is_enabled(self) -> bool:
        """False."""
        return False

    def scale(self, outputs: Any) -> Any:
        """The outputs themselves."""
        return outputs

    def unscale_(self, optimizer: Any) -> None:
        """Nothing was scaled."""

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """optimizer.step()."""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """Nothing to update."""

    def get_scale(self) -> float:
        """1.0."""
        return 1.0

    def state_dict(self) -> dict[str, Any]:
        """{}: there is no state."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """There is no state to load."""


__all__ = [
    "CPU",
    "GradScaler",
    "autocast",
    "current_accelerator",
    "device",
    "device_count",
    "is_available",
    "nothing",
    "refuse",
    "usable",
]


def itself(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of torch.jit.script: the function, class or module unchanged."""
    return obj


def jit_marker(drop: Any = False, **kwargs: Any) -> Any:
    """A decorator, with or without arguments, that leaves the function unchanged."""
    return drop if callable(drop) else itself


def no_process_group(*args: Any, **kwargs: Any) -> Any:
    """Raises NotImplementedInWend: programs run in a single process so far."""
    raise NotImplementedInWend(
        "torch.distributed: process groups are not available; run the program in one process"
    )
