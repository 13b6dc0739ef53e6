"""torch.nn.attention.flex_attention: attention with a function of the program's on the scores.

The functions get the scores (or nothing) and four numbers: batch, head, position in the query, in
the key. Each is called once, on tensors of all numbers that broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from wend._engine.base.devices import DeviceLike
from wend._engine.base.errors import ShapeError
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.creation import arange

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
Mask = Callable[[Any, Any, Any, Any], Any]


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


def _for_all(function: Callable[..., Any], counts: tuple[int, ...], *scores: Tensor) -> Any:
    """The function's results for all numbers, (batch, head, query, key)."""
    numbers = [
        arange(count).reshape([-1 if i == dim else 1 for i in range(4)])
        for dim, count in enumerate(counts)
    ]
    return function(*scores, *numbers).expand(counts)


def create_mask(
    mod_fn: Callable[..., Any],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: DeviceLike = None,
) -> Tensor:
    """The values of a function of four numbers: True where a pair takes part."""
    mask: Tensor = _for_all(mod_fn, (B or 1, H or 1, Q_LEN, KV_LEN))
    return mask


class BlockMask:
    """A mask as a function, with sizes."""

    def __init__(self, mask_mod: Mask, shape: tuple[int, ...], block: tuple[int, int]) -> None:
        self.mask_mod = mask_mod
        self.shape = shape
        self.seq_lengths = shape[-2:]
        self.BLOCK_SIZE = block

    def create(self) -> Tensor:
        """The mask of all pairs."""
        B, H, q, kv = self.shape
        return create_mask(self.mask_mod, B, H, q, kv)

    def to_dense(self) -> Tensor:
        """1 for each block in which a pair takes part."""
        mask = self.create()
        rows, columns = (
            -(-n // size) for n, size in zip(self.seq_lengths, self.BLOCK_SIZE, strict=True)
        )
        parts = [
            mask[
                ...,
                i * self.BLOCK_SIZE[0] : (i + 1) * self.BLOCK_SIZE[0],
                j * self.BLOCK_SIZE[1] : (j + 1) * self.BLOCK_SIZE[1],
            ]
            .flatten(-2)
            .any(-1)
            for i in range(rows)
            for j in range(columns)
        ]
        return ops.stack(parts, -1).reshape(*mask.shape[:2], rows, columns).int()

    def numel(self) -> int:
        """Number of pairs."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """Part of the blocks in which no pair takes part, in percent."""
        dense = self.to_dense()
        return 100.0 * (1.0 - float(dense.float().mean()))

    def to(self, device: DeviceLike) -> BlockMask:
        """The mask itself: there is a single device."""
        return self


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
    """A mask from a function of (batch, head, position in the query, in the key)."""
    block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    return BlockMask(mask_mod, (B or 1, H or 1, Q_LEN, KV_LEN), block)


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
    Raises ShapeError for operands without four dims.
    """
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise ShapeError("flex_attention: query, key and value have four dims")
    if enable_gqa:
        repeats = query.shape[1] // key.shape[1]
        key = ops.repeat_interleave(key, repeats, 1)
        value = ops.repeat_interleave(value, repeats, 1)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = ops.matmul(query, ops.transpose(key, -2, -1)) * factor
    counts = tuple(scores.shape)
    if score_mod is not None:
        scores = _for_all(score_mod, counts, scores)
    if block_mask is not None:
        mask = create_mask(block_mask.mask_mod, *block_mask.shape[:2], *counts[-2:])
        scores = ops.masked_fill(scores, ops.logical_not(mask), -math.inf)
    greatest = ops.amax(scores, (-1,), True)
    shift = ops.where(ops.isinf(greatest), ops.zeros_like(greatest), greatest).detach()
    weights = ops.exp(scores - shift)
    total = ops.sum(weights, (-1,), True)
    y = ops.matmul(weights / ops.where(ops.eq(total, 0), 1.0, total), value)
    lse = (ops.log(total) + shift).squeeze(-1)
    if return_aux is not None:
        return y, AuxOutput(
            lse if return_aux.lse else None,
            greatest.squeeze(-1) if return_aux.max_scores else None,
        )
    return (y, lse) if return_lse else y
