"""The setting of attention layers' quick way in evaluation: Wend knows no slower way."""

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]

_enabled = [True]


def get_fastpath_enabled() -> bool:
    """The last setting."""
    return _enabled[0]


def set_fastpath_enabled(value: bool) -> None:
    """Kept for `get_fastpath_enabled`."""
    _enabled[0] = value
