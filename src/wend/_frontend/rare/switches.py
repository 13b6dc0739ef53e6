"""Switches that PyTorch has for warnings, determinism and subnormal numbers."""

from __future__ import annotations

from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._frontend import api

__all__ = [
    "get_deterministic_debug_mode",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled",
    "set_deterministic_debug_mode",
    "set_flush_denormal",
    "set_warn_always",
]

_MODES = ("default", "warn", "error")
_warn_always = [False]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Ask for results that are bit-equal from run to run: "warn" or "error", or not: "default".

    debug_mode: a word, or its number from 0. Raises ArgumentError for any other.
    """
    if not isinstance(debug_mode, int | str):
        raise ArgumentTypeError(
            f"set_deterministic_debug_mode: debug_mode must be str or int, and is {debug_mode!r}"
        )
    if debug_mode not in _MODES and debug_mode not in range(3):
        raise ArgumentError(
            f"set_deterministic_debug_mode: {debug_mode!r} is not one of {', '.join(_MODES)}"
        )
    number = debug_mode if isinstance(debug_mode, int) else _MODES.index(debug_mode)
    api.use_deterministic_algorithms(number > 0, warn_only=number == 1)


def get_deterministic_debug_mode() -> int:
    """0: not asked for, 1: warn, 2: raise. Wend's own ops need neither."""
    if not api.are_deterministic_algorithms_enabled():
        return 0
    return 1 if is_deterministic_algorithms_warn_only_enabled() else 2


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was last called with `warn_only`."""
    return api.WARN_ONLY[0]


def set_warn_always(b: bool) -> None:
    """Kept for `is_warn_always_enabled`: Python's filters say how often a warning is shown."""
    if not isinstance(b, bool):
        raise ArgumentTypeError(f"set_warn_always: expects a bool, not {type(b).__name__}")
    _warn_always[0] = b


def is_warn_always_enabled() -> bool:
    """The last setting."""
    return _warn_always[0]


def set_flush_denormal(mode: bool) -> bool:
    """Whether subnormal numbers can be made 0 by the processor: only False is possible here."""
    if not isinstance(mode, bool):
        raise ArgumentTypeError(f"set_flush_denormal: expects a bool, not {type(mode).__name__}")
    return not mode
