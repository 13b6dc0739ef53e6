"""torch.distributed: processes that communicate, by MPI or by sockets."""

from typing import TYPE_CHECKING

from wend._engine.base.lazy_modules import load_when_named
from wend.distributed import _setup
from wend.distributed._collectives import (
    _all_gather_base,
    _reduce_scatter_base,
    all_gather,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
)
from wend.distributed._group import Backend, BackendConfig, GroupMember, ProcessGroup, group
from wend.distributed._group import process_group_name as _get_process_group_name
from wend.distributed._group import rank_not_in_group as _rank_not_in_group
from wend.distributed._messages import P2POp, batch_isend_irecv, irecv, isend, recv, send
from wend.distributed._objects import (
    all_gather_object,
    allow_pickle,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from wend.distributed._reduction import RedOpType, ReduceOp
from wend.distributed._replicas.grad_bucket import GradBucket
from wend.distributed._setup import *  # noqa: F403
from wend.distributed._several import (
    CoalescingManager as _CoalescingManager,
)
from wend.distributed._several import (
    all_gather_coalesced,
    all_reduce_coalesced,
    breakpoint,  # noqa: A004
    monitored_barrier,
)
from wend.distributed._several import coalescing as _coalescing_manager
from wend.distributed._stores.network import TCPStore
from wend.distributed._stores.tables import FileStore, HashStore, PrefixStore, Store
from wend.distributed._subgroups import (
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    shrink_group,
    split_group,
)
from wend.distributed._wire._faults import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    QueueEmptyError,
)
from wend.distributed._work import Work
from wend.distributed.constants import (
    DebugLevel,
    default_pg_timeout,
    get_debug_level,
    set_debug_level,
    set_debug_level_from_env,
)
from wend.distributed.device_mesh import DeviceMesh, init_device_mesh
from wend.distributed.rendezvous import register_rendezvous_handler, rendezvous

if TYPE_CHECKING:  # modules that are names of the package too
    from wend.distributed import algorithms as algorithms
    from wend.distributed import constants as constants
    from wend.distributed import device_mesh as device_mesh
    from wend.distributed import distributed_c10d as distributed_c10d
    from wend.distributed import launcher as launcher
    from wend.distributed import rpc as rpc


def supports_complex(reduceOp: object) -> bool:
    """Whether complex tensors have a reduction: all but orders and operations on bits."""
    unordered = (RedOpType.MAX, RedOpType.MIN, RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR)
    return reduceOp not in unordered


#: The older name of `ReduceOp`.
reduce_op = ReduceOp

__all__ = [
    "Backend",
    "BackendConfig",
    "DebugLevel",
    "DeviceMesh",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "FileStore",
    "GradBucket",
    "GroupMember",
    "HashStore",
    "P2POp",
    "PrefixStore",
    "ProcessGroup",
    "QueueEmptyError",
    "ReduceOp",
    "Store",
    "TCPStore",
    "Work",
    "_CoalescingManager",
    "_all_gather_base",
    "_coalescing_manager",
    "_get_process_group_name",
    "_rank_not_in_group",
    "_reduce_scatter_base",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "allow_pickle",
    "barrier",
    "batch_isend_irecv",
    "breakpoint",
    "broadcast",
    "broadcast_object_list",
    "default_pg_timeout",
    "gather",
    "gather_object",
    "get_debug_level",
    "group",
    "init_device_mesh",
    "irecv",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_op",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "register_rendezvous_handler",
    "rendezvous",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
    "set_debug_level",
    "set_debug_level_from_env",
    "shrink_group",
    "split_group",
    "supports_complex",
]
__all__ += _setup.__all__

load_when_named(__name__, "algorithms distributed_c10d rpc")
