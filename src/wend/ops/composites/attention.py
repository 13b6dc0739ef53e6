"""Scaled dot-product attention as one step: scores, mask, softmax, dropout, mixture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from wend.base.dtypes import bool_, float32, int64
from wend.base.errors import DTypeError, ShapeError
from wend.core.primitive import Sample, composite, ops
from wend.core.symbolic import broadcast_shapes, hints
from wend.ops.composites.random import draw
from wend.ops.composites.reduce import widened
from wend.ops.numeric import FLOATING
from wend.ops.sugar import sugar

_OP = "scaled_dot_product_attention"


def _check(query: Any, key: Any, value: Any) -> None:
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


def _repeated(x: Any, heads: Any) -> Any:
    """Each head of x (..., H, L, E) repeated so that there are `heads` of them."""
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


def _expanded(x: Any, front: tuple[Any, ...]) -> Any:
    own = x.shape[:-2]
    if len(own) == len(front) and all(a == b for a, b in zip(own, front, strict=True)):
        return x
    return ops.expand(x, (*front, *x.shape[-2:]))


def _weights(scores: Any) -> Any:
    """softmax over the last dim; 0 where a row is masked entirely."""
    if scores.shape[-1] == 0:  # no maximum to take
        return scores
    top = ops.amax(ops.detach(scores), -1, True)
    top = ops.where(ops.eq(top, -math.inf), 0, top)
    powers = ops.exp(ops.sub(scores, top))
    total = ops.sum(powers, -1, True)
    return ops.div(powers, ops.where(ops.eq(total, 0), 1, total))


def _samples(rng: Any) -> Iterator[Sample]:
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


@composite(
    "query, key, value, attn_mask: tensor? = None, keep: tensor? = None, "
    "keep_scale: scalar? = None, is_causal: bool = False, *, scale: scalar? = None, "
    "enable_gqa: bool = False",
    grad_name="ScaledDotProductAttentionBackward0",
    supports=FLOATING,
    samples=lambda rng: (Sample(*s.args[:3], *s.args[3:4], **s.kwargs) for s in _samples(rng)),
)
def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any,
    keep: Any,
    keep_scale: Any,
    is_causal: bool,
    scale: Any,
    enable_gqa: bool,
) -> Any:
    """y = softmax(query @ key.T * scale + mask) @ value.

    query: (..., L, E)   key: (..., S, E)   value: (..., S, V)   ->   (..., L, V)
    attn_mask: broadcasts to (..., L, S): numbers to add, or bool, True where to look
    keep: (..., L, S), bool: weights that dropout keeps, multiplied by keep_scale
    Raises ShapeError or DTypeError for operands that do not fit.
    """
    _check(query, key, value)
    if is_causal and attn_mask is not None:
        raise ShapeError(f"{_OP}: explicit attn_mask should not be set when is_causal=True")
    if enable_gqa:
        key, value = _repeated(key, query.shape[-3]), _repeated(value, query.shape[-3])
    front = broadcast_shapes(_OP, query.shape[:-2], key.shape[:-2], value.shape[:-2])
    q, k, v = (_expanded(x, front) for x in (query, key, value))
    rank = len(front)
    batch = tuple(range(rank))
    if scale is None:
        scale = query.shape[-1] ** -0.5 if query.shape[-1] != 0 else 1.0  # no features: scores of 0
    # Scaling the queries costs L * E products, scaling the scores L * S.
    scores = ops.contract(ops.mul(q, scale), k, (rank + 1,), (rank + 1,), batch, batch)
    scores = widened(scores)
    if is_causal:
        rows = ops.arange(0, 0, 1, q.shape[-2], dtype=int64)
        columns = ops.arange(0, 0, 1, k.shape[-2], dtype=int64)
        attn_mask = ops.ge(ops.unsqueeze(rows, 1), columns)
    if attn_mask is not None:
        broadcast_shapes(_OP, scores.shape, attn_mask.shape)
        if attn_mask.dtype is bool_:
            scores = ops.where(attn_mask, scores, -math.inf)
        else:
            scores = ops.add(scores, attn_mask)
    weights = _weights(scores)
    if keep is not None:
        weights = ops.mul(ops.mul(weights, ops.cast(keep, weights.dtype)), keep_scale)
    weights = ops.cast(weights, value.dtype)
    return ops.contract(weights, v, (rank + 1,), (rank,), batch, batch)


@sugar(name=_OP)
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """`attention` whose dropout mask is drawn from the current random state. See attention."""
    keep, keep_scale = None, None
    if dropout_p != 0.0:
        if not 0.0 <= dropout_p <= 1.0:
            raise ShapeError(
                f"{_OP}: dropout probability has to be between 0 and 1, but got {dropout_p}"
            )
        shape = (*query.shape[:-1], key.shape[-2])
        keep = ops.ge(draw(ops.uniform, shape, dtype=float32), dropout_p)
        keep_scale = 0.0 if dropout_p == 1.0 else 1.0 / (1.0 - dropout_p)
    return ops.attention(
        query, key, value, attn_mask, keep, keep_scale, is_causal, scale=scale,
        enable_gqa=enable_gqa,
    )  # fmt: skip
