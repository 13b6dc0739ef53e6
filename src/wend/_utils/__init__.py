"""wend._utils: tools that PyTorch keeps to itself, and that programs use all the same."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from wend._engine.base.devices import device as Device
from wend._engine.base.errors import DeviceError
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of all tensors in a row."""
    return ops.cat([ops.reshape(t, (-1,)) for t in tensors])  # type: ignore[no-any-return]


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of parts of a row of elements, in the shapes of `tensors`."""
    sizes = [t.numel() for t in tensors]
    parts = ops.split_with_sizes(flat, sizes)
    return tuple(ops.view(p, tuple(t.shape)) for p, t in zip(parts, tensors, strict=True))


def _take_tensors(tensors: Sequence[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """The tensors in groups of one type, each of about so many bytes."""
    groups: dict[Any, list[Tensor]] = {}
    sizes: dict[Any, int] = {}
    for t in tensors:
        have, size = sizes.get(t.dtype, 0), t.numel() * t.element_size()
        if have + size > size_limit and have > 0:
            yield groups.pop(t.dtype)
            have = 0
        groups.setdefault(t.dtype, []).append(t)
        sizes[t.dtype] = have + size
    yield from groups.values()


class KeyErrorMessage(str):
    """The text of a KeyError, shown with its line breaks."""

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception of another thread or process, as text that can be sent."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind: Any
        kind, value, trace = sys.exc_info() if exc_info is None else exc_info
        self.exc_type = kind
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))
        self.where = where

    def reraise(self) -> NoReturn:
        """Raise an exception of the same class that says where the first came from."""
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            raise KeyError(KeyErrorMessage(text))
        try:
            exception = self.exc_type(text)
        except Exception:  # a class that takes other arguments
            raise RuntimeError(text) from None
        raise exception


def _get_available_device_type() -> None:
    """None: there is no accelerator."""


def _get_all_device_indices() -> list[int]:
    """[]: there is no accelerator."""
    return []


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """-1 for the CPU, where that is allowed. Raises DeviceError for any other device."""
    place = Device(device) if isinstance(device, str) else device
    if allow_cpu and isinstance(place, Device) and place.type == "cpu":
        return -1
    raise DeviceError(f"expected the device of an accelerator, and there is none: {device!r}")
