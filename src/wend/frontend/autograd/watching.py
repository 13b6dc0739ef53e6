"""Watchers of backward passes: told before a pass begins, and when its gradients are recorded.

A pass that the core runs by itself tells nobody. The method `Tensor.backward` is therefore replaced
while there are watchers, and only then. All passes within a call of `wend.batched` count as a
single pass: how calls take turns differs from run to run.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from wend.core._hot import Tensor

__all__ = ["PassWatcher", "as_one_pass", "watch", "watched"]

T = TypeVar("T")


class PassWatcher(Protocol):
    """An object that wants to know of backward passes."""

    def begin_pass(self) -> None:
        """No leaf has been given a gradient yet."""

    def end_pass(self) -> None:
        """All leaves have their gradients; most of these are pending."""


_WATCHERS: list[weakref.ref[Any]] = []
#: The number of passes that have begun within the outermost pass; None outside of any.
_inside: ContextVar[list[int] | None] = ContextVar("inside", default=None)
_plain: Callable[..., None] = Tensor.backward


def watch(watcher: PassWatcher) -> None:
    """Tell an object of each backward pass from now on, as long as the object is alive."""
    if not _WATCHERS:
        Tensor.backward = backward  # type: ignore[method-assign]
    _WATCHERS.append(weakref.ref(watcher, _forget))


def _forget(reference: weakref.ref[Any]) -> None:
    _WATCHERS.remove(reference)
    if not _WATCHERS:
        Tensor.backward = _plain  # type: ignore[method-assign]


def _alive() -> list[Any]:
    return [found for r in _WATCHERS if (found := r()) is not None]


def _between(run: Callable[[], T], count: list[int]) -> T:
    """Run between the calls of all watchers; the second only if any pass has begun."""
    watchers = _alive()
    token = _inside.set(count)
    try:
        for watcher in watchers:
            watcher.begin_pass()
        result = run()
    finally:
        _inside.reset(token)
    if count[0]:
        for watcher in watchers:
            watcher.end_pass()
    return result


def watched(run: Callable[..., None], *given: Any) -> None:
    """Run a backward pass, between calls of all watchers."""
    if not _WATCHERS:
        run(*given)
        return
    count = _inside.get()
    if count is not None:  # a pass may begin further passes, as checkpoints do
        count[0] += 1
        run(*given)
    else:
        _between(lambda: run(*given), [1])


def as_one_pass(run: Callable[[], T]) -> T:
    """Run a part of a program; to watchers, all backward passes of the part are a single pass."""
    if not _WATCHERS or _inside.get() is not None:
        return run()
    return _between(run, [0])


def backward(
    self: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """`Tensor.backward` while there are watchers."""
    watched(_plain, self, gradient, retain_graph, create_graph, inputs)


backward.__doc__ = _plain.__doc__
