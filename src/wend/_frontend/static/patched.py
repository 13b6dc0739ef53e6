"""Settings of a module that have new values for a while."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from wend._engine.base.errors import NotAvailable

__all__ = ["Patched"]


class Patched:
    """A context manager and decorator under which entries of a dict have new values.

    Raises NotAvailable (an AttributeError) for a name that the dict lacks.
    """

    def __init__(self, space: dict[str, Any], *changes: Any, **named: Any) -> None:
        if len(changes) == 2:
            named = {changes[0]: changes[1], **named}
        elif changes:
            named = {**changes[0], **named}
        for name in named:
            if name not in space:
                raise NotAvailable(f"{space.get('__name__')}.{name} does not exist")
        self.space, self.changes = space, named
        self.before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        self.before.append({name: self.space[name] for name in self.changes})
        self.space.update(self.changes)

    def __exit__(self, *exc: object) -> None:
        self.space.update(self.before.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def patched(*args: object, **kwargs: object) -> Any:
            with self:
                return function(*args, **kwargs)

        return patched
