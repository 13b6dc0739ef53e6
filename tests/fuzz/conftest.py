"""The fuzzer's modules lie beside the tests; they also run by themselves (`run.py`)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
