"""The handle that every `register_*_hook` returns."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


class RemovableHandle:
    """The result of a `register_*_hook` method: `remove()` takes the hook away again.

    hooks_dict: the table with the hook, by `id`
    extra_dict: tables with further facts of the hook
    """

    next_id: int = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_ref = _reference(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extras = [] if extra_dict is None else extra_dict
        if not isinstance(extras, list):
            extras = [extras]
        self.extra_refs = [_reference(extra) for extra in extras]

    @classmethod
    def add(cls, hooks: dict[int, Any], hook: Any) -> RemovableHandle:
        """Put a hook behind those already in the table."""
        handle = cls(hooks)
        hooks[handle.id] = hook
        return handle

    def remove(self) -> None:
        """Take the hook away; a second call does nothing."""
        for reference in (self.hooks_ref, *self.extra_refs):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()


def _reference(hooks: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(hooks)
    except TypeError:  # a plain dict admits no weak reference
        return lambda: hooks
