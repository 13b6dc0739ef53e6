"""The error of a file that cannot, or must not, be read."""

from __future__ import annotations

from pickle import UnpicklingError

from wend._engine.base.errors import FormatError

__all__ = ["CheckpointError", "UnsafeName", "short"]


class CheckpointError(FormatError, UnpicklingError):
    """A checkpoint that is truncated, inconsistent, hostile, or of a format Wend does not read.

    PyTorch raises RuntimeError for the container, UnpicklingError for the contents; this is both.
    """


class UnsafeName(CheckpointError):
    """A checkpoint asks for a class or function that a default load does not hand out."""


def short(value: object) -> str:
    """A value from a file in a message: numbers, texts and a few ints; of all else the type.

    Never the whole: a tuple's text can be exponentially longer than the file, a number's too.
    """
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an int of {value.bit_length()} bits"
    if value is None or isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (str, bytes)):
        return repr(value if len(value) <= 80 else value[:77]) + ("..." if len(value) > 80 else "")
    if isinstance(value, (tuple, list)):
        if len(value) <= 8 and all(type(n) is int and n.bit_length() <= 70 for n in value):
            return repr(tuple(value))
        return f"a {type(value).__name__} of {len(value)} items"
    if isinstance(value, type):
        return value.__name__
    return f"a {type(value).__name__}"
