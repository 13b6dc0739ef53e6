"""Locks that the compiler and callers of the compiler hold, at a fork.

A fork must find nobody inside of these locks, and the child needs fresh ones: the threads that may
hold them do not exist there.  A flush takes the lock of its trace first, then the lock of planning,
then LLVM's. A fork takes the locks in the same order, or the fork would wait for a thread that
waits for the fork. This module is imported before the core, as handlers that run before a fork run
last registered first: the core's handler, which takes the traces' locks, comes before these.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

Handler = Callable[[], object]


class _Handlers(NamedTuple):
    before: Handler
    in_parent: Handler
    in_child: Handler


_registered: list[_Handlers] = []


def at_fork(before: Handler, in_parent: Handler, in_child: Handler) -> None:
    """Call these around each fork: the lock that is registered first is taken first."""
    _registered.append(_Handlers(before, in_parent, in_child))


def _before() -> None:
    for handlers in _registered:
        handlers.before()


def _in_parent() -> None:
    for handlers in reversed(_registered):
        handlers.in_parent()


def _in_child() -> None:
    for handlers in reversed(_registered):
        handlers.in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
