"""torch._tensor_str: the text of a tensor's numbers, for classes with a text of their own."""

from __future__ import annotations

from typing import Any

from wend._engine.core._hot import Tensor
from wend._frontend import printing as _printing

__all__ = ["_add_suffixes", "_tensor_str"]


def __getattr__(name: str) -> Any:
    if name == "PRINT_OPTS":
        return _printing.OPTIONS
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _tensor_str(self: Tensor, indent: int) -> str:
    """The bracketed numbers; further lines are indented."""
    return _printing.array_text(self.detach().numpy(), indent)


def _add_suffixes(
    tensor_str: str, suffixes: list[str], indent: int, force_newline: bool = False
) -> str:
    """A text and facts behind, on a new line where the line would be too long, and a bracket."""
    if force_newline and suffixes:
        first, *suffixes = suffixes
        tensor_str += ",\n" + " " * indent + first
    return _printing.append_facts(tensor_str, suffixes, indent) + ")"
