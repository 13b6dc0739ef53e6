"""The module of the file format, found by name.

Layers know of processes (`nn.parallel`), and files know of layers' parameters. Checkpoints of
processes therefore load the module for files when the first checkpoint is written or read.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

__all__ = ["safetensors"]

_NAME = "wend.serialization.safetensors"


@cache
def safetensors() -> Any:
    """The module `wend.serialization.safetensors`."""
    return import_module(_NAME)
