"""Tables of hooks, and the handle that every `register_*_hook` returns."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any


class RemovableHandle:
    """The result of a `register_*_hook` method: `remove()` takes the hook away again.

    hooks_dict: the table with the hook, by `id`
    extra_dict: tables with further facts of the hook
    """

    next_id: int = 0
    hooks_ref: Callable[[], Any]
    extra_refs: list[Callable[[], Any]]

    def __init__(self, hooks_dict: dict[Any, Any], *, extra_dict: object = None) -> None:
        self.hooks_ref = _reference(hooks_dict)
        self.id: int = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extras = [] if extra_dict is None else extra_dict
        if not isinstance(extras, list):
            extras = [extras]
        self.extra_refs = [_reference(extra) for extra in extras]

    @classmethod
    def add(cls, hooks: dict[int, Any], hook: object) -> RemovableHandle:
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

    def follow(self, tables: Mapping[int, Any]) -> None:
        """Refer to the tables that took over the hooks of others.  tables: by id() of the others"""
        self.hooks_ref = _reference(tables.get(id(self.hooks_ref()), self.hooks_ref()))

    def __getstate__(self) -> dict[str, Any]:
        # Weak references cannot be pickled; the tables are, once, with their owners.
        state = dict(vars(self))
        if "hooks_ref" in state:
            state["hooks_ref"] = self.hooks_ref()
            state["extra_refs"] = [reference() for reference in self.extra_refs]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "hooks_ref" in state:
            self.hooks_ref = _reference(state["hooks_ref"])
            self.extra_refs = [_reference(extra) for extra in state["extra_refs"]]
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def _reference(hooks: object) -> Callable[[], Any]:
    try:
        return weakref.ref(hooks)
    except TypeError:  # a plain dict, or None, admits no weak reference
        return lambda: hooks


class HookTable(OrderedDict[int, Any]):
    """The hooks of a kind, in running order."""

    def _count(self, change: int) -> None:
        """Called with each change of the number of hooks; for tables that somebody counts."""

    def add(
        self, hook: Callable[..., Any], *, first: bool = False, extra: object = None
    ) -> RemovableHandle:
        """Register a hook; `first` puts it before those already there."""
        handle = RemovableHandle(self, extra_dict=extra)
        self[handle.id] = hook
        if first:
            self.move_to_end(handle.id, last=False)
        return handle

    def __setitem__(self, key: int, hook: object) -> None:
        added = key not in self
        super().__setitem__(key, hook)
        if added:
            self._count(1)

    def __delitem__(self, key: int) -> None:
        super().__delitem__(key)
        self._count(-1)

    def pop(self, key: int, *default: object) -> Any:
        if key not in self:
            return super().pop(key, *default)
        hook = self[key]
        del self[key]
        return hook

    def popitem(self, last: bool = True) -> tuple[int, Any]:
        key = next(reversed(self) if last else iter(self))
        return key, self.pop(key)

    def clear(self) -> None:
        for key in list(self):
            del self[key]

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return type(self), (), None, None, iter(list(self.items()))
