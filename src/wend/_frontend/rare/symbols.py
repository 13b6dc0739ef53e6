"""Classes of numbers that stay symbols while a function is explored, under PyTorch's names."""

from wend._engine.core.symbolic import SymInt
from wend._engine.core.symbolic import SymNumber as SymFloat

__all__ = ["SymBool", "SymFloat", "SymInt"]


class SymBool:
    """A condition that stays a symbol: never made, as such a condition becomes a branch."""
