"""Who this process is: numbers from arguments, addresses, launchers' variables, and MPI."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlparse

from wend._engine.base.errors import ArgumentError

__all__ = ["Place", "asked_for", "local_rank"]

#: Launchers' variables: (rank, number of ranks, rank on its machine, started by a launcher of MPI).
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", False),  # torchrun, `wend launch`
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", True),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", True),  # MPICH, Intel MPI, srun --mpi=pmi2
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", True),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", False),
)
_SCHEMES = ("env", "tcp", "file", "mpi")


class Place(NamedTuple):
    """A process's number and the number of processes, None where nobody has said so.

    source: who has said so, for errors
    by_mpi: whether a launcher of MPI has started this process
    """

    rank: int | None
    size: int | None
    source: str
    by_mpi: bool


def asked_for(
    init_method: str | None, rank: int, size: int, environment: Mapping[str, str] = os.environ
) -> Place:
    """The place that arguments, the address and variables ask for, the first that says so.

    Raises ArgumentError (a ValueError) for an address of an unknown kind, and for numbers that do
    not fit. An address of a file or a host needs a rank and a size.
    """
    by_mpi = started_by_mpi(environment)
    source = "the arguments of init_process_group"
    found_rank = rank if rank >= 0 else None
    found_size = size if size >= 0 else None
    scheme = "env"
    if init_method is not None:
        parts = urlparse(init_method)
        scheme = parts.scheme
        if scheme not in _SCHEMES:
            raise ArgumentError(
                f"init_process_group: init_method {init_method!r}: No rendezvous handler for "
                f"{scheme}://; use env://, tcp://, file:// or mpi://"
            )
        query = dict(parse_qsl(parts.query))
        if found_rank is None and "rank" in query:
            found_rank = number("rank", query["rank"], init_method)
        if found_size is None and "world_size" in query:
            found_size = number("world_size", query["world_size"], init_method)
    if found_rank is None or found_size is None:
        for rank_name, size_name, _, _ in _LAUNCHERS:
            if size_name in environment and (rank_name in environment or found_rank is not None):
                source = f"the variables {rank_name} and {size_name}"
                if found_rank is None:
                    found_rank = number(rank_name, environment[rank_name], "the environment")
                if found_size is None:
                    found_size = number(size_name, environment[size_name], "the environment")
                break
    if scheme in ("tcp", "file") and not by_mpi:
        for value, word in ((found_rank, "rank"), (found_size, "world_size")):
            if value is None:
                raise ArgumentError(
                    f"init_process_group: {init_method}: {word} parameter missing; pass {word}="
                )
    if found_rank is not None and found_size is not None and found_rank >= found_size:
        raise ArgumentError(
            f"init_process_group: rank {found_rank} of {found_size} ranks ({source}): ranks go "
            f"from 0 to {found_size - 1}"
        )
    return Place(found_rank, found_size, source, by_mpi)


def number(name: str, text: Any, source: str) -> int:
    """A number of ranks. Raises ArgumentError for anything else."""
    try:
        count = int(text)
    except ValueError:
        raise ArgumentError(
            f"init_process_group: {name} of {source} is no number: {text!r}"
        ) from None
    if count < 0:
        raise ArgumentError(f"init_process_group: {name} of {source} is negative: {count}")
    return count


def started_by_mpi(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a launcher of MPI has started this process."""
    return "PMIX_RANK" in environment or any(
        size in environment for _, size, _, by_mpi in _LAUNCHERS if by_mpi
    )


def local_rank(environment: Mapping[str, str] = os.environ) -> int | None:
    """This process's number on its machine, or None."""
    for _, _, name, _ in _LAUNCHERS:
        if name in environment:
            return number(name, environment[name], "the environment")
    return None
