"""Settings of the order in which `einsum` multiplies: Wend chooses by itself."""

from __future__ import annotations

from typing import Any

from wend._frontend.platform import is_available

enabled = False
strategy: str | None = None

__all__ = ["get_opt_einsum", "is_available"]


def get_opt_einsum() -> Any:
    """None: the package opt_einsum is not used."""
    return None
