"""Lets the tests import the helpers that lie beside them, and the harness of the ops' tests."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "ops")]
