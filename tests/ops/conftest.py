"""Lets the tests of ops import `harness`, which lies beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
