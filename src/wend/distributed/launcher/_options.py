"""The flags of `wend launch`: torchrun's, and a few of `mpirun`'s."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

#: Flags that are accepted and change nothing, with the reason that is told.
IDLE: Final = {
    "rdzv_backend": "the launchers of all machines meet at the address of machine 0",
    "rdzv_conf": "--join-timeout says how long machines are waited for",
    "monitor_interval": "the end of a rank is seen at once",
    "start_method": "each rank is a program of its own",
    "event_log_handler": "no events are recorded",
    "logs_specs": "--log-dir, --redirects and --tee say where output goes",
    "rdzv_endpoint": "there is one launcher; --master-addr is told to the program",
    "local_addr": "a machine's address is that on the way to machine 0",
}

_BACKEND: Final = "who connects ranks: sockets (default outside of Slurm), or mpi"
_JOIN: Final = "seconds in which the launchers of all machines must come (600)"
#: Flags of mpirun and srun, which sockets have no use for.
_OF_MPI: Final = ("mpirun", "srun", "host", "hostfile", "mpi_arg")


@dataclass(slots=True)
class Orders:
    """The order for a run: the program, how many ranks where, and whether the run goes on."""

    command: list[str]
    is_python: bool
    fewest_nodes: int
    nodes: int
    ranks_per_node: int
    settings: argparse.Namespace
    by_mpi: bool = False  # mpirun or srun starts the ranks
    notices: list[str] = field(default_factory=list)

    @property
    def by_node(self) -> bool:
        """Whether each machine has a launcher, as with torchrun."""
        return self.nodes > 1 and not self.by_mpi

    @property
    def ranks(self) -> int:
        """The number of ranks at the start."""
        return self.nodes * self.ranks_per_node

    @property
    def fewest_ranks(self) -> int:
        """The number of ranks below which the run does not go on."""
        if not self.is_elastic:
            return self.ranks
        return self.fewest_nodes * self.ranks_per_node if self.fewest_nodes < self.nodes else 1

    @property
    def is_elastic(self) -> bool:
        """Whether living ranks go on after a failure."""
        return bool(self.settings.elastic) or self.fewest_nodes < self.nodes


def parser() -> argparse.ArgumentParser:
    """The parser of the flags; each may be written with dashes or with underscores."""
    reader = argparse.ArgumentParser(
        prog="wend launch",
        description="Start a program in many processes, which sockets or MPI connect.",
        allow_abbrev=False,
    )

    def add(*names: str, **ways: Any) -> None:
        spelt = [other for name in names if (other := _underscored(name)) not in names]
        action = reader.add_argument(*names, *spelt, **ways)
        preset = os.environ.get(f"PET_{action.dest.upper()}")
        if preset is not None and action.nargs != 0:
            action.default = preset
        elif preset is not None:
            action.default = preset not in ("", "0", "false", "False")

    add("--nnodes", default="1", help="machines, or FEWEST:MOST for a run that shrinks")
    add("--nproc-per-node", default="1", help="ranks on each machine: a number, auto or cpu")
    add("--max-restarts", type=int, default=0, help="starts again after a failure (0)")
    add("--standalone", action="store_true", help="this machine alone")
    add("--node-rank", type=int, default=None, help="this machine's number: a launcher on each")
    add("--master-addr", default=None, help="address of machine 0; told to the program")
    add("--master-port", type=int, default=None, help="a port of machine 0; told to the program")
    add("--rdzv-id", default="", help="name of the run; told to the program")
    add("-m", "--module", action="store_true", help="run a module, as python -m")
    add("--no-python", action="store_true", help="run the program itself, without Python")
    add("--run-path", action="store_true", help="run a script, folder or archive, as runpy")
    add("--role", default="default", help="prefix of teed lines; told to the program")
    add("--log-dir", default=None, help="folder of the logs of all ranks")
    add("-r", "--redirects", default="0", help="to files: 1 stdout, 2 stderr, 3 both; 0:1,1:3")
    add("-t", "--tee", default="0", help="to files and here: as --redirects")
    add("--local-ranks-filter", default="", help="ranks of a machine whose output is shown: 0,1")
    add("--virtual-local-rank", action="store_true", help="LOCAL_RANK is 0 in each rank")
    add("--numa-binding", default=None, help="bind ranks: node, socket, core-complex or exclusive")
    add("--signals-to-handle", default="SIGTERM,SIGINT,SIGHUP,SIGQUIT", help="passed to ranks")
    for name in IDLE:
        add("--" + name.replace("_", "-"), default=None, help=argparse.SUPPRESS)
    ours = reader.add_argument_group("of Wend's own")
    ours.add_argument("--backend", choices=("sockets", "mpi"), default=None, help=_BACKEND)
    ours.add_argument("--token-file", default=None, help="file of the secret of all machines")
    ours.add_argument("--tls-cert", default=None, help="certificate, to encrypt all connections")
    ours.add_argument("--tls-key", default=None, help="key; by default in the file --tls-cert")
    ours.add_argument("--tls-ca", default=None, help="who signs; by default the certificate itself")
    ours.add_argument("--join-timeout", type=float, default=600.0, help=_JOIN)
    ours.add_argument("--mpirun", default=None, help="the mpirun to start ranks with")
    ours.add_argument("--srun", action="store_true", help="start ranks with srun, not mpirun")
    ours.add_argument("--host", default=None, help="machines: node1,node2 or node1:8,node2:8")
    ours.add_argument("--hostfile", default=None, help="file of machines, as mpirun's")
    ours.add_argument("--mpi-arg", action="append", default=[], help="arguments for mpirun")
    ours.add_argument("--env", action="append", default=[], help="NAME or NAME=VALUE for all ranks")
    ours.add_argument("--elastic", action="store_true", help="living ranks go on after a failure")
    ours.add_argument("--timeout", type=float, default=None, help="seconds a collective may wait")
    ours.add_argument(
        "--grace", type=float, default=5.0, help="seconds between SIGTERM and SIGKILL"
    )
    reader.add_argument("program", help="script, module or program")
    reader.add_argument("arguments", nargs=argparse.REMAINDER)
    return reader


def _underscored(flag: str) -> str:
    return flag[:2] + flag[2:].replace("-", "_")


def read(arguments: Sequence[str]) -> Orders:
    """Read the command line; exits with status 2 and the fault if a flag is wrong."""
    reader = parser()
    settings = reader.parse_args(list(arguments))
    fewest, most = _nodes(reader, str(settings.nnodes))
    if settings.standalone and most != 1:
        reader.error("--standalone means one machine, and --nnodes asks for more")
    if settings.module and settings.no_python:
        reader.error("--module needs Python, and --no-python runs without")
    if settings.max_restarts < 0:
        reader.error(f"--max-restarts {settings.max_restarts}: a number from 0 on is needed")
    settings.filter = _numbers(reader, settings.local_ranks_filter)
    settings.redirects = _streams(reader, "--redirects", str(settings.redirects))
    settings.tee = _streams(reader, "--tee", str(settings.tee))
    settings.mpi_arg = [word for text in settings.mpi_arg for word in shlex.split(text)]
    orders = Orders(
        command=[settings.program, *settings.arguments],
        is_python=not settings.no_python,
        fewest_nodes=fewest,
        nodes=most,
        ranks_per_node=_ranks(reader, str(settings.nproc_per_node)),
        settings=settings,
        by_mpi=_is_by_mpi(settings, most, os.environ),
    )
    if settings.node_rank is not None and not 0 <= settings.node_rank < most:
        reader.error(f"--node-rank {settings.node_rank}: numbers from 0 to {most - 1} are needed")
    if orders.by_node:
        _read_master(reader, settings)
    _check_backend(reader, orders)
    for name, reason in IDLE.items():
        used = orders.by_node and name in ("rdzv_backend", "rdzv_endpoint")
        if getattr(settings, name) is not None and not used:
            flag = "--" + name.replace("_", "-")
            orders.notices.append(f"{flag} does nothing here: {reason}")
    return orders


def _is_by_mpi(settings: argparse.Namespace, nodes: int, variables: Mapping[str, str]) -> bool:
    """Whether mpirun or srun is asked for: by name, by their own flags, or by an allocation."""
    if settings.backend is not None:
        return bool(settings.backend == "mpi")
    if any(getattr(settings, name) for name in _OF_MPI):
        return True
    if settings.node_rank is not None and nodes > 1:
        return False
    if "SLURM_JOB_ID" in variables and shutil.which("srun"):
        return True
    is_open = settings.master_addr is None and settings.rdzv_endpoint is None
    return nodes > 1 and is_open and are_machines_named(variables)


def are_machines_named(variables: Mapping[str, str]) -> bool:
    """Whether variables name machines to mpirun: Slurm's, PBS's, or those of the MPI operator."""
    names = ("SLURM_JOB_ID", "PBS_NODEFILE", "LSB_HOSTS", "OMPI_MCA_orte_default_hostfile")
    return any(name in variables for name in (*names, "PRTE_MCA_prte_default_hostfile"))


def _read_master(reader: argparse.ArgumentParser, settings: argparse.Namespace) -> None:
    """Where the launchers of all machines meet: --master-addr and -port, or --rdzv-endpoint."""
    host, colon, port = str(settings.rdzv_endpoint or "").rpartition(":")
    if not colon:
        host, port = port, ""
    if settings.master_addr is None and host and (port.isdigit() or not port):
        settings.master_addr = host
        settings.master_port = int(port) if port else settings.master_port
    if settings.master_addr is None and settings.node_rank is not None:
        reader.error("--node-rank needs --master-addr, the address of machine 0")
    settings.master_port = settings.master_port or 29500


def _check_backend(reader: argparse.ArgumentParser, orders: Orders) -> None:
    """Refuse flags of sockets with MPI, and of MPI with sockets."""
    settings = orders.settings
    if orders.by_mpi:
        alien: tuple[str, ...] = ("token_file", "tls_cert", "tls_key", "tls_ca")
        why = "is for sockets, and MPI has been asked for"
        if settings.node_rank is not None and orders.nodes > 1:
            reader.error(
                "--node-rank starts a launcher on each machine, which sockets connect; "
                "--backend mpi, --host, --hostfile, --mpirun, --mpi-arg and --srun need a single "
                "launcher"
            )
    else:
        alien, why = _OF_MPI, "is for MPI; leave it out, or take --backend mpi"
    for name in alien:
        if getattr(settings, name):
            reader.error(f"--{name.replace('_', '-')} {why}")
    if settings.tls_cert is None and (settings.tls_key or settings.tls_ca):
        reader.error("--tls-key and --tls-ca need --tls-cert, the certificate of this machine")


def _nodes(reader: argparse.ArgumentParser, text: str) -> tuple[int, int]:
    low, _, high = text.partition(":")
    try:
        bounds = int(low), int(high or low)
    except ValueError:  # no number: the command line is refused, with the flag
        reader.error(f"--nnodes {text!r}: a number is needed, or FEWEST:MOST")
    if not 1 <= bounds[0] <= bounds[1]:
        reader.error(f"--nnodes {text!r}: numbers from 1 on are needed, the smaller one first")
    return bounds


def _ranks(reader: argparse.ArgumentParser, text: str) -> int:
    if text in ("auto", "cpu"):
        return len(os.sched_getaffinity(0))
    if text in ("gpu", "cuda", "xpu"):
        reader.error(f"--nproc-per-node {text}: there is no such device; Wend computes on the CPU")
    if not text.isdigit() or int(text) < 1:
        reader.error(f"--nproc-per-node {text!r}: a number from 1 on, auto or cpu is needed")
    return int(text)


def _numbers(reader: argparse.ArgumentParser, text: str) -> list[int] | None:
    try:
        return [int(part) for part in text.split(",")] if text else None
    except ValueError:  # no number: the command line is refused, with the flag
        reader.error(f"--local-ranks-filter {text!r}: numbers with commas are needed")


def _streams(reader: argparse.ArgumentParser, flag: str, text: str) -> int | dict[str, int]:
    """Bits of streams (1 stdout, 2 stderr), for all ranks or by local rank."""
    try:
        if ":" not in text:
            for_all = int(text)
            by_rank = {}
        else:
            for_all = 0
            by_rank = {str(int(k)): int(v) for k, v in (p.split(":") for p in text.split(","))}
    except ValueError:  # no number: the command line is refused, with the flag
        reader.error(f"{flag} {text!r}: 0, 1, 2, 3 or RANK:NUMBER,... is needed")
    if not all(0 <= value <= 3 for value in (for_all, *by_rank.values())):
        reader.error(f"{flag} {text!r}: 0 none, 1 stdout, 2 stderr, 3 both")
    return by_rank or for_all
