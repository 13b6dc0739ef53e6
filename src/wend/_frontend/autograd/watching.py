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

from wend._engine.core._hot import Tensor

__all__ = ["PassWatcher", "as_one_pass", "watch", "watched"]

T = TypeVar("T")


class PassWatcher(Protocol):
    """An object that wants to know of backward passes."""

    def begin_pass(self) -> None:
        """No leaf has been given a gradient yet."""

    def end_pass(self, kept: bool) -> None:
        """All leaves have their gradients; most of these are pending.

        kept: whether a graph was kept, so that further passes may go through the same calls
        """

    def cancel_pass(self) -> None:
        """The pass has failed, or there was none."""


class Passes:
    """The passes within the outermost pass: how many have begun, whether any keeps a graph."""

    __slots__ = ("count", "kept")

    def __init__(self) -> None:
        self.count, self.kept = 0, False

    def begin(self, kept: bool) -> None:
        """Count a pass."""
        self.count += 1
        self.kept = self.kept or kept


_WATCHERS: list[weakref.ref[Any]] = []
#: The passes within the outermost pass; None outside of any.
_inside: ContextVar[Passes | None] = ContextVar("inside", default=None)
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
    return [watcher for r in _WATCHERS if (watcher := r()) is not None]


def _between(run: Callable[[], T], passes: Passes) -> T:
    """Run between the calls of all watchers; the second only if any pass has begun."""
    watchers = _alive()
    token = _inside.set(passes)
    done = False
    try:
        for watcher in watchers:
            watcher.begin_pass()
        result = run()
        done = passes.count > 0
    finally:
        _inside.reset(token)
        if not done:
            for watcher in watchers:
                watcher.cancel_pass()
    if done:
        _end(watchers, passes.kept)
    return result


def _end(watchers: list[Any], kept: bool) -> None:
    """Tell all watchers of the end; those behind a watcher that fails, that the pass has failed."""
    left = list(watchers)
    try:
        while left:
            left.pop(0).end_pass(kept)
    finally:
        for watcher in left:
            watcher.cancel_pass()


def watched(run: Callable[..., None], *args: object, kept: bool = False) -> None:
    """Run a backward pass, between calls of all watchers. kept: whether the graph is kept"""
    if not _WATCHERS:
        run(*args)
        return
    passes = _inside.get()
    if passes is not None:  # a pass may begin further passes, as checkpoints do
        passes.begin(kept)
        run(*args)
    else:
        passes = Passes()
        passes.begin(kept)
        _between(lambda: run(*args), passes)


def as_one_pass(run: Callable[[], T]) -> T:
    """Run a part of a program; to watchers, all backward passes of the part are a single pass."""
    if not _WATCHERS or _inside.get() is not None:
        return run()
    return _between(run, Passes())


def backward(
    self: Tensor,
    gradient: object = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: object = None,
) -> None:
    """`Tensor.backward` while there are watchers."""
    kept = create_graph if retain_graph is None else retain_graph
    watched(_plain, self, gradient, retain_graph, create_graph, inputs, kept=bool(kept))


backward.__doc__ = _plain.__doc__
