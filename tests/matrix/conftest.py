"""Counts of cases, found once for all processes of a run of tests."""

from pathlib import Path
from typing import Any

import pytest

from forked import Forked, shared_folder

PROGRAM = Path(__file__).parent / "program.py"


@pytest.fixture(scope="session")
def programs(tmp_path_factory: Any) -> Any:
    """The counts of the cases, by name."""
    found = Forked(PROGRAM, shared_folder(tmp_path_factory, "matrix"))
    yield found
    found.end()
