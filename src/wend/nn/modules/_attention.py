"""Multi-head attention as a module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from wend._engine.base.devices import DeviceLike
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ArgumentError, RequirementError
from wend._frontend.toolkit import Tensor, empty
from wend.nn import functional as F
from wend.nn import init
from wend.nn.functional.attention import canonical_mask, none_or_dtype
from wend.nn.modules.linear import NonDynamicallyQuantizableLinear
from wend.nn.modules.module import Module
from wend.nn.parameter import fresh_parameter

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention by several heads over projections of queries, keys and values.

    Vaswani et al., 2017. query: (L, N, E), or (N, L, E) with batch_first, or (L, E)
    """

    __module__ = "wend.nn.modules.activation"
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: DeviceLike = None,
        dtype: DType | None = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ArgumentError(
                "embed_dim and num_heads must be greater than 0, "
                f"got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim: int = kdim if kdim is not None else embed_dim
        self.vdim: int = vdim if vdim is not None else embed_dim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim: int = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise RequirementError("embed_dim must be divisible by num_heads")
        self._make_projections(factory)
        if bias:
            self.in_proj_bias = fresh_parameter(empty(3 * embed_dim, **factory))
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **factory)
        if add_bias_kv:
            self.bias_k = fresh_parameter(empty((1, 1, embed_dim), **factory))
            self.bias_v = fresh_parameter(empty((1, 1, embed_dim), **factory))
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _make_projections(self, factory: dict[str, Any]) -> None:
        """A stacked weight where queries, keys and values are of equal width, else three."""
        width = self.embed_dim
        if self._qkv_same_embed_dim:
            self.in_proj_weight = fresh_parameter(empty((3 * width, width), **factory))
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
            return
        self.q_proj_weight = fresh_parameter(empty((width, width), **factory))
        self.k_proj_weight = fresh_parameter(empty((width, self.kdim), **factory))
        self.v_proj_weight = fresh_parameter(empty((width, self.vdim), **factory))
        self.register_parameter("in_proj_weight", None)

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            for weight in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        if self.bias_k is not None:
            init.xavier_normal_(self.bias_k)
        if self.bias_v is not None:
            init.xavier_normal_(self.bias_v)

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_qkv_same_embed_dim" not in state:  # before PyTorch 1.1
            state = {**state, "_qkv_same_embed_dim": True}
        super().__setstate__(state)

    if TYPE_CHECKING:

        @overload  # type: ignore[override]  # by position `need_weights` may be given too
        def __call__(
            self,
            query: Tensor,
            key: Tensor,
            value: Tensor,
            key_padding_mask: Tensor | None = None,
            need_weights: Literal[True] = True,
            attn_mask: Tensor | None = None,
            average_attn_weights: bool = True,
            is_causal: bool = False,
        ) -> tuple[Tensor, Tensor]: ...
        @overload
        def __call__(
            self,
            query: Tensor,
            key: Tensor,
            value: Tensor,
            key_padding_mask: Tensor | None = None,
            *,
            need_weights: bool,
            attn_mask: Tensor | None = None,
            average_attn_weights: bool = True,
            is_causal: bool = False,
        ) -> tuple[Tensor, Tensor | None]: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """(output, weights or None); see `F.multi_head_attention_forward`."""
        swapped = self.batch_first and query.dim() == 3
        if swapped:
            query, key, value = _swapped(query, key, value)
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (output.transpose(1, 0) if swapped else output), weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both masks merged, and the kind: 0 attention, 1 padding, 2 both, None neither."""
        padding = canonical_mask(
            key_padding_mask,
            "key_padding_mask",
            none_or_dtype(attn_mask),
            "attn_mask",
            query.dtype,
        )
        mask = canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        if mask is None:
            return padding, None if padding is None else 1
        if padding is None:
            return mask, 0
        batch, length, _ = query.shape
        if mask.dim() == 3:
            mask = mask.view(batch, -1, length, length)
        else:
            mask = mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        padding = padding.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return mask + padding, 2


def _swapped(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Batch and sequence dims exchanged; arguments that were the same tensor stay the same."""
    q = query.transpose(1, 0)
    k = q if key is query else key.transpose(1, 0)
    if value is key:
        return q, k, k
    return q, k, q if value is query else value.transpose(1, 0)
