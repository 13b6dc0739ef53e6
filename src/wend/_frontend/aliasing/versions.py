"""Versions of handles, counts of writes, and the views of a handle that moves to new memory.

A handle's `version` counts all changes that views of the handle have to follow.  `_version` counts
writes, as PyTorch's counter does. Views, `detach()` and parameters share this count with their
source; `.data` and memory known outside do not.  Where the two part, the difference is noted.

A view refers to the handle that it was taken of.  When the handle leaves its memory (`.data = `,
`set_`, `resize_`), the views stay behind: another handle, known only to the views, stands for the
former tensor.  Views find it by the last version seen, and move to it when next used.
"""

from __future__ import annotations

import weakref

from wend._engine.core import _hot
from wend._engine.core._hot import Alias, Storage, Tensor

UNCOUNTED = "_uncounted"


def writes_of(handle: Tensor) -> int:
    """The answer of `_version`: the number of writes to the handle's data, as PyTorch counts."""
    _hot.refreshed(handle)
    alias = handle.alias
    root = handle if alias is None or alias.base is None else alias.base
    return _count(root)


def _count(root: Tensor) -> int:
    alias = root.alias
    if alias is not None and alias.writes is not None:
        return int(alias.writes[0])
    return int(root.version - (_hot.own_attribute(root, UNCOUNTED) or 0))


def count_write(root: Tensor) -> None:
    """Count a write to a handle that is no view."""
    root.version += 1
    alias = root.alias
    if alias is not None and alias.writes is not None:
        alias.writes[0] += 1


def settle(root: Tensor) -> None:
    """Note by how much the version of a handle that is no view exceeds the count of writes."""
    alias = root.alias
    if alias is not None and alias.writes is not None:
        uncounted = root.version - alias.writes[0]
        if uncounted != (_hot.own_attribute(root, UNCOUNTED) or 0):
            root.__dict__[UNCOUNTED] = uncounted


# -- new memory -----------------------------------------------------------------------------

_FORMERS = "_formers"
_STANDS_FOR = "_stands_for"


class _Former:
    """The state of a handle up to a version, and how many views of then have not moved."""

    __slots__ = ("limit", "stand_in", "views")

    def __init__(self, limit: int, stand_in: Tensor, views: int) -> None:
        self.limit = limit
        self.stand_in = stand_in
        self.views = views


def base_now(alias: Alias) -> Tensor:
    """The handle that a view derives from, after any moves of the original handle."""
    root: Tensor = alias.base
    while True:
        former = _former_of(root, alias.version) if root._moved else None
        if former is None:
            return root
        _hot.rebase(alias, former.stand_in)
        root = alias.base


def _former_of(root: Tensor, version: int) -> _Former | None:
    formers: list[_Former] = root.__dict__[_FORMERS]
    return next((former for former in formers if version < former.limit), None)


def view_ended(root: Tensor, version: int) -> None:
    """Count out a view that has ended, of a handle that has left its memory at some time."""
    if _hot.own_attribute(root, _FORMERS) is None:  # the collector is taking the handle apart, too
        return
    former = _former_of(root, version)
    if former is None:
        root._views -= 1
        return
    former.views -= 1
    if not former.views:
        formers = root.__dict__[_FORMERS]
        formers.remove(former)
        root._moved = bool(formers)


def leave_memory(handle: Tensor) -> list[int]:
    """Let the views of a handle that is about to get new memory keep the former memory.

    The handle is no alias any more.  Returns the count of writes, which goes on: see `keep_count`.
    """
    _hot.refreshed(handle)
    alias = handle.alias
    root = handle if alias is None or alias.base is None else alias.base
    writes = [_count(root)]
    if handle._views or root is not handle:
        storage_of(root)  # with a count that other handles may share
    if root is handle and handle._views:
        leave_to_views(handle)
    if root.alias is not None and root.alias.writes is not None:
        writes = root.alias.writes
    handle.alias = handle._layout = None
    handle.version += 1
    return writes


def leave_to_views(handle: Tensor) -> Tensor:
    """A stand-in: the base of this handle's views from the handle's next version on."""
    stand_in: Tensor = _hot.wrap(handle.value)
    stand_in.leaf = handle.leaf
    stand_in.alias, stand_in._layout = handle.alias, handle._layout
    stand_in.version = handle.version
    stand_in.__dict__[_STANDS_FOR] = weakref.ref(handle)
    uncounted = _hot.own_attribute(handle, UNCOUNTED)
    if uncounted:
        stand_in.__dict__[UNCOUNTED] = uncounted
    if handle._views:
        former = _Former(handle.version + 1, stand_in, handle._views)
        handle.__dict__.setdefault(_FORMERS, []).append(former)
        handle._views, handle._moved = 0, True
    return stand_in


def keep_count(handle: Tensor, writes: list[int]) -> None:
    """Let a handle that has just got new memory go on with a count of writes."""
    alias = handle.alias
    root = handle if alias is None or alias.base is None else alias.base
    storage_of(root)
    root.alias.writes = writes
    settle(root)


def stands_for(base: Tensor) -> Tensor | None:
    """The handle that `base` is a stand-in of; None for any handle that is no stand-in."""
    reference = _hot.own_attribute(base, _STANDS_FOR)
    return None if reference is None else reference()


def storage_of(handle: Tensor) -> Storage:
    """The storage object of a handle that is no view; made at the first need."""
    alias: Alias | None = handle.alias
    if alias is None or alias.storage is None:
        fresh, writes, storage = Alias(), [_count(handle)], Storage(handle.value)
        # Nothing is called in between, in the compiled core: of two threads in need of the storage,
        # the first makes it, and an interrupt finds all of it or nothing.
        alias = handle.alias
        if alias is None:
            alias = handle.alias = fresh
        if alias.storage is None:
            alias.writes, alias.storage = writes, storage
            alias.storage_version = storage.version
    kept_storage: Storage = alias.storage
    return kept_storage


_hot.set_slot("writes", writes_of)
_hot.set_slot("view_ended", view_ended)
