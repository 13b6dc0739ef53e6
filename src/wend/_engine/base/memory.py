"""The memory budget of the process: a bound on live bytes, kept by computing values again."""

from __future__ import annotations

from wend._engine.base.errors import ArgumentTypeError

_budget: list[int | None] = [None]


def budget() -> int | None:
    """Bytes that values may take at any time; None for no bound."""
    return _budget[0]


def set_budget(size: int | None) -> None:
    """Set or lift the bound. Raises ArgumentTypeError for anything but a positive int or None."""
    if size is not None and (type(size) is not int or size < 1):
        raise ArgumentTypeError(
            f"set_memory_budget: expects a positive number of bytes or None, got {size!r}"
        )
    _budget[0] = size
