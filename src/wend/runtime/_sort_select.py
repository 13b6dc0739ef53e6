"""Chooses between the compiled and the uncompiled sorter, and gives the latter its C helpers."""

from __future__ import annotations

import ctypes
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType

from wend.core import _hot


def copy(target: int, source: int, n: int) -> None:
    """Copy bytes."""
    ctypes.memmove(int(target), int(source), int(n))


def _add(
    of: type[ctypes.c_float] | type[ctypes.c_double], target: int, source: int, n: int
) -> None:
    t = (of * int(n)).from_address(int(target))
    s = (of * int(n)).from_address(int(source))
    for k in range(int(n)):
        t[k] += s[k]


def add32(target: int, source: int, n: int) -> None:
    """Add float32 numbers to others."""
    _add(ctypes.c_float, target, source, n)


def add64(target: int, source: int, n: int) -> None:
    """Add float64 numbers to others."""
    _add(ctypes.c_double, target, source, n)


def select() -> ModuleType:
    """The sorter that this process uses, registered as `wend.runtime._sort`."""
    name = "wend.runtime._sort"
    if name in sys.modules:
        return sys.modules[name]
    here = os.path.dirname(os.path.abspath(__file__))
    if isinstance(_hot.__loader__, importlib.machinery.ExtensionFileLoader):
        spec = importlib.machinery.PathFinder.find_spec(name, [here])
        if spec is not None and isinstance(spec.loader, importlib.machinery.ExtensionFileLoader):
            return importlib.import_module(name)
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(here, "_sort.py"))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__.update({"copy": copy, "add32": add32, "add64": add64})
    sys.modules[name] = module
    loader.exec_module(module)
    return module
