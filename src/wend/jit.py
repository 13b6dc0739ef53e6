"""torch.jit: Wend compiles all programs, so a scripted function is the function itself."""

from __future__ import annotations

from typing import Any, Final

from wend.frontend.platform import itself as _itself
from wend.frontend.platform import jit_file as _file
from wend.frontend.platform import jit_marker as _marker
from wend.frontend.platform import jit_trace as trace

__all__ = [
    "Final",
    "annotate",
    "export",
    "ignore",
    "is_scripting",
    "is_tracing",
    "load",
    "save",
    "script",
    "script_method",
    "trace",
    "unused",
]

script = _itself
script_method = export = _itself
ignore = unused = _marker
load = save = _file


def is_scripting() -> bool:
    """False: the code runs as Python."""
    return False


def is_tracing() -> bool:
    """False: the code runs as Python."""
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value; the type is for readers."""
    return the_value
