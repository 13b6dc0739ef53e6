"""The content of a bug report: versions, machine, which core, settings."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from wend._engine.base import defects
from wend._engine.base.config import ENVIRONMENT
from wend._engine.base.system import system
from wend.version import __version__

_DEPENDENCIES = ("greenlet", "llvmlite", "ml_dtypes", "numpy")
_BESIDE = ("scipy", "Cython", "torch", "safetensors", "scikit-learn", "pytest")
_VARIABLES = (
    *ENVIRONMENT,
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "PYTHONHASHSEED",
    "PYTHONMALLOC",
)


def _version_of(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # the package is not installed
        return "not installed"


def _cores() -> str:
    usable, total = system.processors(), os.cpu_count() or 1
    return f"{usable} usable of {total}"


def _memory() -> str:
    size = system.memory()
    return "unknown" if size is None else f"{size / 2**30:.1f} GiB"


def _core() -> str:
    try:
        from wend._engine.core import _hot, _select
    except Exception as error:  # the report names the error: that is its purpose
        return f"broken: {type(error).__name__}: {error}"
    if _select.is_compiled(_hot):
        return "compiled"
    asked = os.environ.get("WEND_PURE", "")
    return "uncompiled (WEND_PURE is set)" if asked else "uncompiled (no extension is built)"


def report() -> Iterator[tuple[str, str]]:
    """(topic, value) line by line."""
    yield "wend", __version__
    yield "from", str(Path(__file__).resolve().parent.parent)
    yield "core", _core()
    yield "python", f"{platform.python_version()} ({platform.python_implementation()})"
    yield "executable", sys.executable
    yield "platform", platform.platform()
    yield "processor", system.processor()
    yield "cores", _cores()
    yield "memory", _memory()
    for name in (*_DEPENDENCIES, *_BESIDE):
        yield name, _version_of(name)
    yield "failures", defects.summary()
    for name in _VARIABLES:
        if name in os.environ:
            yield name, os.environ[name]


def text() -> str:
    """The report as two columns."""
    rows = list(report())
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
