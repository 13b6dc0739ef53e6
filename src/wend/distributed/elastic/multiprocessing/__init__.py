"""torch.distributed.elastic.multiprocessing: files for the output of processes."""

from __future__ import annotations

import enum
import os
import tempfile
from dataclasses import dataclass

from wend._engine.base.errors import ArgumentError

__all__ = ["DefaultLogsSpecs", "LogsSpecs", "Std"]


class Std(enum.IntFlag):
    """Streams of a process."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, vm: str) -> Std | dict[int, Std]:
        """Streams from a text: "3" for all processes, "0:1,1:3" by local rank.

        Raises ArgumentError (a ValueError) for anything else.
        """
        try:
            if ":" not in vm:
                return cls(int(vm))
            pairs = [part.split(":") for part in vm.split(",")]
            return {int(rank): cls(int(streams)) for rank, streams in pairs}
        except ValueError:
            raise ArgumentError(
                f"Std.from_str: {vm!r}: 0, 1, 2, 3 or RANK:NUMBER,... is needed"
            ) from None


@dataclass
class DefaultLogsSpecs:
    """Output of processes.

    log_dir: folder of the logs; a new folder for None
    redirects: streams that go to files, for all processes or by local rank
    tee: not available
    local_ranks_filter: the processes whose output is shown; all for None
    Raises ArgumentError (a ValueError) for tee.
    """

    log_dir: str | None = None
    redirects: Std | dict[int, Std] = Std.NONE
    tee: Std | dict[int, Std] = Std.NONE
    local_ranks_filter: set[int] | None = None

    def __post_init__(self) -> None:
        if self.tee:
            raise ArgumentError(
                "DefaultLogsSpecs: tee is not available here; use redirects, or `wend launch --tee`"
            )
        if self.redirects and self.log_dir is None:
            self.log_dir = tempfile.mkdtemp(prefix="wend-elastic-")

    @property
    def root_log_dir(self) -> str | None:
        """The folder of the logs."""
        return self.log_dir

    def files_of(self, local_rank: int, attempt: int) -> dict[int, str]:
        """The files of a process, by number of the stream."""
        wanted = self.redirects
        streams = wanted.get(local_rank, Std.NONE) if isinstance(wanted, dict) else wanted
        shown = self.local_ranks_filter is None or local_rank in self.local_ranks_filter
        files = {}
        for number, name in ((1, "stdout"), (2, "stderr")):
            if streams & number:
                folder = os.path.join(self.log_dir or "", f"attempt_{attempt}", str(local_rank))
                os.makedirs(folder, exist_ok=True)
                files[number] = os.path.join(folder, f"{name}.log")
            elif not shown:
                files[number] = os.devnull
        return files


LogsSpecs = DefaultLogsSpecs
