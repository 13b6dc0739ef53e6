"""Wrappers for several devices."""

from wend._engine.base.lazy_modules import load_when_named
from wend.nn.parallel.data_parallel import DataParallel, data_parallel
from wend.nn.parallel.distributed import DistributedDataParallel
from wend.nn.parallel.parallel_apply import parallel_apply
from wend.nn.parallel.replicate import replicate
from wend.nn.parallel.scatter_gather import gather, scatter

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]

load_when_named(__name__, "_functions")
