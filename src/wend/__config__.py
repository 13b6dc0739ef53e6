"""torch.__config__: versions and threads."""

from __future__ import annotations

from importlib.metadata import version

from wend._frontend.api import get_num_threads

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Versions of the packages that make and run code."""
    return "".join(f"  - {name} {version(name)}\n" for name in ("numpy", "llvmlite"))


def parallel_info() -> str:
    """The number of threads."""
    return f"ATen/Parallel:\n\tat::get_num_threads() : {get_num_threads()}\n"
