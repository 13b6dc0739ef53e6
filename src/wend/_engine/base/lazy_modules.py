"""Modules of a package that are loaded when first named."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType


def load_when_named(package: str, names: str) -> None:
    """Give a package a `__getattr__` that loads these of its modules; names: separated by spaces.

    In PyTorch `import torch` alone makes such attributes. Other names raise AttributeError.
    """
    known = frozenset(names.split())

    def __getattr__(name: str) -> ModuleType:
        if name in known:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    vars(sys.modules[package]).update(__getattr__=__getattr__, _WHEN_NAMED=known)
