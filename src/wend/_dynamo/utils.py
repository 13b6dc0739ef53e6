"""torch._dynamo.utils: counters and times of PyTorch's tracer, which stay empty here."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

__all__ = ["compile_times", "counters", "is_compile_supported"]

#: Per kind of event a Counter, for programs that print or clear it: `wend.debug` has counts.
counters: defaultdict[str, Counter[str]] = defaultdict(Counter)


def compile_times(repr: str = "str", aggregate: bool = False) -> Any:
    """No times: `wend.debug.explain` tells how long the compiler took."""
    return "" if repr == "str" else ([], [])


def is_compile_supported(device_type: Any) -> bool:
    """Whether `torch.compile` takes programs on a device: True for 'cpu'."""
    return str(device_type) == "cpu"
