"""Values as the text that PyTorch's C++ makes of them, and ops of texts."""

from __future__ import annotations

import math
import re
from typing import Any

from wend._engine.base.errors import ArgumentError
from wend._engine.core._hot import Tensor

__all__ = ["formatted", "percent_formatted", "shown"]


def shown(value: Any, inside: bool = False) -> str:
    """A value as text: floats without a fraction as `1.`, containers as Python writes them."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
            return f"{int(value)}." if value or math.copysign(1, value) > 0 else "-0."
        return f"{value:.17g}"
    if isinstance(value, str):
        return f"'{value}'" if inside else value
    if isinstance(value, list):
        return "[" + ", ".join(shown(v, True) for v in value) + "]"
    if isinstance(value, tuple):
        body = ", ".join(shown(v, True) for v in value)
        return f"({body},)" if len(value) == 1 else f"({body})"
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{shown(k, True)}: {shown(v, True)}" for k, v in value.items()) + "}"
        )
    if isinstance(value, (int, Tensor)):
        return str(value)
    return repr(value)


def formatted(text: str, *values: Any) -> str:
    """The text with values in place of each `{}`."""
    parts = text.split("{}")
    if len(parts) - 1 > len(values):
        raise ArgumentError(f"format: {len(parts) - 1} places, {len(values)} values")
    out = [parts[0]]
    for part, value in zip(parts[1:], values, strict=False):
        out += [shown(value), part]
    return "".join(out)


def percent_formatted(text: str, *values: Any) -> str:
    """The text with values in place of `%s`, `%d` and further."""
    if len(values) == 1 and isinstance(values[0], tuple):
        values = values[0]
    if re.search(r"%[^a-zA-Z%]{6,}", text):
        raise ArgumentError("percentFormat: a width of that many digits")
    return text % tuple(v if isinstance(v, (int, float)) else shown(v) for v in values)
