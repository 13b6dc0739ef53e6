# ruff: noqa: F401
"""Wrappers for several devices."""

from wend.frontend.nn.parallel import DataParallel, DistributedDataParallel, data_parallel
