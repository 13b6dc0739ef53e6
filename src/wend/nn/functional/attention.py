"""Attention (Vaswani et al., 2017)."""

from __future__ import annotations

import warnings
from typing import Any

from wend._engine.base.dtypes import DType
from wend._engine.base.errors import RequirementError, ShapeError, ValueRefused
from wend._frontend.toolkit import Tensor, bool_, ops, zeros_like
from wend.nn.functional.dropout import dropout
from wend.nn.functional.padding import pad

__all__ = ["multi_head_attention_forward"]

_linear = ops.linear


def canonical_mask(
    mask: Tensor | None,
    name: str,
    other: Any,
    other_name: str,
    dtype: DType | None,
    check_other: bool = True,
) -> Tensor | None:
    """A mask as numbers to add to the scores: -inf where a boolean mask is True."""
    if mask is None:
        return None
    if mask.dtype is not bool_ and not mask.is_floating_point():
        raise RequirementError(f"only bool and floating types of {name} are supported")
    if check_other and other is not None and mask.dtype is not other:
        warnings.warn(
            f"Support for mismatched {name} and {other_name} is deprecated. "
            "Use same type for both instead.",
            stacklevel=3,
        )
    if mask.is_floating_point():
        return mask
    return zeros_like(mask, dtype=dtype).masked_fill(mask, float("-inf"))


def none_or_dtype(mask: Tensor | None) -> DType | None:
    """The dtype of a mask that may be absent."""
    return None if mask is None else mask.dtype


def _check_shapes(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    padding: Tensor | None,
    mask: Tensor | None,
    heads: int,
) -> bool:
    """Whether the inputs have a batch dim. Raises AssertionError if the shapes do not fit."""
    rank = query.dim()
    if rank not in (2, 3):
        raise RequirementError(
            f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor"
        )
    word = "batched (3-D)" if rank == 3 else "unbatched (2-D)"
    if key.dim() != rank or value.dim() != rank:
        raise RequirementError(
            f"For {word} `query`, expected `key` and `value` to be {rank}-D but found "
            f"{key.dim()}-D and {value.dim()}-D tensors respectively"
        )
    if padding is not None and padding.dim() != rank - 1:
        raise RequirementError(
            f"For {word} `query`, expected `key_padding_mask` to be `None` or {rank - 1}-D "
            f"but found {padding.dim()}-D tensor instead"
        )
    if mask is not None and mask.dim() not in (2, 3):
        raise RequirementError(
            f"For {word} `query`, expected `attn_mask` to be `None`, 2-D or 3-D "
            f"but found {mask.dim()}-D tensor instead"
        )
    if rank == 2 and mask is not None and mask.dim() == 3:
        expected = (heads, query.shape[0], key.shape[0])
        if tuple(mask.shape) != expected:
            raise RequirementError(
                f"Expected `attn_mask` shape to be {expected} but got {tuple(mask.shape)}"
            )
    return rank == 3


def _project(
    query: Tensor, key: Tensor, value: Tensor, weight: Any, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values from a stacked weight (3 E, E), in as few products as possible."""
    size = query.size(-1)
    if key is value and query is key:
        parts = _linear(query, weight, bias).chunk(3, -1)
        return parts[0], parts[1], parts[2]
    b_q = b_kv = None
    if bias is not None:
        b_q, b_kv = bias[:size], bias[size:]
    q = _linear(query, weight[:size], b_q)
    if key is value:
        k, v = _linear(key, weight[size:], b_kv).chunk(2, -1)
        return q, k, v
    b_k = b_v = None
    if b_kv is not None:
        b_k, b_v = b_kv[:size], b_kv[size:]
    return q, _linear(key, weight[size : 2 * size], b_k), _linear(value, weight[2 * size :], b_v)


def _check_mask_shape(mask: Tensor, target: int, source: int, batch: int, heads: int) -> Tensor:
    if mask.dim() == 2:
        if tuple(mask.shape) != (target, source):
            raise ShapeError(
                f"The shape of the 2D attn_mask is {mask.shape}, but should be {(target, source)}."
            )
        return mask.unsqueeze(0)
    expected = (batch * heads, target, source)
    if tuple(mask.shape) != expected:
        raise ShapeError(
            f"The shape of the 3D attn_mask is {mask.shape}, but should be {expected}."
        )
    return mask


def _project_apart(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    w_q: Tensor | None,
    w_k: Tensor | None,
    w_v: Tensor | None,
    bias: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values from three weights."""
    if w_q is None or w_k is None or w_v is None:
        raise RequirementError(
            "use_separate_proj_weight is True but q_proj_weight, k_proj_weight or "
            "v_proj_weight is None"
        )
    b_q = b_k = b_v = None
    if bias is not None:
        b_q, b_k, b_v = bias.chunk(3)
    return _linear(query, w_q, b_q), _linear(key, w_k, b_k), _linear(value, w_v, b_v)


class _Heads:
    """A call of `multi_head_attention_forward`, from the projections on."""

    def __init__(self, batch: int, heads: int, width: int) -> None:
        self.batch, self.heads, self.width = batch, heads, width
        self.head = width // heads
        self.rows = batch * heads

    def split(self, x: Tensor, static: Tensor | None, name: str) -> Tensor:
        """(L, N, E) -> (N heads, L, E / heads); or `static`, a tensor already split."""
        if static is None:
            return x.reshape(x.shape[0], self.rows, self.head).transpose(0, 1)
        self._check_static(static, name)
        return static

    def split_apart(self, x: Tensor, static: Tensor | None, name: str) -> Tensor:
        """(L, N, E) -> (N, heads, L, E / heads); or `static`, a tensor already split so."""
        if static is None:
            return x.reshape(x.shape[0], self.batch, self.heads, self.head).permute(1, 2, 0, 3)
        self._check_static(static, name)
        return self._unrolled(static)

    def _check_static(self, static: Tensor, name: str) -> None:
        if static.size(0) != self.rows or static.size(2) != self.head:
            raise RequirementError(
                f"expecting {name}.size(0) of {self.rows} and {name}.size(2) of {self.head}, "
                f"but got {static.size(0)} and {static.size(2)}"
            )

    def merge_masks(
        self, mask: Tensor | None, padding: Tensor | None, source: int, added: int
    ) -> Tensor | None:
        """Both masks merged, broadcast to (N heads, L, S), open for keys that were added."""
        if padding is not None:
            if tuple(padding.shape) != (self.batch, source):
                raise RequirementError(
                    f"expecting key_padding_mask shape of {(self.batch, source)}, "
                    f"but got {padding.shape}"
                )
            rows = padding.reshape(self.batch, 1, 1, source)
            rows = rows.expand(self.batch, self.heads, 1, source).reshape(self.rows, 1, source)
            mask = rows if mask is None else mask + rows
        return mask if mask is None or not added else pad(mask, (0, added))

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, p: float
    ) -> tuple[Tensor, Tensor]:
        """Output (L, N, E) and weights (N heads, L, S)."""
        scores = ops.bmm(q * (1.0 / self.head) ** 0.5, k.transpose(-2, -1))
        if mask is not None:
            scores = scores + mask
        weights = ops.softmax(scores, -1)
        if p > 0.0:
            weights = dropout(weights, p)
        return self.join(ops.bmm(weights, v)), weights

    def attend_fused(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, p: float, causal: bool
    ) -> Tensor:
        """Output (L, N, E), without the weights, of operands that `split_apart` returned."""
        if mask is not None:
            mask = mask.unsqueeze(0) if mask.size(0) == 1 else self._unrolled(mask)
        context = ops.scaled_dot_product_attention(q, k, v, mask, p, causal)
        return context.permute(2, 0, 1, 3).reshape(q.shape[2], self.batch, self.width)

    def _unrolled(self, x: Tensor) -> Tensor:
        return x.reshape(self.batch, self.heads, x.shape[1], x.shape[2])

    def join(self, x: Tensor) -> Tensor:
        """(N heads, L, E / heads) -> (L, N, E)."""
        return x.transpose(0, 1).reshape(x.shape[1], self.batch, self.width)


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention by several heads: (output, weights or None).

    query: (L, N, E) or (L, E)   key: (S, N, Ek)   value: (S, N, Ev)   key_padding_mask: (N, S)
    attn_mask: (L, S) or (N heads, L, S); True forbids a pair, a number is added to the score
    is_causal: says that attn_mask is the causal mask
    """
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = _with_batch(query, key, value)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    target, batch, width = query.shape
    _check_width(width, embed_dim_to_check, num_heads)
    key_padding_mask = canonical_mask(
        key_padding_mask, "key_padding_mask", none_or_dtype(attn_mask), "attn_mask", query.dtype
    )
    _require_mask(is_causal, attn_mask)
    causal = is_causal and key_padding_mask is None and not need_weights
    attn_mask = canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
    if use_separate_proj_weight:
        q, k, v = _project_apart(
            query, key, value, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias
        )
    else:
        if key.shape != value.shape:
            shapes = f"key shape {key.shape} does not match value shape {value.shape}"
            raise RequirementError(shapes)
        q, k, v = _project(query, key, value, in_proj_weight, in_proj_bias)
    if attn_mask is not None:
        attn_mask = _check_mask_shape(attn_mask, target, key.shape[0], batch, num_heads)
    heads = _Heads(batch, num_heads, width)
    source = key.shape[0] if static_k is None else static_k.size(1)
    if bias_k is not None and bias_v is not None:
        k = ops.cat([k, bias_k.expand(1, batch, width)], 0)
        v = ops.cat([v, bias_v.expand(1, batch, width)], 0)
    split = heads.split if need_weights else heads.split_apart
    q, k, v = split(q, None, ""), split(k, static_k, "static_k"), split(v, static_v, "static_v")
    if add_zero_attn:
        k, v = pad(k, (0, 0, 0, 1)), pad(v, (0, 0, 0, 1))
    added = k.shape[-2] - source
    mask = heads.merge_masks(attn_mask, key_padding_mask, source, added)
    p = dropout_p if training else 0.0
    if not need_weights:
        fast = causal and not added
        context = heads.attend_fused(q, k, v, None if fast else mask, p, fast)
        weights = None
    else:
        context, weights = heads.attend(q, k, v, mask, p)
        weights = weights.reshape(batch, num_heads, target, k.shape[1])
        weights = weights.mean(1) if average_attn_weights else weights
    output = _linear(context, out_proj_weight, out_proj_bias)
    if batched:
        return output, weights
    return output.squeeze(1), None if weights is None else weights.squeeze(0)


def _require_mask(is_causal: bool, attn_mask: Tensor | None) -> None:
    if is_causal and attn_mask is None:
        raise ValueRefused(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )


def _with_batch(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs with a batch dim of size 1; arguments that were the same tensor stay the same."""
    q = query.unsqueeze(1)
    k = q if key is query else key.unsqueeze(1)
    if value is key:
        return q, k, k
    return q, k, q if value is query else value.unsqueeze(1)


def _check_width(width: int, expected: int, heads: int) -> None:
    if width != expected:
        raise RequirementError(f"was expecting embedding dimension of {expected}, but got {width}")
    if width % heads:
        raise RequirementError(f"embed_dim {width} not divisible by num_heads {heads}")
