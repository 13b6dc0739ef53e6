"""QConfig: the observers of activations and of weights."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from wend._engine.base.errors import ArgumentError
from wend.ao.quantization.fake_quantize import (
    FusedMovingAvgObsFakeQuantize,
    default_dynamic_fake_quant,
    default_fake_quant,
    default_fused_act_fake_quant,
    default_fused_per_channel_wt_fake_quant,
    default_fused_wt_fake_quant,
    default_weight_fake_quant,
)
from wend.ao.quantization.observer import (
    HistogramObserver,
    MovingAverageMinMaxObserver,
    default_debug_observer,
    default_dynamic_quant_observer,
    default_observer,
    default_per_channel_weight_observer,
    default_weight_observer,
)

__all__ = [
    "QConfig",
    "default_debug_qconfig",
    "default_dynamic_qat_qconfig",
    "default_dynamic_qconfig",
    "default_per_channel_qconfig",
    "default_qat_qconfig",
    "default_qat_qconfig_v2",
    "default_qconfig",
    "get_default_qat_qconfig",
    "get_default_qconfig",
    "per_channel_dynamic_qconfig",
    "qconfig_equals",
]

#: Backends of PyTorch; each has its own observers. Wend's kernels are the same.
_BACKENDS = ("fbgemm", "x86", "qnnpack", "onednn")


class QConfig(namedtuple("QConfig", ["activation", "weight"])):
    """The observers of activations and of weights: classes, or classes with arguments.

    Raises ArgumentError for observers instead of classes.
    """

    __slots__ = ()

    def __new__(cls, activation: Any, weight: Any) -> QConfig:
        from wend.nn.modules.module import Module

        if isinstance(activation, Module) or isinstance(weight, Module):
            raise ArgumentError(
                "QConfig: received observer instance, please pass observer class instead: "
                "MyObserver.with_args(x=1) gives a class with arguments"
            )
        return super().__new__(cls, activation, weight)


default_qconfig = QConfig(default_observer, default_weight_observer)
default_debug_qconfig = QConfig(default_debug_observer, default_weight_observer)
default_per_channel_qconfig = QConfig(default_observer, default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_weight_observer)
per_channel_dynamic_qconfig = QConfig(
    default_dynamic_quant_observer, default_per_channel_weight_observer
)
default_qat_qconfig = QConfig(default_fake_quant, default_weight_fake_quant)
default_qat_qconfig_v2 = QConfig(default_fused_act_fake_quant, default_fused_wt_fake_quant)
default_dynamic_qat_qconfig = QConfig(default_dynamic_fake_quant, default_weight_fake_quant)


def _check(name: str, backend: str) -> None:
    if backend not in _BACKENDS:
        raise ArgumentError(
            f"{name}: backend {backend!r} is unknown; there are {', '.join(_BACKENDS)}"
        )


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """The observers of a backend for calibration. Raises ArgumentError for unknown backends."""
    _check("get_default_qconfig", backend)
    reduced = backend in ("fbgemm", "x86")
    weight = default_weight_observer if backend == "qnnpack" else None
    return QConfig(
        HistogramObserver.with_args(reduce_range=reduced),
        weight or default_per_channel_weight_observer,
    )


def get_default_qat_qconfig(backend: str = "x86", version: int = 1) -> QConfig:
    """The observers of a backend for training. Raises ArgumentError for unknown backends."""
    _check("get_default_qat_qconfig", backend)
    more = {} if backend == "onednn" else {"reduce_range": backend != "qnnpack"}
    activation = FusedMovingAvgObsFakeQuantize.with_args(
        observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, **more
    )
    weight = default_fused_wt_fake_quant if backend == "qnnpack" else None
    return QConfig(activation, weight or default_fused_per_channel_wt_fake_quant)


def qconfig_equals(q1: Any, q2: Any) -> bool:
    """Whether two QConfigs have the same observers."""
    return bool(q1 == q2)
