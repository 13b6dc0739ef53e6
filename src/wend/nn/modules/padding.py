"""Padding as modules."""

from __future__ import annotations

from wend._frontend.toolkit import Tensor
from wend.nn import functional as F
from wend.nn.common_types import size_any_t
from wend.nn.modules.module import Module
from wend.nn.modules.utils import _ntuple

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Pad(Module):
    """padding: a number for all sides, or (before, after) of the last dim, then of those before."""

    _spatial = 1
    _mode = "constant"

    def __init__(self, padding: size_any_t) -> None:
        super().__init__()
        self.padding = _ntuple(padding, 2 * self._spatial)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: size_any_t, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """The last dim extended by a constant."""


class ConstantPad2d(_ConstantPad):
    """The last two dims extended by a constant."""

    _spatial = 2


class ConstantPad3d(_ConstantPad):
    """The last three dims extended by a constant."""

    _spatial = 3


class ZeroPad1d(ConstantPad1d):
    """The last dim extended by zeros."""

    def __init__(self, padding: size_any_t) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """The last two dims extended by zeros."""

    def __init__(self, padding: size_any_t) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """The last three dims extended by zeros."""

    def __init__(self, padding: size_any_t) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ReflectionPad1d(_Pad):
    """The last dim mirrored at both ends; the ends are not repeated."""

    _mode = "reflect"


class ReflectionPad2d(_Pad):
    """The last two dims mirrored at all ends; the ends are not repeated."""

    _spatial, _mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """The last three dims mirrored at all ends; the ends are not repeated."""

    _spatial, _mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """The last dim extended by the values at the ends."""

    _mode = "replicate"


class ReplicationPad2d(_Pad):
    """The last two dims extended by the values at the ends."""

    _spatial, _mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """The last three dims extended by the values at the ends."""

    _spatial, _mode = 3, "replicate"


class CircularPad1d(_Pad):
    """The last dim wrapped around."""

    _mode = "circular"


class CircularPad2d(_Pad):
    """The last two dims wrapped around."""

    _spatial, _mode = 2, "circular"


class CircularPad3d(_Pad):
    """The last three dims wrapped around."""

    _spatial, _mode = 3, "circular"
