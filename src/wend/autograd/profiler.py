"""Names for stretches of a program, as PyTorch's profiler takes them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["EventList", "emit_nvtx", "profile", "record_function"]


class EventList(list[Any]):
    """Measured operations, of which there are none."""

    def key_averages(self, *args: Any, **kwargs: Any) -> EventList:
        """There are none."""
        return EventList()

    def total_average(self) -> None:
        """There is none."""

    def table(self, *args: Any, **kwargs: Any) -> str:
        """An empty text."""
        return ""


class record_function:
    """A named stretch of the program: a context manager and a decorator."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.name, self.args):
                return function(*args, **kwargs)

        return inside


class profile:
    """A stretch to be measured, run without measurement; there are no events to list."""

    def __init__(self, enabled: bool = True, **options: Any) -> None:
        self.enabled = enabled

    def __enter__(self) -> profile:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


class emit_nvtx(profile):
    """Accepted; there is no such tool to emit to."""
