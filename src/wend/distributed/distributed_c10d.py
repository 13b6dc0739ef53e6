"""torch.distributed.distributed_c10d: the names of torch.distributed at a second address."""

from wend.distributed import *  # noqa: F403
from wend.distributed import __all__ as __all__
from wend.distributed import _coalescing_manager as _coalescing_manager
from wend.distributed import _get_process_group_name as _get_process_group_name
from wend.distributed import _rank_not_in_group as _rank_not_in_group
from wend.distributed._group import resolve
from wend.distributed._setup import *  # noqa: F403


def _get_default_group() -> object:
    """The default group. Raises NoProcessGroup (a ValueError) before `init_process_group`."""
    return resolve(None)
