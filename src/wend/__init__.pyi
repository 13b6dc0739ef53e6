# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"

import builtins as _builtins
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType, ModuleType
from typing import Any, Literal, NamedTuple, ParamSpec, Protocol, SupportsIndex, TypeAlias, TypeVar
from typing import overload

from wend import _C as _C
from wend import __config__ as __config__
from wend import _custom_ops as _custom_ops
from wend import _dynamo as _dynamo
from wend import _higher_order_ops as _higher_order_ops
from wend import _inductor as _inductor
from wend import _tensor_str as _tensor_str
from wend import _utils as _utils
from wend import accelerator as accelerator
from wend import amp as amp
from wend import ao as ao
from wend import aot as aot
from wend import autograd as autograd
from wend import backends as backends
from wend import compiler as compiler
from wend import cpu as cpu
from wend import cuda as cuda
from wend import debug as debug
from wend import distributed as distributed
from wend import distributions as distributions
from wend import errors as errors
from wend import export as export
from wend import fft as fft
from wend import func as func
from wend import functional as functional
from wend import futures as futures
from wend import fx as fx
from wend import hub as hub
from wend import jit as jit
from wend import library as library
from wend import linalg as linalg
from wend import masked as masked
from wend import mps as mps
from wend import mtia as mtia
from wend import multiprocessing as multiprocessing
from wend import nested as nested
from wend import nn as nn
from wend import onnx as onnx
from wend import ops as ops
from wend import optim as optim
from wend import overrides as overrides
from wend import package as package
from wend import profiler as profiler
from wend import quasirandom as quasirandom
from wend import random as random
from wend import return_types as return_types
from wend import serialization as serialization
from wend import signal as signal
from wend import sparse as sparse
from wend import special as special
from wend import storage as storage
from wend import testing as testing
from wend import torch_version as torch_version
from wend import types as types
from wend import utils as utils
from wend import version as version
from wend import xp as xp
from wend import xpu as xpu
from wend._C import PyTorchFileReader as PyTorchFileReader
from wend._dynamo import compile as compile
from wend._engine.base.devices import device as device
from wend._engine.base.dtypes import ABSENT as ABSENT
from wend._engine.base.dtypes import ALIASES as ALIASES
from wend._engine.base.dtypes import NAMES as NAMES
from wend._engine.base.dtypes import finfo as finfo
from wend._engine.base.dtypes import iinfo as iinfo
from wend._engine.base.shapes import Size as Size
from wend._engine.core._hot import Tensor as Tensor
from wend._frontend.api import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
from wend._frontend.api import can_cast as can_cast
from wend._frontend.api import eager as eager
from wend._frontend.api import get_default_device as get_default_device
from wend._frontend.api import get_default_dtype as get_default_dtype
from wend._frontend.api import get_memory_budget as get_memory_budget
from wend._frontend.api import get_num_threads as get_num_threads
from wend._frontend.api import is_complex as is_complex
from wend._frontend.api import is_floating_point as is_floating_point
from wend._frontend.api import is_storage as is_storage
from wend._frontend.api import is_tensor as is_tensor
from wend._frontend.api import numel as numel
from wend._frontend.api import promote_types as promote_types
from wend._frontend.api import result_type as result_type
from wend._frontend.api import set_default_device as set_default_device
from wend._frontend.api import set_default_dtype as set_default_dtype
from wend._frontend.api import set_default_tensor_type as set_default_tensor_type
from wend._frontend.api import set_memory_budget as set_memory_budget
from wend._frontend.api import set_num_threads as set_num_threads
from wend._frontend.api import synchronize as synchronize
from wend._frontend.api import use_deterministic_algorithms as use_deterministic_algorithms
from wend._frontend.autograd.backward import enable_grad as enable_grad
from wend._frontend.autograd.backward import inference_mode as inference_mode
from wend._frontend.autograd.backward import is_grad_enabled as is_grad_enabled
from wend._frontend.autograd.backward import is_inference_mode_enabled as is_inference_mode_enabled
from wend._frontend.autograd.backward import no_grad as no_grad
from wend._frontend.autograd.backward import set_grad_enabled as set_grad_enabled
from wend._frontend.batching.batched import autobatch as autobatch
from wend._frontend.batching.batched import batched as batched
from wend._frontend.creation import as_tensor as as_tensor
from wend._frontend.creation import asarray as asarray
from wend._frontend.creation import from_numpy as from_numpy
from wend._frontend.creation import frombuffer as frombuffer
from wend._frontend.creation import scalar_tensor as scalar_tensor
from wend._frontend.creation import tensor as tensor
from wend._frontend.devices.streams import Event as Event
from wend._frontend.devices.streams import Stream as Stream
from wend._frontend.formats import channels_last as channels_last
from wend._frontend.formats import channels_last_3d as channels_last_3d
from wend._frontend.formats import check_layout as check_layout
from wend._frontend.formats import contiguous_format as contiguous_format
from wend._frontend.formats import is_sparse_layout as is_sparse_layout
from wend._frontend.formats import jagged as jagged
from wend._frontend.formats import layout as layout
from wend._frontend.formats import memory_format as memory_format
from wend._frontend.formats import preserve_format as preserve_format
from wend._frontend.formats import sparse_bsc as sparse_bsc
from wend._frontend.formats import sparse_bsr as sparse_bsr
from wend._frontend.formats import sparse_coo as sparse_coo
from wend._frontend.formats import sparse_csc as sparse_csc
from wend._frontend.formats import sparse_csr as sparse_csr
from wend._frontend.formats import strided as strided
from wend._frontend.interop.exchange import from_dlpack as from_dlpack
from wend._frontend.methods import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
from wend._frontend.methods import allclose as allclose
from wend._frontend.methods import equal as equal
from wend._frontend.methods import is_nonzero as is_nonzero
from wend._frontend.methods import is_same_size as is_same_size
from wend._frontend.methods import positive as positive
from wend._frontend.methods import typename as typename
from wend._frontend.platform import AcceleratorError as AcceleratorError
from wend._frontend.platform import OutOfMemoryError as OutOfMemoryError
from wend._frontend.platform import get_device_module as get_device_module
from wend._frontend.printing import get_printoptions as get_printoptions
from wend._frontend.printing import set_printoptions as set_printoptions
from wend._frontend.public.checks import _assert as _assert
from wend._frontend.public.checks import _assert_async as _assert_async
from wend._frontend.public.checks import _check as _check
from wend._frontend.public.checks import _check_index as _check_index
from wend._frontend.public.checks import _check_is_size as _check_is_size
from wend._frontend.public.checks import _check_not_implemented as _check_not_implemented
from wend._frontend.public.checks import _check_tensor_all as _check_tensor_all
from wend._frontend.public.checks import _check_tensor_all_with as _check_tensor_all_with
from wend._frontend.public.checks import _check_type as _check_type
from wend._frontend.public.checks import _check_value as _check_value
from wend._frontend.public.checks import _check_with as _check_with
from wend._frontend.public.complexes import adjoint as adjoint
from wend._frontend.public.complexes import conj as conj
from wend._frontend.public.complexes import imag as imag
from wend._frontend.public.complexes import real as real
from wend._frontend.public.complexes import view_as_complex as view_as_complex
from wend._frontend.public.functions import as_strided_ as as_strided_
from wend._frontend.public.functions import detach_ as detach_
from wend._frontend.public.functions import e as e
from wend._frontend.public.functions import fill as fill
from wend._frontend.public.functions import fill_ as fill_
from wend._frontend.public.functions import get_device as get_device
from wend._frontend.public.functions import get_float32_matmul_precision as get_float32_matmul_precision
from wend._frontend.public.functions import get_num_interop_threads as get_num_interop_threads
from wend._frontend.public.functions import index_put_ as index_put_
from wend._frontend.public.functions import inf as inf
from wend._frontend.public.functions import is_conj as is_conj
from wend._frontend.public.functions import is_distributed as is_distributed
from wend._frontend.public.functions import is_inference as is_inference
from wend._frontend.public.functions import is_neg as is_neg
from wend._frontend.public.functions import is_signed as is_signed
from wend._frontend.public.functions import nan as nan
from wend._frontend.public.functions import newaxis as newaxis
from wend._frontend.public.functions import pi as pi
from wend._frontend.public.functions import resize_as_ as resize_as_
from wend._frontend.public.functions import resize_as_sparse_ as resize_as_sparse_
from wend._frontend.public.functions import resolve_conj as resolve_conj
from wend._frontend.public.functions import resolve_neg as resolve_neg
from wend._frontend.public.functions import set_float32_matmul_precision as set_float32_matmul_precision
from wend._frontend.public.functions import set_num_interop_threads as set_num_interop_threads
from wend._frontend.public.functions import zero_ as zero_
from wend._frontend.public.spectrograms import istft as istft
from wend._frontend.public.spectrograms import stft as stft
from wend._frontend.qschemes import per_channel_affine as per_channel_affine
from wend._frontend.qschemes import per_channel_affine_float_qparams as per_channel_affine_float_qparams
from wend._frontend.qschemes import per_channel_symmetric as per_channel_symmetric
from wend._frontend.qschemes import per_tensor_affine as per_tensor_affine
from wend._frontend.qschemes import per_tensor_symmetric as per_tensor_symmetric
from wend._frontend.quantized.functions import dequantize as dequantize
from wend._frontend.quantized.functions import fake_quantize_per_channel_affine as fake_quantize_per_channel_affine
from wend._frontend.quantized.functions import fake_quantize_per_tensor_affine as fake_quantize_per_tensor_affine
from wend._frontend.quantized.functions import int_repr as int_repr
from wend._frontend.quantized.functions import q_per_channel_axis as q_per_channel_axis
from wend._frontend.quantized.functions import q_per_channel_scales as q_per_channel_scales
from wend._frontend.quantized.functions import q_per_channel_zero_points as q_per_channel_zero_points
from wend._frontend.quantized.functions import q_scale as q_scale
from wend._frontend.quantized.functions import q_zero_point as q_zero_point
from wend._frontend.quantized.functions import quantize_per_channel as quantize_per_channel
from wend._frontend.quantized.functions import quantize_per_tensor as quantize_per_tensor
from wend._frontend.quantized.functions import quantize_per_tensor_dynamic as quantize_per_tensor_dynamic
from wend._frontend.random import Generator as Generator
from wend._frontend.random import _dirichlet_grad as _dirichlet_grad
from wend._frontend.random import _sample_dirichlet as _sample_dirichlet
from wend._frontend.random import _standard_gamma as _standard_gamma
from wend._frontend.random import _standard_gamma_grad as _standard_gamma_grad
from wend._frontend.random import bernoulli as bernoulli
from wend._frontend.random import binomial as binomial
from wend._frontend.random import default_generator as default_generator
from wend._frontend.random import fork_rng as fork_rng
from wend._frontend.random import get_rng_state as get_rng_state
from wend._frontend.random import initial_seed as initial_seed
from wend._frontend.random import manual_seed as manual_seed
from wend._frontend.random import multinomial as multinomial
from wend._frontend.random import poisson as poisson
from wend._frontend.random import seed as seed
from wend._frontend.random import set_rng_state as set_rng_state
from wend._frontend.rare.files import from_file as from_file
from wend._frontend.rare.foreach import _foreach_abs as _foreach_abs
from wend._frontend.rare.foreach import _foreach_abs_ as _foreach_abs_
from wend._frontend.rare.foreach import _foreach_acos as _foreach_acos
from wend._frontend.rare.foreach import _foreach_acos_ as _foreach_acos_
from wend._frontend.rare.foreach import _foreach_add as _foreach_add
from wend._frontend.rare.foreach import _foreach_add_ as _foreach_add_
from wend._frontend.rare.foreach import _foreach_addcdiv as _foreach_addcdiv
from wend._frontend.rare.foreach import _foreach_addcdiv_ as _foreach_addcdiv_
from wend._frontend.rare.foreach import _foreach_addcmul as _foreach_addcmul
from wend._frontend.rare.foreach import _foreach_addcmul_ as _foreach_addcmul_
from wend._frontend.rare.foreach import _foreach_asin as _foreach_asin
from wend._frontend.rare.foreach import _foreach_asin_ as _foreach_asin_
from wend._frontend.rare.foreach import _foreach_atan as _foreach_atan
from wend._frontend.rare.foreach import _foreach_atan_ as _foreach_atan_
from wend._frontend.rare.foreach import _foreach_ceil as _foreach_ceil
from wend._frontend.rare.foreach import _foreach_ceil_ as _foreach_ceil_
from wend._frontend.rare.foreach import _foreach_clamp_max as _foreach_clamp_max
from wend._frontend.rare.foreach import _foreach_clamp_max_ as _foreach_clamp_max_
from wend._frontend.rare.foreach import _foreach_clamp_min as _foreach_clamp_min
from wend._frontend.rare.foreach import _foreach_clamp_min_ as _foreach_clamp_min_
from wend._frontend.rare.foreach import _foreach_clone as _foreach_clone
from wend._frontend.rare.foreach import _foreach_copy_ as _foreach_copy_
from wend._frontend.rare.foreach import _foreach_cos as _foreach_cos
from wend._frontend.rare.foreach import _foreach_cos_ as _foreach_cos_
from wend._frontend.rare.foreach import _foreach_cosh as _foreach_cosh
from wend._frontend.rare.foreach import _foreach_cosh_ as _foreach_cosh_
from wend._frontend.rare.foreach import _foreach_div as _foreach_div
from wend._frontend.rare.foreach import _foreach_div_ as _foreach_div_
from wend._frontend.rare.foreach import _foreach_erf as _foreach_erf
from wend._frontend.rare.foreach import _foreach_erf_ as _foreach_erf_
from wend._frontend.rare.foreach import _foreach_erfc as _foreach_erfc
from wend._frontend.rare.foreach import _foreach_erfc_ as _foreach_erfc_
from wend._frontend.rare.foreach import _foreach_exp as _foreach_exp
from wend._frontend.rare.foreach import _foreach_exp_ as _foreach_exp_
from wend._frontend.rare.foreach import _foreach_expm1 as _foreach_expm1
from wend._frontend.rare.foreach import _foreach_expm1_ as _foreach_expm1_
from wend._frontend.rare.foreach import _foreach_floor as _foreach_floor
from wend._frontend.rare.foreach import _foreach_floor_ as _foreach_floor_
from wend._frontend.rare.foreach import _foreach_frac as _foreach_frac
from wend._frontend.rare.foreach import _foreach_frac_ as _foreach_frac_
from wend._frontend.rare.foreach import _foreach_lerp as _foreach_lerp
from wend._frontend.rare.foreach import _foreach_lerp_ as _foreach_lerp_
from wend._frontend.rare.foreach import _foreach_lgamma as _foreach_lgamma
from wend._frontend.rare.foreach import _foreach_lgamma_ as _foreach_lgamma_
from wend._frontend.rare.foreach import _foreach_log as _foreach_log
from wend._frontend.rare.foreach import _foreach_log10 as _foreach_log10
from wend._frontend.rare.foreach import _foreach_log10_ as _foreach_log10_
from wend._frontend.rare.foreach import _foreach_log1p as _foreach_log1p
from wend._frontend.rare.foreach import _foreach_log1p_ as _foreach_log1p_
from wend._frontend.rare.foreach import _foreach_log2 as _foreach_log2
from wend._frontend.rare.foreach import _foreach_log2_ as _foreach_log2_
from wend._frontend.rare.foreach import _foreach_log_ as _foreach_log_
from wend._frontend.rare.foreach import _foreach_max as _foreach_max
from wend._frontend.rare.foreach import _foreach_maximum as _foreach_maximum
from wend._frontend.rare.foreach import _foreach_maximum_ as _foreach_maximum_
from wend._frontend.rare.foreach import _foreach_minimum as _foreach_minimum
from wend._frontend.rare.foreach import _foreach_minimum_ as _foreach_minimum_
from wend._frontend.rare.foreach import _foreach_mm as _foreach_mm
from wend._frontend.rare.foreach import _foreach_mul as _foreach_mul
from wend._frontend.rare.foreach import _foreach_mul_ as _foreach_mul_
from wend._frontend.rare.foreach import _foreach_neg as _foreach_neg
from wend._frontend.rare.foreach import _foreach_neg_ as _foreach_neg_
from wend._frontend.rare.foreach import _foreach_norm as _foreach_norm
from wend._frontend.rare.foreach import _foreach_pow as _foreach_pow
from wend._frontend.rare.foreach import _foreach_pow_ as _foreach_pow_
from wend._frontend.rare.foreach import _foreach_powsum as _foreach_powsum
from wend._frontend.rare.foreach import _foreach_reciprocal as _foreach_reciprocal
from wend._frontend.rare.foreach import _foreach_reciprocal_ as _foreach_reciprocal_
from wend._frontend.rare.foreach import _foreach_round as _foreach_round
from wend._frontend.rare.foreach import _foreach_round_ as _foreach_round_
from wend._frontend.rare.foreach import _foreach_rsqrt as _foreach_rsqrt
from wend._frontend.rare.foreach import _foreach_rsqrt_ as _foreach_rsqrt_
from wend._frontend.rare.foreach import _foreach_sigmoid as _foreach_sigmoid
from wend._frontend.rare.foreach import _foreach_sigmoid_ as _foreach_sigmoid_
from wend._frontend.rare.foreach import _foreach_sign as _foreach_sign
from wend._frontend.rare.foreach import _foreach_sign_ as _foreach_sign_
from wend._frontend.rare.foreach import _foreach_sin as _foreach_sin
from wend._frontend.rare.foreach import _foreach_sin_ as _foreach_sin_
from wend._frontend.rare.foreach import _foreach_sinh as _foreach_sinh
from wend._frontend.rare.foreach import _foreach_sinh_ as _foreach_sinh_
from wend._frontend.rare.foreach import _foreach_sqrt as _foreach_sqrt
from wend._frontend.rare.foreach import _foreach_sqrt_ as _foreach_sqrt_
from wend._frontend.rare.foreach import _foreach_sub as _foreach_sub
from wend._frontend.rare.foreach import _foreach_sub_ as _foreach_sub_
from wend._frontend.rare.foreach import _foreach_tan as _foreach_tan
from wend._frontend.rare.foreach import _foreach_tan_ as _foreach_tan_
from wend._frontend.rare.foreach import _foreach_tanh as _foreach_tanh
from wend._frontend.rare.foreach import _foreach_tanh_ as _foreach_tanh_
from wend._frontend.rare.foreach import _foreach_trunc as _foreach_trunc
from wend._frontend.rare.foreach import _foreach_trunc_ as _foreach_trunc_
from wend._frontend.rare.foreach import _foreach_zero_ as _foreach_zero_
from wend._frontend.rare.switches import get_deterministic_debug_mode as get_deterministic_debug_mode
from wend._frontend.rare.switches import is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled
from wend._frontend.rare.switches import is_warn_always_enabled as is_warn_always_enabled
from wend._frontend.rare.switches import set_deterministic_debug_mode as set_deterministic_debug_mode
from wend._frontend.rare.switches import set_flush_denormal as set_flush_denormal
from wend._frontend.rare.switches import set_warn_always as set_warn_always
from wend._frontend.rare.symbols import SymBool as SymBool
from wend._frontend.rare.symbols import SymFloat as SymFloat
from wend._frontend.rare.symbols import SymInt as SymInt
from wend._frontend.rare.typed_storage import BFloat16Storage as BFloat16Storage
from wend._frontend.rare.typed_storage import BoolStorage as BoolStorage
from wend._frontend.rare.typed_storage import ByteStorage as ByteStorage
from wend._frontend.rare.typed_storage import CharStorage as CharStorage
from wend._frontend.rare.typed_storage import DoubleStorage as DoubleStorage
from wend._frontend.rare.typed_storage import FloatStorage as FloatStorage
from wend._frontend.rare.typed_storage import HalfStorage as HalfStorage
from wend._frontend.rare.typed_storage import IntStorage as IntStorage
from wend._frontend.rare.typed_storage import LongStorage as LongStorage
from wend._frontend.rare.typed_storage import ShortStorage as ShortStorage
from wend._frontend.storage import TypedStorage as TypedStorage
from wend._frontend.storage import UntypedStorage as UntypedStorage
from wend._frontend.typed import BFloat16Tensor as BFloat16Tensor
from wend._frontend.typed import BoolTensor as BoolTensor
from wend._frontend.typed import ByteTensor as ByteTensor
from wend._frontend.typed import CharTensor as CharTensor
from wend._frontend.typed import DoubleTensor as DoubleTensor
from wend._frontend.typed import FloatTensor as FloatTensor
from wend._frontend.typed import HalfTensor as HalfTensor
from wend._frontend.typed import IntTensor as IntTensor
from wend._frontend.typed import LongTensor as LongTensor
from wend._frontend.typed import ShortTensor as ShortTensor
from wend._higher_order_ops.cond import cond as cond
from wend._higher_order_ops.while_loop import while_loop as while_loop
from wend._tools.notebook import load_ipython_extension as load_ipython_extension
from wend._tools.notebook import unload_ipython_extension as unload_ipython_extension
from wend.amp.autocast_mode import autocast as autocast
from wend.amp.autocast_mode import autocast_decrement_nesting as autocast_decrement_nesting
from wend.amp.autocast_mode import autocast_increment_nesting as autocast_increment_nesting
from wend.amp.autocast_mode import clear_autocast_cache as clear_autocast_cache
from wend.amp.autocast_mode import get_autocast_cpu_dtype as get_autocast_cpu_dtype
from wend.amp.autocast_mode import get_autocast_dtype as get_autocast_dtype
from wend.amp.autocast_mode import get_autocast_gpu_dtype as get_autocast_gpu_dtype
from wend.amp.autocast_mode import get_autocast_ipu_dtype as get_autocast_ipu_dtype
from wend.amp.autocast_mode import get_autocast_xla_dtype as get_autocast_xla_dtype
from wend.amp.autocast_mode import is_autocast_cache_enabled as is_autocast_cache_enabled
from wend.amp.autocast_mode import is_autocast_cpu_enabled as is_autocast_cpu_enabled
from wend.amp.autocast_mode import is_autocast_enabled as is_autocast_enabled
from wend.amp.autocast_mode import is_autocast_ipu_enabled as is_autocast_ipu_enabled
from wend.amp.autocast_mode import is_autocast_xla_enabled as is_autocast_xla_enabled
from wend.amp.autocast_mode import set_autocast_cache_enabled as set_autocast_cache_enabled
from wend.amp.autocast_mode import set_autocast_cpu_dtype as set_autocast_cpu_dtype
from wend.amp.autocast_mode import set_autocast_cpu_enabled as set_autocast_cpu_enabled
from wend.amp.autocast_mode import set_autocast_dtype as set_autocast_dtype
from wend.amp.autocast_mode import set_autocast_enabled as set_autocast_enabled
from wend.amp.autocast_mode import set_autocast_gpu_dtype as set_autocast_gpu_dtype
from wend.amp.autocast_mode import set_autocast_ipu_dtype as set_autocast_ipu_dtype
from wend.amp.autocast_mode import set_autocast_ipu_enabled as set_autocast_ipu_enabled
from wend.amp.autocast_mode import set_autocast_xla_dtype as set_autocast_xla_dtype
from wend.amp.autocast_mode import set_autocast_xla_enabled as set_autocast_xla_enabled
from wend.amp.grad_scaler import GradScaler as GradScaler
from wend.ao import quantization as quantization
from wend.autograd import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from wend.autograd import is_anomaly_enabled as is_anomaly_enabled
from wend.autograd import set_anomaly_enabled as set_anomaly_enabled
from wend.debug import summary as summary
from wend.export import load_session as load_session
from wend.export import session as session
from wend.func import vmap as vmap
from wend.futures import Future as Future
from wend.jit import ScriptFunction as ScriptFunction
from wend.jit import ScriptModule as ScriptModule
from wend.nn._base.flat_weights import gru as gru
from wend.nn._base.flat_weights import lstm as lstm
from wend.nn._base.flat_weights import rnn_relu as rnn_relu
from wend.nn._base.flat_weights import rnn_tanh as rnn_tanh
from wend.nn.functional._as_schemas import adaptive_avg_pool1d as adaptive_avg_pool1d
from wend.nn.functional._as_schemas import adaptive_max_pool1d as adaptive_max_pool1d
from wend.nn.functional._as_schemas import alpha_dropout as alpha_dropout
from wend.nn.functional._as_schemas import alpha_dropout_ as alpha_dropout_
from wend.nn.functional._as_schemas import avg_pool1d as avg_pool1d
from wend.nn.functional._as_schemas import batch_norm as batch_norm
from wend.nn.functional._as_schemas import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from wend.nn.functional._as_schemas import celu_ as celu_
from wend.nn.functional._as_schemas import conv_tbc as conv_tbc
from wend.nn.functional._as_schemas import cosine_embedding_loss as cosine_embedding_loss
from wend.nn.functional._as_schemas import ctc_loss as ctc_loss
from wend.nn.functional._as_schemas import dropout_ as dropout_
from wend.nn.functional._as_schemas import embedding_bag as embedding_bag
from wend.nn.functional._as_schemas import feature_alpha_dropout as feature_alpha_dropout
from wend.nn.functional._as_schemas import feature_alpha_dropout_ as feature_alpha_dropout_
from wend.nn.functional._as_schemas import feature_dropout as feature_dropout
from wend.nn.functional._as_schemas import feature_dropout_ as feature_dropout_
from wend.nn.functional._as_schemas import hinge_embedding_loss as hinge_embedding_loss
from wend.nn.functional._as_schemas import instance_norm as instance_norm
from wend.nn.functional._as_schemas import kl_div as kl_div
from wend.nn.functional._as_schemas import margin_ranking_loss as margin_ranking_loss
from wend.nn.functional._as_schemas import norm_except_dim as norm_except_dim
from wend.nn.functional._as_schemas import pdist as pdist
from wend.nn.functional._as_schemas import poisson_nll_loss as poisson_nll_loss
from wend.nn.functional._as_schemas import rrelu as rrelu
from wend.nn.functional._as_schemas import rrelu_ as rrelu_
from wend.nn.functional._as_schemas import selu_ as selu_
from wend.nn.functional._as_schemas import threshold_ as threshold_
from wend.nn.functional._as_schemas import triplet_margin_loss as triplet_margin_loss
from wend.serialization import load as load
from wend.serialization import save as save
from wend.signal.former import bartlett_window as bartlett_window
from wend.signal.former import blackman_window as blackman_window
from wend.signal.former import hamming_window as hamming_window
from wend.signal.former import hann_window as hann_window
from wend.signal.former import kaiser_window as kaiser_window
from wend.sparse import dsmm as dsmm
from wend.sparse import hsmm as hsmm
from wend.sparse import spmm as spmm
from wend.sparse.creation import sparse_bsc_tensor as sparse_bsc_tensor
from wend.sparse.creation import sparse_bsr_tensor as sparse_bsr_tensor
from wend.sparse.creation import sparse_compressed_tensor as sparse_compressed_tensor
from wend.sparse.creation import sparse_coo_tensor as sparse_coo_tensor
from wend.sparse.creation import sparse_csc_tensor as sparse_csc_tensor
from wend.sparse.creation import sparse_csr_tensor as sparse_csr_tensor
from wend.sparse.products import hspmm as hspmm
from wend.sparse.products import saddmm as saddmm
from wend.sparse.products import smm as smm
from wend.sparse.products import sspaddmm as sspaddmm
from wend.torch_version import TorchVersion as TorchVersion
from wend._engine.base.dtypes import DType as _DType
dtype = _DType
from wend._engine.base.devices import device as _device
from wend._engine.base.dtypes import DType
from wend._engine.base.shapes import Size as _Size

_bool: TypeAlias = _builtins.bool
_int: TypeAlias = _builtins.int
_float: TypeAlias = _builtins.float
_complex: TypeAlias = _builtins.complex
_str: TypeAlias = _builtins.str
_bytes: TypeAlias = _builtins.bytes
_dtype: TypeAlias = DType
_Number: TypeAlias = _builtins.bool | _builtins.int | _builtins.float | _builtins.complex

import numpy as _numpy
from wend._frontend.autograd.nodes import Node as _Node
from wend._frontend.linalg.named_results import CholeskyInfo as _CholeskyInfo
from wend._frontend.linalg.named_results import LuFactors as _LuFactors
from wend._frontend.linalg.named_results import LuFactorsInfo as _LuFactorsInfo
from wend._frontend.linalg.named_results import LuParts as _LuParts
from wend._frontend.linalg.named_results import LdlFactors as _LdlFactors
from wend._frontend.linalg.named_results import LdlFactorsInfo as _LdlFactorsInfo
from wend._frontend.linalg.named_results import QrParts as _QrParts
from wend._frontend.linalg.named_results import Eigensystem as _Eigensystem
from wend._frontend.linalg.named_results import SvdParts as _SvdParts
from wend._frontend.linalg.named_results import FormerSvdParts as _FormerSvdParts
from wend._frontend.linalg.named_results import SignAndLog as _SignAndLog
from wend._frontend.linalg.named_results import InverseInfo as _InverseInfo
from wend._frontend.linalg.named_results import SolveInfo as _SolveInfo
from wend._frontend.linalg.named_results import TriangularSolution as _TriangularSolution
from wend._frontend.linalg.named_results import LeastSquares as _LeastSquares
from wend._frontend.formats import layout as _layout, memory_format as _memory_format
from wend._frontend.random import Generator as _Generator
from wend._frontend.removable import RemovableHandle as _RemovableHandle
from wend._frontend.storage import TypedStorage as _TypedStorage
from wend._frontend.storage import UntypedStorage as _UntypedStorage

_Array: TypeAlias = _numpy.ndarray[Any, Any]
_Index: TypeAlias = (
    None | SupportsIndex | slice | EllipsisType | Tensor | _builtins.list[Any] | range
)

__version__: _str
bfloat16: _dtype
bool: _dtype
cdouble: _dtype
cfloat: _dtype
complex128: _dtype
complex32: _dtype
complex64: _dtype
double: _dtype
float: _dtype
float16: _dtype
float32: _dtype
float4_e2m1fn_x2: _dtype
float64: _dtype
float8_e4m3fn: _dtype
float8_e4m3fnuz: _dtype
float8_e5m2: _dtype
float8_e5m2fnuz: _dtype
float8_e8m0fnu: _dtype
half: _dtype
int: _dtype
int16: _dtype
int32: _dtype
int64: _dtype
int8: _dtype
long: _dtype
qint32: _dtype
qint8: _dtype
quint8: _dtype
short: _dtype
uint16: _dtype
uint32: _dtype
uint64: _dtype
uint8: _dtype

class _a_tau(NamedTuple):
    a: Tensor
    tau: Tensor

class _mantissa_exponent(NamedTuple):
    mantissa: Tensor
    exponent: Tensor

class _min_max(NamedTuple):
    min: Tensor
    max: Tensor

class _values_indices(NamedTuple):
    values: Tensor
    indices: Tensor

def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = |input|, a real number; gradient 0 at 0."""
def abs_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = |input|, a real number; gradient 0 at 0."""
def absolute(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = |input|, a real number; gradient 0 at 0."""
def absolute_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = |input|, a real number; gradient 0 at 0."""
def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = arccos(input), in radians; NaN outside [-1, 1]."""
def acos_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = arccos(input), in radians; NaN outside [-1, 1]."""
def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = arcosh(input); NaN below 1."""
def acosh_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = arcosh(input); NaN below 1."""
@overload
def add(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input + other; or, of bools."""
@overload
def add(input: Tensor | _Number, other: Tensor | _Number, *, alpha: Tensor | _Number, out: Tensor | None = None) -> Tensor:
    """y = input + other; or, of bools."""
@overload
def add(input: Tensor, alpha: Tensor | _Number, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input + other; or, of bools."""
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Tensor | _Number | None = None, alpha: Tensor | _Number | None = None, out: Tensor | None = None) -> Tensor:
    """y = beta * input + alpha * sum over b of batch1[b] @ batch2[b]."""
def addbmm_(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Tensor | _Number | None = None, alpha: Tensor | _Number | None = None, out: Tensor | None = None) -> Tensor:
    """y = beta * input + alpha * sum over b of batch1[b] @ batch2[b]."""
@overload
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Tensor | _Number = 1, out: Tensor | None = None) -> Tensor:
    """y = input + value * tensor1 / tensor2. Raises DTypeError for ints."""
@overload
def addcdiv(input: Tensor, value: Tensor | _Number, tensor1: Tensor, tensor2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input + value * tensor1 / tensor2. Raises DTypeError for ints."""
@overload
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Tensor | _Number = 1, out: Tensor | None = None) -> Tensor:
    """y = input + value * tensor1 * tensor2."""
@overload
def addcmul(input: Tensor, value: Tensor | _Number, tensor1: Tensor, tensor2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input + value * tensor1 * tensor2."""
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Tensor | _Number | None = None, alpha: Tensor | _Number | None = None, out: Tensor | None = None) -> Tensor:
    """y = beta * input + alpha * (mat1 @ mat2)."""
def addmm_(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Tensor | _Number | None = None, alpha: Tensor | _Number | None = None, out: Tensor | None = None) -> Tensor:
    """y = beta * input + alpha * (mat1 @ mat2)."""
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Tensor | _Number | None = None, alpha: Tensor | _Number | None = None, out: Tensor | None = None) -> Tensor:
    """y = beta * input + alpha * (mat @ vec)."""
def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Tensor | _Number | None = None, alpha: Tensor | _Number | None = None, out: Tensor | None = None) -> Tensor:
    """y = beta * input + alpha * (mat @ vec)."""
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Tensor | _Number | None = None, alpha: Tensor | _Number | None = None, out: Tensor | None = None) -> Tensor:
    """y[i, j] = beta * input[i, j] + alpha * vec1[i] * vec2[j]; of bool, `or` and `and`."""
def addr_(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Tensor | _Number | None = None, alpha: Tensor | _Number | None = None, out: Tensor | None = None) -> Tensor:
    """y[i, j] = beta * input[i, j] + alpha * vec1[i] * vec2[j]; of bool, `or` and `and`."""
def affine_grid_generator(theta: Tensor, size: Sequence[_int] | _int, align_corners: _bool, *, out: Tensor | None = None) -> Tensor:
    """The grid of an affine map of places in [-1, 1], for `grid_sampler`."""
def alias_copy(*args: Any, **kwargs: Any) -> Any:
    """As `alias`, in memory of its own."""
def all(input: Tensor, dim: Sequence[_int] | _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = whether all elements of x over `dim` are not 0."""
def amax(input: Tensor, dim: Sequence[_int] | _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = max of x over `dim`. Ties share the gradient evenly; NaN wins."""
def amin(input: Tensor, dim: Sequence[_int] | _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = min of x over `dim`. Ties share the gradient evenly; NaN wins."""
def aminmax(input: Tensor, *, dim: _int | None = None, keepdim: _bool = False) -> _min_max:
    """(min, max) of x along `dim`, or of all elements of x."""
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the angle of a complex number, in radians; pi where a real number is negative, else 0."""
def any(input: Tensor, dim: Sequence[_int] | _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = whether any element of x over `dim` is not 0."""
@overload
def arange(end: _float | Tensor, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, layout: _layout | None = None, requires_grad: _bool = False, pin_memory: _bool = False, out: Tensor | None = None) -> Tensor:
    """start, start + step, ... below end. `arange(end)` begins at 0."""
@overload
def arange(start: _float | Tensor, end: _float | Tensor, step: _float | Tensor = 1, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, layout: _layout | None = None, requires_grad: _bool = False, pin_memory: _bool = False, out: Tensor | None = None) -> Tensor:
    """start, start + step, ... below end. `arange(end)` begins at 0."""
def arccos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = arccos(input), in radians; NaN outside [-1, 1]."""
def arccos_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = arccos(input), in radians; NaN outside [-1, 1]."""
def arccosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = arcosh(input); NaN below 1."""
def arccosh_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = arcosh(input); NaN below 1."""
def arcsin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = arcsin(input), in radians; NaN outside [-1, 1]."""
def arcsin_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = arcsin(input), in radians; NaN outside [-1, 1]."""
def arcsinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = arsinh(input)."""
def arcsinh_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = arsinh(input)."""
def arctan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = arctan(input), in radians."""
def arctan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the angle of the point (other, input), in radians; gradient 0 at the origin."""
def arctan2_(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the angle of the point (other, input), in radians; gradient 0 at the origin."""
def arctan_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = arctan(input), in radians."""
def arctanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = artanh(input); NaN outside [-1, 1]."""
def arctanh_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = artanh(input); NaN outside [-1, 1]."""
def argmax(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = index of the first greatest element along `dim`, of the flat tensor for None."""
def argmin(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = index of the first least element along `dim`, of the flat tensor for None."""
def argsort(input: Tensor, dim: _int = -1, descending: _bool = False, stable: _bool | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = the indices that put the elements in order along `dim`; ties keep their order."""
def argwhere(input: Tensor) -> Tensor:
    """As `nonzero`."""
def as_strided(input: Tensor, size: Sequence[_int] | _int, stride: Sequence[_int] | _int, storage_offset: Any = None) -> Tensor:
    """A view of the memory that input lies in, with the given extents and steps between elements."""
def as_strided_copy(*args: Any, **kwargs: Any) -> Any:
    """As `as_strided`, in memory of its own."""
def as_strided_scatter(input: Tensor, src: Tensor, size: Sequence[_int] | _int, stride: Sequence[_int] | _int, storage_offset: _int | None = None) -> Tensor:
    """input, with the elements that as_strided would view replaced by src."""
def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = arcsin(input), in radians; NaN outside [-1, 1]."""
def asin_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = arcsin(input), in radians; NaN outside [-1, 1]."""
def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = arsinh(input)."""
def asinh_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = arsinh(input)."""
def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = arctan(input), in radians."""
def atan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the angle of the point (other, input), in radians; gradient 0 at the origin."""
def atan2_(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the angle of the point (other, input), in radians; gradient 0 at the origin."""
def atan_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = arctan(input), in radians."""
def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = artanh(input); NaN outside [-1, 1]."""
def atanh_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = artanh(input); NaN outside [-1, 1]."""
def atleast_1d(*tensors: Any) -> Any:
    """The tensors, 0-d tensors as views of 1 dim."""
def atleast_2d(*tensors: Any) -> Any:
    """The tensors, smaller tensors as views of 2 dims, with dims of extent 1 in front."""
def atleast_3d(*tensors: Any) -> Any:
    """The tensors, smaller tensors as views of 3 dims: (n,) as (1, n, 1), (n, m) as (n, m, 1)."""
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Tensor | _Number | None = None, alpha: Tensor | _Number | None = None, out: Tensor | None = None) -> Tensor:
    """y[b] = beta * input[b] + alpha * (batch1[b] @ batch2[b])."""
def baddbmm_(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Tensor | _Number | None = None, alpha: Tensor | _Number | None = None, out: Tensor | None = None) -> Tensor:
    """y[b] = beta * input[b] + alpha * (batch1[b] @ batch2[b])."""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """y[..., o] = sum over i, j of x1[..., i] * weight[o, i, j] * x2[..., j] + bias[o]."""
def bincount(input: Tensor, weights: Tensor | None = None, minlength: _int = 0) -> Tensor:
    """y[k] = how often k occurs in input, or the sum of the weights there."""
def bitwise_and(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input & other."""
def bitwise_and_(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input & other."""
def bitwise_left_shift(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input << other; 0 if other is not in [0, bits)."""
def bitwise_left_shift_(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input << other; 0 if other is not in [0, bits)."""
def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = ~input; logical not, of bools."""
def bitwise_not_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = ~input; logical not, of bools."""
def bitwise_or(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input | other."""
def bitwise_or_(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input | other."""
def bitwise_right_shift(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input >> other; only the sign is left (0 or -1) if other is not in [0, bits)."""
def bitwise_right_shift_(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input >> other; only the sign is left (0 or -1) if other is not in [0, bits)."""
def bitwise_xor(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input ^ other."""
def bitwise_xor_(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input ^ other."""
@overload
def block_diag(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """y = a matrix with the given matrices on the diagonal; vectors count as rows."""
@overload
def block_diag(*tensors: Tensor, out: Tensor | None = None) -> Tensor:
    """y = a matrix with the given matrices on the diagonal; vectors count as rows."""
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y[b] = x[b] @ w[b]. x: (b, n, m)   mat2: (b, m, p)   ->   (b, n, p)."""
def broadcast_shapes(*shapes: Any) -> _Size:
    """The shape that all of these (ints count as 1-d shapes) broadcast to. Raises ShapeError."""
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Views of the tensors, all expanded to the shape that the tensors broadcast to."""
@overload
def broadcast_to(input: Tensor, size: Sequence[_int] | _int, *, out: Tensor | None = None) -> Tensor:
    """y = x repeated, without a copy, along dims of extent 1 and along new leading dims."""
@overload
def broadcast_to(input: Tensor, *size: _int, out: Tensor | None = None) -> Tensor:
    """y = x repeated, without a copy, along dims of extent 1 and along new leading dims."""
def bucketize(input: Tensor | _Number, boundaries: Tensor, *, out_int32: _bool = False, right: _bool = False, out: Tensor | None = None) -> Tensor:
    """y = the number of boundaries below each element (right: not above the element)."""
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """(product of lengths, number of vectors): all tuples of an element of each, in order."""
def cat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """y = the tensors in a row along dim `dim`."""
def cdist(x1: Tensor, x2: Tensor, p: _float | _str | None = ..., compute_mode: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """y[..., i, j] = p-norm of x1[..., i, :] - x2[..., j, :]; the gradient at 0 is 0."""
def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the smallest integer that is not below input."""
def ceil_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the smallest integer that is not below input."""
def celu(input: Tensor, alpha: Tensor | _Number = ..., *, out: Tensor | None = None) -> Tensor:
    """y = x if x > 0 else alpha * (exp(x / alpha) - 1). Raises ValueRefused for an alpha of 0."""
@overload
def chain_matmul(matrices: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """y = the product of matrices, in the order that multiplies least; a single matrix gives"""
@overload
def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """y = the product of matrices, in the order that multiplies least; a single matrix gives"""
def channel_shuffle(input: Tensor, groups: _int, *, out: Tensor | None = None) -> Tensor:
    """y = x with channel (g, c) at (c, g): the channels of `groups` groups interleaved."""
def cholesky(input: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """linalg.cholesky."""
def cholesky_inverse(input: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """The inverse of A, of its Cholesky factor: L L^H = A, or with `upper` U^H U = A."""
def cholesky_solve(input: Tensor, input2: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """X such that A X = B, of the Cholesky factor of A: L L^H = A, or with `upper` U^H U = A."""
def chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """Views of at most `chunks` parts of equal size along `dim`; the last may be smaller."""
@overload
def clamp(input: Tensor, min: Tensor | None = None, max: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = min(max(input, min), max) for tensors; either bound may be None."""
@overload
def clamp(input: Tensor, min: Tensor, max: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = min(max(input, min), max) for tensors; either bound may be None."""
@overload
def clamp(input: Tensor, min: Tensor | _Number, max: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = min(max(input, min), max) for tensors; either bound may be None."""
@overload
def clamp(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = min(max(input, min), max) for tensors; either bound may be None."""
@overload
def clamp_(input: Tensor, min: Tensor | None = None, max: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = min(max(input, min), max) for tensors; either bound may be None."""
@overload
def clamp_(input: Tensor, min: Tensor, max: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = min(max(input, min), max) for tensors; either bound may be None."""
@overload
def clamp_(input: Tensor, min: Tensor | _Number, max: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = min(max(input, min), max) for tensors; either bound may be None."""
@overload
def clamp_(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = min(max(input, min), max) for tensors; either bound may be None."""
def clamp_max(input: Tensor, max: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = min(input, max)."""
def clamp_max_(input: Tensor, max: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = min(input, max)."""
def clamp_min(input: Tensor, min: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = max(input, min)."""
def clamp_min_(input: Tensor, min: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = max(input, min)."""
@overload
def clip(input: Tensor, min: Tensor | None = None, max: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = min(max(input, min), max) for tensors; either bound may be None."""
@overload
def clip(input: Tensor, min: Tensor, max: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = min(max(input, min), max) for tensors; either bound may be None."""
@overload
def clip(input: Tensor, min: Tensor | _Number, max: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = min(max(input, min), max) for tensors; either bound may be None."""
@overload
def clip(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = min(max(input, min), max) for tensors; either bound may be None."""
@overload
def clip_(input: Tensor, min: Tensor | None = None, max: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = min(max(input, min), max) for tensors; either bound may be None."""
@overload
def clip_(input: Tensor, min: Tensor, max: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = min(max(input, min), max) for tensors; either bound may be None."""
@overload
def clip_(input: Tensor, min: Tensor | _Number, max: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = min(max(input, min), max) for tensors; either bound may be None."""
@overload
def clip_(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = min(max(input, min), max) for tensors; either bound may be None."""
def clone(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor:
    """y = x, in new memory."""
@overload
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """y = the tensors side by side: along dim 1, vectors and numbers as columns."""
@overload
def column_stack(*tensors: Tensor, out: Tensor | None = None) -> Tensor:
    """y = the tensors side by side: along dim 1, vectors and numbers as columns."""
def combinations(input: Tensor, r: _int = 2, with_replacement: _bool = False) -> Tensor:
    """(count, r): all choices of r elements of a vector, in the order of places."""
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = real + 1j * imag, of two tensors of equal float type."""
def concat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """y = the tensors in a row along dim `dim`."""
def concatenate(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """y = the tensors in a row along dim `dim`."""
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the complex conjugate of input, in memory of its own."""
def conj_physical_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the complex conjugate of input, in memory of its own."""
def constant_pad_nd(input: Tensor, pad: Sequence[_int] | _int, value: Tensor | _Number = 0, *, out: Tensor | None = None) -> Tensor:
    """y = x with `value` put around: pad = (before, after) of the last dim, then of the dim before."""
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sequence[_int] | _int = 1, padding: _str | Sequence[_int] | _int = 0, dilation: Sequence[_int] | _int = 1, groups: _int = 1, *, out: Tensor | None = None) -> Tensor:
    """y[n, f] = sum over c of x[n, c] correlated with weight[f, c], plus bias[f]."""
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sequence[_int] | _int = 1, padding: _str | Sequence[_int] | _int = 0, dilation: Sequence[_int] | _int = 1, groups: _int = 1, *, out: Tensor | None = None) -> Tensor:
    """y[n, f] = sum over c of x[n, c] correlated with weight[f, c], plus bias[f]."""
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sequence[_int] | _int = 1, padding: _str | Sequence[_int] | _int = 0, dilation: Sequence[_int] | _int = 1, groups: _int = 1, *, out: Tensor | None = None) -> Tensor:
    """y[n, f] = sum over c of x[n, c] correlated with weight[f, c], plus bias[f]."""
@overload
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sequence[_int] | _int = 1, padding: Sequence[_int] | _int = 0, output_padding: Sequence[_int] | _int = ..., groups: _int = 1, dilation: Sequence[_int] | _int = 1, *, out: Tensor | None = None) -> Tensor:
    """The adjoint of conv1d with the same weight, plus bias."""
@overload
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sequence[_int] | _int = 1, padding: Sequence[_int] | _int = 0, output_padding: Sequence[_int] | _int = ..., groups: _int = 1, *dilation: _int, out: Tensor | None = None) -> Tensor:
    """The adjoint of conv1d with the same weight, plus bias."""
@overload
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sequence[_int] | _int = 1, padding: Sequence[_int] | _int = 0, output_padding: Sequence[_int] | _int = ..., groups: _int = 1, dilation: Sequence[_int] | _int = 1, *, out: Tensor | None = None) -> Tensor:
    """The adjoint of conv2d with the same weight, plus bias."""
@overload
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sequence[_int] | _int = 1, padding: Sequence[_int] | _int = 0, output_padding: Sequence[_int] | _int = ..., groups: _int = 1, *dilation: _int, out: Tensor | None = None) -> Tensor:
    """The adjoint of conv2d with the same weight, plus bias."""
@overload
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sequence[_int] | _int = 1, padding: Sequence[_int] | _int = 0, output_padding: Sequence[_int] | _int = ..., groups: _int = 1, dilation: Sequence[_int] | _int = 1, *, out: Tensor | None = None) -> Tensor:
    """The adjoint of conv3d with the same weight, plus bias."""
@overload
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sequence[_int] | _int = 1, padding: Sequence[_int] | _int = 0, output_padding: Sequence[_int] | _int = ..., groups: _int = 1, *dilation: _int, out: Tensor | None = None) -> Tensor:
    """The adjoint of conv3d with the same weight, plus bias."""
def copysign(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = |input| with the sign of other; gradient 0 where input is 0, NaN where infinite."""
def copysign_(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = |input| with the sign of other; gradient 0 where input is 0, NaN where infinite."""
def corrcoef(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y[i, j] = the correlation of rows i and j over the observations, given by columns."""
def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = cos(input), of radians."""
def cos_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = cos(input), of radians."""
def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = cosh(input)."""
def cosh_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = cosh(input)."""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = 1, eps: Tensor | _Number = ..., *, out: Tensor | None = None) -> Tensor:
    """y = (x1 . x2) / (max(|x1|, eps) max(|x2|, eps)) along dim, of the common shape."""
@overload
def count_nonzero(input: Tensor, dim: Sequence[_int] | _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = number of elements over `dim` that are not 0 (int64)."""
@overload
def count_nonzero(input: Tensor, *dim: _int, out: Tensor | None = None) -> Tensor:
    """y = number of elements over `dim` that are not 0 (int64)."""
def cov(input: Tensor, *, correction: _int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """y[i, j] = the covariance of rows i and j over the observations, given by columns."""
def cross(input: Tensor, other: Tensor, dim: _int | None = None, *, out: Any = None) -> Tensor:
    """input x other for vectors of 3 along `dim`, by default the first dim that has 3 entries."""
def cummax(input: Tensor, dim: _int | None) -> _values_indices:
    """(values, indices): greatest element so far along `dim`, and the last place of that value."""
def cummin(input: Tensor, dim: _int | None) -> _values_indices:
    """(values, indices): least element so far along `dim`, and the last place of that value."""
def cumprod(input: Tensor, dim: _int | None, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """y[i] = x[0] * ... * x[i] along `dim`; bool and ints in int64 unless dtype says otherwise."""
def cumprod_(input: Tensor, dim: _int | None, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """y[i] = x[0] * ... * x[i] along `dim`; bool and ints in int64 unless dtype says otherwise."""
def cumsum(input: Tensor, dim: _int | None, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """y[i] = x[0] + ... + x[i] along `dim`; bool and ints in int64 unless dtype says otherwise."""
def cumsum_(input: Tensor, dim: _int | None, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """y[i] = x[0] + ... + x[i] along `dim`; bool and ints in int64 unless dtype says otherwise."""
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: _int = -1) -> Tensor:
    """The areas under y along `dim` up to each position but the first."""
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input * pi / 180."""
def deg2rad_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input * pi / 180."""
def det(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the determinant of square matrices; 1 for 0 x 0. Its gradient exists everywhere."""
def detach(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = x, as a separate variable: no gradient passes."""
def diag(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """y = a matrix with input on the diagonal, or the diagonal of a matrix."""
def diag_embed(input: Tensor, offset: _int = 0, dim1: _int = -2, dim2: _int = -1, *, out: Tensor | None = None) -> Tensor:
    """y = zeros with the last dim of input on the diagonal of two new dims dim1 and dim2."""
def diagflat(input: Tensor, offset: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """y = a matrix with all elements of input, in row-major order, on the diagonal."""
def diagonal(input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1, *, out: Tensor | None = None) -> Tensor:
    """y[..., k] = x[..., k - min(offset, 0), ..., k + max(offset, 0), ...] over dims dim1, dim2."""
def diagonal_copy(*args: Any, **kwargs: Any) -> Any:
    """As `diagonal`, in memory of its own."""
def diagonal_scatter(input: Tensor, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1, *, out: Tensor | None = None) -> Tensor:
    """y = input, with the diagonal over dims dim1 and dim2 replaced by src."""
def diff(input: Tensor, n: _int = 1, dim: _int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """y[i] = x[i + 1] - x[i] along `dim`, n times over; of bool: whether they differ."""
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the derivative of lgamma at input."""
def digamma_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the derivative of lgamma at input."""
def dist(input: Tensor, other: Tensor, p: _float | _str | None = 2, *, out: Tensor | None = None) -> Tensor:
    """y = p-norm of all elements of x - other."""
@overload
def div(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input / other, the true quotient: ints are divided as floats."""
@overload
def div(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: _str | None, out: Tensor | None = None) -> Tensor:
    """y = input / other, the true quotient: ints are divided as floats."""
@overload
def divide(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input / other, the true quotient: ints are divided as floats."""
@overload
def divide(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: _str | None, out: Tensor | None = None) -> Tensor:
    """y = input / other, the true quotient: ints are divided as floats."""
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = sum of x * v for two vectors of equal length."""
def dropout(input: Tensor, p: _float = 0.5, train: _bool = True, *, generator: Any = None) -> Any:
    """y = x * mask / (1 - p), each element of the mask 0 with probability p; y = x if not train."""
def dsplit(input: Tensor, indices_or_sections: _int | Sequence[_int] | Tensor) -> tuple[Tensor, ...]:
    """Views of parts along dim 2."""
@overload
def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """y = the tensors stacked in depth: along dim 2."""
@overload
def dstack(*tensors: Tensor, out: Tensor | None = None) -> Tensor:
    """y = the tensors stacked in depth: along dim 2."""
def eig(*args: _builtins.object, **kwargs: _builtins.object) -> Any:
    """Removed from PyTorch: raises, and names linalg.eig."""
@overload
def einsum(equation: _str, operands: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """y = sum of products of the operands' elements over the letters not in the output."""
@overload
def einsum(equation: _str, *operands: Tensor, out: Tensor | None = None) -> Tensor:
    """y = sum of products of the operands' elements over the letters not in the output."""
def embedding(weight: Tensor, indices: Tensor, padding_idx: _int = -1, scale_grad_by_freq: _bool = False, sparse: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y[..., :] = weight[indices[...], :]: the rows of a table."""
@overload
def empty(*, size: Sequence[_int], dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor: ...
@overload
def empty(*size: _int | Sequence[_int], dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor:
    """A tensor of a size, with arbitrary elements (zeros, in fact)."""
def empty_like(input: Tensor, *, dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor:
    """A tensor of input's size and type, with arbitrary elements."""
def empty_permuted(size: _int | Sequence[_int], physical_layout: Sequence[_int], *, dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor:
    """A dense tensor of a size, its dims in memory in the order `physical_layout`."""
def empty_strided(size: _int | Sequence[_int], stride: _int | Sequence[_int], *, dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor:
    """A tensor of a size with the given strides, with arbitrary elements."""
def eq(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input == other."""
def eq_(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input == other."""
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 2 / sqrt(pi) * the integral of exp(-t^2) from 0 to input."""
def erf_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 2 / sqrt(pi) * the integral of exp(-t^2) from 0 to input."""
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 1 - erf(input), exact where erf is near 1."""
def erfc_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 1 - erf(input), exact where erf is near 1."""
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y with erf(y) = input; NaN outside [-1, 1]."""
def erfinv_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y with erf(y) = input; NaN outside [-1, 1]."""
def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = e ** input."""
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 2 ** input."""
def exp2_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 2 ** input."""
def exp_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = e ** input."""
def expand_copy(*args: Any, **kwargs: Any) -> Any:
    """As `expand`, in memory of its own."""
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = e ** input - 1, exact near 0."""
def expm1_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = e ** input - 1, exact near 0."""
def eye(n: _int, m: _int | None = None, *, dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor:
    """y[i, j] = 1 if i == j else 0, of shape (n, m); m is n if left out."""
def fix(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input without the fraction."""
def fix_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input without the fraction."""
def flatten(input: Tensor, start_dim: _int = 0, end_dim: _int = -1, *, out: Tensor | None = None) -> Tensor:
    """y = x with dims start_dim..end_dim merged; a 0-d tensor becomes 1-d."""
@overload
def flip(input: Tensor, dims: Sequence[_int] | _int, *, out: Tensor | None = None) -> Tensor:
    """y = x with the order of elements reversed along each of dims."""
@overload
def flip(input: Tensor, *dims: _int, out: Tensor | None = None) -> Tensor:
    """y = x with the order of elements reversed along each of dims."""
def fliplr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input with columns in reverse order. Raises ShapeError below 2 dims."""
def flipud(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input with rows in reverse order. Raises ShapeError for a 0-d tensor."""
def float_power(input: Tensor | _Number, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input ** exponent, computed in float64, or in complex128 if either is complex."""
def float_power_(input: Tensor | _Number, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input ** exponent, computed in float64, or in complex128 if either is complex."""
def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the largest integer that is not above input."""
def floor_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the largest integer that is not above input."""
def floor_divide(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = floor(input / other), in Python's sense. Raises ExecutionError for ints over 0."""
def floor_divide_(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = floor(input / other), in Python's sense. Raises ExecutionError for ints over 0."""
def fmax(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the larger of input and other; a NaN gives the number beside it. A tie goes to input."""
def fmin(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the smaller of input and other; a NaN gives the number beside it. A tie goes to input."""
def fmod(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input - trunc(input / other) * other: the remainder with the sign of input."""
def fmod_(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input - trunc(input / other) * other: the remainder with the sign of input."""
def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input - trunc(input)."""
def frac_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input - trunc(input)."""
def frexp(input: Tensor) -> _mantissa_exponent:
    """(mantissa, exponent): input = mantissa * 2^exponent, |mantissa| in [1/2, 1) unless 0."""
def frobenius_norm(input: Tensor, dim: _int | tuple[_int, ...], keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """The 2-norm of all elements over the dims."""
def full(size: _int | Sequence[_int], fill_value: Any, *, dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor:
    """y[...] = fill_value, of the number's type unless `dtype` says otherwise."""
def full_like(input: Tensor, fill_value: Any, *, dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor:
    """y[...] = fill_value, of input's size and type; not part of input's history."""
def gather(input: Tensor, dim: _int, index: Tensor, *, sparse_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """y[i, j, k] = input[index[i, j, k], j, k] for dim 0, and alike for every dim."""
def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the greatest common divisor of input and other, at least 0."""
def gcd_(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the greatest common divisor of input and other, at least 0."""
def ge(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input >= other."""
def ge_(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input >= other."""
def geqrf(input: Tensor) -> _a_tau:
    """(a, tau): the factors of a QR decomposition as reflections: R above, vectors below."""
def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y[i, j] = x[i] * v[j]. input: (n,)   vec2: (m,)   ->   (n, m)."""
def gradient(input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: _int = 1) -> tuple[Any, ...]:
    """Estimates of the derivatives along the dims `dim` (all by default), a tensor for each."""
def greater(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input > other."""
def greater_(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input > other."""
def greater_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input >= other."""
def greater_equal_(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input >= other."""
def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """y[n, :, *o] = input[n] at the place grid[n, *o]; see `nn.functional.grid_sample`."""
def grid_sampler_2d(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """y[n, :, *o] = input[n] at the place grid[n, *o]; see `nn.functional.grid_sample`."""
def grid_sampler_3d(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """y[n, :, *o] = input[n] at the place grid[n, *o]; see `nn.functional.grid_sample`."""
def group_norm(input: Tensor, num_groups: _int, weight: Tensor | None = None, bias: Tensor | None = None, eps: Tensor | _Number = ..., cudnn_enabled: _bool = True, *, out: Tensor | None = None) -> Tensor:
    """y = (x - mean) / sqrt(var + eps) * weight + bias, over each group of channels."""
def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """h' = (1 - z) * n + z * h of a GRU; n = tanh(x_n + r * h_n), r and z = sigmoid(x + h)."""
def gt(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input > other."""
def gt_(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input > other."""
def hardshrink(input: Tensor, lambd: Tensor | _Number = ..., *, out: Tensor | None = None) -> Tensor:
    """y = 0 where |x| <= lambd, else x."""
def hash_tensor(input: Tensor, dim: Any = ..., *, keepdim: _bool = False, mode: _int = 0, out: Any = None) -> Tensor:
    """y = the exclusive or of the elements over `dim`, as 64-bit floats or ints (uint64)."""
def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 0, values or 1, as input is negative (or NaN), zero or positive. No gradient."""
def heaviside_(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 0, values or 1, as input is negative (or NaN), zero or positive. No gradient."""
def histc(input: Tensor, bins: _int = 100, min: Tensor | _Number = 0, max: Tensor | _Number = 0, *, out: Tensor | None = None) -> Tensor:
    """y[b] = how many elements fall into the b-th of `bins` equal parts of [min, max]."""
def histogram(input: Tensor, bins: Any = 100, *, range: Any = None, weight: Tensor | None = None, density: _bool = False, out: Any = None) -> Any:
    """(hist, bin_edges): the number of elements (or the sum of their weights) in each bin."""
def histogramdd(input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None, density: _bool = False) -> Any:
    """(hist, bin_edges): the number of points (or the sum of their weights) in each cell of a grid."""
def hsplit(input: Tensor, indices_or_sections: _int | Sequence[_int] | Tensor) -> tuple[Tensor, ...]:
    """Views of parts along dim 1 (of a vector along dim 0)."""
@overload
def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """y = the tensors side by side: along dim 1, vectors along the only dim."""
@overload
def hstack(*tensors: Tensor, out: Tensor | None = None) -> Tensor:
    """y = the tensors side by side: along dim 1, vectors along the only dim."""
def hypot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = sqrt(input^2 + other^2), without overflow in between."""
def hypot_(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = sqrt(input^2 + other^2), without overflow in between."""
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = I0(input), the modified Bessel function of order 0."""
def i0_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = I0(input), the modified Bessel function of order 0."""
def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = P(input, other), the regularised lower incomplete gamma function. NaN below 0."""
def igamma_(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = P(input, other), the regularised lower incomplete gamma function. NaN below 0."""
def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = Q(input, other), the regularised upper incomplete gamma function. NaN below 0."""
def igammac_(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = Q(input, other), the regularised upper incomplete gamma function. NaN below 0."""
@overload
def index_add(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input, with y[..., index[k], ...] += source[..., k, ...] along dim `dim`."""
@overload
def index_add(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, alpha: Tensor | _Number, out: Tensor | None = None) -> Tensor:
    """y = input, with y[..., index[k], ...] += source[..., k, ...] along dim `dim`."""
def index_copy(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input, with y[..., index[k], ...] = source[..., k, ...] along dim `dim`."""
def index_copy_(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input, with y[..., index[k], ...] = source[..., k, ...] along dim `dim`."""
def index_fill(input: Tensor, dim: _int, index: Tensor, value: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input, with y[..., index[k], ...] = value along dim `dim`."""
def index_fill_(input: Tensor, dim: _int, index: Tensor, value: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input, with y[..., index[k], ...] = value along dim `dim`."""
def index_put(input: Any, indices: Any, values: Any, accumulate: _bool = False) -> Tensor:
    """input, with input[indices] = values, or += with `accumulate`."""
def index_reduce(input: Tensor, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True, out: Tensor | None = None) -> Tensor:
    """y = input, with y[..., index[k], ...] reduced with all source[..., k, ...] that go there."""
def index_reduce_(input: Tensor, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True, out: Tensor | None = None) -> Tensor:
    """y = input, with y[..., index[k], ...] reduced with all source[..., k, ...] that go there."""
def index_select(input: Tensor, dim: _int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y[..., k, ...] = input[..., index[k], ...] along dim `dim`."""
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = sum over the last dims of both; plain multiplication if either is 0-d."""
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """linalg.inv."""
def isclose(input: Tensor, other: Tensor, rtol: _float = ..., atol: _float = ..., equal_nan: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = |input - other| <= atol + rtol * |other|; equal infinities are close."""
def isfinite(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input is neither infinite nor NaN."""
def isin(elements: Any, test_elements: Any, *, assume_unique: _bool = False, invert: _bool = False, out: Any = None) -> Tensor:
    """y = whether each element is among test_elements (invert: is not). Either may be a number."""
def isinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input is infinite."""
def isnan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input is not a number."""
def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input is -inf."""
def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input is +inf."""
def isreal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = True where the imaginary part is 0, as that of a real number is."""
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y[i * m + k, ...] = input[i, ...] * other[k, ...] in every dim, of extent n * m."""
def kthvalue(input: Tensor, k: _int, dim: _int = -1, keepdim: _bool = False) -> _values_indices:
    """(values, indices): the k-th least element along `dim`, k from 1; NaN is the greatest."""
def layer_norm(input: Tensor, normalized_shape: Sequence[_int] | _int, weight: Tensor | None = None, bias: Tensor | None = None, eps: Tensor | _Number = ..., cudnn_enable: _bool = True, *, out: Tensor | None = None) -> Tensor:
    """y = (x - mean) / sqrt(var + eps) * weight + bias over the trailing dims."""
def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the least common multiple of ints, at least 0; 0 if either is 0."""
def lcm_(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the least common multiple of ints, at least 0; 0 if either is 0."""
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input * 2 ** other."""
def ldexp_(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input * 2 ** other."""
def le(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input <= other."""
def le_(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input <= other."""
def lerp(input: Tensor, end: Tensor, weight: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input + weight * (end - input), counted from the end that is nearer."""
def lerp_(input: Tensor, end: Tensor, weight: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input + weight * (end - input), counted from the end that is nearer."""
def less(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input < other."""
def less_(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input < other."""
def less_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input <= other."""
def less_equal_(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input <= other."""
def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = log |gamma(input)|."""
def lgamma_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = log |gamma(input)|."""
def linspace(start: Any, end: Any, steps: _int, *, dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor:
    """`steps` numbers at equal distances, the first start, the last end."""
def lobpcg(A: Tensor, k: _int | None = None, B: Tensor | None = None, X: Tensor | None = None, n: _int | None = None, iK: Tensor | None = None, niter: _int | None = None, tol: _float | None = None, largest: _bool | None = None, method: _str | None = None, tracker: Callable[..., Any] | None = None, ortho_iparams: Any = None, ortho_fparams: Any = None, ortho_bparams: Any = None, *, out: Any = None) -> tuple[Tensor, Tensor]:
    """(E, X): the k largest (or smallest) eigenvalues of A X = B X diag(E), and their vectors."""
def log(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the natural logarithm of input."""
def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the logarithm of input to base 10."""
def log10_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the logarithm of input to base 10."""
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = log(1 + input), exact near 0."""
def log1p_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = log(1 + input), exact near 0."""
def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the logarithm of input to base 2."""
def log2_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the logarithm of input to base 2."""
def log_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the natural logarithm of input."""
def log_softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = x - log of the sum of exp(x) along dim: log(softmax(x)), without overflow."""
def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = log(exp(input) + exp(other)), without overflow in between."""
def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = log2(2 ** input + 2 ** other), without overflow in between."""
def logcumsumexp(input: Tensor, dim: _int | None, *, out: Tensor | None = None) -> Tensor:
    """y[i] = log(exp(x[0]) + ... + exp(x[i])) along `dim`, without overflow."""
def logdet(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the determinant: -inf for 0; of real matrices, NaN if negative."""
def logical_and(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input != 0 and other != 0."""
def logical_and_(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input != 0 and other != 0."""
def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input == 0."""
def logical_not_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input == 0."""
def logical_or(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input != 0 or other != 0."""
def logical_or_(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input != 0 or other != 0."""
def logical_xor(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = either input or other, and not both, is not 0."""
def logical_xor_(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = either input or other, and not both, is not 0."""
def logit(input: Tensor, eps: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = log(input / (1 - input)); input is clamped to [eps, 1 - eps] first if eps is given."""
def logit_(input: Tensor, eps: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = log(input / (1 - input)); input is clamped to [eps, 1 - eps] first if eps is given."""
def logspace(start: Any, end: Any, steps: _int, base: _float = 10.0, *, dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor:
    """`base` to the power of each of `linspace(start, end, steps)`."""
def logsumexp(input: Tensor, dim: Sequence[_int] | _int | None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = log(sum of exp(x) over `dim`), without overflow; -inf over nothing."""
def lstm_cell(input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> tuple[Tensor, ...]:
    """(h', c') of an LSTM: c' = f * c + i * g, h' = o * tanh(c'), hx = (h, c)."""
def lstsq(*args: _builtins.object, **kwargs: _builtins.object) -> Any:
    """Removed from PyTorch: raises, and names linalg.lstsq."""
def lt(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input < other."""
def lt_(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input < other."""
def lu(A: Tensor, pivot: _bool = True, get_infos: _bool = False, out: tuple[Tensor, ...] | None = None) -> Any:
    """linalg.lu_factor_ex: (LU, pivots), and with `get_infos` info."""
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
    """X such that A X = input, of the factors of A."""
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: _bool = True, unpack_pivots: _bool = True, *, out: tuple[Tensor, ...] | None = None) -> _LuParts:
    """(P, L, U) of what lu_factor gives; what is not asked for is empty."""
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = value where mask is True, else input; mask and input broadcast together."""
def masked_fill_(input: Tensor, mask: Tensor, value: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = value where mask is True, else input; mask and input broadcast together."""
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input, with elements where mask is True replaced by those of source, in order."""
def masked_scatter_(input: Tensor, mask: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input, with elements where mask is True replaced by those of source, in order."""
def masked_select(input: Tensor, mask: Tensor, *, out: Any = None) -> Tensor:
    """(count,): the elements of input where mask is True, in row-major order."""
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = x @ w over the last two dims; the dims before broadcast; a 1-D operand is a vector."""
def matrix_exp(input: Tensor, *, out: Any = None) -> Tensor:
    """The exponential of square matrices: I + A + A^2 / 2 + A^3 / 6 + ..."""
def matrix_power(input: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor:
    """y = x @ x @ ... @ x (n times); the identity for 0, powers of the inverse below 0."""
def matrix_rank(*args: _builtins.object, **kwargs: _builtins.object) -> Any:
    """Removed from PyTorch: raises, and names linalg.matrix_rank."""
@overload
def max(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """max(input): the greatest element; max(input, dim): (values, indices) along dim; max(input, other): the greater of each pair."""
@overload
def max(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """max(input): the greatest element; max(input, dim): (values, indices) along dim; max(input, other): the greater of each pair."""
@overload
def max(input: Tensor, dim: _int | None, keepdim: _bool = False) -> _values_indices:
    """max(input): the greatest element; max(input, dim): (values, indices) along dim; max(input, other): the greater of each pair."""
def max_pool1d(input: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., dilation: Sequence[_int] | _int = ..., ceil_mode: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = the greatest element of each window."""
def max_pool2d(input: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., dilation: Sequence[_int] | _int = ..., ceil_mode: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = the greatest element of each window."""
def max_pool3d(input: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., dilation: Sequence[_int] | _int = ..., ceil_mode: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = the greatest element of each window."""
def maximum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the larger of input and other; NaN if either is."""
def mean(input: Tensor, dim: Sequence[_int] | _int | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """y = sum of x over `dim` / number of elements summed."""
@overload
def median(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the median of all elements, the lower in the middle; NaN beside any NaN."""
@overload
def median(input: Tensor, dim: _int, keepdim: _bool = False) -> _values_indices:
    """y = the median of all elements, the lower in the middle; NaN beside any NaN."""
def meshgrid(*tensors: Any, indexing: _str = 'ij') -> tuple[Tensor, ...]:
    """Views of vectors as grids: grid k varies along dim k only ("xy": dims 0 and 1 swapped)."""
@overload
def min(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """min(input): the least element; min(input, dim): (values, indices) along dim; min(input, other): the lesser of each pair."""
@overload
def min(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """min(input): the least element; min(input, dim): (values, indices) along dim; min(input, other): the lesser of each pair."""
@overload
def min(input: Tensor, dim: _int | None, keepdim: _bool = False) -> _values_indices:
    """min(input): the least element; min(input, dim): (values, indices) along dim; min(input, other): the lesser of each pair."""
def minimum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the smaller of input and other; NaN if either is."""
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = x @ w for matrices. x: (n, m)   mat2: (m, p)   ->   (n, p)."""
def mode(input: Tensor, dim: _int = -1, keepdim: _bool = False) -> _values_indices:
    """(values, indices): the most frequent element along `dim`, and the last place of it."""
@overload
def moveaxis(input: Tensor, source: Sequence[_int] | _int | None, destination: Sequence[_int] | _int | None, *, out: Tensor | None = None) -> Tensor:
    """y = x with dims `source` moved to positions `destination`; all else keeps the order."""
@overload
def moveaxis(input: Tensor, source: Sequence[_int] | _int | None, *destination: _int, out: Tensor | None = None) -> Tensor:
    """y = x with dims `source` moved to positions `destination`; all else keeps the order."""
@overload
def movedim(input: Tensor, source: Sequence[_int] | _int | None, destination: Sequence[_int] | _int | None, *, out: Tensor | None = None) -> Tensor:
    """y = x with dims `source` moved to positions `destination`; all else keeps the order."""
@overload
def movedim(input: Tensor, source: Sequence[_int] | _int | None, *destination: _int, out: Tensor | None = None) -> Tensor:
    """y = x with dims `source` moved to positions `destination`; all else keeps the order."""
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the elements in order along dim 0."""
def mul(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input * other; and, of bools."""
def mul_(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input * other; and, of bools."""
def multiply(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input * other; and, of bools."""
def multiply_(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input * other; and, of bools."""
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = x @ v. x: (n, m)   vec: (m,)   ->   (n,)."""
def mvlgamma(input: Tensor, p: _int, *, out: Tensor | None = None) -> Tensor:
    """y = the logarithm of the multivariate gamma function of dimension p >= 1."""
def mvlgamma_(input: Tensor, p: _int, *, out: Tensor | None = None) -> Tensor:
    """y = the logarithm of the multivariate gamma function of dimension p >= 1."""
def nan_to_num(input: Tensor, nan: Tensor | _Number | None = None, posinf: Tensor | _Number | None = None, neginf: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = input, NaN replaced by nan (0), inf and -inf by posinf, neginf (the dtype's limits)."""
def nan_to_num_(input: Tensor, nan: Tensor | _Number | None = None, posinf: Tensor | _Number | None = None, neginf: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = input, NaN replaced by nan (0), inf and -inf by posinf, neginf (the dtype's limits)."""
def nanmean(input: Tensor, dim: Sequence[_int] | _int | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """y = mean over `dim` of the elements that are not NaN. Raises DTypeError for bool and ints."""
@overload
def nanmedian(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the median of all elements that are not NaN, the lower of the two in the middle."""
@overload
def nanmedian(input: Tensor, dim: _int, keepdim: _bool = False) -> _values_indices:
    """y = the median of all elements that are not NaN, the lower of the two in the middle."""
def nanquantile(input: Tensor, q: Tensor | _Number, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear', out: Any = None) -> Tensor:
    """The q-th quantiles of the elements that are not NaN; see `quantiles`."""
def nansum(input: Tensor, dim: Sequence[_int] | _int | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """y = sum of x over `dim`, NaN counted as 0. Raises DTypeError for complex."""
def narrow(input: Tensor, dim: _int, start: _int | Tensor, length: _int) -> Tensor:
    """y = x[..., start:start+length, ...] along dim `dim`; a negative start counts from the end."""
def narrow_copy(*args: Any, **kwargs: Any) -> Any:
    """As `narrow`, in memory of its own."""
def ne(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input != other."""
def ne_(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input != other."""
def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = -input. Raises DTypeError for bools."""
def neg_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = -input. Raises DTypeError for bools."""
def negative(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = -input. Raises DTypeError for bools."""
def negative_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = -input. Raises DTypeError for bools."""
def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the next number that the dtype has after input, towards other."""
def nextafter_(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the next number that the dtype has after input, towards other."""
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[False] = False, out: Tensor | None = None) -> Tensor:
    """(count, rank) of int64: the positions of the elements that are not zero, in order."""
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]:
    """(count, rank) of int64: the positions of the elements that are not zero, in order."""
def nonzero_static(input: Tensor, *, size: _int, fill_value: Tensor | _Number = -1, out: Tensor | None = None) -> Tensor:
    """y[k, :] = the position of the k-th element that is not zero, in row-major order."""
def norm(input: Tensor, p: _float | _str | None = 'fro', dim: Sequence[_int] | _int | None = None, keepdim: _bool = False, dtype: _dtype | None = None) -> Tensor:
    """y = p-norm of the elements of x over `dim`; 'fro' is 2, 'nuc' the sum of singular values."""
def normal(mean: Any = 0.0, std: Any = 1.0, size: _int | Sequence[_int] | None = None, *, dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ..., generator: _Generator | None = ...) -> Tensor:
    """Normal numbers with the given means and deviations (numbers or tensors)."""
def not_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input != other."""
def not_equal_(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input != other."""
def nuclear_norm(input: Tensor, dim: Any = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """The sum of the singular values of a matrix, or of the matrices in the two dims."""
@overload
def ones(*, size: Sequence[_int], dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor: ...
@overload
def ones(*size: _int | Sequence[_int], dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor:
    """y[...] = 1. size: ints, or a sequence of ints; keywords as in `empty`."""
def ones_like(input: Tensor, *, dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor:
    """y[...] = 1, of input's size and type; not part of input's history."""
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """linalg.householder_product."""
def ormqr(input: Tensor, input2: Tensor, input3: Tensor, left: _bool = True, transpose: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Q C (left) or C Q, Q the product of the reflections, or its transpose."""
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y[i, j] = x[i] * v[j]. input: (n,)   vec2: (m,)   ->   (n, m)."""
def pairwise_distance(x1: Tensor, x2: Tensor, p: _float | _str | None = ..., eps: Tensor | _Number = ..., keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = the p-norm of x1 - x2 + eps over the last dim."""
def pca_lowrank(A: Tensor, q: _int | None = None, center: _bool = True, niter: _int = 2, *, out: Any = None) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V): principal components of rows of A, the first q; see svd_lowrank."""
@overload
def permute(input: Tensor, dims: Sequence[_int] | _int, *, out: Tensor | None = None) -> Tensor:
    """y = x with dims in the order `dims`: dim k of y is dim dims[k] of x."""
@overload
def permute(input: Tensor, *dims: _int, out: Tensor | None = None) -> Tensor:
    """y = x with dims in the order `dims`: dim k of y is dim dims[k] of x."""
def permute_copy(*args: Any, **kwargs: Any) -> Any:
    """As `permute`, in memory of its own."""
def pinverse(input: Tensor, rcond: _float = 1e-15, *, out: Any = None) -> Tensor:
    """linalg.pinv with singular values up to rcond times the largest taken for 0."""
def pixel_shuffle(input: Tensor, upscale_factor: _int, *, out: Tensor | None = None) -> Tensor:
    """y: (..., C * r * r, H, W) rearranged to (..., C, H * r, W * r)."""
def pixel_unshuffle(input: Tensor, downscale_factor: _int, *, out: Tensor | None = None) -> Tensor:
    """y: (..., C, H * r, W * r) rearranged to (..., C * r * r, H, W)."""
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = abs * cos(angle) + 1j * abs * sin(angle), angle in radians."""
def polygamma(n: _int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the n-th derivative of digamma at input, n >= 0."""
@overload
def pow(input: Tensor, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input ** exponent, for exponents that need only products, quotients and roots."""
@overload
def pow(input: Tensor | _Number, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input ** exponent, for exponents that need only products, quotients and roots."""
def prelu(input: Tensor, weight: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = x if x > 0 else weight * x."""
def prod(input: Tensor, dim: Sequence[_int] | _int | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """y = product of x over `dim`; types as for sum."""
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = input, with y.ravel()[index[k]] = source[k], or += with `accumulate`."""
def put_(input: Tensor, index: Tensor, source: Tensor, accumulate: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = input, with y.ravel()[index[k]] = source[k], or += with `accumulate`."""
def qr(input: Tensor, some: _bool = True, *, out: tuple[Tensor, ...] | None = None) -> _QrParts:
    """linalg.qr, 'complete' unless `some`."""
def quantile(input: Tensor, q: Tensor | _Number, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear', out: Any = None) -> Tensor:
    """The q-th quantiles along `dim`, or of all elements; see `quantiles`."""
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input * 180 / pi."""
def rad2deg_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input * 180 / pi."""
@overload
def rand(*, size: Sequence[_int], dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ..., generator: _Generator | None = ...) -> Tensor: ...
@overload
def rand(*size: _int | Sequence[_int], dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ..., generator: _Generator | None = ...) -> Tensor:
    """Uniform numbers in [0, 1).  Keywords: generator, out, dtype, device, requires_grad."""
def rand_like(input: Tensor, *, dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ..., generator: _Generator | None = ...) -> Tensor:
    """Uniform numbers with the shape and dtype of `input`."""
@overload
def randint(high: _int, size: Sequence[_int], *, generator: _Generator | None = None, dtype: _dtype | None = None, device: _device | _str | _int | None = None, layout: _layout | None = None, requires_grad: _bool = False, pin_memory: _bool = False, out: Tensor | None = None) -> Tensor:
    """randint([low=0], high, size): integers low <= y < high, int64 unless dtype is given."""
@overload
def randint(low: _int, high: _int, size: Sequence[_int], *, generator: _Generator | None = None, dtype: _dtype | None = None, device: _device | _str | _int | None = None, layout: _layout | None = None, requires_grad: _bool = False, pin_memory: _bool = False, out: Tensor | None = None) -> Tensor:
    """randint([low=0], high, size): integers low <= y < high, int64 unless dtype is given."""
@overload
def randint_like(input: Tensor, high: _int, *, generator: _Generator | None = None, dtype: _dtype | None = None, device: _device | _str | _int | None = None, layout: _layout | None = None, requires_grad: _bool = False, pin_memory: _bool = False, out: Tensor | None = None, memory_format: _memory_format | None = None) -> Tensor:
    """randint_like(input, [low=0], high): as `randint`, with the shape and dtype of `input`."""
@overload
def randint_like(input: Tensor, low: _int, high: _int, *, generator: _Generator | None = None, dtype: _dtype | None = None, device: _device | _str | _int | None = None, layout: _layout | None = None, requires_grad: _bool = False, pin_memory: _bool = False, out: Tensor | None = None, memory_format: _memory_format | None = None) -> Tensor:
    """randint_like(input, [low=0], high): as `randint`, with the shape and dtype of `input`."""
@overload
def randn(*, size: Sequence[_int], dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ..., generator: _Generator | None = ...) -> Tensor: ...
@overload
def randn(*size: _int | Sequence[_int], dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ..., generator: _Generator | None = ...) -> Tensor:
    """Standard normal numbers.  Keywords: generator, out, dtype, device, requires_grad."""
def randn_like(input: Tensor, *, dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ..., generator: _Generator | None = ...) -> Tensor:
    """Standard normal numbers with the shape and dtype of `input`."""
def randperm(n: _int, *, dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ..., generator: _Generator | None = ...) -> Tensor:
    """A random permutation of 0..n-1, int64 unless dtype is given."""
def range(start: Any, end: Any = None, step: Any = 1, *, dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor:
    """start, start + step, ... up to end, which is included: PyTorch's deprecated form of arange."""
def ravel(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = x as one dim, in row-major order."""
def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 1 / input."""
def reciprocal_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 1 / input."""
def relu(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = max(input, 0); gradient 0 at 0."""
def relu_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = max(input, 0); gradient 0 at 0."""
def remainder(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input - floor(input / other) * other: the remainder with the sign of other."""
def remainder_(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input - floor(input / other) * other: the remainder with the sign of other."""
def renorm(input: Tensor, p: _float | _str | None, dim: _int, maxnorm: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input, each slice along `dim` of p-norm above maxnorm scaled down to maxnorm."""
def renorm_(input: Tensor, p: _float | _str | None, dim: _int, maxnorm: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input, each slice along `dim` of p-norm above maxnorm scaled down to maxnorm."""
@overload
def repeat_interleave(input: Tensor, repeats: Tensor | _int, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor:
    """input, slice k along `dim` repeated repeats[k] times in a row (by default: of all elements)."""
@overload
def repeat_interleave(input: Tensor, *, output_size: _int | None = None) -> Tensor:
    """input, slice k along `dim` repeated repeats[k] times in a row (by default: of all elements)."""
@overload
def reshape(input: Tensor, shape: Sequence[_int] | _int, *, out: Tensor | None = None) -> Tensor:
    """y = x in the given shape; an extent may be -1: it follows from the rest."""
@overload
def reshape(input: Tensor, *shape: _int, out: Tensor | None = None) -> Tensor:
    """y = x in the given shape; an extent may be -1: it follows from the rest."""
def rms_norm(input: Tensor, normalized_shape: Sequence[_int] | _int, weight: Tensor | None = None, eps: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = x / sqrt(mean(x**2) + eps) * weight over the trailing dims; eps: the dtype's by default."""
def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """h' = relu(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)."""
def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """h' = tanh(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)."""
@overload
def roll(input: Tensor, shifts: Sequence[_int] | _int, dims: Sequence[_int] | _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """y[..., i, ...] = x[..., (i - shift) mod n, ...] along each of dims."""
@overload
def roll(input: Tensor, shifts: Sequence[_int] | _int, *dims: _int, out: Tensor | None = None) -> Tensor:
    """y[..., i, ...] = x[..., (i - shift) mod n, ...] along each of dims."""
@overload
def rot90(input: Tensor, k: _int = 1, dims: Sequence[_int] | _int = ..., *, out: Tensor | None = None) -> Tensor:
    """y = input turned k times by 90 degrees, from dims[0] towards dims[1]. Raises ShapeError."""
@overload
def rot90(input: Tensor, k: _int = 1, *dims: _int, out: Tensor | None = None) -> Tensor:
    """y = input turned k times by 90 degrees, from dims[0] towards dims[1]. Raises ShapeError."""
@overload
def round(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the nearest integer, halves to the even integer."""
@overload
def round(input: Tensor, *, decimals: _int, out: Tensor | None = None) -> Tensor:
    """y = the nearest integer, halves to the even integer."""
@overload
def round_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the nearest integer, halves to the even integer."""
@overload
def round_(input: Tensor, *, decimals: _int, out: Tensor | None = None) -> Tensor:
    """y = the nearest integer, halves to the even integer."""
@overload
def row_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """y = the tensors stacked vertically: along dim 0, vectors as rows."""
@overload
def row_stack(*tensors: Tensor, out: Tensor | None = None) -> Tensor:
    """y = the tensors stacked vertically: along dim 0, vectors as rows."""
def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 1 / sqrt(input)."""
def rsqrt_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 1 / sqrt(input)."""
def rsub(input: Tensor | _Number, other: Tensor | _Number, alpha: Tensor | _Number = 1, *, out: Tensor | None = None) -> Tensor:
    """y = other - alpha * input."""
@overload
def scatter(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input, with y[index[i, j], j] = src[i, j] for dim 0, and alike for every dim."""
@overload
def scatter(input: Tensor, dim: _int, index: Tensor, value: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input, with y[index[i, j], j] = src[i, j] for dim 0, and alike for every dim."""
@overload
def scatter(input: Tensor, dim: _int, index: Tensor, src: Tensor | _Number, *, reduce: _str, out: Tensor | None = None) -> Tensor:
    """y = input, with y[index[i, j], j] = src[i, j] for dim 0, and alike for every dim."""
def scatter_add(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input, with y[index[i, j], j] += src[i, j] for dim 0, and alike for every dim."""
def scatter_add_(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input, with y[index[i, j], j] += src[i, j] for dim 0, and alike for every dim."""
def scatter_reduce(input: Tensor, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True, out: Tensor | None = None) -> Tensor:
    """y = input, with y[index[i, j], j] reduced with all src[i, j] that go there, for dim 0, ..."""
def scatter_reduce_(input: Tensor, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True, out: Tensor | None = None) -> Tensor:
    """y = input, with y[index[i, j], j] reduced with all src[i, j] that go there, for dim 0, ..."""
def searchsorted(sorted_sequence: Tensor, input: Tensor | _Number, *, out_int32: _bool = False, right: _bool = False, side: _str | None = None, sorter: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """y = the place in the sorted rows for each value, so that the rows stay sorted."""
def select(input: Tensor, dim: _int, index: _int, *, out: Tensor | None = None) -> Tensor:
    """y = x[..., index, ...] along dim `dim`, which goes; a negative index counts from the end."""
def select_copy(*args: Any, **kwargs: Any) -> Any:
    """As `select`, in memory of its own."""
def select_scatter(input: Tensor, src: Tensor, dim: _int, index: _int, *, out: Tensor | None = None) -> Tensor:
    """y = input, with input[..., index, ...] along dim `dim` replaced by src."""
def selu(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 1.0507 * elu(x, 1.6733) (Klambauer et al., Self-Normalizing Neural Networks, 2017)."""
def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input / |input|, and 0 for 0: the sign of real numbers."""
def sgn_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input / |input|, and 0 for 0: the sign of real numbers."""
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 1 / (1 + exp(-input))."""
def sigmoid_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 1 / (1 + exp(-input))."""
def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 1, 0 or -1, as input is positive, zero (or NaN) or negative."""
def sign_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 1, 0 or -1, as input is positive, zero (or NaN) or negative."""
def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input has a minus sign: -0.0 too, unlike input < 0."""
def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = sin(input), of radians."""
def sin_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = sin(input), of radians."""
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = sin(pi input) / (pi input), 1 at 0."""
def sinc_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = sin(pi input) / (pi input), 1 at 0."""
def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = sinh(input)."""
def sinh_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = sinh(input)."""
def slice_copy(*args: Any, **kwargs: Any) -> Any:
    """As `slice`, in memory of its own."""
def slice_scatter(input: Tensor, src: Tensor, dim: _int = 0, start: _int | None = None, end: _int | None = None, step: _int = 1, *, out: Tensor | None = None) -> Tensor:
    """y = input, with input[..., start:end:step, ...] along dim `dim` replaced by src."""
def slogdet(input: Tensor, *, out: tuple[Tensor, ...] | None = None) -> _SignAndLog:
    """linalg.slogdet."""
def softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = exp(x) / sum of exp(x) along dim."""
def solve(*args: _builtins.object, **kwargs: _builtins.object) -> Any:
    """Removed from PyTorch: raises, and names linalg.solve."""
def sort(input: Tensor, dim: _int = -1, descending: _bool = False, stable: _bool | None = None) -> _values_indices:
    """(values, indices): the elements in order along `dim`; values[k] = x[indices[k]]."""
def split(tensor: Tensor, split_size_or_sections: _int | Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
    """Views of parts along `dim`: of equal size (the last may be smaller), or of the sizes given."""
def split_copy(*args: Any, **kwargs: Any) -> Any:
    """As `split`, in memory of its own."""
def split_with_sizes(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
    """Views of parts of the given sizes along `dim`. Raises ShapeError for sizes of another sum."""
def split_with_sizes_copy(*args: Any, **kwargs: Any) -> Any:
    """As `split_with_sizes`, in memory of its own."""
def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the square root of input; NaN below 0; gradient inf at 0."""
def sqrt_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the square root of input; NaN below 0; gradient inf at 0."""
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input ** 2; an int64 of bools."""
def square_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input ** 2; an int64 of bools."""
@overload
def squeeze(input: Tensor, dim: Sequence[_int] | _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = x without dims of extent 1: all such dims, or those among `dim`."""
@overload
def squeeze(input: Tensor, *dim: _int, out: Tensor | None = None) -> Tensor:
    """y = x without dims of extent 1: all such dims, or those among `dim`."""
def squeeze_(input: Tensor, dim: Sequence[_int] | _int | None = None) -> Tensor:
    """y = x without dims of extent 1: all such dims, or those among `dim`."""
def squeeze_copy(*args: Any, **kwargs: Any) -> Any:
    """As `squeeze`, in memory of its own."""
def stack(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """y = the tensors, all of equal shape, along a new dim `dim`. Raises ShapeError."""
def std(input: Tensor, dim: Sequence[_int] | _int | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: Tensor | _Number | None = None, out: Tensor | None = None) -> Tensor:
    """y = sqrt(var(x)); the gradient at 0 is 0. See var."""
def std_mean(input: Tensor, dim: Sequence[_int] | _int | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: Tensor | _Number | None = None) -> tuple[Tensor, ...]:
    """(std(x), mean(x)) over `dim`."""
@overload
def sub(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input - other. Raises DTypeError for bools."""
@overload
def sub(input: Tensor | _Number, other: Tensor | _Number, *, alpha: Tensor | _Number, out: Tensor | None = None) -> Tensor:
    """y = input - other. Raises DTypeError for bools."""
@overload
def sub(input: Tensor, alpha: Tensor | _Number, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input - other. Raises DTypeError for bools."""
@overload
def subtract(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input - other. Raises DTypeError for bools."""
@overload
def subtract(input: Tensor | _Number, other: Tensor | _Number, *, alpha: Tensor | _Number, out: Tensor | None = None) -> Tensor:
    """y = input - other. Raises DTypeError for bools."""
@overload
def subtract(input: Tensor | _Number, other: Tensor | _Number, alpha: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input - other. Raises DTypeError for bools."""
def sum(input: Tensor, dim: Sequence[_int] | _int | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """y = sum of x over `dim`."""
def svd(input: Tensor, some: _bool = True, compute_uv: _bool = True, *, out: Any = None) -> _FormerSvdParts:
    """(U, S, V): input = U diag(S) V^T; without `compute_uv`, U and V are zeros."""
def svd_lowrank(A: Tensor, q: _int | None = 6, niter: _int | None = 2, M: Tensor | None = None, *, out: Any = None) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V) of q singular values of A, or of A - M, by niter iterations of a subspace."""
def swapaxes(input: Tensor, axis0: _int, axis1: _int, *, out: Tensor | None = None) -> Tensor:
    """y = x with dims axis0 and axis1 swapped (NumPy's name of `transpose`)."""
def swapaxes_(input: Tensor, axis0: _int, axis1: _int) -> Tensor:
    """y = x with dims axis0 and axis1 swapped (NumPy's name of `transpose`)."""
def swapdims(input: Tensor, dim0: _int, dim1: _int, *, out: Tensor | None = None) -> Tensor:
    """y = x with dims dim0 and dim1 swapped."""
def swapdims_(input: Tensor, dim0: _int, dim1: _int) -> Tensor:
    """y = x with dims dim0 and dim1 swapped."""
def symeig(*args: _builtins.object, **kwargs: _builtins.object) -> Any:
    """Removed from PyTorch: raises, and names linalg.eigh."""
def t(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = x.T of a tensor of at most 2 dims. Raises ShapeError beyond."""
def t_(input: Tensor) -> Tensor:
    """y = x.T of a tensor of at most 2 dims. Raises ShapeError beyond."""
def t_copy(*args: Any, **kwargs: Any) -> Any:
    """As `t`, in memory of its own."""
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y[...] = input.ravel()[index[...]]: elements by place in row-major order."""
def take_along_dim(input: Tensor, indices: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """y[i, j] = input[indices[i, j], j] for dim 0, and so on; all dims but `dim` broadcast."""
def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = tan(input), of radians."""
def tan_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = tan(input), of radians."""
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = tanh(input)."""
def tanh_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = tanh(input)."""
def tensor_split(input: Tensor, indices_or_sections: _int | Sequence[_int] | Tensor, dim: _int = 0) -> tuple[Tensor, ...]:
    """Views of parts along `dim`: so many of nearly equal size, or cut at the given places."""
def tensordot(a: Tensor, b: Tensor, dims: _int | Sequence[Sequence[_int]] | Sequence[_int] | Tensor = 2, *, out: Tensor | None = None) -> Tensor:
    """y = sum over pairs of dims of a and b: the last and first `dims`, or (dims of a, of b)."""
def threshold(input: Tensor, threshold: Tensor | _Number, value: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = x where x > threshold, else value."""
@overload
def tile(input: Tensor, dims: Sequence[_int] | _int, *, out: Tensor | None = None) -> Tensor:
    """y = input, dims[d] times over along dim d; missing leading repeats are 1."""
@overload
def tile(input: Tensor, *dims: _int, out: Tensor | None = None) -> Tensor:
    """y = input, dims[d] times over along dim d; missing leading repeats are 1."""
def topk(input: Tensor, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True) -> _values_indices:
    """(values, indices): the k greatest (or least) elements along `dim`, in order."""
def trace(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sum of the main diagonal of a matrix. Raises ShapeError unless input is 2-d."""
def transpose(input: Tensor, dim0: _int, dim1: _int, *, out: Tensor | None = None) -> Tensor:
    """y = x with dims dim0 and dim1 swapped."""
def transpose_(input: Tensor, dim0: _int, dim1: _int) -> Tensor:
    """y = x with dims dim0 and dim1 swapped."""
def transpose_copy(*args: Any, **kwargs: Any) -> Any:
    """As `transpose`, in memory of its own."""
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Tensor | _Number | None = None, dim: _int = -1) -> Tensor:
    """The area under y along `dim` by the trapezoidal rule, at positions x or dx (1) apart."""
def trapz(y: Tensor, x: Tensor | None = None, *, dx: Tensor | _Number | None = None, dim: _int = -1) -> Tensor:
    """The area under y along `dim` by the trapezoidal rule, at positions x or dx (1) apart."""
def triangular_solve(input: Tensor, A: Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False, *, out: tuple[Tensor, ...] | None = None) -> _TriangularSolution:
    """(solution, cloned_coefficient): X such that A X = input, and a copy of A."""
def tril(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """y = input on and below a diagonal of the last two dims, zero above."""
def tril_(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """y = input on and below a diagonal of the last two dims, zero above."""
def tril_indices(row: _int, col: _int, offset: _int = 0, *, dtype: Any = ..., device: Any = None, layout: Any = None, pin_memory: _bool = False, requires_grad: _bool = False) -> Any:
    """(2, count): rows and columns of the elements on and below a diagonal, row by row."""
def triu(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """y = input on and above a diagonal of the last two dims, zero below."""
def triu_(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """y = input on and above a diagonal of the last two dims, zero below."""
def triu_indices(row: _int, col: _int, offset: _int = 0, *, dtype: Any = ..., device: Any = None, layout: Any = None, pin_memory: _bool = False, requires_grad: _bool = False) -> Any:
    """(2, count): rows and columns of the elements on and above a diagonal, row by row."""
def true_divide(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input / other, the true quotient: ints are divided as floats."""
def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input without the fraction."""
def trunc_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = input without the fraction."""
def unbind(input: Tensor, dim: _int = 0) -> tuple[Tensor, ...]:
    """Views of all slices along `dim`, without that dim. Raises DimError for a 0-d tensor."""
def unbind_copy(*args: Any, **kwargs: Any) -> Any:
    """As `unbind`, in memory of its own."""
@overload
def unflatten(input: Tensor, dim: _int, sizes: Sequence[_int] | _int, *, out: Tensor | None = None) -> Tensor:
    """y = x with dim `dim` split into dims of the given sizes; a size may be -1."""
@overload
def unflatten(input: Tensor, dim: _int, *sizes: _int, out: Tensor | None = None) -> Tensor:
    """y = x with dim `dim` split into dims of the given sizes; a size may be -1."""
def unfold_copy(*args: Any, **kwargs: Any) -> Any:
    """As `unfold`, in memory of its own."""
@overload
def unique(input: Tensor, sorted: _bool = True, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: _int | None = None) -> Tensor:
    """The different elements (or slices along `dim`) in order, each once."""
@overload
def unique(input: Tensor, sorted: _bool = True, *, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: _int | None = None) -> tuple[Tensor, Tensor]:
    """The different elements (or slices along `dim`) in order, each once."""
@overload
def unique(input: Tensor, sorted: _bool = True, *, return_inverse: Literal[False] = False, return_counts: Literal[True], dim: _int | None = None) -> tuple[Tensor, Tensor]:
    """The different elements (or slices along `dim`) in order, each once."""
@overload
def unique(input: Tensor, sorted: _bool = True, *, return_inverse: Literal[True], return_counts: Literal[True], dim: _int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """The different elements (or slices along `dim`) in order, each once."""
@overload
def unique_consecutive(input: Tensor, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: _int | None = None) -> Tensor:
    """The first element (or slice along `dim`) of each run of equal elements, in place order."""
@overload
def unique_consecutive(input: Tensor, *, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: _int | None = None) -> tuple[Tensor, Tensor]:
    """The first element (or slice along `dim`) of each run of equal elements, in place order."""
@overload
def unique_consecutive(input: Tensor, *, return_inverse: Literal[False] = False, return_counts: Literal[True], dim: _int | None = None) -> tuple[Tensor, Tensor]:
    """The first element (or slice along `dim`) of each run of equal elements, in place order."""
@overload
def unique_consecutive(input: Tensor, *, return_inverse: Literal[True], return_counts: Literal[True], dim: _int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """The first element (or slice along `dim`) of each run of equal elements, in place order."""
def unravel_index(indices: Tensor, shape: Any) -> tuple[Any, ...]:
    """The positions, a tensor per dim, of places in the row-major order of `shape`."""
def unsafe_chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """As `chunk`."""
def unsafe_split(input: Tensor, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """As `split`."""
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0, *, out: Any = None) -> tuple[Tensor, ...]:
    """split_with_sizes whose parts may be written to without gradients noticing; here they do."""
def unsqueeze(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor:
    """y = x with a dim of extent 1 put in at position dim (-rank-1 <= dim <= rank)."""
def unsqueeze_(input: Tensor, dim: _int) -> Tensor:
    """y = x with a dim of extent 1 put in at position dim (-rank-1 <= dim <= rank)."""
def unsqueeze_copy(*args: Any, **kwargs: Any) -> Any:
    """As `unsqueeze`, in memory of its own."""
def vander(x: Tensor, N: _int | None = None, increasing: _bool = False) -> Tensor:
    """y[i, j] = x[i] ** (N - 1 - j), or x[i] ** j if increasing. Raises ShapeError unless 1-d."""
def var(input: Tensor, dim: Sequence[_int] | _int | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: Tensor | _Number | None = None, out: Tensor | None = None) -> Tensor:
    """y = sum((x - mean)**2) / max(0, n - correction) over `dim`."""
def var_mean(input: Tensor, dim: Sequence[_int] | _int | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: Tensor | _Number | None = None) -> tuple[Tensor, ...]:
    """(var(x), mean(x)) over `dim`."""
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = sum of conj(x) * v for two vectors of equal length."""
def view_as_real(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y[..., 0] = the real, y[..., 1] = the imaginary parts of a complex tensor, a view."""
def view_copy(*args: Any, **kwargs: Any) -> Any:
    """As `view`, in memory of its own."""
def vsplit(input: Tensor, indices_or_sections: _int | Sequence[_int] | Tensor) -> tuple[Tensor, ...]:
    """Views of parts along dim 0."""
@overload
def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """y = the tensors stacked vertically: along dim 0, vectors as rows."""
@overload
def vstack(*tensors: Tensor, out: Tensor | None = None) -> Tensor:
    """y = the tensors stacked vertically: along dim 0, vectors as rows."""
@overload
def where(condition: Tensor) -> tuple[Tensor, ...]:
    """y = input where condition, else other."""
@overload
def where(condition: Tensor, input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """y = input where condition, else other."""
def xlogy(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input * log(other); 0 where input is 0, unless other is NaN."""
def xlogy_(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input * log(other); 0 where input is 0, unless other is NaN."""
@overload
def zeros(*, size: Sequence[_int], dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor: ...
@overload
def zeros(*size: _int | Sequence[_int], dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor:
    """y[...] = 0. size: ints, or a sequence of ints; keywords as in `empty`."""
def zeros_like(input: Tensor, *, dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor:
    """y[...] = 0, of input's size and type; not part of input's history."""
