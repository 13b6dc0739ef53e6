"""The error of a checkpoint that cannot be written or read."""

from __future__ import annotations

from collections.abc import Mapping

from wend._engine.base.errors import FormatError

__all__ = ["CheckpointException"]


class CheckpointException(FormatError):
    """A checkpoint could not be written or read by some ranks.

    failures: the messages by rank
    """

    def __init__(self, msg: str, failures: Mapping[int, str] | None = None) -> None:
        told = [f"\n  rank {rank}: {text}" for rank, text in sorted((failures or {}).items())]
        super().__init__(msg + "".join(told))
        self._failures = dict(failures or {})

    @property
    def failures(self) -> dict[int, str]:
        """The messages by rank."""
        return self._failures
