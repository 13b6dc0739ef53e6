"""`Work`: a collective or a message that is under way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from wend._engine.base.errors import WendError
from wend._engine.core.provenance import Site
from wend.distributed._wire._faults import DistBackendError
from wend.distributed._wire._transport import Signature, title_of

if TYPE_CHECKING:
    from wend.distributed._wire._transport import Request
    from wend.futures import Future

__all__ = ["Done", "Work", "seconds_of"]


def seconds_of(timeout: timedelta | float | None) -> float | None:
    """Seconds of a timedelta or a number; None and PyTorch's 0 for no limit."""
    if timeout is None:
        return None
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    return seconds if seconds > 0 else None


class Line(Protocol):
    """The channel that does the work: see `_engine.Channel`."""

    name: str
    lock: Any
    changed: threading.Condition
    messages: set[Any]


class Work:
    """A collective or a message that is under way; made by calls with `async_op=True`.

    The tensors have their results once `wait` has returned, or `is_completed` has said yes.
    """

    number = took_part = 0
    here = done = _told = False
    found: Any = None
    error: BaseException | None = None
    request: Request | None = None
    #: See `Channel.run`.
    little: tuple[Any] | None = None
    #: The processes at the time of the call, if some may be lost.
    among: tuple[int, ...] | None = None
    _future: Future[Any] | None = None

    def __init__(
        self,
        channel: Line,
        signature: Signature,
        call: Callable[..., Any] | None,
        finish: Callable[[Any], Any] | None,
        site: tuple[Any, int],
        result: object,
    ) -> None:
        self.channel, self.signature = channel, signature
        self.call, self.finish, self.site = call, finish, site
        self.outcome = result
        self.since = time.monotonic()
        self._writing = threading.RLock()

    def title(self) -> str:
        """The call: name(types and sizes)."""
        return title_of(self.signature)

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Return True when the results are there.

        timeout: a timedelta
        Raises DistBackendError after the time, and the error of a collective that failed.
        """
        limit = seconds_of(timeout)
        if self.request is not None:
            self._await_message(limit)
        elif not self.done:
            with self.channel.changed:
                if not self.channel.changed.wait_for(lambda: self.done, limit):
                    raise self._late(limit)
        self.settle()
        return True

    def settle(self) -> None:
        """Write the results into tensors, or raise the error, of a work that is done."""
        error = self.error
        if error is not None:
            if isinstance(error, WendError) and error.site is None:
                error.site = Site(*self.site)
            raise error
        self._write()

    def _late(self, limit: float | None) -> DistBackendError:
        error = DistBackendError(
            f"{self.signature[0]}: collective {self.number} of group {self.channel.name!r} was not "
            f"done after {limit} seconds: another rank has not called, or is late"
        )
        error.site = Site(*self.site)
        return error

    def _await_message(self, limit: float | None) -> None:
        request = self.request
        if request is None or self.done:
            return
        end, looks = time.monotonic() + (limit or 0.0), 0
        try:
            if limit is None:
                request.wait()
            while not request.test():
                looks += 1
                if time.monotonic() > end:
                    raise TimeoutError
                time.sleep(min(looks * 1e-5, 1e-3))
        except TimeoutError:
            raise self._late(limit) from None
        except DistBackendError as error:
            # The `Work` of the message keeps the error; `wait` raises the error.
            self.error = error
        self._came()

    def _has_come(self, request: Request) -> bool:
        """Whether a message has been sent, has come, or has failed."""
        try:
            return request.test()
        except DistBackendError as error:
            # The `Work` of the message keeps the error; `wait` raises the error.
            self.error = error
            return True

    def _came(self) -> None:
        """Note that a message has been sent, or has come."""
        with self.channel.lock:
            self.channel.messages.discard(self)
        self.done = True
        self.tell()

    def _write(self) -> None:
        """Write the results into tensors, once."""
        if self.finish is None:
            return
        with self._writing:
            finish, self.finish = self.finish, None
            if finish is not None:
                finish(self.found)
                self.found = None

    def is_completed(self) -> bool:
        """Whether the results are there, or an error."""
        if not self.done and self.request is not None and self._has_come(self.request):
            self._came()
        if self.done and self.error is None:
            self._write()
        return self.done

    def is_success(self) -> bool:
        """Whether the results are there."""
        return self.is_completed() and self.error is None

    def exception(self) -> BaseException | None:
        """The error, if the collective has failed."""
        return self.error

    def synchronize(self) -> None:
        """As `wait`."""
        self.wait()

    def block_current_stream(self) -> None:
        """As `wait`: the CPU has a single stream."""
        self.wait()

    def source_rank(self) -> int:
        """The rank that a message has come from, in its group."""
        self.wait()
        return -1 if self.request is None else self.request.source

    _source_rank = source_rank

    def result(self) -> list[Any]:
        """The tensors with the results."""
        self.wait()
        return as_list(self.outcome)

    def tell(self) -> None:
        """Set the future's result, if somebody has asked for the future; the work is done."""
        if self._future is None:  # whoever asks from now on finds the work done
            return
        with self._writing:
            future = self._future
            if future is None or self._told:
                return
            self._told = True
        if self.error is not None:
            future.set_exception(self.error)
        else:
            self._write()
            future.set_result(as_list(self.outcome))

    def get_future(self) -> Future[Any]:
        """A future of the list of tensors with the results."""
        from wend.futures import Future

        with self._writing:
            if self._future is None:
                self._future = Future()
            future = self._future
        if self.done:
            self.tell()
        elif self.request is not None:
            self.wait()
        return future


class Done(Work):
    """A work that is done: that of a lone rank."""

    def __init__(self, result: object) -> None:
        self.outcome, self.finish = result, None
        self.done = True
        self._writing = threading.RLock()

    def source_rank(self) -> int:
        """The only rank."""
        return 0


def as_list(tensors: object) -> list[Any]:
    """A tensor in a list; a list of tensors as such."""
    if tensors is None:
        return []
    return list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
