"""Taps: measuring functions in the place of the engine's own, while a profiler is on.

A tap replaces an attribute, and puts back the attribute when the profiler is switched off.  Code
that looks functions up by name, as Python does for each call, is then measured; the compiled
modules stay as before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ABSENT = object()


class Tap:
    """A replaced attribute of a module or class."""

    def __init__(self, owner: object, name: str, make: Callable[[Any], Any]) -> None:
        """make: given the original, returns the replacement"""
        self.owner, self.name = owner, name
        self.own = vars(owner).get(name, _ABSENT)
        self.original = getattr(owner, name)
        self.replacement = make(self.original)
        setattr(owner, name, self.replacement)

    def remove(self) -> None:
        """Put the original back, unless somebody else has replaced the attribute since."""
        if vars(self.owner).get(self.name) is not self.replacement:
            return
        if self.own is _ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.own)


class Taps:
    """All taps of a recording, and further changes to be undone."""

    def __init__(self) -> None:
        self.undo: list[Callable[[], None]] = []

    def replace(self, owner: object, name: str, make: Callable[[Any], Any]) -> None:
        """Replace an attribute: see `Tap`."""
        self.undo.append(Tap(owner, name, make).remove)

    def remove(self) -> None:
        """Undo all changes, the latest first."""
        while self.undo:
            self.undo.pop()()


#: Functions `source(recorder, taps)` that let modules, optimizers and loaders be measured.
#: Each package adds its own when imported.
SOURCES: list[Callable[[Any, Taps], None]] = []
