"""Tells the engine how to count accelerators. Their drivers are loaded when first asked for."""

from __future__ import annotations

from wend._engine.base.devices import COUNTERS


def count_xpu() -> int:
    """The number of OpenCL devices."""
    from wend._engine.runtime.devices import opencl

    return opencl.count()


COUNTERS["xpu"] = count_xpu
