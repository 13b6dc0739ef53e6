"""torch.autograd: gradients, and tools to work with the graph."""

from wend._engine.base.lazy_modules import load_when_named
from wend._frontend.autograd.backward import backward, grad
from wend._frontend.autograd.grad_modes import (
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_anomaly_enabled,
)
from wend.autograd import forward_ad, functional, grad_mode, graph, profiler
from wend.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from wend.autograd.function import Function, NestedIOFunction
from wend.autograd.grad_mode import (
    enable_grad,
    enforce_grad_layout_policy,
    inference_mode,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from wend.autograd.gradcheck import gradcheck, gradgradcheck
from wend.autograd.variable import Variable

__all__ = [
    "Function",
    "NestedIOFunction",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "enforce_grad_layout_policy",
    "forward_ad",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "no_grad",
    "profiler",
    "set_anomaly_enabled",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

load_when_named(__name__, "profiler_util")
