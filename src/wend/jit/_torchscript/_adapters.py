"""Ops whose arguments in an archive differ from those of Wend's functions.

Archives follow the schemas of PyTorch's C++: `mse_loss(x, y, 1)` has a number for the reduction,
`softmax(x, -1, 6)` a number for the dtype, `slice(x, 1, 0, 5)` a dim.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import wend.nn.functional as F
from wend._engine.base.devices import device
from wend._engine.base.dtypes import NAMES
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, NotImplementedInWend
from wend._engine.core._hot import Tensor
from wend.jit._torchscript._values import (
    Member,
    Number0d,
    ScriptRaised,
    dtype_number,
    dtype_of,
)
from wend.nn.utils import rnn

__all__ = ["ADAPTERS", "PRIM"]

T: Any = importlib.import_module(__name__.partition(".")[0])
Function = Callable[..., Any]
LAST = (1 << 63) - 1  # the end of a slice that has none
REDUCTIONS = ("none", "mean", "sum")


# -- shapes and views -------------------------------------------------------------------------


def _size(x: Tensor, dim: Any = None) -> Any:
    return list(x.shape) if dim is None else x.shape[dim]


def _slice(x: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Tensor:
    if type(end) is int and end >= LAST:
        end = None
    if type(start) is int and start == 0:
        start = None
    if start is None and end is None and step == 1:
        return x
    if dim < 0:
        dim += x.dim()
    return x[(slice(None),) * dim + (slice(start, end, step),)]


def _index(x: Tensor, indices: Sequence[Any]) -> Tensor:
    places = tuple(slice(None) if i is None else i for i in indices)
    return x[places]


def _index_put(x: Tensor, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Tensor:
    return _index_put_(x.clone(), indices, values, accumulate)


def _index_put_(
    x: Tensor, indices: Sequence[Any], values: Any, accumulate: bool = False, unsafe: bool = False
) -> Tensor:
    places = tuple(slice(None) if i is None else i for i in indices)
    if accumulate:
        if any(i is None for i in indices):
            raise NotImplementedInWend("TorchScript: index_put accumulates beside a whole dim")
        return x.index_put_(tuple(indices), values, accumulate=True)
    x[places] = values
    return x


def _to(x: Tensor, *args: Any, **keywords: Any) -> Tensor:
    """`to` of a dtype, a device, or another tensor."""
    rest = list(args)
    target = rest.pop(0) if rest else None
    x_device: Any
    dtype: Any
    if isinstance(target, Tensor):
        x_device, dtype = target.device, target.dtype
    elif isinstance(target, int) and not isinstance(target, bool):
        x_device, dtype = keywords.get("device"), dtype_of(target)
    else:
        x_device = keywords.get("device") if target is None else target
        dtype = keywords.get("dtype")
        if rest and not isinstance(rest[0], bool):
            dtype = rest.pop(0)
    copies = keywords.get("copy", rest[1] if len(rest) > 1 else False)
    options = {"dtype": dtype_of(dtype), "device": x_device}
    known = {k: v for k, v in options.items() if v is not None}
    result = x.to(**known) if known else x
    return result.clone() if copies and result is x else result


def _expand(x: Tensor, size: Sequence[Any], implicit: bool = False) -> Tensor:
    return x.expand(list(size))


def _unbind(x: Tensor, dim: int = 0) -> list[Tensor]:
    return list(x.unbind(dim))


def _where(condition: Tensor, *args: Any) -> Any:
    return T.where(condition, *args) if args else list(condition.nonzero(as_tuple=True))


# -- reductions and softmax --------------------------------------------------------------------


def _softmax(function: Function) -> Function:
    def call(x: Tensor, dim: int, dtype: Any = None) -> Tensor:
        if isinstance(dtype, bool):  # half_to_float
            dtype = None
        return function(x, dim, dtype=dtype_of(dtype))  # type: ignore[no-any-return]

    return call


# -- layers ------------------------------------------------------------------------------------


def _convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    *flags: object,
) -> Tensor:
    dims = weight.dim() - 2
    strides, pads, steps, more = (
        list(n) * dims if len(n) == 1 else list(n)
        for n in (stride, padding, dilation, output_padding)
    )
    if transposed:
        function = getattr(T, f"conv_transpose{dims}d")
        return function(x, weight, bias, strides, pads, more, groups, steps)  # type: ignore[no-any-return]
    function = getattr(T, f"conv{dims}d")
    return function(x, weight, bias, strides, pads, steps, groups)  # type: ignore[no-any-return]


def _convolution_mode(
    x: Tensor, weight: Tensor, bias: Any, stride: Any, padding: str, dilation: Any, groups: int
) -> Tensor:
    function = getattr(T, f"conv{weight.dim() - 2}d")
    return function(x, weight, bias, stride, padding, dilation, groups)  # type: ignore[no-any-return]


def _pool(function: Function, most: int) -> Function:
    """Pooling whose empty stride is the kernel's size."""

    def call(x: Tensor, kernel: Any, stride: Any = None, *args: Any) -> Any:
        return function(x, kernel, stride or None, *args[:most])

    return call


def _adaptive_max(name: str) -> Function:
    def call(x: Tensor, size: Any) -> Any:
        return getattr(F, name)(x, size, return_indices=True)

    return call


def _max_unpool(dims: int) -> Function:
    def call(x: Tensor, indices: Tensor, size: Sequence[int], *_: Any) -> Tensor:
        function = getattr(F, f"max_unpool{dims}d")
        kernel = [-(-n // k) for n, k in zip(size, x.shape[-dims:], strict=True)]
        return function(x, indices, kernel, output_size=list(size))  # type: ignore[no-any-return]

    return call


def _padding(mode: str) -> Function:
    def call(x: Tensor, pad: Sequence[int]) -> Tensor:
        return F.pad(x, list(pad), mode)

    return call


def _upsample(mode: str, dims: int, corners: bool, antialias: bool = False) -> Function:
    """`upsample_*`: the size or factors as numbers of each dim, or as a list at the end."""

    def call(x: Tensor, size: Any, *args: Any) -> Tensor:
        rest = list(args)
        align = rest.pop(0) if corners and rest else None
        factors: Any = None
        if len(rest) == 1 and isinstance(rest[0], (list, tuple)):
            factors = list(rest[0])
        elif len(rest) == dims and all(f is not None for f in rest):
            factors = rest
        if size is not None and factors is not None:
            inner = x.shape[-dims:]
            if [int(n * f) for n, f in zip(inner, factors, strict=True)] == list(size):
                size = None
            else:
                factors = None
        return F.interpolate(
            x,
            None if size is None else list(size),
            factors,
            mode,
            align if corners else None,
            antialias=antialias,
        )

    return call


UPSAMPLING = {
    "upsample_nearest1d": _upsample("nearest", 1, False),
    "upsample_nearest2d": _upsample("nearest", 2, False),
    "upsample_nearest3d": _upsample("nearest", 3, False),
    "_upsample_nearest_exact1d": _upsample("nearest-exact", 1, False),
    "_upsample_nearest_exact2d": _upsample("nearest-exact", 2, False),
    "_upsample_nearest_exact3d": _upsample("nearest-exact", 3, False),
    "upsample_linear1d": _upsample("linear", 1, True),
    "upsample_bilinear2d": _upsample("bilinear", 2, True),
    "upsample_bicubic2d": _upsample("bicubic", 2, True),
    "upsample_trilinear3d": _upsample("trilinear", 3, True),
    "_upsample_bilinear2d_aa": _upsample("bilinear", 2, True, True),
    "_upsample_bicubic2d_aa": _upsample("bicubic", 2, True, True),
}


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    return v * (g / T.norm_except_dim(v, 2, dim))  # type: ignore[no-any-return]


def _native_layer_norm(x: Tensor, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    dims = list(range(-len(shape), 0))
    mean = x.mean(dims, keepdim=True)
    rstd = (x.var(dims, correction=0, keepdim=True) + eps).rsqrt()
    return T.layer_norm(x, shape, weight, bias, eps), mean, rstd


def _recurrent(name: str) -> Function:
    def call(*args: Any) -> Any:
        return getattr(T, name)(*args)

    return call


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    width: int,
    heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    weight: Tensor,
    bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average: bool = True,
    mask_type: int | None = None,
) -> Any:
    """`_native_multi_head_attention`: batches first.

    mask_type: 0 for a mask of pairs, 1 for a mask of keys, 2 for one of all
    """
    keys = mask if mask_type == 1 else None
    pairs = mask if mask_type in (0, None) else None
    if mask is not None and mask_type == 2:
        pairs = mask.reshape(-1, *mask.shape[-2:]) if mask.dim() == 4 else mask
    q, k, v = (x.transpose(0, 1) for x in (query, key, value))
    out, shares = F.multi_head_attention_forward(
        q,
        k,
        v,
        width,
        heads,
        qkv_weight,
        qkv_bias,
        None,
        None,
        False,
        0.0,
        weight,
        bias,
        False,
        keys,
        need_weights,
        pairs,
        average_attn_weights=average,
    )
    return out.transpose(0, 1), shares


def _encoder_layer(
    x: Tensor,
    width: int,
    heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm1_weight: Tensor,
    norm1_bias: Tensor,
    norm2_weight: Tensor,
    norm2_bias: Tensor,
    up_weight: Tensor,
    up_bias: Tensor,
    down_weight: Tensor,
    down_bias: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """`_transformer_encoder_layer_fwd`: a layer of a transformer in evaluation."""

    def norm(y: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.layer_norm(y, (width,), weight, bias, eps)

    def attend(y: Tensor) -> Tensor:
        weights = (qkv_weight, qkv_bias, out_weight, out_bias)
        out, _ = _attention(y, y, y, width, heads, *weights, mask, False, True, mask_type)
        return out  # type: ignore[no-any-return]

    def feed(y: Tensor) -> Tensor:
        inner = F.linear(y, up_weight, up_bias)
        return F.linear(F.gelu(inner) if use_gelu else F.relu(inner), down_weight, down_bias)

    if norm_first:
        x = x + attend(norm(x, norm1_weight, norm1_bias))
        return x + feed(norm(x, norm2_weight, norm2_bias))
    x = norm(x + attend(x), norm1_weight, norm1_bias)
    return norm(x + feed(x), norm2_weight, norm2_bias)


# -- losses ------------------------------------------------------------------------------------


def _loss(name: str, *places: str) -> Function:
    """A loss whose reduction is a number.

    places: names of the arguments behind input and target, `reduction` among these
    """

    def call(x: Tensor, target: Tensor, *args: Any, **keywords: Any) -> Tensor:
        named = dict(zip(places, args, strict=False)) | keywords
        number = named.get("reduction", 1)
        named["reduction"] = REDUCTIONS[number]
        return getattr(F, name)(x, target, **named)  # type: ignore[no-any-return]

    return call


NLL = ("weight", "reduction", "ignore_index")
LOSSES = {
    "l1_loss": _loss("l1_loss", "reduction"),
    "mse_loss": _loss("mse_loss", "reduction"),
    "huber_loss": _loss("huber_loss", "reduction", "delta"),
    "smooth_l1_loss": _loss("smooth_l1_loss", "reduction", "beta"),
    "soft_margin_loss": _loss("soft_margin_loss", "reduction"),
    "multilabel_margin_loss": _loss("multilabel_margin_loss", "reduction"),
    "multi_margin_loss": _loss("multi_margin_loss", "p", "margin", "weight", "reduction"),
    "binary_cross_entropy": _loss("binary_cross_entropy", "weight", "reduction"),
    "cross_entropy_loss": _loss("cross_entropy", *NLL, "label_smoothing"),
    "nll_loss": _loss("nll_loss", *NLL),
    "nll_loss_nd": _loss("nll_loss", *NLL),
    "nll_loss2d": _loss("nll_loss", *NLL),
}


# -- spectra, packed sequences, unique ----------------------------------------------------------


def _stft(x: Tensor, n_fft: int, hop: Any, width: Any, window: Any, *rest: Any, **more: Any) -> Any:
    names = ["normalized", "onesided", "return_complex", "align_to_window"]
    centered = len(rest) > 1 and isinstance(rest[1], str)
    if centered:
        names = ["center", "pad_mode", *names]
    named = dict(zip(names, rest, strict=False)) | more
    if "center" not in named:
        named["center"] = False
    return T.stft(x, n_fft, hop, width, window, **named)


def _pack(x: Tensor, lengths: Tensor, batch_first: bool) -> Any:
    packed = rnn.pack_padded_sequence(x, lengths, batch_first)
    return packed.data, packed.batch_sizes


def _pad_packed(
    data: Tensor, batch_sizes: Tensor, batch_first: bool, value: float, total: int
) -> Any:
    packed = rnn.PackedSequence(data, batch_sizes)
    length = total if total > 0 else None
    return rnn.pad_packed_sequence(packed, batch_first, value, length)


def _unique(
    x: Tensor, sorted: bool = True, inverse: bool = False, counts: bool = False, dim: Any = None
) -> Any:
    return T.unique(x, sorted, True, True, dim)


def _unique_dim(
    x: Tensor, dim: int, sorted: bool = True, inverse: bool = False, counts: bool = False
) -> Any:
    return T.unique(x, sorted, True, True, dim)


def _unique_consecutive(
    x: Tensor, inverse: bool = False, counts: bool = False, dim: Any = None
) -> Any:
    return T.unique_consecutive(x, True, True, dim)


def _random_(name: str, *names: str) -> Function:
    """A method that fills a tensor with random numbers; a generator is not part of archives."""

    def call(x: Tensor, *args: Any, generator: None = None) -> Tensor:
        return getattr(x, name)(*args)  # type: ignore[no-any-return]

    return call


# -- the engine's state --------------------------------------------------------------------------


def _grad(
    outputs: list[Tensor],
    inputs: list[Tensor],
    gradients: Any = None,
    retain: Any = None,
    create: bool = False,
    allow_unused: bool = False,
) -> list[Any]:
    return list(T.autograd.grad(outputs, inputs, gradients, retain, create, allow_unused))


def _warn(text: str, stacklevel: int = 2, category: Any = None) -> None:
    warnings.warn(str(text), UserWarning, stacklevel=2)


def _raise(text: Any, name: Any = None) -> None:
    """The error of a `raise` in the archive, as text: `builtins.ValueError: ...`."""
    raise ScriptRaised(f"{name}: {text}" if isinstance(name, str) and name else str(text))


def _assert(condition: Any, text: Any = "") -> None:
    if not condition:
        raise ScriptRaised(f"AssertionError: {text}")


def _manual_seed(seed: int) -> None:
    T.manual_seed(seed)


def _set_grad_enabled(on: bool) -> None:
    T.set_grad_enabled(on)


def _lacks_cuda(x: Any, *_: Any) -> Any:
    raise ArgumentError("TorchScript: the archive moves a tensor to cuda, which is not available")


def _device(name: Any, index: Any = None) -> device:
    return device(name) if index is None else device(name, index)


def _cast(name: str) -> Function:
    """`_cast_Long(x)`, of archives of format 1."""
    return lambda x, non_blocking=False: x.to(NAMES[name])


CASTS = {
    "_cast_Byte": _cast("uint8"),
    "_cast_Char": _cast("int8"),
    "_cast_Short": _cast("int16"),
    "_cast_Int": _cast("int32"),
    "_cast_Long": _cast("int64"),
    "_cast_Half": _cast("float16"),
    "_cast_Float": _cast("float32"),
    "_cast_Double": _cast("float64"),
}
ADAPTERS: dict[str, Function] = {
    **CASTS,
    **UPSAMPLING,
    **LOSSES,
    "size": _size,
    "sym_size": _size,
    "dim": lambda x: x.dim(),
    "numel": lambda x: x.numel(),
    "sym_numel": lambda x: x.numel(),
    "stride": lambda x, dim=None: list(x.stride()) if dim is None else x.stride(dim),
    "item": lambda x: x.item(),
    "_local_scalar_dense": lambda x: x.item(),
    "is_nonzero": bool,
    "slice": _slice,
    "select": lambda x, dim, index: x.select(dim, index),
    "index": _index,
    "_unsafe_index": _index,
    "index_put": _index_put,
    "index_put_": _index_put_,
    "_index_put_impl_": _index_put_,
    "to": _to,
    "_to_copy": _to,
    "type_as": lambda x, y: x.type_as(y),
    "cpu": lambda x: x.cpu(),
    "cuda": _lacks_cuda,
    "expand": _expand,
    "expand_as": lambda x, y: x.expand_as(y),
    "unbind": _unbind,
    "unfold": lambda x, dim, size, step: x.unfold(dim, size, step),
    "numpy_T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "matrix_H": lambda x: x.mH,
    "alias": lambda x: x.view(x.shape),
    "lift_fresh": lambda x: x,
    "lift": lambda x: x,
    "view": lambda x, size: x.view(dtype_of(size) if isinstance(size, int) else list(size)),
    "_unsafe_view": lambda x, size: x.reshape(list(size)),
    "_reshape_alias": lambda x, size, stride: x.reshape(list(size)),
    "reshape": lambda x, size: x.reshape(list(size)),
    "permute": lambda x, dims: x.permute(list(dims)),
    "repeat": lambda x, sizes: x.repeat(list(sizes)),
    "contiguous": lambda x, memory_format=None: x.contiguous(),
    "clone": lambda x, memory_format=None: x.clone(),
    "_shape_as_tensor": lambda x: T.tensor(list(x.shape)),
    "copy_": lambda x, y, non_blocking=False: x.copy_(y),
    "where": _where,
    "nonzero_numpy": lambda x: list(x.nonzero(as_tuple=True)),
    "scalar_tensor": lambda x, **options: T.scalar_tensor(x, **options),
    "softmax": _softmax(F.softmax),
    "_softmax": _softmax(F.softmax),
    "log_softmax": _softmax(F.log_softmax),
    "_log_softmax": _softmax(F.log_softmax),
    "special_softmax": _softmax(F.softmax),
    "special_log_softmax": _softmax(F.log_softmax),
    "_convolution": _convolution,
    "convolution": _convolution,
    "_convolution_mode": _convolution_mode,
    "avg_pool1d": _pool(F.avg_pool1d, 3),
    "avg_pool2d": _pool(F.avg_pool2d, 4),
    "avg_pool3d": _pool(F.avg_pool3d, 4),
    "max_pool1d": _pool(F.max_pool1d, 3),
    "max_pool2d": _pool(F.max_pool2d, 3),
    "max_pool3d": _pool(F.max_pool3d, 3),
    "max_pool1d_with_indices": _pool(F.max_pool1d_with_indices, 3),
    "max_pool2d_with_indices": _pool(F.max_pool2d_with_indices, 3),
    "max_pool3d_with_indices": _pool(F.max_pool3d_with_indices, 3),
    "adaptive_max_pool1d": _adaptive_max("adaptive_max_pool1d"),
    "adaptive_max_pool2d": _adaptive_max("adaptive_max_pool2d"),
    "adaptive_max_pool3d": _adaptive_max("adaptive_max_pool3d"),
    "_adaptive_avg_pool2d": F.adaptive_avg_pool2d,
    "_adaptive_avg_pool3d": F.adaptive_avg_pool3d,
    "max_unpool2d": _max_unpool(2),
    "max_unpool3d": _max_unpool(3),
    "fractional_max_pool2d": lambda x, k, size, samples: F.fractional_max_pool2d(
        x, k, size, return_indices=True, _random_samples=samples
    ),
    "fractional_max_pool3d": lambda x, k, size, samples: F.fractional_max_pool3d(
        x, k, size, return_indices=True, _random_samples=samples
    ),
    "im2col": F.unfold,
    "col2im": F.fold,
    "pad": lambda x, pad, mode="constant", value=None: F.pad(x, list(pad), mode, value),
    "constant_pad_nd": lambda x, pad, value=0: F.pad(x, list(pad), "constant", value),
    "reflection_pad1d": _padding("reflect"),
    "reflection_pad2d": _padding("reflect"),
    "reflection_pad3d": _padding("reflect"),
    "replication_pad1d": _padding("replicate"),
    "replication_pad2d": _padding("replicate"),
    "replication_pad3d": _padding("replicate"),
    "_pad_circular": _padding("circular"),
    "native_channel_shuffle": F.channel_shuffle,
    "elu": lambda x, alpha=1.0, scale=1, input_scale=1: (
        F.elu(x, alpha) if scale == input_scale == 1 else F.elu(x * input_scale, alpha) * scale
    ),
    "rrelu": lambda x, low=1 / 8, high=1 / 3, training=False, generator=None: F.rrelu(
        x, low, high, training
    ),
    "rrelu_with_noise": lambda x, noise, low, high, training=False, generator=None: F.rrelu(
        x, low, high, training
    ),
    "log_sigmoid": F.logsigmoid,
    "one_hot": lambda x, classes=-1: F.one_hot(x, classes),
    "hardtanh": F.hardtanh,
    "_prelu_kernel": F.prelu,
    "_weight_norm": _weight_norm,
    "_weight_norm_interface": lambda v, g, dim=0: (
        _weight_norm(v, g, dim),
        T.norm_except_dim(v, 2, dim),
    ),
    "native_layer_norm": _native_layer_norm,
    "layer_norm": lambda x, shape, weight=None, bias=None, eps=1e-5, cudnn=True: F.layer_norm(
        x, list(shape), weight, bias, eps
    ),
    "group_norm": lambda x, groups, weight=None, bias=None, eps=1e-5, cudnn=True: F.group_norm(
        x, groups, weight, bias, eps
    ),
    "embedding": lambda weight, x, padding=-1, scale=False, sparse=False: T.embedding(
        weight, x, padding, scale, sparse
    ),
    "scaled_dot_product_attention": F.scaled_dot_product_attention,
    "_native_multi_head_attention": _attention,
    "_transformer_encoder_layer_fwd": _encoder_layer,
    "stft": _stft,
    "_pack_padded_sequence": _pack,
    "_pad_packed_sequence": _pad_packed,
    "pad_sequence": rnn.pad_sequence,
    "_unique2": _unique,
    "_unique": lambda x, sorted=True, inverse=False: T.unique(x, sorted, True),
    "unique_dim": _unique_dim,
    "unique_consecutive": _unique_consecutive,
    "norm": lambda x, p=2, dim=None, keepdim=False, dtype=None: T.norm(
        x, p, dim, keepdim, dtype=dtype_of(dtype)
    ),
    "einsum": lambda equation, tensors, path=None: T.einsum(equation, tensors),
    "meshgrid": lambda tensors, indexing="ij": list(T.meshgrid(*tensors, indexing=indexing)),
    "broadcast_tensors": lambda tensors: list(T.broadcast_tensors(*tensors)),
    "atleast_1d": T.atleast_1d,
    "cartesian_prod": lambda tensors: T.cartesian_prod(*tensors),
    "block_diag": lambda tensors: T.block_diag(*tensors),
    "uniform_": _random_("uniform_"),
    "normal_": _random_("normal_"),
    "exponential_": _random_("exponential_"),
    "bernoulli_": _random_("bernoulli_"),
    "requires_grad_": lambda x, on=True: x.requires_grad_(on),
    "retain_grad": lambda x: x.retain_grad(),
    "is_leaf": lambda x: x.is_leaf,
    "backward": lambda x, gradient=None, retain=None, create=False, inputs=None: x.backward(
        gradient, retain, create
    ),
    "grad": _grad,
    "is_grad_enabled": lambda: T.is_grad_enabled(),
    "set_grad_enabled": _set_grad_enabled,
    "is_autocast_enabled": lambda *_: False,
    "is_autocast_cpu_enabled": lambda *_: False,
    "_get_tracing_state": lambda: False,
    "is_scripting": lambda: True,
    "has_torch_function": lambda *_: False,
    "_autocast_to_full_precision": lambda x, *_: x,
    "_autocast_to_reduced_precision": lambda x, *_: x,
    "manual_seed": _manual_seed,
    "device": _device,
    "warn": _warn,
    "wait": lambda x: x,
    "_assert_async": lambda x, text="": _assert(x, text),
    "_list_to_tensor": lambda x: T.tensor(x),
    "_tensor_to_list": lambda x: x.tolist(),
    "_unwrap_optional": lambda x: _unwrapped(x),
    "_infer_size": lambda a, b: list(T.broadcast_shapes(a, b)),
    "_size_if_not_equal": lambda a, b: None if a == b else a,
    "_grad_sum_to_size": lambda x, size: x if size is None else x.sum_to_size(*size),
    "_ncf_view": lambda x, size, dims: x.reshape(list(size)),
    "is_contiguous": lambda x, memory_format=0: x.is_contiguous(),
    "storage_offset": lambda x: x.storage_offset(),
    "element_size": lambda x: x.element_size(),
    "native_dropout": lambda x, p, train=True: _native_dropout(x, p, train),
    "_test_serialization_subcmul": lambda x, y, alpha=1: x - alpha * y,
}


def _native_dropout(x: Tensor, p: float, train: Any) -> Any:
    if train is False:
        return x, T.ones_like(x, dtype=T.bool)
    mask = T.rand_like(x) >= p
    return x * mask / (1 - p), mask


def _unwrapped(x: Any) -> Any:
    if x is None:
        raise ScriptRaised("AssertionError: Unwrapping null optional")
    return x


def _number(x: Any) -> Any:
    """`NumToTensor`: a tensor without dims; an int stays known."""
    if isinstance(x, (Tensor, Number0d)):
        return x
    return T.tensor(x) if isinstance(x, (bool, float, complex)) else Number0d(x)


def _type_name(x: Any) -> str:
    if not isinstance(x, device):
        raise ArgumentTypeError(f"TorchScript: the kind of a {type(x).__name__} is asked for")
    return x.type


def _enum(name: str) -> Function:
    def call(x: Member) -> Any:
        return x.name if name == "name" else x.value

    return call


PRIM: dict[str, Function] = {
    "NumToTensor": _number,
    "RaiseException": _raise,
    "dtype": lambda x: dtype_number(x.dtype),
    "device": lambda x: x.device,
    "shape": lambda x: list(x.shape),
    "layout": lambda x: 0,
    "data": lambda x: x.detach(),
    "grad": lambda x: x.grad,
    "itemsize": lambda x: x.dtype.itemsize,
    "name": lambda x: x.name,
    "requires_grad": lambda x: x.requires_grad,
    "is_cuda": lambda x: False,
    "is_xpu": lambda x: False,
    "is_cpu": lambda x: True,
    "is_meta": lambda x: x.is_meta,
    "is_mkldnn": lambda x: False,
    "is_mps": lambda x: False,
    "is_sparse": lambda x: x.is_sparse,
    "is_sparse_csr": lambda x: x.is_sparse_csr,
    "is_quantized": lambda x: False,
    "is_nested": lambda x: x.is_nested,
    "is_vulkan": lambda x: False,
    "is_ipu": lambda x: False,
    "is_ort": lambda x: False,
    "is_maia": lambda x: False,
    "type": _type_name,
    "index": lambda x: x.index,
    "unchecked_unwrap_optional": _unwrapped,
    "unchecked_cast": lambda x: x,
    "EnumName": _enum("name"),
    "EnumValue": _enum("value"),
    "max": lambda *x: max(*x) if len(x) > 1 else max(x[0]),
    "min": lambda *x: min(*x) if len(x) > 1 else min(x[0]),
    "abs": abs,
    "rangelist": lambda n: list(range(n)),
    "is_scripting": lambda: True,
    "has_torch_function": lambda *_: False,
    "AutogradZero": lambda: None,
    "id": lambda x: id(x),
    "TupleIndex": lambda x, i: x[i],
}
