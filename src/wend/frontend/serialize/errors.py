"""The error of a file that cannot, or must not, be read."""

from __future__ import annotations

from pickle import UnpicklingError

from wend.base.errors import FormatError

__all__ = ["CheckpointError", "UnsafeName"]


class CheckpointError(FormatError, UnpicklingError):
    """A checkpoint that is truncated, inconsistent, hostile, or of a format Wend does not read.

    PyTorch raises RuntimeError for the container, UnpicklingError for its contents; this is both.
    """


class UnsafeName(CheckpointError):
    """A checkpoint asks for a class or function that a default load does not hand out."""
