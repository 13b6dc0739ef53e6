"""Groups of some of the ranks."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from wend._engine.base.errors import ArgumentError
from wend.distributed._engine import Channel
from wend.distributed._group import (
    DEFAULT_TIMEOUT,
    AnyGroup,
    GroupMember,
    ProcessGroup,
    resolve,
    state,
)

__all__ = [
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "shrink_group",
    "split_group",
]

#: Tags of messages that make a group: below this for groups that all ranks know, above for others.
_HALF = 16384
_LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
#: How often members alone have made a group of these ranks.
_by_members: Counter[tuple[int, ...]] = Counter()


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: object = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: object = None,
    sort_ranks: bool = True,
) -> ProcessGroup:
    """A group of some ranks of the world; all ranks of the world call, in the same order.

    ranks: numbers in the world; None for all
    use_local_synchronization: members alone call
    sort_ranks: number the members in the order of the world, else in the given order
    Returns GroupMember.NON_GROUP_MEMBER in ranks that are no members.
    Raises ArgumentError (a ValueError) for ranks that do not exist or are given twice.
    """
    world = resolve(None)
    everyone = range(world.size())
    members = list(everyone) if ranks is None else [int(rank) for rank in ranks]
    if sort_ranks:
        members.sort()
    if len(members) > world.size():
        raise ArgumentError(
            "the new group's world size should be less or equal to the world size set by "
            f"init_process_group: {len(members)} ranks of {world.size()}"
        )
    if not members:
        raise ArgumentError("new_group: ranks is empty; a group has at least a single rank")
    for rank, count in Counter(members).items():
        if rank not in everyone:
            raise ArgumentError(
                "The new group's rank should be within the world_size set by init_process_group: "
                f"rank {rank} of {world.size()}"
            )
        if count > 1:
            raise ArgumentError(f"new_group: rank {rank} is given {count} times")
    name, tag = _name_of(tuple(members), use_local_synchronization)
    if world.own not in members:
        return GroupMember.NON_GROUP_MEMBER
    channel = None
    if state.root is not None and len(members) > 1:
        channel = Channel(state.root.part(members, tag), name)
    group = ProcessGroup(
        members, members.index(world.own), channel, name, backend or world.backend,
        timeout or world.timeout or DEFAULT_TIMEOUT, group_desc or "undefined",
    )  # fmt: skip
    return state.add(group)


def _name_of(ranks: tuple[int, ...], by_members: bool) -> tuple[str, int]:
    """A new group's name, and the tag of the messages that make the group: alike in all members."""
    if not by_members:
        state.made += 1
        return str(state.made), state.made % _HALF
    _by_members[ranks] += 1
    text = f"{ranks} {_by_members[ranks]}"
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return digest, _HALF + int(digest, 16) % (_HALF - 1)


def new_subgroups(
    group_size: int | None = None,
    group: AnyGroup = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: object = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup, list[ProcessGroup]]:
    """The world (or a group) in groups of equal size; returns (this rank's group, all groups).

    group_size: None for the ranks of a machine
    Raises ArgumentError (a ValueError) for a size that does not divide the number of ranks.
    """
    whole = list(resolve(group).ranks)
    size = _ranks_here() if group_size is None else group_size
    if size < 1 or size > len(whole):
        raise ArgumentError(
            f"The arg 'group_size' ({size}) must not exceed the world size ({len(whole)})"
        )
    if len(whole) % size:
        raise ArgumentError(
            f"The world size ({len(whole)}) must be divisible by 'group_size={size}'"
        )
    parts = [whole[k : k + size] for k in range(0, len(whole), size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)  # type: ignore[return-value]


def _ranks_here() -> int:
    """The number of ranks on this machine, by the launcher's variables."""
    for name in _LOCAL_SIZES:
        if name in os.environ:
            return int(os.environ[name])
    if resolve(None).size() == 1:
        return 1
    raise ArgumentError("new_subgroups: nobody says how many ranks a machine has; pass group_size")


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: object = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup | None, list[ProcessGroup]]:
    """A group for each list of ranks; returns (this rank's group or None, all groups).

    Raises ArgumentError (a ValueError) for a rank in two lists, and for no list.
    """
    if not ranks_per_subgroup_list:
        raise ArgumentError("The arg 'ranks_per_subgroup_list' cannot be empty")
    own: ProcessGroup | None = None
    seen: dict[int, int] = {}
    for k, ranks in enumerate(ranks_per_subgroup_list):
        for rank in ranks:
            if rank in seen:
                raise ArgumentError(
                    f"Rank {rank} has appeared in both subgroup "
                    f"{list(ranks_per_subgroup_list[seen[rank]])} and {list(ranks)}"
                )
            seen[rank] = k
    groups = []
    for ranks in ranks_per_subgroup_list:
        group = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        groups.append(group)
        if resolve(None).own in ranks:
            own = group
    return own, groups


def split_group(
    parent_pg: ProcessGroup | None = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: object = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> ProcessGroup | None:
    """Parts of a group; returns this rank's part, or None. All ranks of the group call.

    split_ranks: for each part, numbers in the parent group
    Raises ArgumentError (a ValueError) for no parts, and for numbers that do not exist.
    """
    parent = resolve(parent_pg)
    if not split_ranks:
        raise ArgumentError("split_ranks cannot be None or empty")
    own: ProcessGroup | None = None
    for places in split_ranks:
        if any(not 0 <= place < parent.size() for place in places):
            raise ArgumentError(
                f"split_group: {list(places)}: the parent group has ranks 0 to {parent.size() - 1}"
            )
        if parent.own in places:
            ranks = [parent.ranks[place] for place in sorted(places)]
            own = new_group(
                ranks, timeout or parent.timeout, backend or parent.backend, pg_options,
                use_local_synchronization=True, group_desc=group_desc, sort_ranks=False,
            )  # fmt: skip
    return own


def shrink_group(
    ranks_to_exclude: Sequence[int],
    group: AnyGroup = None,
    shrink_flags: int = 0,
    pg_options: object = None,
) -> ProcessGroup:
    """A group of a group's ranks without some; the ranks that stay call, and the group goes on.

    ranks_to_exclude: numbers in the group
    Raises ArgumentError (a ValueError) for numbers that do not exist, and for this rank's.
    """
    parent = resolve(group)
    gone = {int(place) for place in ranks_to_exclude}
    if not gone or any(not 0 <= place < parent.size() for place in gone):
        raise ArgumentError(
            f"shrink_group: ranks_to_exclude must be some of 0 to {parent.size() - 1}, got "
            f"{sorted(gone)}"
        )
    if parent.own in gone:
        raise ArgumentError(f"shrink_group: rank {parent.own} is excluded, and does not call")
    ranks = [rank for place, rank in enumerate(parent.ranks) if place not in gone]
    return new_group(
        ranks, parent.timeout, parent.backend, pg_options, use_local_synchronization=True,
        group_desc=parent.group_desc, sort_ranks=False,
    )  # fmt: skip
