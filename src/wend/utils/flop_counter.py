"""torch.utils.flop_counter: operations are not counted."""

from __future__ import annotations

import warnings
from typing import Any

__all__ = ["FlopCounterMode"]


class FlopCounterMode:
    """A block whose operations would be counted. There are no counts, and no total."""

    def __init__(
        self, mods: object = None, depth: int = 2, display: bool = True, **more: object
    ) -> None:
        self.mods = mods
        self.depth = depth
        self.display = display

    def __enter__(self) -> FlopCounterMode:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """{}: nothing is counted."""
        return {}

    def get_total_flops(self) -> int:
        """0, with a warning: nothing is counted."""
        warnings.warn("FlopCounterMode: operations are not counted", stacklevel=2)
        return 0
