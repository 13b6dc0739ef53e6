"""The number of threads that share the parts of a kernel; the threads are in `_pool.h`.

Those of NumPy's BLAS, which the reference uses, are bound to a number that the user has asked for.
Threads of a BLAS wait for the next product without sleep, and would take a processor from the
thread that compiles.

The uncompiled launcher makes all calls in the thread that flushes. The results are the same,
because the cut of a kernel into parts depends on sizes alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from wend._engine.base import config
from wend._engine.base.system import system
from wend._engine.runtime.native.launcher import launcher


def default_threads(environment: Mapping[str, str] = os.environ) -> int:
    """Return OMP_NUM_THREADS, or else the number of processors that this process may use.

    Other numerical libraries read this variable in the same way.
    """
    asked = environment.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return system.processors()


def threads() -> int:
    """Return how many threads share the parts of a kernel, the flushing thread included."""
    return _count[0]


def set_threads(number: int) -> None:
    """Set how many threads share the parts of a kernel, from the next flush on."""
    alone = _count[0] == 1
    _count[0] = number
    launcher.use_threads(number)
    if alone != (number == 1):
        for call in on_change:
            call()


def bind_blas(number: int) -> None:
    """Set how many threads NumPy's BLAS uses, from the next product on.

    Several threads sum in another order: in deterministic mode BLAS has a single thread.
    """
    _blas.asked = number
    _blas.follow_settings()


class _Blas:
    """The threads of NumPy's BLAS. Nothing is loaded until their number is to change."""

    def __init__(self) -> None:
        self.asked: int | None = None
        #: Each library, and its number when Wend met it; None until a number is to change.
        self._usual: list[tuple[Any, int]] | None = None

    def follow_settings(self) -> None:
        """Give the number that the settings and the user ask for; or else the usual number."""
        number = 1 if config.settings.deterministic else self.asked
        if self._usual is None:
            if number is None:
                return
            from threadpoolctl import ThreadpoolController

            controllers = ThreadpoolController().select(user_api="blas").lib_controllers
            self._usual = [(library, library.num_threads) for library in controllers]
        for library, usual in self._usual:
            library.set_num_threads(usual if number is None else number)


#: Functions that are called when the number of threads changes from 1 or to 1.
on_change: list[Callable[[], None]] = []
_count = [1]
set_threads(default_threads())
_blas = _Blas()
_blas.follow_settings()
config.settings.on_change(_blas.follow_settings)
