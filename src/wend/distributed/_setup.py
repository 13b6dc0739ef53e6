"""Begin and end of process groups, and questions about them."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from wend._engine.base.devices import DeviceLike
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, ExecutionError
from wend._engine.core.provenance import user_level
from wend.distributed._engine import Channel
from wend.distributed._group import (
    DEFAULT_TIMEOUT,
    AnyGroup,
    Backend,
    GroupMember,
    ProcessGroup,
    resolve,
    state,
)
from wend.distributed._rendezvous import Place, asked_for, local_rank
from wend.distributed._replicas.shared_line import shared
from wend.distributed._stores.tables import Store
from wend.distributed._wire._faults import NoProcessGroup
from wend.distributed.launcher import _watchdog

__all__ = [
    "destroy_process_group",
    "get_backend",
    "get_backend_config",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
]

_KNOWN = ("mpi", "gloo", "nccl", "ucc", "xccl", "undefined")
_noticed: list[str] = []


def is_available() -> bool:
    """True: process groups can be made, of a single process even without MPI."""
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` has been called."""
    return state.default is not None


def is_mpi_available() -> bool:
    """Whether mpi4py is installed."""
    import importlib.util

    return importlib.util.find_spec("mpi4py") is not None


def is_gloo_available() -> bool:
    """True: sockets carry the data, or MPI between processes that MPI has started."""
    return True


def is_nccl_available() -> bool:
    """False: there are no GPUs to communicate. The name is accepted."""
    return False


def is_ucc_available() -> bool:
    """False: there is no UCC but inside of MPI."""
    return False


def is_xccl_available() -> bool:
    """False: there are no accelerators to communicate."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether a launcher with restarts has started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def is_backend_available(backend: str) -> bool:
    """Whether a carrier of that name is installed."""
    asks = {
        "mpi": is_mpi_available, "gloo": is_gloo_available, "nccl": is_nccl_available,
        "ucc": is_ucc_available, "xccl": is_xccl_available,
    }  # fmt: skip
    ask = asks.get(backend.lower())
    return ask is not None and ask()


def get_default_backend_for_device(device: DeviceLike) -> str:
    """The name for tensors on a device: 'mpi', which processes without MPI accept, too."""
    return Backend.MPI


def _backend_of(backend: str | None) -> Backend:
    """The name that `get_backend` gives, 'mpi' by default; how processes began decides the carrier.

    Raises ArgumentError (a ValueError) for unknown names.
    """
    if backend is None:
        return Backend(Backend.MPI)
    if not isinstance(backend, str):
        raise ArgumentTypeError(
            f"init_process_group: backend must be a string, got {type(backend).__name__}"
        )
    names = {part.rpartition(":")[2].strip().lower() for part in backend.split(",")}
    for name in names:
        if name not in _KNOWN:
            raise ArgumentError(
                f"init_process_group: unknown backend {backend!r}: use 'mpi' or 'gloo'; "
                "'nccl', 'ucc' and 'xccl' are accepted"
            )
    return Backend(backend)


def _notice(backend: Backend, rank: int) -> None:
    """Say once, in the first rank, that the data has a carrier of another name."""
    by_sockets = state.root is not None and not hasattr(state.root, "comm")
    if rank != 0 or _noticed or backend in ("undefined", "gloo" if by_sockets else "mpi"):
        return
    _noticed.append(backend)
    carrier = "sockets carry the data" if by_sockets else "MPI carries the data"
    if by_sockets and backend == "mpi":
        carrier += "; `wend launch --backend mpi` starts ranks that MPI connects"
    warnings.warn(
        f"init_process_group: backend {backend!r} is accepted; {carrier}",
        stacklevel=user_level(),
    )


def _was_spawned() -> bool:
    """Whether this process was started by multiprocessing, and thus by no launcher."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None


def _carrier(place: Place, init_method: str | None) -> str:
    """Who carries the data: "mpi" between processes that MPI has started, else "sockets"."""
    asked = os.environ.get("WEND_DISTRIBUTED_CARRIER", "")
    if asked not in ("", "mpi", "sockets"):
        raise ArgumentError(f"WEND_DISTRIBUTED_CARRIER: mpi or sockets, not {asked!r}")
    if asked and not (_was_spawned() and asked == "sockets"):
        return asked
    if init_method is not None and init_method.startswith("mpi"):
        return "mpi"
    return "mpi" if place.by_mpi and not _was_spawned() else "sockets"


def _connect(
    place: Place, init_method: str | None, store: Store, timeout: timedelta
) -> tuple[int, int]:
    """Begin the world; returns this process's rank and the number of ranks."""
    if place.size == 1 or (place.size is None and not place.by_mpi):
        return 0, 1
    if _carrier(place, init_method) == "sockets":
        return _connect_by_sockets(place, init_method, store, timeout)
    from wend.distributed import _mpi

    everyone = _mpi.world(None)
    if place.size is not None and everyone.size != place.size:
        raise ArgumentError(
            f"init_process_group: {place.source} ask for {place.size} ranks, and MPI has started "
            f"{everyone.size}; let both be the same, or leave out rank and world_size"
        )
    if place.rank is not None:
        everyone = _mpi.world(place.rank)
        if everyone.rank != place.rank:
            raise ArgumentError(
                f"init_process_group: several processes ask for the same rank: {place.source} say "
                f"{place.rank} here; each rank must be asked for once"
            )
    state.root = everyone
    return everyone.rank, everyone.size


def _connect_by_sockets(
    place: Place, init_method: str | None, store: Store, timeout: timedelta
) -> tuple[int, int]:
    """Begin a world of processes that meet by an address, a store, or the launcher."""
    from wend.distributed._sockets import meeting

    if place.rank is None or place.size is None:
        raise ArgumentError(
            "init_process_group: pass rank= and world_size=, or set RANK and WORLD_SIZE"
        )
    if os.environ.get("WEND_LAUNCH_ELASTIC") and not _was_spawned():
        everyone = meeting.meet_by_launcher(place.rank, timeout, _shrink)
    else:
        url = init_method or "env://"
        everyone = meeting.meet_by_store(url, store, place.rank, place.size, timeout)
    state.root = everyone
    return everyone.rank, everyone.size


def _shrink(before: Sequence[int], now: Sequence[int]) -> None:
    """Number the ranks that live anew, in all groups.

    before, now: the numbers that the ranks of the world had at the start
    """
    new = {number: rank for rank, number in enumerate(now)}
    own = None if state.default is None else before[state.default.own]
    for group in state.groups:
        living = [before[rank] for rank in group.ranks if before[rank] in new]
        own_place = living.index(own) if own in living else -1
        group.renumber([new[number] for number in living], own_place)


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: object = None,
    device_id: object = None,
    _ranks: list[int] | None = None,
) -> None:
    """Begin the default process group, of all processes of this run.

    backend: 'mpi', 'gloo', 'nccl' or None. MPI carries the data between processes that MPI has
        started, sockets between all others
    init_method: env://, tcp://, file:// or mpi://. Processes that MPI has started read rank and
        world_size of an address alone. All else meet there, and sockets carry the data
    world_size, rank: where the launcher's variables (torchrun's, MPI's, Slurm's) are not to count
    timeout: for messages and monitored barriers; 30 minutes by default
    store: where processes without MPI meet; `group.get_group_store()` returns it
    A single process needs no MPI, and communicates with itself at no cost.

    Raises ArgumentError (a ValueError) if called twice, or for numbers that do not fit the ranks
    that MPI has started; ModuleNotAvailable (an ImportError) if MPI is asked for and mpi4py is not
    installed; DistNetworkError if processes do not meet in time.
    """
    with state.lock:
        if state.default is not None:
            raise ArgumentError("trying to initialize the default process group twice!")
        if store is not None and init_method is not None:
            raise ArgumentError("Cannot specify both init_method and store.")
        if store is not None and (world_size < 1 or rank < 0):
            raise ArgumentError("world_size must be positive and rank non-negative if using store")
        if timeout is not None and not isinstance(timeout, timedelta):
            raise ArgumentTypeError(
                "init_process_group: Expected timeout argument to be of type datetime.timedelta, "
                f"got {type(timeout).__name__}"
            )
        name = _backend_of(backend)
        place = asked_for(init_method, rank, world_size)
        own, size = _connect(place, init_method, store, timeout or DEFAULT_TIMEOUT)
        if size > 1 and backend is not None:
            _notice(name, own)
        channel = None
        if size > 1:
            _watchdog.begin()
        if state.root is not None:
            line = state.root.part(range(size), 0)
            by_mpi = hasattr(line, "comm")  # which shares memory by itself
            channel = Channel(line if by_mpi else shared(line), "default")
        group = ProcessGroup(
            range(size), own, channel, "default", name, timeout or DEFAULT_TIMEOUT, "default_pg"
        )
        group.store = store
        group.messages = None if channel is None else channel.line
        state.default = state.add(group)


def destroy_process_group(group: AnyGroup = None) -> None:
    """End a group, or the default group and with it all groups.

    Collectives that have been begun are done before. Raises NoProcessGroup (a ValueError) if there
    is no such group.
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return
    with state.lock:
        process_group = resolve(group)
        ending = list(state.groups) if process_group is state.default else [process_group]
        if process_group not in state.groups:
            raise NoProcessGroup("Invalid process group specified")
        while process_group is state.default and state.at_end:
            state.at_end.pop()()
        for one in reversed(ending):
            one.shutdown()
            if one.channel is not None:
                one.channel.line.free()
                one.channel = one.messages = None
            state.groups.remove(one)
        if process_group is state.default:
            state.default = None
            state.made = 0
            if state.root is not None:
                state.root.free()
                state.root = None


def get_rank(group: AnyGroup = None) -> int:
    """This process's number in the group; -1 if no member.

    Raises NoProcessGroup (a ValueError) before `init_process_group`.
    """
    if group is None:
        return resolve(None).own
    return resolve(group).own


def get_world_size(group: AnyGroup = None) -> int:
    """The number of ranks of the group; -1 if this process is no member.

    Raises NoProcessGroup (a ValueError) before `init_process_group`.
    """
    process_group = resolve(group)
    return -1 if process_group.own < 0 else process_group.size()


def get_backend(group: AnyGroup = None) -> Backend:
    """The name that the group was made with, which does not tell the carrier."""
    process_group = resolve(group)
    if process_group.own < 0:
        raise ArgumentError("Invalid process group specified: this process is no member")
    return Backend(process_group.backend)


def get_backend_config(group: AnyGroup = None) -> str:
    """The name of the carrier for each kind of device."""
    return f"cpu:{get_backend(group)}"


def get_process_group_ranks(group: AnyGroup) -> list[int]:
    """The members' numbers in the world, in the order of their numbers in the group."""
    return list(resolve(group).ranks)


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The number in the group of a rank of the world. Raises ArgumentError if no member."""
    rank = resolve(group).place_of(global_rank)
    if rank < 0:
        raise ArgumentError(f"Global rank {global_rank} is not part of group {group}")
    return rank


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The number in the world of a member. Raises ArgumentError if there is no such member."""
    ranks = resolve(group).ranks
    if not 0 <= group_rank < len(ranks):
        raise ArgumentError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """This process's number on its machine, by the launcher's variables.

    Raises ExecutionError (a RuntimeError) if no variable says so and there is no fallback.
    """
    rank = local_rank()
    if rank is not None:
        return rank
    if fallback_rank is not None:
        return int(fallback_rank)
    raise ExecutionError(
        "get_node_local_rank: LOCAL_RANK is not in the environment. Consider passing fallback_rank"
    )


def get_pg_count() -> int:
    """The number of groups that this process belongs to."""
    return len(state.groups)
