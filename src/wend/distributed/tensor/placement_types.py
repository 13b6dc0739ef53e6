"""torch.distributed.tensor.placement_types: how the ranks along a dim of a mesh share a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


def chunk(indices: Sequence[int], chunks: int, rank: int) -> Sequence[int]:
    """The part of a rank, as `torch.chunk` cuts; the last ranks may have fewer, or none."""
    most = -(-len(indices) // chunks)
    return indices[rank * most : (rank + 1) * most]


class Placement:
    """How the ranks along a dim of a mesh share a tensor."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each rank has a part along a dim, or along that dim."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each rank has the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the tensor is a reduction over ranks, or that reduction."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Replicate(Placement):
    """Each rank has the whole tensor."""

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Shard(Placement):
    """Each rank has a part along a dim, cut as by `torch.chunk`."""

    dim: int

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"

    @staticmethod
    def local_shard_size_and_offset(
        curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        """The size of a rank's part, and where it begins."""
        size = len(chunk(range(curr_local_size), num_chunks, rank))
        return size, min(-(-curr_local_size // num_chunks) * rank, curr_local_size)

    def _indices(self, held: Sequence[int], chunks: int, rank: int) -> Sequence[int]:
        return chunk(held, chunks, rank)


@dataclass(frozen=True)
class _StridedShard(Placement):
    """Each rank has a part of each of `split_factor` groups along a dim."""

    dim: int
    split_factor: int

    def __init__(self, dim: int, *, split_factor: int) -> None:
        object.__setattr__(self, "dim", dim)
        object.__setattr__(self, "split_factor", split_factor)

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"

    def local_shard_size_and_offset(
        self, curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        """The size of a rank's part, and its first index; -1 where the rank has nothing."""
        own = self._indices(range(curr_local_size), num_chunks, rank)
        return len(own), own[0] if own else -1

    def _indices(self, held: Sequence[int], chunks: int, rank: int) -> Sequence[int]:
        groups = (chunk(held, self.split_factor, k) for k in range(self.split_factor))
        return [index for group in groups for index in chunk(group, chunks, rank)]


@dataclass(frozen=True)
class Partial(Placement):
    """The tensor is the sum, or another reduction, of the values of all ranks."""

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


#: The older name of `Partial`.
_Partial = Partial


def _is_shard_like(p: Placement) -> bool:
    """Whether each rank has a part along a dim, whole or in pieces."""
    return isinstance(p, Shard | _StridedShard)
