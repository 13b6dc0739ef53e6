"""Fake quantisation: floats are rounded as a quantised tensor would, and gradients pass."""

from __future__ import annotations

from functools import partial
from typing import Any

from wend._engine.base.dtypes import ABSENT, float32, float64, int64
from wend._engine.ops.quantized.elements import SCALE_OF_NOTHING
from wend._frontend.qschemes import (
    per_channel_affine,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
)
from wend._frontend.quantized.functions import (
    fake_quantize_per_channel_affine,
    fake_quantize_per_tensor_affine,
)
from wend._frontend.toolkit import Tensor, no_grad, ops, tensor
from wend.ao.quantization.observer import (
    Factory,
    HistogramObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
)
from wend.nn.modules.module import Module

__all__ = [
    "FakeQuantize",
    "FakeQuantizeBase",
    "FixedQParamsFakeQuantize",
    "FusedMovingAvgObsFakeQuantize",
    "default_dynamic_fake_quant",
    "default_fake_quant",
    "default_fused_act_fake_quant",
    "default_fused_per_channel_wt_fake_quant",
    "default_fused_wt_fake_quant",
    "default_histogram_fake_quant",
    "default_per_channel_weight_fake_quant",
    "default_weight_fake_quant",
    "disable_fake_quant",
    "disable_observer",
    "enable_fake_quant",
    "enable_observer",
]


class FakeQuantizeBase(Module):
    """Base: switches of the observer and of the rounding."""

    fake_quant_enabled: Tensor
    observer_enabled: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fake_quant_enabled", tensor([1]))
        self.register_buffer("observer_enabled", tensor([1]))
        self.rounds = self.observes = True

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Switch the rounding on or off."""
        self.rounds = enabled
        self.fake_quant_enabled = tensor([int(enabled)])

    def disable_fake_quant(self) -> None:
        """Switch the rounding off."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Switch the observer on or off."""
        self.observes = enabled
        self.observer_enabled = tensor([int(enabled)])

    def disable_observer(self) -> None:
        """Switch the observer off."""
        self.enable_observer(False)

    def calculate_qparams(self, **kwargs: Any) -> Any:
        """(scale, zero point)."""
        raise NotImplementedError

    @classmethod
    def with_args(cls, **kwargs: Any) -> Factory:
        """The class with some arguments, for a QConfig."""
        return Factory(partial(cls, **kwargs))

    def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any) -> None:
        for name in ("scale", "zero_point"):
            if prefix + name in state:  # of the shape that has been seen
                setattr(self, name, state[prefix + name].clone())
        super()._load_from_state_dict(state, prefix, *rest)
        self.rounds = bool(int(self.fake_quant_enabled[0]))
        self.observes = bool(int(self.observer_enabled[0]))


class FakeQuantize(FakeQuantizeBase):
    """Rounds a tensor that passes, by the range that an observer finds.

    observer: its class, with arguments in the keywords     quant_min, quant_max: whole numbers
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, observer: Any = MovingAverageMinMaxObserver, quant_min: int | None = None,
        quant_max: int | None = None, is_dynamic: bool = False, **observer_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        if quant_min is not None and quant_max is not None:
            observer_kwargs |= {"quant_min": quant_min, "quant_max": quant_max}
        self.activation_post_process = observer(is_dynamic=is_dynamic, **observer_kwargs)
        seen = self.activation_post_process
        self.quant_min, self.quant_max = seen.quant_min, seen.quant_max
        self.dtype, self.qscheme = seen.dtype, seen.qscheme
        self.is_dynamic = is_dynamic
        self.ch_axis = getattr(seen, "ch_axis", -1)
        self.is_per_channel = self.qscheme in (per_channel_affine, per_channel_symmetric)
        self.register_buffer("scale", tensor([1.0]))
        self.register_buffer("zero_point", tensor([0], dtype=int64))

    def calculate_qparams(self, **kwargs: Any) -> Any:
        return self.activation_post_process.calculate_qparams()

    def _numbers(self) -> tuple[Tensor, Tensor]:
        """The scale and zero point of the next rounding."""
        scale, zero = self.calculate_qparams()
        return scale, zero

    def forward(self, X: Tensor) -> Tensor:
        if self.observes:
            self.activation_post_process(X.detach())
            scale, zero = self._numbers()
            self.scale = scale if scale.ndim else scale.reshape(1)
            self.zero_point = zero if zero.ndim else zero.reshape(1)
        if not self.rounds:
            return X
        low, high = self.quant_min, self.quant_max
        if self.is_per_channel:
            return fake_quantize_per_channel_affine(
                X, self.scale, self.zero_point, self.ch_axis, low, high
            )
        scale, zero = self.scale.reshape(()), self.zero_point.reshape(())
        return fake_quantize_per_tensor_affine(X, scale, zero, low, high)

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, "
            f"observer_enabled={self.observer_enabled}, quant_min={self.quant_min}, "
            f"quant_max={self.quant_max}, dtype={self.dtype}, qscheme={self.qscheme}, "
            f"ch_axis={self.ch_axis}, scale={self.scale}, zero_point={self.zero_point}"
        )


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """`FakeQuantize` with a moving mean of ranges, and the whole range of the type by default."""

    def __init__(
        self, observer: Any = MovingAverageMinMaxObserver, quant_min: int = 0,
        quant_max: int = 255, **observer_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)

    def _numbers(self) -> tuple[Tensor, Tensor]:
        """As PyTorch's kernel computes: in float64; symmetric ranges use -128 too."""
        seen, span = self.activation_post_process, self.quant_max - self.quant_min
        with no_grad():
            low, high = (ops.cast(x.reshape(-1), float64) for x in (seen.min_val, seen.max_val))
            least, greatest = ops.clamp(low, None, 0), ops.clamp(high, 0, None)
            scale = (greatest - least) / span
            scale = ops.where(ops.gt(scale, 0), scale, SCALE_OF_NOTHING)
            zero = ops.cast(ops.round(self.quant_min - least / scale), int64)
            zero = ops.clamp(zero, self.quant_min, self.quant_max)
            if self.qscheme in (per_tensor_symmetric, per_channel_symmetric):
                half = span // 2
                both = ops.mul(ops.lt(low, 0), ops.gt(high, 0))
                whole = ops.maximum(-low / (half + 1), high / half)
                scale = ops.where(both, whole, scale)
                zero = ops.where(both, round((self.quant_min + self.quant_max) / 2), zero)
            return ops.cast(scale, float32), zero

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, "
            f"observer_enabled={self.observer_enabled}, scale={self.scale}, "
            f"zero_point={self.zero_point}, dtype={self.dtype}, quant_min={self.quant_min}, "
            f"quant_max={self.quant_max}, qscheme={self.qscheme}, "
            f"reduce_range={self.activation_post_process.reduce_range}"
        )


class FixedQParamsFakeQuantize(FakeQuantize):
    """Rounds by a scale and zero point that are known beforehand."""

    def __init__(self, observer: Any) -> None:
        super().__init__(observer)
        self.scale, self.zero_point = self.calculate_qparams()


qint8, quint8 = ABSENT["qint8"], ABSENT["quint8"]
_bytes: dict[str, Any] = {"quant_min": 0, "quant_max": 255, "dtype": quint8}
_ints: dict[str, Any] = {"quant_min": -128, "quant_max": 127, "dtype": qint8}
_weights: dict[str, Any] = _ints | {"qscheme": per_tensor_symmetric}
_channels: dict[str, Any] = _ints | {"qscheme": per_channel_symmetric}
_activations: dict[str, Any] = _bytes | {"qscheme": per_tensor_affine, "reduce_range": True}
default_fake_quant = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, **_activations)
default_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, **_weights, reduce_range=False
)
default_dynamic_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, **_bytes, is_dynamic=True, averaging_constant=1
)
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, **_channels, reduce_range=False, ch_axis=0
)
default_histogram_fake_quant = FakeQuantize.with_args(observer=HistogramObserver, **_activations)
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, **_bytes
)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, **_weights
)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, **_channels
)


def disable_fake_quant(mod: Module) -> None:
    """Switch the rounding of a module off; for `model.apply`."""
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_fake_quant()


def enable_fake_quant(mod: Module) -> None:
    """Switch the rounding of a module on; for `model.apply`."""
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_fake_quant()


def disable_observer(mod: Module) -> None:
    """Switch the observer of a module off; for `model.apply`."""
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_observer()


def enable_observer(mod: Module) -> None:
    """Switch the observer of a module on; for `model.apply`."""
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_observer()
