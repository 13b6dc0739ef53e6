"""NumPy's BLAS has as many threads as the user asks for: idle ones would keep a processor busy."""

import subprocess
import sys

import pytest
from threadpoolctl import threadpool_info

import wend as torch
from wend._engine.base import config
from wend._engine.runtime.compiled import threads


def counts():
    """The number of threads of each BLAS."""
    return {row["num_threads"] for row in threadpool_info() if row["user_api"] == "blas"}


@pytest.fixture
def usual():
    """The number before anybody asks, which comes back at the end."""
    if len(counts()) != 1:
        pytest.skip("NumPy's BLAS cannot be asked here")
    before = torch.get_num_threads(), threads._blas.asked
    threads._blas.asked = None
    threads._blas.follow_settings()
    yield counts()
    torch.set_num_threads(before[0])
    threads._blas.asked = before[1]
    threads._blas.follow_settings()


def test_the_number_that_was_asked_for(usual):
    torch.set_num_threads(1)
    assert counts() == {1}
    torch.set_num_threads(2)
    assert counts() == {2}


def test_one_in_deterministic_mode(usual):
    with config.override(deterministic=True):
        assert counts() == {1}
        torch.set_num_threads(2)
        assert counts() == {1}
    assert counts() == {2}
    threads._blas.asked = None
    with config.override(deterministic=True):
        assert counts() == {1}
    assert counts() == usual


def test_nothing_is_bound_unasked():
    program = """
import sys
import wend
wend.ones(300, 300) @ wend.ones(300, 300)
assert "threadpoolctl" not in sys.modules
wend.set_num_threads(1)
assert "threadpoolctl" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)
