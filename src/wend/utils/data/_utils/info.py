"""What a worker process knows of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class WorkerInfo:
    """Which worker this process is: number ``id`` of ``num_workers``.

    seed: what this worker's generators were seeded with; dataset: its copy of the data set.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


current: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return what is known of this DataLoader worker process; None in the main process."""
    return current
