# ruff: noqa: F401
"""Wrappers for several devices."""

from wend.nn.parallel.data_parallel import DataParallel, data_parallel
from wend.nn.parallel.distributed import DistributedDataParallel
