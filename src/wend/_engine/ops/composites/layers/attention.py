"""Scaled dot-product attention as a step: scores, mask, softmax, dropout, mixture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.devices import accelerator_among
from wend._engine.base.dtypes import bool_, float32
from wend._engine.base.errors import DTypeError, ShapeError
from wend._engine.base.random_state import current
from wend._engine.core.kinds import Scalar, Size, Tensor
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import broadcast_shapes, expr_of, hints
from wend._engine.ops.composites.products.product_nodes import laid_matmul
from wend._engine.ops.gradient_nodes import NodeBuilder, NodeOperand
from wend._engine.ops.neural.attend import Dropout, open_attention
from wend._engine.ops.numeric import FLOATING, accumulator
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.sugar import sugar

_OP = "scaled_dot_product_attention"


def _check(query: Tensor, key: Tensor, value: Tensor) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        if len(x.shape) < 2:
            raise ShapeError(f"{_OP}: {name} must be at least 2-D, but has shape {hints(x.shape)}")
        if x.dtype is not query.dtype:
            raise DTypeError(
                f"{_OP}: expected query, key, and value to have the same dtype, but got "
                f"query.dtype: {query.dtype}, key.dtype: {key.dtype} and value.dtype: "
                f"{value.dtype}"
            )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ShapeError(
            f"{_OP}: query {hints(query.shape)}, key {hints(key.shape)} and value "
            f"{hints(value.shape)} do not fit: query and key need one last extent, key and value "
            "one last but one"
        )


def _repeated(x: Tensor, heads: Size) -> Tensor:
    """Each head of x (..., H, L, E) repeated, up to `heads` heads."""
    own = x.shape[-3]
    if own == heads:
        return x
    if heads % own != 0:
        raise ShapeError(
            f"{_OP}: with enable_gqa the number of heads in key and value ({own}) must divide the "
            f"number of heads in query ({heads})"
        )
    front = x.shape[:-3]
    x = ops.unsqueeze(x, len(front) + 1)
    x = ops.expand(x, (*front, own, heads // own, *x.shape[-2:]))
    return ops.reshape(x, (*front, heads, *x.shape[-2:]))


def _expanded(x: Tensor, front: tuple[Any, ...]) -> Tensor:
    own = x.shape[:-2]
    if len(own) == len(front) and all(a == b for a, b in zip(own, front, strict=True)):
        return x
    return ops.expand(x, (*front, *x.shape[-2:]))


def _samples(rng: np.random.Generator) -> Iterator[Sample]:
    q, k, v = (rng.normal(size=s) for s in ((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 6)))
    mask = rng.normal(size=(3, 5)) > 0
    mask[0] = True
    yield Sample(q, k, v)
    yield Sample(q, k, v, mask)
    yield Sample(q, k, v, rng.normal(size=(2, 1, 3, 5)), scale=0.3)
    yield Sample(q, k, v, is_causal=True)
    yield Sample(q[0, 0], k[0, 0], v[0, 0])
    yield Sample(q, k[:, :1], v[:, :1], enable_gqa=True)
    yield Sample(q[:0], k[:0], v[:0])
    yield Sample(q, k[..., :0, :], v[..., :0, :])
    yield Sample(q[..., :0], k[..., :0], v)


def _composed(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    is_causal: bool,
    scale: Scalar | None,
    enable_gqa: bool,
    dropout: tuple[Any, ...],
) -> Tensor:
    """The common composition of `attention` and `attention_dropout`."""
    _check(query, key, value)
    if is_causal and mask is not None:
        raise ShapeError(f"{_OP}: explicit attn_mask should not be set when is_causal=True")
    if enable_gqa:
        key, value = _repeated(key, query.shape[-3]), _repeated(value, query.shape[-3])
    front = broadcast_shapes(_OP, query.shape[:-2], key.shape[:-2], value.shape[:-2])
    q, k, v = (_expanded(x, front) for x in (query, key, value))
    if mask is not None:
        broadcast_shapes(_OP, (*q.shape[:-1], k.shape[-2]), mask.shape)
        mask = mask if mask.dtype is bool_ else ops.cast(mask, q.dtype)
    if scale is None:
        scale = query.shape[-1] ** -0.5 if query.shape[-1] != 0 else 1.0  # no features: scores of 0
    if accelerator_among([query.value.type]) is not None and key.shape[-2] != 0:
        drop = Dropout(*dropout) if dropout else None
        return open_attention(q, k, v, mask, scale, is_causal, drop)
    if not dropout:
        return ops.attend(q, k, v, mask, scale, is_causal=is_causal)[0]
    return ops.attend_dropout(q, k, v, mask, scale, *dropout, is_causal=is_causal)[0]


def _nodes(
    n: NodeBuilder,
    q: NodeOperand,
    k: NodeOperand,
    v: NodeOperand,
    mask: NodeOperand | None,
    causal: bool,
    _: Scalar | None,
    shared: bool,
) -> object:
    if shared:
        return None
    if q.rank == 4 and (mask is None or not mask.active):
        return n.ScaledDotProductFlashAttentionForCpu(q, k, v)
    scores = laid_matmul(n, n.laid(q).through(n.Mul1), n.laid(k).transpose().through(n.Mul1))
    if mask is not None or causal:
        scores = n.Add(scores, mask)
    weights = n.made(n.SafeSoftmax(scores), (*q.shape[:-1], k.shape[-2]))
    return laid_matmul(n, weights, n.laid(v))


def _onnx(
    self: Any,
    g: OnnxBuilder,
    q: OnnxValue,
    k: OnnxValue,
    v: OnnxValue,
    mask: OnnxValue | None,
    scale: Scalar | None,
) -> Any:
    # Masks may hide a whole row: zeros in Wend, and no number in ONNX.
    wide = accumulator(q.dtype)
    plain = mask is None and not self.is_causal and q.rank == k.rank == v.rank == 4
    fronts = [[expr_of(n) for n in x.shape[: 1 if self.enable_gqa else 2]] for x in (q, k, v)]
    plain = plain and fronts[0] == fronts[1] == fronts[2] and wide is float32
    if g.opset < 23 or not plain or not (scale is None or isinstance(scale, (int, float))):
        return NotImplemented
    factor = None if scale is None else float(scale)
    operands = (g.cast(x, wide) for x in (q, k, v))
    return g.cast(g.node("Attention", *operands, scale=factor), q.dtype)


@composite(
    onnx=_onnx,
    grad_name="ScaledDotProductAttentionBackward0",
    supports=FLOATING,
    samples=_samples,
    grad_nodes=_nodes,
)
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    *,
    scale: Scalar | None = None,
    enable_gqa: bool = False,
) -> Any:
    """y = softmax(query @ key.T * scale + mask) @ value.

    query: (..., L, E)   key: (..., S, E)   value: (..., S, V)   ->   (..., L, V)
    attn_mask: broadcasts to (..., L, S): numbers to add, or bool, True where to look
    Raises ShapeError or DTypeError for operands that do not fit.
    """
    return _composed(query, key, value, attn_mask, is_causal, scale, enable_gqa, ())


@composite(
    grad_name="ScaledDotProductAttentionBackward0",
    supports=FLOATING,
    random=True,
    samples=lambda rng: (
        Sample(*s.args[:3], *(s.args[3:4] or (None,)), 0.3, 1 / 0.7, 5, 8, **s.kwargs)
        for s in _samples(rng)
    ),
)
def attention_dropout(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    p: Scalar,
    factor: Scalar,
    seed: Scalar,
    offset: Scalar,
    is_causal: bool = False,
    *,
    scale: Scalar | None = None,
    enable_gqa: bool = False,
) -> Any:
    """`attention` whose weights are left out with probability p, else multiplied by `factor`.

    seed, offset: of the random numbers, a number for each pair, in order
    """
    dropout = (p, factor, seed, offset)
    return _composed(query, key, value, attn_mask, is_causal, scale, enable_gqa, dropout)


@sugar(name=_OP)
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`attention` whose dropout mask is drawn from the current random state. See attention."""
    if dropout_p == 0.0:
        return ops.attention(
            query, key, value, attn_mask, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    if not 0.0 <= dropout_p <= 1.0:
        raise ShapeError(
            f"{_OP}: dropout probability has to be between 0 and 1, but got {dropout_p}"
        )
    factor = 0.0 if dropout_p == 1.0 else 1.0 / (1.0 - dropout_p)
    front = broadcast_shapes(_OP, *(x.shape[:-2] for x in (query, key, value)))
    seed, offset = current().reserve(math.prod((*front, query.shape[-2], key.shape[-2])))
    return ops.attention_dropout(
        query, key, value, attn_mask, float(dropout_p), factor, seed, offset, is_causal,
        scale=scale, enable_gqa=enable_gqa,
    )  # fmt: skip
