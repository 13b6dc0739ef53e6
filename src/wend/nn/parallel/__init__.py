"""Wrappers for several devices."""

from wend.nn.parallel.data_parallel import DataParallel, data_parallel
from wend.nn.parallel.distributed import DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]
