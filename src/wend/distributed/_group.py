"""Process groups: which ranks belong together, and by which channel they communicate."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, ClassVar, TypeAlias

from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend.distributed._engine import Channel
from wend.distributed._wire._faults import NoProcessGroup
from wend.distributed._wire._transport import Transport

__all__ = ["Backend", "BackendConfig", "GroupMember", "ProcessGroup", "World", "resolve", "state"]

DEFAULT_TIMEOUT = timedelta(seconds=1800)
#: Groups as callers name them: None names the default group.
AnyGroup: TypeAlias = "ProcessGroup | None"


class Backend(str):
    """A name for the carrier of data, MPI or sockets: a lower-case word."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    XCCL = "xccl"
    UCC = "ucc"
    MPI = "mpi"
    backend_list: tuple[str, ...] = (UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI)
    #: The name for a kind of device where nobody says, and the kinds that a name serves.
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": MPI}
    backend_capability: ClassVar[dict[str, list[str]]] = {
        name: ["cpu"] for name in (GLOO, NCCL, XCCL, UCC, MPI)
    }

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ArgumentError(f"Backend name must be a string, but got: {name}")
        return super().__new__(cls, name.lower())

    @classmethod
    def register_backend(
        cls, name: object, func: object, extended_api: object = False, devices: object = None
    ) -> None:
        """Raises ArgumentError (a ValueError): MPI or sockets carry the data."""
        raise ArgumentError(
            f"Backend.register_backend: {name!r} cannot be added: MPI or sockets carry the data"
        )


class BackendConfig:
    """The name of the carrier for each kind of device.

    backend: 'mpi', or pairs as in 'cpu:gloo,cuda:nccl'
    Raises ArgumentError (a ValueError) for pairs that are no pairs, or a kind named twice.
    """

    def __init__(self, backend: Backend) -> None:
        self.device_backend_map: dict[str, Backend] = {}
        words = str(backend).lower().split(",")
        if ":" not in str(backend):
            self.device_backend_map["cpu"] = Backend(
                Backend.MPI if backend == Backend.UNDEFINED else backend
            )
            return
        for word in words:
            kind, colon, name = word.partition(":")
            if not colon or ":" in name:
                raise ArgumentError(f"Invalid device:backend pairing: {word} in {backend!r}")
            if kind in self.device_backend_map:
                raise ArgumentError(f"Duplicate device type {kind} in backend string: {backend}")
            self.device_backend_map[kind] = Backend(name)

    def __repr__(self) -> str:
        return ",".join(f"{kind}:{name}" for kind, name in self.device_backend_map.items())

    def get_device_backend_map(self) -> dict[str, Backend]:
        """The names by kind of device."""
        return self.device_backend_map


class ProcessGroup:
    """Ranks that communicate. Made by `init_process_group` and `new_group`.

    ranks: the members' numbers in the world, in the order of their numbers in the group
    own: this process's number in the group, or -1
    """

    def __init__(
        self,
        ranks: Sequence[int],
        own: int,
        channel: Channel | None,
        name: str,
        backend: str,
        timeout: timedelta,
        description: str = "undefined",
    ) -> None:
        self.ranks = tuple(ranks)
        self.own = own
        self.channel = channel
        self.group_name = name
        self.group_desc = description
        self.backend = backend
        self.timeout = timeout
        self.store: Any = None
        self.messages: Transport | None = None
        self._places = {rank: place for place, rank in enumerate(self.ranks)}

    def rank(self) -> int:
        """This process's number in the group."""
        return self.own

    def size(self) -> int:
        """The number of ranks."""
        return len(self.ranks)

    def name(self) -> str:
        """The name of the carrier."""
        return self.backend

    def renumber(self, ranks: Sequence[int], own: int) -> None:
        """Go on with fewer ranks, after a loss."""
        self.ranks, self.own = tuple(ranks), own
        self._places = {rank: place for place, rank in enumerate(self.ranks)}

    def place_of(self, rank: int) -> int:
        """The number in the group of a rank of the world; -1 if no member."""
        return self._places.get(rank, -1)

    def line(self) -> Channel:
        """The channel of collectives, of a group of several ranks."""
        if self.channel is None:
            raise NoProcessGroup(f"the group {self.group_name!r} has no channel any more")
        return self.channel

    def get_group_store(self) -> Any:
        """The store that the group was made with."""
        return self.store

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the time after which a message or a monitored barrier counts as lost."""
        self.timeout = timeout

    def shutdown(self) -> None:
        """End the group's channel, after the collectives that have been begun."""
        if self.channel is not None:
            self.channel.close()

    def abort(self) -> None:
        """As `shutdown`."""
        self.shutdown()

    def __reduce__(self) -> tuple[Any, ...]:
        raise ArgumentTypeError(
            "ProcessGroup: a group belongs to its process, and cannot be pickled; keep its ranks"
        )


class NonMember(ProcessGroup):
    """Stands in a process for a group that the process does not belong to."""

    def __init__(self) -> None:
        super().__init__((), -1, None, "", "undefined", DEFAULT_TIMEOUT)


class World:
    """The groups of this process.

    default: the group of all ranks, or None before `init_process_group`
    root: the transport of all ranks, which makes those of further groups
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.default: ProcessGroup | None = None
        self.groups: list[ProcessGroup] = []
        self.root: Transport | None = None
        self.made = 0
        #: Called once, before the default group ends.
        self.at_end: list[Callable[[], None]] = []

    def add(self, group: ProcessGroup) -> ProcessGroup:
        """Keep a group, to be found by name."""
        self.groups.append(group)
        return group


state = World()


class _WorldMeta(type):
    """Lets `group.WORLD` be the default group of the moment."""

    @property
    def WORLD(cls) -> ProcessGroup | None:
        return state.default

    @WORLD.setter
    def WORLD(cls, group: ProcessGroup | None) -> None:
        state.default = group


class group(metaclass=_WorldMeta):
    """`group.WORLD`: the default group."""


class GroupMember(metaclass=_WorldMeta):
    """`GroupMember.WORLD`: the default group; NON_GROUP_MEMBER: a group without this process."""

    NON_GROUP_MEMBER = NonMember()


def resolve(argument: object) -> ProcessGroup:
    """The group that an argument names; None names the default group.

    Raises NoProcessGroup (a ValueError) before `init_process_group`, ArgumentTypeError for
    anything but a group.
    """
    if argument is None:
        if state.default is None:
            raise NoProcessGroup(
                "Default process group has not been initialized, please make sure to call "
                "init_process_group."
            )
        return state.default
    if not isinstance(argument, ProcessGroup):
        inner = getattr(argument, "get_group", None)  # a DeviceMesh of a single dim
        if inner is not None:
            return resolve(inner())
        raise ArgumentTypeError(
            f"group: expected a ProcessGroup or None, got {type(argument).__name__}"
        )
    return argument


def rank_not_in_group(group: ProcessGroup | None) -> bool:
    """Whether this process is no member of a group; None is the group of all ranks."""
    return group is not None and resolve(group).own < 0


def process_group_name(pg: ProcessGroup) -> str:
    """The name of a group of this process; "None" of a group that has ended, or of no group."""
    return pg.group_name if pg in state.groups else "None"
