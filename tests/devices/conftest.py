"""Lets the tests import the helpers that lie beside them, and the harness of the ops' tests."""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("ops", "fuzz"))]

# The driver that runs kernels on the processor makes no vectors: that takes most of its time.
os.environ.setdefault("CL_CONFIG_CPU_VECTORIZER_MODE", "1")


@pytest.fixture(scope="session")
def accelerator():
    """The first OpenCL device."""
    from wend._engine.base.devices import count_of, placement

    if not count_of("xpu"):
        pytest.skip("no OpenCL device: set WEND_XPU=all, and install wend-dl[opencl-cpu]")
    return placement("xpu", "test")


@pytest.fixture(autouse=True)
def _host_steps():
    """Tests run with WEND_STRICT=1, and many ops have no kernel of the device so far."""
    from wend._engine.base import config

    with config.override(host_steps=True):
        yield
