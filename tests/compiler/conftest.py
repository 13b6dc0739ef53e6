"""Lets the tests import the helpers that lie beside them, and the harness of the ops' tests."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "ops")]


@pytest.fixture(autouse=True)
def paths_come_back(own_trie):
    """What is compiled hangs on the trie, and the paths of other tests may have sealed it."""
