"""Errors of process groups, in PyTorch's names."""

from __future__ import annotations

from wend._engine.base.errors import WendError

__all__ = [
    "CollectiveMismatch",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "NoProcessGroup",
    "QueueEmptyError",
    "StoreRefused",
]


class DistError(WendError, RuntimeError):
    """Something went wrong between the processes."""


class DistBackendError(DistError):
    """The library that carries the data has failed."""


class DistNetworkError(DistError):
    """Processes cannot be reached."""


class StoreRefused(DistNetworkError):
    """The process that has a store's keys has another token, or is something else."""


class DistStoreError(DistError):
    """A store does not answer, or has no such key in time."""


class QueueEmptyError(DistStoreError):
    """A queue of a store has nothing to take."""


class CollectiveMismatch(DistError):
    """The ranks of a group have called collectives that do not fit together.

    All ranks of the group raise this error, and may go on with the next collective.
    """


class NoProcessGroup(WendError, ValueError):
    """There is no process group: `init_process_group` has not been called."""
