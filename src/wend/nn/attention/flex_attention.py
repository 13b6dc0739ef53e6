"""torch.nn.attention.flex_attention: attention with a function of the program's on the scores.

The functions get the scores (or nothing) and four numbers: batch, head, position in the query, in
the key. Each is called once in a call of `flex_attention`, on vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from wend._engine.base.devices import DeviceLike
from wend._engine.base.dtypes import float64
from wend._engine.base.errors import DTypeError, ShapeError
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.ops.numeric import accumulator
from wend._engine.transforms.pairs import capture
from wend._frontend.autograd.grad_modes import is_grad_enabled
from wend._frontend.creation import tensor
from wend.nn.attention._block_mask import BlockMask, Mask, create_mask, for_all

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """Further results that a call asks for."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """Further results: log of the sum of the scores' exponentials, and the greatest score."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """True for all pairs."""
    return batch >= 0


def and_masks(*mask_mods: Mask) -> Mask:
    """The mask of pairs that all masks let pass."""

    def mask(b: Any, h: Any, q: Any, kv: Any) -> Any:
        result = mask_mods[0](b, h, q, kv)
        for other in mask_mods[1:]:
            result = result & other(b, h, q, kv)
        return result

    return mask


def or_masks(*mask_mods: Mask) -> Mask:
    """The mask of pairs that a mask lets pass."""

    def mask(b: Any, h: Any, q: Any, kv: Any) -> Any:
        result = mask_mods[0](b, h, q, kv)
        for other in mask_mods[1:]:
            result = result | other(b, h, q, kv)
        return result

    return mask


def create_block_mask(
    mask_mod: Mask,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: DeviceLike = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    **unused: object,
) -> BlockMask:
    """A mask from a function of (batch, head, position in the query, in the key).

    B, H: None if the mask is the same for all
    The table of blocks without pairs is made when it is first needed.
    """
    block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    return BlockMask(mask_mod, (B or 1, H or 1, Q_LEN, KV_LEN), block)


def _checked(
    query: Tensor, key: Tensor, value: Tensor, block_mask: BlockMask | None, enable_gqa: bool
) -> tuple[Tensor, Tensor]:
    """Key and value with the batch and heads of the query. Raises ShapeError, DTypeError."""
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise ShapeError("flex_attention: query, key and value have four dims")
    if not query.dtype is key.dtype is value.dtype:
        raise DTypeError(
            "flex_attention: expected query, key, and value to have the same dtype, but got "
            f"query.dtype: {query.dtype}, key.dtype: {key.dtype}, and value.dtype: {value.dtype}"
        )
    batch, heads, rows, depth = query.shape
    if key.shape[1] != heads:
        if not enable_gqa:
            raise ShapeError(
                f"flex_attention: expected query and key to have the same number of heads, but got "
                f"{heads} and {key.shape[1]}; set enable_gqa=True to share heads of keys"
            )
        if heads % key.shape[1] != 0:
            raise ShapeError(
                f"flex_attention: the {heads} heads of the query are no multiple of the "
                f"{key.shape[1]} heads of the key"
            )
        repeats = heads // key.shape[1]
        key = ops.repeat_interleave(key, repeats, 1)
        value = ops.repeat_interleave(value, repeats, 1)
    if key.shape[0] != batch:
        if key.shape[0] != 1:
            raise ShapeError(
                f"flex_attention: the batch of the query, {batch}, and of the key, "
                f"{key.shape[0]}, differ"
            )
        key = key.expand(batch, -1, -1, -1)
        value = value.expand(batch, -1, -1, -1)
    if key.shape[-1] != depth or value.shape[:-1] != key.shape[:-1]:
        raise ShapeError(
            f"flex_attention: query {tuple(query.shape)}, key {tuple(key.shape)} and value "
            f"{tuple(value.shape)} do not fit: query and key need one last extent, key and value "
            "equal extents but for the last"
        )
    if block_mask is not None:
        block_mask.check(batch, heads, rows, key.shape[2])
    return key, value


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """y = softmax(score_mod(query @ key.T * scale)) @ value, over the pairs of the mask.

    query: (b, h, q, d)   key: (b, h, kv, d)   value: (b, h, kv, e)   ->   y: (b, h, q, e)
    scale: 1 / sqrt(d) if not given     A query without a pair gives zeros.
    The functions of scores and masks become a part of the kernel, which never stores the scores of
    all pairs. Blocks without pairs are passed over. Functions that do more than elementwise ops, or
    that learn (a captured tensor requires grad), are computed on all pairs instead.
    Raises ShapeError or DTypeError for operands that do not fit.
    """
    key, value = _checked(query, key, value, block_mask, enable_gqa)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    wants_top = return_aux is not None and return_aux.max_scores
    result: tuple[Tensor, Tensor, Tensor | None] | None
    result = None if wants_top else _in_kernel(query, key, value, score_mod, block_mask, factor)
    if result is None:
        result = _on_all_pairs(query, key, value, score_mod, block_mask, factor)
    y, lse, greatest = result
    if return_aux is not None:
        return y, AuxOutput(
            lse if return_aux.lse else None, greatest if return_aux.max_scores else None
        )
    return (y, lse) if return_lse else y


def _in_kernel(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Any] | None,
    block_mask: BlockMask | None,
    factor: float,
) -> tuple[Tensor, Tensor, None] | None:
    """(y, log of the sums, None), or None for functions that the kernel cannot compute."""
    mask_mod = None if block_mask is None else block_mask.mask_mod
    captured = capture(score_mod, mask_mod, accumulator(query.dtype))
    if captured is None or (is_grad_enabled() and any(t.requires_grad for t in captured.tensors)):
        return None
    blocks, sizes = None, (1, 1)
    if block_mask is not None:
        blocks, sizes = block_mask.table, block_mask.BLOCK_SIZE
    y, total = ops.attend_pairs(
        query, key, value, blocks, tensor(captured.numbers, dtype=float64),
        captured.tensors, factor,
        *sizes, pairs=captured.function,
    )  # fmt: skip
    return y, ops.where(ops.isinf(total), -ops.abs(total), total), None


def _on_all_pairs(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Any] | None,
    block_mask: BlockMask | None,
    factor: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """(y, log of the sums, greatest scores), by ops on the scores of all pairs."""
    scores = ops.matmul(query, ops.transpose(key, -2, -1)) * factor
    counts = tuple(scores.shape)
    if score_mod is not None:
        scores = for_all(score_mod, counts, scores)
    if block_mask is not None:
        mask = create_mask(block_mask.mask_mod, *block_mask.shape[:2], *counts[-2:])
        scores = ops.masked_fill(scores, ops.logical_not(mask), -math.inf)
    greatest = ops.amax(scores, (-1,), True)
    shift = ops.where(ops.isinf(greatest), ops.zeros_like(greatest), greatest).detach()
    weights = ops.exp(scores - shift)
    total = ops.sum(weights, (-1,), True)
    y = ops.matmul(weights / ops.where(ops.eq(total, 0), 1.0, total), value)
    lse = (ops.log(total) + shift).squeeze(-1)
    return y, lse, greatest.squeeze(-1)
