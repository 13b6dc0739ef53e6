"""Objects that give and take their state as a dict."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = ["Stateful"]


@runtime_checkable
class Stateful(Protocol):
    """An object whose state a checkpoint holds in its place."""

    def state_dict(self) -> dict[str, Any]:
        """The state: tensors and plain values."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state that `state_dict` has given."""
