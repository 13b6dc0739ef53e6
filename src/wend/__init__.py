"""Wend: deep learning with graphs that are built by running the program.

    import wend as torch

The names are PyTorch's; see docs/compatibility.md for where the two differ on purpose.
"""

from __future__ import annotations

import importlib
import sys as _sys
from typing import Any

from wend.version import __version__
from wend._engine.base import devices as _devices
from wend._engine.base import former_names as _former_names
from wend._engine.base.devices import device
from wend._engine.base.dtypes import ABSENT, ALIASES, NAMES, finfo, iinfo
from wend._engine.base.dtypes import DType as dtype
from wend._engine.base.shapes import Size
from wend._engine.core._modules import PublicModule as _PublicModule
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import PUBLIC as _PUBLIC
from wend._engine import ops as _ops
from wend._engine.runtime import flush as _plans
from wend._frontend.aliasing import rebinding as _aliasing
from wend._frontend import tensor as _tensor
from wend._frontend import layout as _layout
from wend._frontend.interop import exchange as _interop
from wend._frontend import methods as _methods
from wend._frontend.formats import *
from wend._frontend.interop.exchange import from_dlpack
from wend._frontend.printing import set_printoptions, get_printoptions
from wend._frontend.creation import *
from wend._frontend.typed import *
from wend._frontend.methods import allclose, equal, is_nonzero, is_same_size, positive, typename
from wend._frontend.public.functions import *
from wend._frontend.public.complexes import *
from wend._frontend.random import *
from wend._frontend.api import *
from wend._frontend import formats as _formats
from wend._frontend.public.checks import *
from wend._frontend import linalg as _linalg
from wend._frontend.qschemes import *
from wend._frontend.public.spectrograms import istft, stft
from wend._frontend import overrides as _overrides
from wend._frontend.rare.streams import Event, Stream
from wend._frontend.storage import TypedStorage, UntypedStorage
from wend._frontend.autograd.backward import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)

for _name, _dtype in {**NAMES, **ALIASES, **ABSENT}.items():
    globals()[_name] = _dtype
for _name, _function in _PUBLIC.items():
    globals().setdefault(_name, _function)

_AUTOCAST = (
    "autocast is_autocast_enabled set_autocast_enabled get_autocast_dtype set_autocast_dtype "
    "is_autocast_cache_enabled set_autocast_cache_enabled clear_autocast_cache "
    "autocast_increment_nesting autocast_decrement_nesting is_autocast_cpu_enabled "
    "set_autocast_cpu_enabled get_autocast_cpu_dtype set_autocast_cpu_dtype "
    "get_autocast_gpu_dtype set_autocast_gpu_dtype is_autocast_ipu_enabled "
    "set_autocast_ipu_enabled get_autocast_ipu_dtype set_autocast_ipu_dtype "
    "is_autocast_xla_enabled set_autocast_xla_enabled get_autocast_xla_dtype "
    "set_autocast_xla_dtype"
).split()

_WINDOWS = "bartlett_window blackman_window hamming_window hann_window kaiser_window".split()
_AS_SCHEMAS = (
    "adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout alpha_dropout_ avg_pool1d batch_norm "
    "binary_cross_entropy_with_logits celu_ conv_tbc cosine_embedding_loss ctc_loss dropout_ "
    "embedding_bag "
    "feature_alpha_dropout feature_alpha_dropout_ feature_dropout feature_dropout_ "
    "hinge_embedding_loss instance_norm kl_div margin_ranking_loss norm_except_dim pdist "
    "poisson_nll_loss rrelu rrelu_ selu_ threshold_ triplet_margin_loss"
).split()
_SWITCHES = (
    "get_deterministic_debug_mode is_deterministic_algorithms_warn_only_enabled "
    "is_warn_always_enabled set_deterministic_debug_mode set_flush_denormal set_warn_always"
).split()
_STORAGES = (
    "BoolStorage ByteStorage CharStorage DoubleStorage FloatStorage IntStorage LongStorage "
    "ShortStorage HalfStorage BFloat16Storage"
).split()
_FOREACH_PAIRS = (  # each with a twin that writes to its operands
    "abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp "
    "expm1 floor frac lerp lgamma log log10 log1p log2 maximum minimum mul neg pow reciprocal "
    "round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc"
).split()
_FOREACH = [
    *(f"_foreach_{name}{end}" for name in _FOREACH_PAIRS for end in ("", "_")),
    *(f"_foreach_{name}" for name in "clone copy_ max mm norm powsum zero_".split()),
]

_QUANTIZED = (
    "dequantize fake_quantize_per_channel_affine fake_quantize_per_tensor_affine int_repr "
    "q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point "
    "quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic"
).split()

#: Names that load with their module, when first used.
_ELSEWHERE = {
    **dict.fromkeys(_QUANTIZED, "wend._frontend.quantized.functions"),
    **dict.fromkeys(_AS_SCHEMAS, "wend.nn.functional._as_schemas"),
    **dict.fromkeys(_FOREACH, "wend._frontend.rare.foreach"),
    **dict.fromkeys(_SWITCHES, "wend._frontend.rare.switches"),
    **dict.fromkeys(_STORAGES, "wend._frontend.rare.typed_storage"),
    "AcceleratorError": "wend._frontend.platform",
    "OutOfMemoryError": "wend._frontend.platform",
    "get_device_module": "wend._frontend.platform",
    "DisableTorchFunctionSubclass": "wend._frontend.methods",
    **dict.fromkeys(("SymBool", "SymFloat", "SymInt"), "wend._frontend.rare.symbols"),
    "from_file": "wend._frontend.rare.files",
    "Future": "wend.futures",
    "GradScaler": "wend.amp.grad_scaler",
    **dict.fromkeys(("gru", "lstm", "rnn_relu", "rnn_tanh"), "wend.nn._base.flat_weights"),
    "compile": "wend._dynamo",
    "cond": "wend._higher_order_ops.cond",
    "while_loop": "wend._higher_order_ops.while_loop",
    **dict.fromkeys(_AUTOCAST, "wend.amp.autocast_mode"),
    "load": "wend.serialization",
    "save": "wend.serialization",
    "session": "wend.export",
    "load_session": "wend.export",
    "vmap": "wend.func",
    "autobatch": "wend._frontend.batching.batched",
    "batched": "wend._frontend.batching.batched",
    "load_ipython_extension": "wend._tools.notebook",
    "unload_ipython_extension": "wend._tools.notebook",
    "summary": "wend.debug",
    "set_anomaly_enabled": "wend.autograd",
    "is_anomaly_enabled": "wend.autograd",
    "is_anomaly_check_nan_enabled": "wend.autograd",
    "TorchVersion": "wend.torch_version",
    **dict.fromkeys(_WINDOWS, "wend.signal.former"),
    **dict.fromkeys(("spmm", "dsmm", "hsmm"), "wend.sparse"),
    **dict.fromkeys(("hspmm", "saddmm", "smm", "sspaddmm"), "wend.sparse.products"),
    **{
        f"sparse_{kind}_tensor": "wend.sparse.creation"
        for kind in ("coo", "csr", "csc", "bsr", "bsc", "compressed")
    },
    "PyTorchFileReader": "wend._C",
    "ScriptModule": "wend.jit",
    "ScriptFunction": "wend.jit",
}

#: Submodules that load when first used.
_LAZY = frozenset(
    "signal nn optim utils autograd func nested export jit onnx linalg fft cuda cpu backends "
    "random special masked testing distributed distributions multiprocessing amp serialization "
    "types version errors overrides hub sparse accelerator mps mtia xpu return_types debug aot fx "
    "_dynamo _inductor compiler _higher_order_ops ao _C __config__ _custom_ops _tensor_str futures "
    "library ops package profiler quantization quasirandom storage torch_version _utils functional "
    "xp".split()
)


def __getattr__(name: str) -> Any:
    if name == "torch":  # PyTorch's package knows itself by that name
        return _sys.modules[__name__]
    if name in _ELSEWHERE:
        attribute = getattr(importlib.import_module(_ELSEWHERE[name]), name)
        globals()[name] = attribute
        return attribute
    if name in _LAZY:
        try:
            return importlib.import_module(f"wend.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"wend.{name}":
                raise
    raise AttributeError(f"module 'wend' has no attribute {name!r}")


_sys.modules[__name__].__class__ = _PublicModule
_sys.meta_path.insert(0, _former_names.FormerNames())


_formats.Float8Package.load = lambda: importlib.import_module("wend._frontend.float8")
_formats.SparsePackage.load = lambda: importlib.import_module("wend.sparse")
_devices.MetaPackage.load = lambda: importlib.import_module("wend._frontend.meta")
