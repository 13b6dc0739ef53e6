"""Tells the engine how to count accelerators. Their drivers are loaded when first asked for."""

from __future__ import annotations

from wend._engine.base.devices import COUNTERS


def count_cuda() -> int:
    """The number of NVIDIA's cards."""
    from wend._engine.runtime.devices import cuda

    return cuda.count()


def count_xpu() -> int:
    """The number of OpenCL devices."""
    from wend._engine.runtime.devices import opencl

    return opencl.count()


COUNTERS["cuda"] = count_cuda
COUNTERS["xpu"] = count_xpu
