"""One file per rule of the design: a program that keeps to it, and what becomes of it without."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for `disabling`, which lies beside the tests
