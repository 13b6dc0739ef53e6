# ruff: noqa: F401
"""Wrappers for several devices."""

from wend.frontend.nn.parallel import DataParallel, DistributedDataParallel
from wend.nn.parallel.data_parallel import data_parallel
