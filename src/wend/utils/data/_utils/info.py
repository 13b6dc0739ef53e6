"""Facts that a worker process knows about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class WorkerInfo:
    """Which worker this process is: number ``id`` of ``num_workers``.

    seed: the seed of this worker's generators; dataset: this worker's copy of the data set.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


current: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return the facts about this DataLoader worker process; None in the main process."""
    return current
