"""Holding back the cyclic garbage collector while many objects are made that all stay."""

from __future__ import annotations

import gc


class CollectionPaused:
    """No cyclic collection inside of a `with` block, if there was any before it.

    For building graphs and plans, where no users' code runs: thousands of objects come into being
    that refer to no garbage, and the collector would look at them, and at all else, time and again.
    """

    __slots__ = ("_resume",)

    def __enter__(self) -> None:
        self._resume = gc.isenabled()
        if self._resume:
            gc.disable()

    def __exit__(self, *unused: object) -> None:
        if self._resume:
            gc.enable()
