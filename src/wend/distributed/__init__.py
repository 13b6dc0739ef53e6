"""torch.distributed: not available so far; questions are answered so, and further calls fail.

Programs that import these names and use them only when started in many processes run.
"""

from wend.frontend.platform import is_available
from wend.frontend.platform import is_available as is_initialized
from wend.frontend.platform import no_process_group as _refuse

__all__ = [
    "all_gather",
    "all_reduce",
    "barrier",
    "broadcast",
    "destroy_process_group",
    "gather",
    "get_backend",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "is_available",
    "is_initialized",
    "new_group",
    "reduce",
    "scatter",
]

init_process_group = destroy_process_group = new_group = barrier = _refuse
all_gather = all_reduce = broadcast = gather = reduce = scatter = _refuse
get_backend = get_rank = get_world_size = _refuse
