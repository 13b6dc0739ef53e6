"""torch.futures: results that come later."""

from __future__ import annotations

from concurrent import futures as _python
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

_T = TypeVar("_T")


class Future(Generic[_T]):
    """A result that another thread sets."""

    def __init__(self, *, devices: Any = None) -> None:
        self._future: _python.Future[_T] = _python.Future()

    def done(self) -> bool:
        """Whether there is a result, or an error."""
        return self._future.done()

    def wait(self) -> _T:
        """Wait for the result. Raises the error that was set in place of a result."""
        return self._future.result()

    def value(self) -> _T:
        """The result, which is there."""
        return self._future.result(0)

    def set_result(self, result: _T) -> None:
        """Set the result."""
        self._future.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Set an error in place of a result."""
        self._future.set_exception(result)

    def add_done_callback(self, callback: Any) -> None:
        """Call callback(self) when there is a result."""
        self._future.add_done_callback(lambda _: callback(self))

    def then(self, callback: Any) -> Future[Any]:
        """The later result of callback(self)."""
        outcome: Future[Any] = Future()
        self.add_done_callback(lambda future: outcome.set_result(callback(future)))
        return outcome


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """Wait for all results."""
    return [future.wait() for future in futures]


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """A result that comes when all have come: the futures."""
    outcome: Future[list[Future[Any]]] = Future()
    waiting = [future for future in futures if not future.done()]
    left = [len(waiting)]

    def one_less(_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            outcome.set_result(futures)

    if not waiting:
        outcome.set_result(futures)
    for future in waiting:
        future.add_done_callback(one_less)
    return outcome
