# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"
from wend._engine.base.lazy_modules import load_when_named as load_when_named
from wend.nn.parallel import distributed as distributed
from wend.nn.parallel import scatter_gather as scatter_gather
from wend.nn.parallel.data_parallel import DataParallel as DataParallel
from wend.nn.parallel.data_parallel import data_parallel as data_parallel
from wend.nn.parallel.distributed import DistributedDataParallel as DistributedDataParallel
from wend.nn.parallel.parallel_apply import parallel_apply as parallel_apply
from wend.nn.parallel.replicate import replicate as replicate
from wend.nn.parallel.scatter_gather import gather as gather
from wend.nn.parallel.scatter_gather import scatter as scatter
