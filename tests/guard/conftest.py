"""Counts of programs, found once for all processes of a run of tests."""

from pathlib import Path
from typing import Any

import pytest

from forked import Forked, shared_folder

PROGRAMS = Path(__file__).parent / "counted_programs.py"


@pytest.fixture(scope="session")
def programs(tmp_path_factory: Any) -> Any:
    """The counts of the programs of `counted_programs.py`, by name."""
    found = Forked(PROGRAMS, shared_folder(tmp_path_factory, "guard"))
    yield found
    found.end()
