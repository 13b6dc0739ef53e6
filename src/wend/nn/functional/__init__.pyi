# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"

import builtins as _builtins
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType, ModuleType
from typing import Any, Literal, NamedTuple, ParamSpec, Protocol, SupportsIndex, TypeAlias, TypeVar
from typing import overload

from wend.nn.functional import activation as activation
from wend.nn.functional import attention as attention
from wend.nn.functional import ctc as ctc
from wend.nn.functional import distance as distance
from wend.nn.functional import loss as loss
from wend.nn.functional import normalization as normalization
from wend.nn.functional import padding as padding
from wend.nn.functional import pooling as pooling
from wend.nn.functional import sampling as sampling
from wend.nn.functional import sequences as sequences
from wend.nn.functional import vision as vision
from wend.nn.functional.activation import celu_ as celu_
from wend.nn.functional.activation import elu_ as elu_
from wend.nn.functional.activation import gumbel_softmax as gumbel_softmax
from wend.nn.functional.activation import hardtanh_ as hardtanh_
from wend.nn.functional.activation import leaky_relu_ as leaky_relu_
from wend.nn.functional.activation import relu_ as relu_
from wend.nn.functional.activation import rrelu as rrelu
from wend.nn.functional.activation import rrelu_ as rrelu_
from wend.nn.functional.activation import selu_ as selu_
from wend.nn.functional.activation import threshold_ as threshold_
from wend.nn.functional.attention import multi_head_attention_forward as multi_head_attention_forward
from wend.nn.functional.ctc import ctc_loss as ctc_loss
from wend.nn.functional.distance import pdist as pdist
from wend.nn.functional.dropout import alpha_dropout as alpha_dropout
from wend.nn.functional.dropout import dropout as dropout
from wend.nn.functional.dropout import dropout1d as dropout1d
from wend.nn.functional.dropout import dropout2d as dropout2d
from wend.nn.functional.dropout import dropout3d as dropout3d
from wend.nn.functional.dropout import feature_alpha_dropout as feature_alpha_dropout
from wend.nn.functional.embedding import embedding as embedding
from wend.nn.functional.embedding import embedding_bag as embedding_bag
from wend.nn.functional.loss import linear_cross_entropy as linear_cross_entropy
from wend.nn.functional.loss import triplet_margin_with_distance_loss as triplet_margin_with_distance_loss
from wend.nn.functional.normalization import batch_norm as batch_norm
from wend.nn.functional.normalization import group_norm as group_norm
from wend.nn.functional.normalization import instance_norm as instance_norm
from wend.nn.functional.padding import pad as pad
from wend.nn.functional.sampling import affine_grid as affine_grid
from wend.nn.functional.sampling import grid_sample as grid_sample
from wend.nn.functional.sequences import TYPE_CHECKING as TYPE_CHECKING
from wend.nn.functional.sequences import assert_int_or_pair as assert_int_or_pair
from wend.nn.functional.sequences import conv_tbc as conv_tbc
from wend.nn.functional.sequences import has_torch_function as has_torch_function
from wend.nn.functional.sequences import has_torch_function_unary as has_torch_function_unary
from wend.nn.functional.sequences import has_torch_function_variadic as has_torch_function_variadic
from wend.nn.functional.vision import upsample as upsample
from wend.nn.functional.vision import upsample_bilinear as upsample_bilinear
from wend.nn.functional.vision import upsample_nearest as upsample_nearest
from wend._engine.base.devices import device as _device
from wend._engine.base.dtypes import DType
from wend._engine.core._hot import Tensor as Tensor

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

def adaptive_avg_pool1d(input: Tensor, output_size: Sequence[_int | None] | _int | None, *, out: Tensor | None = None) -> Tensor:
    """y = the mean of each of output_size windows."""
def adaptive_avg_pool2d(input: Tensor, output_size: Sequence[_int | None] | _int | None, *, out: Tensor | None = None) -> Tensor:
    """y = the mean of each of output_size windows."""
def adaptive_avg_pool3d(input: Tensor, output_size: Sequence[_int | None] | _int | None, *, out: Tensor | None = None) -> Tensor:
    """y = the mean of each of output_size windows."""
@overload
def adaptive_max_pool1d(input: Tensor, output_size: Sequence[_int | None] | _int | None, return_indices: Literal[False] = False) -> Tensor:
    """(y, indices): the greatest element of each of output_size windows, and its flat position."""
@overload
def adaptive_max_pool1d(input: Tensor, output_size: Sequence[_int | None] | _int | None, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """(y, indices): the greatest element of each of output_size windows, and its flat position."""
@overload
def adaptive_max_pool1d(input: Tensor, output_size: Sequence[_int | None] | _int | None, *, return_indices: _bool) -> Tensor | tuple[Tensor, Tensor]:
    """(y, indices): the greatest element of each of output_size windows, and its flat position."""
def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Sequence[_int | None] | _int | None, return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """(y, indices): the greatest element of each of output_size windows, and its flat position."""
@overload
def adaptive_max_pool2d(input: Tensor, output_size: Sequence[_int | None] | _int | None, return_indices: Literal[False] = False) -> Tensor:
    """(y, indices): the greatest element of each of output_size windows, and its flat position."""
@overload
def adaptive_max_pool2d(input: Tensor, output_size: Sequence[_int | None] | _int | None, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """(y, indices): the greatest element of each of output_size windows, and its flat position."""
@overload
def adaptive_max_pool2d(input: Tensor, output_size: Sequence[_int | None] | _int | None, *, return_indices: _bool) -> Tensor | tuple[Tensor, Tensor]:
    """(y, indices): the greatest element of each of output_size windows, and its flat position."""
def adaptive_max_pool2d_with_indices(input: Tensor, output_size: Sequence[_int | None] | _int | None, return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """(y, indices): the greatest element of each of output_size windows, and its flat position."""
@overload
def adaptive_max_pool3d(input: Tensor, output_size: Sequence[_int | None] | _int | None, return_indices: Literal[False] = False) -> Tensor:
    """(y, indices): the greatest element of each of output_size windows, and its flat position."""
@overload
def adaptive_max_pool3d(input: Tensor, output_size: Sequence[_int | None] | _int | None, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """(y, indices): the greatest element of each of output_size windows, and its flat position."""
@overload
def adaptive_max_pool3d(input: Tensor, output_size: Sequence[_int | None] | _int | None, *, return_indices: _bool) -> Tensor | tuple[Tensor, Tensor]:
    """(y, indices): the greatest element of each of output_size windows, and its flat position."""
def adaptive_max_pool3d_with_indices(input: Tensor, output_size: Sequence[_int | None] | _int | None, return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """(y, indices): the greatest element of each of output_size windows, and its flat position."""
def avg_pool1d(input: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., ceil_mode: _bool = False, count_include_pad: _bool = True, *, out: Tensor | None = None) -> Tensor:
    """y = the mean of each window."""
def avg_pool2d(input: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., ceil_mode: _bool = False, count_include_pad: _bool = True, divisor_override: _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = the mean of each window."""
def avg_pool3d(input: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., ceil_mode: _bool = False, count_include_pad: _bool = True, divisor_override: _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = the mean of each window."""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """y[..., o] = sum over i, j of x1[..., i] * weight[o, i, j] * x2[..., j] + bias[o]."""
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Tensor | None = None) -> Tensor:
    """y = -(target log(input) + (1 - target) log(1 - input)), input a probability."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', pos_weight: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = binary_cross_entropy(sigmoid(input), target), without overflow."""
def celu(input: Tensor, alpha: Tensor | _Number = ..., inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = x if x > 0 else alpha * (exp(x / alpha) - 1). Raises ValueRefused for an alpha of 0."""
def channel_shuffle(input: Tensor, groups: _int, *, out: Tensor | None = None) -> Tensor:
    """y = x with channel (g, c) at (c, g): the channels of `groups` groups interleaved."""
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
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: Tensor | _Number = ..., size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Tensor | None = None) -> Tensor:
    """y = 1 - c where target is 1, max(0, c - margin) where target is -1; c the cosine of the rows."""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = 1, eps: Tensor | _Number = ..., *, out: Tensor | None = None) -> Tensor:
    """y = (x1 . x2) / (max(|x1|, eps) max(|x2|, eps)) along dim, of the common shape."""
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, ignore_index: Tensor | _Number = -100, reduce: _bool | None = None, reduction: _str = 'mean', label_smoothing: _float = ..., *, out: Tensor | None = None) -> Tensor:
    """y = -sum over the classes of weight * target * log_softmax(input)."""
def elu(input: Tensor, alpha: Tensor | _Number = ..., inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = x if x > 0 else alpha * (exp(x) - 1)."""
@overload
def fold(input: Tensor, output_size: Sequence[_int] | _int, kernel_size: Sequence[_int] | _int, dilation: Sequence[_int] | _int = ..., padding: Sequence[_int] | _int = ..., stride: Sequence[_int] | _int = ..., *, out: Tensor | None = None) -> Tensor:
    """y = the sum of windows, each element at its place: the adjoint of unfold."""
@overload
def fold(input: Tensor, output_size: Sequence[_int] | _int, kernel_size: Sequence[_int] | _int, dilation: Sequence[_int] | _int = ..., padding: Sequence[_int] | _int = ..., *stride: _int, out: Tensor | None = None) -> Tensor:
    """y = the sum of windows, each element at its place: the adjoint of unfold."""
@overload
def fractional_max_pool2d(input: Tensor, kernel_size: Sequence[_int] | _int, output_size: Sequence[_int] | _int | None = None, output_ratio: _float | Sequence[_float] | None = None, return_indices: Literal[False] = False, _random_samples: Tensor | None = None) -> Tensor:
    """The greatest elements of windows over 2 dims that begin at random places."""
@overload
def fractional_max_pool2d(input: Tensor, kernel_size: Sequence[_int] | _int, output_size: Sequence[_int] | _int | None = None, output_ratio: _float | Sequence[_float] | None = None, *, return_indices: Literal[True], _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The greatest elements of windows over 2 dims that begin at random places."""
@overload
def fractional_max_pool2d(input: Tensor, kernel_size: Sequence[_int] | _int, output_size: Sequence[_int] | _int | None = None, output_ratio: _float | Sequence[_float] | None = None, *, return_indices: _bool, _random_samples: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
    """The greatest elements of windows over 2 dims that begin at random places."""
def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: Sequence[_int] | _int, output_size: Sequence[_int] | _int | None = None, output_ratio: _float | Sequence[_float] | None = None, return_indices: _bool = False, _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The greatest elements of windows over 2 dims that begin at random places."""
@overload
def fractional_max_pool3d(input: Tensor, kernel_size: Sequence[_int] | _int, output_size: Sequence[_int] | _int | None = None, output_ratio: _float | Sequence[_float] | None = None, return_indices: Literal[False] = False, _random_samples: Tensor | None = None) -> Tensor:
    """The greatest elements of windows over 3 dims that begin at random places."""
@overload
def fractional_max_pool3d(input: Tensor, kernel_size: Sequence[_int] | _int, output_size: Sequence[_int] | _int | None = None, output_ratio: _float | Sequence[_float] | None = None, *, return_indices: Literal[True], _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The greatest elements of windows over 3 dims that begin at random places."""
@overload
def fractional_max_pool3d(input: Tensor, kernel_size: Sequence[_int] | _int, output_size: Sequence[_int] | _int | None = None, output_ratio: _float | Sequence[_float] | None = None, *, return_indices: _bool, _random_samples: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
    """The greatest elements of windows over 3 dims that begin at random places."""
def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: Sequence[_int] | _int, output_size: Sequence[_int] | _int | None = None, output_ratio: _float | Sequence[_float] | None = None, return_indices: _bool = False, _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The greatest elements of windows over 3 dims that begin at random places."""
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor | _Number, full: _bool = False, eps: Tensor | _Number = ..., reduction: _str = 'mean', *, out: Tensor | None = None) -> Tensor:
    """y = (log(var) + (input - target)^2 / var) / 2, var at least eps."""
def gelu(input: Tensor, approximate: _str = 'none', *, out: Tensor | None = None) -> Tensor:
    """y = x * Phi(x), Phi the normal distribution's cumulative function."""
def glu(input: Tensor, dim: _int = -1, *, out: Tensor | None = None) -> Tensor:
    """y = a * sigmoid(b), a and b the halves of the input along dim."""
def hardshrink(input: Tensor, lambd: Tensor | _Number = ..., *, out: Tensor | None = None) -> Tensor:
    """y = 0 where |x| <= lambd, else x."""
def hardsigmoid(input: Tensor, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = x / 6 + 1/2, between 0 and 1."""
def hardswish(input: Tensor, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = x * hardsigmoid(x)."""
def hardtanh(input: Tensor, min_val: _float = ..., max_val: _float = ..., inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = x between min_val and max_val as bounds; gradient 0 at and beyond the bounds."""
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: Tensor | _Number = ..., size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Tensor | None = None) -> Tensor:
    """y = input where target is 1, max(0, margin - input) where target is -1."""
def huber_loss(input: Tensor, target: Tensor, reduction: _str = 'mean', delta: _float = ..., weight: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2); d = input - target."""
def interpolate(input: Tensor, size: Sequence[_int] | _int | None = None, scale_factor: _float | Sequence[_float] | None = None, mode: _str = 'nearest', align_corners: _bool | None = None, recompute_scale_factor: _bool | None = None, antialias: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = x resampled to `size`, or by `scale_factor`, over the spatial dims."""
def kl_div(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', log_target: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = target * (log(target) - input), the input a log-probability."""
def l1_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', weight: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = |input - target|. With weights the mean is weighted."""
def layer_norm(input: Tensor, normalized_shape: Sequence[_int] | _int, weight: Tensor | None = None, bias: Tensor | None = None, eps: Tensor | _Number = ..., cudnn_enable: _bool = True, *, out: Tensor | None = None) -> Tensor:
    """y = (x - mean) / sqrt(var + eps) * weight + bias over the trailing dims."""
def leaky_relu(input: Tensor, negative_slope: Tensor | _Number = ..., inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = x if x > 0 else negative_slope * x."""
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = x @ weight.T + bias."""
def local_response_norm(input: Tensor, size: _int, alpha: Tensor | _Number = ..., beta: Tensor | _Number = ..., k: Tensor | _Number = ..., *, out: Tensor | None = None) -> Tensor:
    """y = x / (k + alpha * mean of x**2 over `size` neighbouring channels) ** beta."""
def log_softmax(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = x - log of the sum of exp(x) along dim: log(softmax(x)), without overflow."""
def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = log(sigmoid(x)), without underflow."""
def lp_pool1d(input: Tensor, norm_type: Any, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, ceil_mode: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = (sum of x**norm_type over each window) ** (1 / norm_type)."""
def lp_pool2d(input: Tensor, norm_type: Any, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, ceil_mode: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = (sum of x**norm_type over each window) ** (1 / norm_type)."""
def lp_pool3d(input: Tensor, norm_type: Any, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, ceil_mode: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = (sum of x**norm_type over each window) ** (1 / norm_type)."""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: Tensor | _Number = ..., size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Tensor | None = None) -> Tensor:
    """y = max(0, -target * (input1 - input2) + margin), target 1 or -1."""
@overload
def max_pool1d(input: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., dilation: Sequence[_int] | _int = ..., ceil_mode: _bool = False, return_indices: Literal[False] = False, *, out: Tensor | None = None) -> Tensor:
    """y = the greatest element of each window."""
@overload
def max_pool1d(input: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., dilation: Sequence[_int] | _int = ..., ceil_mode: _bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """y = the greatest element of each window."""
@overload
def max_pool1d_with_indices(input: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., dilation: Sequence[_int] | _int = ..., ceil_mode: _bool = False, return_indices: Literal[False] = False) -> tuple[Tensor, ...]:
    """(y, indices): the greatest element of each window, and its flat position in the input."""
@overload
def max_pool1d_with_indices(input: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., dilation: Sequence[_int] | _int = ..., ceil_mode: _bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """(y, indices): the greatest element of each window, and its flat position in the input."""
@overload
def max_pool2d(input: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., dilation: Sequence[_int] | _int = ..., ceil_mode: _bool = False, return_indices: Literal[False] = False, *, out: Tensor | None = None) -> Tensor:
    """y = the greatest element of each window."""
@overload
def max_pool2d(input: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., dilation: Sequence[_int] | _int = ..., ceil_mode: _bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """y = the greatest element of each window."""
@overload
def max_pool2d_with_indices(input: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., dilation: Sequence[_int] | _int = ..., ceil_mode: _bool = False, return_indices: Literal[False] = False) -> tuple[Tensor, ...]:
    """(y, indices): the greatest element of each window, and its flat position in the input."""
@overload
def max_pool2d_with_indices(input: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., dilation: Sequence[_int] | _int = ..., ceil_mode: _bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """(y, indices): the greatest element of each window, and its flat position in the input."""
@overload
def max_pool3d(input: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., dilation: Sequence[_int] | _int = ..., ceil_mode: _bool = False, return_indices: Literal[False] = False, *, out: Tensor | None = None) -> Tensor:
    """y = the greatest element of each window."""
@overload
def max_pool3d(input: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., dilation: Sequence[_int] | _int = ..., ceil_mode: _bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """y = the greatest element of each window."""
@overload
def max_pool3d_with_indices(input: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., dilation: Sequence[_int] | _int = ..., ceil_mode: _bool = False, return_indices: Literal[False] = False) -> tuple[Tensor, ...]:
    """(y, indices): the greatest element of each window, and its flat position in the input."""
@overload
def max_pool3d_with_indices(input: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., dilation: Sequence[_int] | _int = ..., ceil_mode: _bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """(y, indices): the greatest element of each window, and its flat position in the input."""
def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., output_size: Sequence[_int] | _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = zeros with each element of x at its flat index: what max pooling left of its input."""
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., output_size: Sequence[_int] | _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = zeros with each element of x at its flat index: what max pooling left of its input."""
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: Sequence[_int] | _int, stride: Sequence[_int] | _int | None = None, padding: Sequence[_int] | _int = ..., output_size: Sequence[_int] | _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = zeros with each element of x at its flat index: what max pooling left of its input."""
def mish(input: Tensor, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = x * tanh(log(1 + exp(x))) (Misra, Mish, 2019)."""
def mse_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', weight: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = (input - target)^2. With weights the mean is weighted."""
def multi_margin_loss(input: Tensor, target: Tensor, p: _int = 1, margin: Tensor | _Number = ..., weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Tensor | None = None) -> Tensor:
    """y = sum over classes i other than the target of max(0, margin - x[target] + x[i])^p / C."""
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Tensor | None = None) -> Tensor:
    """y = sum over target classes j and other classes i of max(0, 1 - x[j] + x[i]) / C."""
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Tensor | None = None) -> Tensor:
    """y = the mean over the last dim of the binary cross entropy of sigmoid(input)."""
def native_channel_shuffle(input: Tensor, groups: _int, *, out: Tensor | None = None) -> Tensor:
    """y = x with channel (g, c) at (c, g): the channels of `groups` groups interleaved."""
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, ignore_index: Tensor | _Number = -100, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Tensor | None = None) -> Tensor:
    """y = -weight[target] * input[target], the input log-probabilities."""
def normalize(input: Tensor, p: _float | _str | None = ..., dim: Sequence[_int] | _int | None = 1, eps: Tensor | _Number = ..., *, out: Tensor | None = None) -> Tensor:
    """y = x / max(p-norm of x over dim, eps)."""
def one_hot(tensor: Tensor, num_classes: _int = -1) -> Tensor:
    """(*tensor.shape, num_classes) of int64: 1 at the class of each element, 0 elsewhere."""
def pairwise_distance(x1: Tensor, x2: Tensor, p: _float | _str | None = ..., eps: Tensor | _Number = ..., keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = the p-norm of x1 - x2 + eps over the last dim."""
def pixel_shuffle(input: Tensor, upscale_factor: _int, *, out: Tensor | None = None) -> Tensor:
    """y: (..., C * r * r, H, W) rearranged to (..., C, H * r, W * r)."""
def pixel_unshuffle(input: Tensor, downscale_factor: _int, *, out: Tensor | None = None) -> Tensor:
    """y: (..., C, H * r, W * r) rearranged to (..., C * r * r, H, W)."""
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: _bool = True, full: _bool = False, size_average: _bool | None = None, eps: Tensor | _Number = ..., reduce: _bool | None = None, reduction: _str = 'mean', *, out: Tensor | None = None) -> Tensor:
    """y = exp(input) - target * input, or with log_input=False input - target * log(input + eps)."""
def prelu(input: Tensor, weight: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = x if x > 0 else weight * x."""
def relu(input: Tensor, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = max(input, 0); gradient 0 at 0."""
def relu6(input: Tensor, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = min(max(x, 0), 6)."""
def rms_norm(input: Tensor, normalized_shape: Sequence[_int] | _int, weight: Tensor | None = None, eps: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = x / sqrt(mean(x**2) + eps) * weight over the trailing dims; eps: the dtype's by default."""
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: _float = 0.0, is_causal: _bool = False, scale: _float | None = None, enable_gqa: _bool = False) -> Tensor:
    """`attention` whose dropout mask is drawn from the current random state. See attention."""
def selu(input: Tensor, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = 1.0507 * elu(x, 1.6733) (Klambauer et al., Self-Normalizing Neural Networks, 2017)."""
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 1 / (1 + exp(-input))."""
def silu(input: Tensor, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = x * sigmoid(x)."""
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', beta: _float = ..., *, out: Tensor | None = None) -> Tensor:
    """y = d^2 / (2 beta) where |d| < beta, else |d| - beta / 2; d = input - target."""
def soft_margin_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Tensor | None = None) -> Tensor:
    """y = log(1 + exp(-target * input)), target -1 or 1."""
def softmax(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = exp(x) / sum of exp(x) along dim."""
def softmin(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = exp(-x) / sum of exp(-x) along dim."""
def softplus(input: Tensor, beta: Tensor | _Number = ..., threshold: Tensor | _Number = ..., *, out: Tensor | None = None) -> Tensor:
    """y = log(1 + exp(beta x)) / beta; x itself where beta x > threshold."""
def softshrink(input: Tensor, lambd: _float = ..., *, out: Tensor | None = None) -> Tensor:
    """y = x moved towards 0 by lambd, 0 where |x| <= lambd."""
def softsign(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = x / (1 + |x|)."""
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = tanh(input)."""
def tanhshrink(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = x - tanh(x)."""
def threshold(input: Tensor, threshold: Tensor | _Number, value: Tensor | _Number, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = x where x > threshold, else value."""
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: _float = ..., p: _float | _str | None = 2, eps: Tensor | _Number = ..., swap: _bool = False, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Tensor | None = None) -> Tensor:
    """y = max(0, |anchor - positive|_p - |anchor - negative|_p + margin)."""
@overload
def unfold(input: Tensor, kernel_size: Sequence[_int] | _int, dilation: Sequence[_int] | _int = ..., padding: Sequence[_int] | _int = ..., stride: Sequence[_int] | _int = ..., *, out: Tensor | None = None) -> Tensor:
    """y[n, :, l] = all elements of window l of image n."""
@overload
def unfold(input: Tensor, kernel_size: Sequence[_int] | _int, dilation: Sequence[_int] | _int = ..., padding: Sequence[_int] | _int = ..., *stride: _int, out: Tensor | None = None) -> Tensor:
    """y[n, :, l] = all elements of window l of image n."""
