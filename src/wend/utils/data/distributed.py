"""`DistributedSampler`: each of several processes gets its own part of the data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized

from wend._engine.base.errors import ArgumentError
from wend._frontend.random import Generator
from wend.utils.data._utils import seam
from wend.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every num_replicas-th index from `rank` on, of an order that all processes share.

    dataset: the sampled data set; of equal length in all processes
    num_replicas, rank: the number of processes, and the number of this process; those of the
        process group by default
    shuffle: a fresh order each epoch, decided by seed and epoch; see set_epoch
    drop_last: leave out the indices that do not divide evenly, instead of repeating the first

    Raises ArgumentError (a ValueError) for a rank that does not exist. Raises NoProcessGroup (a
    ValueError) without num_replicas or rank, where there is no process group to ask.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self._asks_group = num_replicas is None and rank is None
        if num_replicas is None or rank is None:
            from wend import distributed

            num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
            rank = distributed.get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ArgumentError(
                f"DistributedSampler: invalid rank {rank}, rank should be in the interval "
                f"[0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch = 0
        self._share_out(num_replicas, rank)

    def _share_out(self, num_replicas: int, rank: int) -> None:
        self.num_replicas, self.rank = num_replicas, rank
        share = len(self.dataset) / num_replicas
        self.num_samples: int = math.floor(share) if self.drop_last else math.ceil(share)
        self.total_size: int = self.num_samples * num_replicas

    def _ask_again(self) -> None:
        """Share the data out anew if the process group has lost a process."""
        from wend import distributed

        if distributed.is_initialized():
            now = distributed.get_world_size(), distributed.get_rank()
            if now[0] < self.num_replicas:
                self._share_out(*now)

    def _order(self) -> list[int]:
        """All indices of this epoch, as many as the processes take together."""
        count = len(self.dataset)
        if self.shuffle:
            source: Generator = seam.generator(self.seed + self.epoch)
            order = list(seam.permutation(count, source))
        else:
            order = list(range(count))
        missing = self.total_size - count
        if missing > 0 and order:
            order += (order * math.ceil(missing / count))[:missing]
        return order[: self.total_size]

    def __iter__(self) -> Iterator[int]:
        if self._asks_group:
            self._ask_again()
        return iter(self._order()[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch that comes next: each epoch has a new order, the same in all processes."""
        self.epoch = epoch
