"""Tests of several processes: they need mpi4py and a launcher of MPI."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # ranks.py, beside the tests


@pytest.fixture(scope="session", autouse=True)
def whole_lines() -> Iterator[None]:
    """Let a printed line be a single write, so that lines of several ranks do not mix in a pipe."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONUNBUFFERED", raising=False)
        yield
