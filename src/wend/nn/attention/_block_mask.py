"""`BlockMask`: which pairs of queries and keys take part, by blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from wend._engine.base.devices import DeviceLike
from wend._engine.base.dtypes import int32, uint8
from wend._engine.base.errors import ArgumentError, GraphError, ShapeError
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.creation import arange

Mask = Callable[[Any, Any, Any, Any], Any]
Block = tuple[int, int]


def for_all(function: Callable[..., Any], counts: tuple[int, ...], *scores: Tensor) -> Any:
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
    """The values of a function of four numbers: True where a pair takes part.

    Returns (B or 1, H or 1, Q_LEN, KV_LEN).
    """
    mask: Tensor = for_all(mod_fn, (B or 1, H or 1, Q_LEN, KV_LEN))
    return mask


class BlockMask:
    """A mask as a function, with sizes, and a table of the blocks in which pairs take part.

    mask_mod: of (batch, head, position in the query, in the key)
    shape: batch, heads, queries, keys; 1 for a batch or heads that share the mask
    block: queries and keys of a block
    """

    def __init__(self, mask_mod: Mask, shape: tuple[int, ...], block: Block) -> None:
        self.mask_mod = mask_mod
        self.shape = shape
        self.seq_lengths: tuple[int, ...] = shape[-2:]
        self.BLOCK_SIZE = block
        self._table: Tensor | None = None

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | Block = 128,
        mask_mod: Mask | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """A mask from lists of blocks of keys for each block of queries.

        kv_num_blocks: (batch, heads, rows), how many blocks take part
        kv_indices: (batch, heads, rows, columns), which; full_...: blocks that `mask_mod` leaves
        whole. Raises ArgumentError if only half of these is there.
        """
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise ArgumentError(
                "BlockMask: full_kv_num_blocks and full_kv_indices must be both provided or omitted"
            )
        block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        partly = _entries(kv_num_blocks, kv_indices)
        table = partly.to(uint8)
        if full_kv_num_blocks is not None and full_kv_indices is not None:
            full = _entries(full_kv_num_blocks, full_kv_indices)
            table = ops.where(full, 2, table)
        table = table.detach()
        rows, columns = table.shape[-2:]
        lengths = seq_lengths or (rows * block[0], columns * block[1])
        many = [n > 1 for n in table.shape[:2]]

        def mask(b: Any, h: Any, q: Any, kv: Any) -> Any:
            place = [x if on else x * 0 for x, on in zip((b, h), many, strict=True)]
            entry = table[place[0], place[1], q // block[0], kv // block[1]]
            if mask_mod is None:
                return entry > 0
            return (entry == 2) | ((entry == 1) & mask_mod(b, h, q, kv))

        result = cls(mask, (*table.shape[:2], *lengths), block)
        result._table = table
        return result

    def check(self, batch: int, heads: int, rows: int, columns: int) -> None:
        """Raise ShapeError unless the mask serves scores of this shape."""
        for name, own, extent in zip(("batch", "heads"), self.shape, (batch, heads), strict=False):
            if own not in (1, extent):
                raise ShapeError(
                    f"flex_attention: block_mask is for {own} {name}, and the query has {extent}"
                )
        if tuple(self.seq_lengths) != (rows, columns):
            raise ShapeError(
                f"flex_attention: block_mask was created for block_mask.shape={self.shape} but got "
                f"q_len={rows} and kv_len={columns}: create a new block mask with the correct "
                "length, or adjust this one by block_mask._adjust(q_len, kv_len)"
            )

    @property
    def table(self) -> Tensor:
        """uint8 (batch, heads, rows, columns): 0 for a block without pairs, 2 for a whole block."""
        if self._table is None:
            self._table = self._made_table()
        return self._table

    def _made_table(self) -> Tensor:
        """Count the pairs of each block, some rows of blocks at a time."""
        queries, keys = self.seq_lengths
        high, wide = self.BLOCK_SIZE
        rows, columns = self._counts()
        padded = self.create()
        padded = ops.pad(padded, (0, columns * wide - keys, 0, rows * high - queries), value=False)
        blocks = padded.reshape(*self.shape[:2], rows, high, columns, wide)
        count = ops.sum(blocks, (3, 5))
        whole = high * wide  # as in PyTorch, a block that the end cuts never has all pairs
        return ((count > 0).to(uint8) + (count == whole).to(uint8)).detach()

    def _counts(self) -> Block:
        """How many rows and columns of blocks there are."""
        queries, keys = self.seq_lengths
        return -(-queries // self.BLOCK_SIZE[0]), -(-keys // self.BLOCK_SIZE[1])

    # -- the lists of blocks --------------------------------------------------------------------

    @property
    def kv_num_blocks(self) -> Tensor:
        """int32 (batch, heads, rows): how many blocks of keys take part, but not as a whole."""
        return _lists(self.table == 1)[0]

    @property
    def kv_indices(self) -> Tensor:
        """int32 (batch, heads, rows, columns): first the blocks that `kv_num_blocks` counts."""
        return _lists(self.table == 1)[1]

    @property
    def full_kv_num_blocks(self) -> Tensor:
        """int32 (batch, heads, rows): how many blocks of keys take part as a whole."""
        return _lists(self.table == 2)[0]

    @property
    def full_kv_indices(self) -> Tensor:
        """int32 (batch, heads, rows, columns): first the blocks of `full_kv_num_blocks`."""
        return _lists(self.table == 2)[1]

    @property
    def q_num_blocks(self) -> Tensor:
        """int32 (batch, heads, columns): how many blocks of queries look, but not as a whole."""
        return _lists((self.table == 1).transpose(-2, -1))[0]

    @property
    def q_indices(self) -> Tensor:
        """int32 (batch, heads, columns, rows): first the blocks that `q_num_blocks` counts."""
        return _lists((self.table == 1).transpose(-2, -1))[1]

    @property
    def full_q_num_blocks(self) -> Tensor:
        """int32 (batch, heads, columns): how many blocks of queries look as a whole."""
        return _lists((self.table == 2).transpose(-2, -1))[0]

    @property
    def full_q_indices(self) -> Tensor:
        """int32 (batch, heads, columns, rows): first the blocks of `full_q_num_blocks`."""
        return _lists((self.table == 2).transpose(-2, -1))[1]

    # -- other forms ----------------------------------------------------------------------------

    def create(self) -> Tensor:
        """The mask of all pairs."""
        B, H, q, kv = self.shape
        return create_mask(self.mask_mod, B, H, q, kv)

    def to_dense(self) -> Tensor:
        """int32 (batch, heads, rows, columns): 1 for each block in which a pair takes part."""
        return (self.table > 0).to(int32)

    def numel(self) -> int:
        """Number of pairs."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """The pairs outside of blocks that take part, in percent; below 0 if blocks reach far."""
        pairs = int(self.to_dense().sum()) * math.prod(self.BLOCK_SIZE)
        return 100.0 * (1.0 - pairs / self.numel())

    def to(self, device: DeviceLike) -> BlockMask:
        """The mask itself: there is a single device."""
        return self

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The mask of the first queries and keys, or of more of them.

        The lists of blocks are cut; blocks beyond the lists hold no pair, as in PyTorch.
        """
        result = BlockMask(self.mask_mod, (*self.shape[:2], new_q_len, new_kv_len), self.BLOCK_SIZE)
        rows, columns = result._counts()
        table = self.table[:, :, :rows, :columns]
        more = (0, columns - table.shape[3], 0, rows - table.shape[2])
        result._table = ops.pad(table, more)
        return result

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some of the batch, or of (batch, heads), or of (batch, heads, rows).

        As in PyTorch the result has no function of its own: set `mask_mod` before it is used.
        """
        table = self.table[_kept(index)]
        rows = table.shape[2] * self.BLOCK_SIZE[0]
        queries = self.seq_lengths[0] if table.shape[2] == self._counts()[0] else rows
        shape = (*table.shape[:2], queries, self.seq_lengths[1])
        result = BlockMask(_no_function, shape, self.BLOCK_SIZE)
        result._table = table
        return result

    def __repr__(self) -> str:
        return (
            f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, "
            f"BLOCK_SIZE={self.BLOCK_SIZE})"
        )


def _no_function(b: Any, h: Any, q: Any, kv: Any) -> Any:
    raise GraphError(
        "Cannot use mask_mod from a sliced BlockMask: the numbers of batch, head and query count "
        "from the part's first: set mask_mod of the part"
    )


def _kept(index: Any) -> tuple[Any, ...]:
    """An index in which numbers are slices, so that all dims stay."""
    row = index if isinstance(index, tuple) else (index,)
    return tuple([slice(i, i + 1 or None) if isinstance(i, int) else i for i in row])


def _lists(table: Tensor) -> tuple[Tensor, Tensor]:
    """(how many entries of each row are True, their columns first)."""
    order = ops.argsort(table.to(int32), dim=-1, descending=True, stable=True)
    return ops.sum(table, -1).to(int32), order.to(int32)


def _entries(counts: Tensor, indices: Tensor) -> Tensor:
    """The table that `_lists` was made of."""
    columns = indices.shape[-1]
    listed = (arange(columns) < counts.unsqueeze(-1)).to(int32)
    return ops.scatter(ops.zeros_like(listed), -1, indices.long(), listed) > 0
