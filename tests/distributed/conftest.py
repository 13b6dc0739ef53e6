"""Tests of several processes: they need mpi4py and a launcher of MPI."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # ranks.py, beside the tests
