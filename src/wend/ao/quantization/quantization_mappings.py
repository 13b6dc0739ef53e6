"""Which module takes the place of which."""

from __future__ import annotations

from typing import Any

from wend.ao.nn import qat, quantized
from wend.ao.nn.intrinsic import fused
from wend.ao.nn.intrinsic import quantized as fused_quantized
from wend.ao.nn.qat import modules as trained
from wend.ao.nn.quantized import dynamic
from wend.ao.quantization.stubs import DeQuantStub, QuantStub
from wend.nn import modules
from wend.nn.modules.linear import NonDynamicallyQuantizableLinear

__all__ = [
    "DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS",
    "DEFAULT_QAT_MODULE_MAPPINGS",
    "DEFAULT_STATIC_QUANT_MODULE_MAPPINGS",
    "get_default_dynamic_quant_module_mappings",
    "get_default_qat_module_mappings",
    "get_default_qconfig_propagation_list",
    "get_default_static_quant_module_mappings",
]

DEFAULT_STATIC_QUANT_MODULE_MAPPINGS: dict[Any, Any] = {
    QuantStub: quantized.Quantize,
    DeQuantStub: quantized.DeQuantize,
    modules.Conv1d: quantized.Conv1d,
    modules.Conv2d: quantized.Conv2d,
    modules.Linear: quantized.Linear,
    modules.BatchNorm2d: quantized.BatchNorm2d,
    modules.Dropout: quantized.Dropout,
    modules.ELU: quantized.ELU,
    modules.GroupNorm: quantized.GroupNorm,
    modules.Hardswish: quantized.Hardswish,
    modules.LayerNorm: quantized.LayerNorm,
    modules.LeakyReLU: quantized.LeakyReLU,
    modules.ReLU6: quantized.ReLU6,
    modules.Sigmoid: quantized.Sigmoid,
    quantized.FloatFunctional: quantized.QFunctional,
    fused.ConvReLU1d: fused_quantized.ConvReLU1d,
    fused.ConvReLU2d: fused_quantized.ConvReLU2d,
    fused.LinearReLU: fused_quantized.LinearReLU,
    qat.Linear: quantized.Linear,
    qat.Conv1d: quantized.Conv1d,
    qat.Conv2d: quantized.Conv2d,
    trained.LinearReLU: fused_quantized.LinearReLU,
    trained.ConvBn2d: quantized.Conv2d,
    trained.ConvReLU2d: fused_quantized.ConvReLU2d,
    trained.ConvBnReLU2d: fused_quantized.ConvReLU2d,
}
DEFAULT_QAT_MODULE_MAPPINGS: dict[Any, Any] = {
    modules.Conv1d: qat.Conv1d,
    modules.Conv2d: qat.Conv2d,
    modules.Linear: qat.Linear,
    fused.LinearReLU: trained.LinearReLU,
    fused.ConvReLU2d: trained.ConvReLU2d,
    fused.ConvBn2d: trained.ConvBn2d,
    fused.ConvBnReLU2d: trained.ConvBnReLU2d,
}
DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS: dict[Any, Any] = {
    modules.Linear: dynamic.Linear,
    NonDynamicallyQuantizableLinear: dynamic.Linear,
    modules.LSTM: dynamic.LSTM,
    modules.GRU: dynamic.GRU,
    modules.LSTMCell: dynamic.LSTMCell,
    modules.GRUCell: dynamic.GRUCell,
    modules.RNNCell: dynamic.RNNCell,
    fused.LinearReLU: fused_quantized.DynamicLinearReLU,
}


def get_default_static_quant_module_mappings() -> dict[Any, Any]:
    """Quantised modules by float modules, for `convert`."""
    return dict(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_default_qat_module_mappings() -> dict[Any, Any]:
    """Modules to be trained, by float modules, for `prepare_qat`."""
    return dict(DEFAULT_QAT_MODULE_MAPPINGS)


def get_default_dynamic_quant_module_mappings() -> dict[Any, Any]:
    """Quantised modules by float modules, for `quantize_dynamic`."""
    return dict(DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS)


def get_default_qconfig_propagation_list() -> set[Any]:
    """The modules that get a qconfig from the modules around them."""
    return {
        *DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
        *DEFAULT_QAT_MODULE_MAPPINGS,
        *DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
        modules.Sequential,
    }
