"""torch.distributed.elastic.multiprocessing.errors: how a process tells of its error."""

from __future__ import annotations

import functools
import json
import os
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]


class ErrorHandler:
    """Writes the error of this process into the file that TORCHELASTIC_ERROR_FILE names, if any."""

    def initialize(self) -> None:
        """Nothing is to be done: `wend launch` sees crashes by itself."""

    def record_exception(self, e: BaseException) -> None:
        """Write an error as JSON: message, stack and time in seconds."""
        path = os.environ.get("TORCHELASTIC_ERROR_FILE")
        if not path:
            return
        text = "".join(traceback.format_exception(e))
        extra = {"py_callstack": text, "timestamp": str(int(time.time()))}
        message = {"message": f"{type(e).__name__}: {e}", "extraInfo": extra}
        with open(path, "w") as file:
            json.dump({"message": message}, file)


def get_error_handler() -> ErrorHandler:
    """The handler of this process."""
    return ErrorHandler()


def record(fn: Callable[..., Any], error_handler: ErrorHandler | None = None) -> Callable[..., Any]:
    """The main function of a process, which writes down the error that ends the function.

    The error is raised on. Under `wend launch` its traceback is shown without this decorator too.
    """
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def recorded(*args: object, **kwargs: object) -> Any:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit:
            raise
        except BaseException as error:
            handler.record_exception(error)
            raise

    return recorded


@dataclass
class ProcessFailure:
    """A process that has failed.

    local_rank: the number on its machine   exitcode: the status; -n for signal n
    error_file: the file with the error, if the process has written any
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    message: str = field(init=False)
    timestamp: int = field(init=False)

    def __post_init__(self) -> None:
        self.error_file_data: Any = {}
        self.timestamp = int(time.time())
        if os.path.isfile(self.error_file):
            with open(self.error_file) as file:
                self.error_file_data = json.load(file)
            told = self.error_file_data["message"]
            self.message = told["message"] if isinstance(told, dict) else str(told)
            self.timestamp = int(told["extraInfo"]["timestamp"])
        elif self.exitcode < 0:
            self.message = (
                f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
            )
        else:
            self.message = (
                "To enable traceback see: torch.distributed.elastic.multiprocessing.errors"
            )

    def signal_name(self) -> str:
        """The signal that has ended the process, or "<N/A>"."""
        return signal.Signals(-self.exitcode).name if self.exitcode < 0 else "<N/A>"

    def timestamp_isoformat(self) -> str:
        """The time of the failure."""
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.timestamp))


class ChildFailedError(Exception):
    """Processes of a run have failed; the error tells of the first.

    failures: by rank
    """

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        self.name, self.failures = name, failures
        rank, first = self.get_first_failure()
        status = f"{first.exitcode} (pid: {first.pid}) of rank {rank}"
        stack = first.error_file_data.get("message", {})
        text = stack["extraInfo"]["py_callstack"] if isinstance(stack, dict) and stack else ""
        super().__init__(f"{name} FAILED: exitcode {status}: {first.message}\n{text}".rstrip())

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """(rank, failure) of the process that failed first, by itself where that is known."""
        rank = min(self.failures, key=lambda r: (self.failures[r].timestamp, r))
        return rank, self.failures[rank]
