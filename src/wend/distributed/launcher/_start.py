"""The command that starts the guards of all ranks: mpirun of Open MPI or MPICH, or srun."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wend._engine.base.errors import WendError
from wend.distributed.launcher._options import Orders

_GUARD: Final = str(Path(__file__).with_name("_guard.py"))
_BINDINGS: Final = {
    "node": "numa",
    "socket": "package",
    "core-complex": "l3cache",
    "exclusive": "core",
}
#: Variables that go to ranks on all machines; ranks on this machine inherit all variables.
_EXPORTED: Final = re.compile(r"(WEND|OMP|MKL|OPENBLAS|MPI4PY|PYTHON|LD_LIBRARY_PATH|PATH$)\w*")


class StartError(WendError, RuntimeError):
    """The ranks cannot be started: there is no starter, or none that answers."""


@dataclass(frozen=True, slots=True)
class Starter:
    """A program that starts ranks: the path, and the kind (openmpi, mpich or slurm)."""

    path: str
    kind: str
    version: tuple[int, ...] = ()


def find_starter(orders: Orders, variables: Mapping[str, str]) -> Starter:
    """The named mpirun, or srun in an allocation, or the site's mpirun, or the wheel's.

    Raises StartError if there is none.
    """
    named = orders.settings.mpirun
    if named:
        path = shutil.which(named)
        if path is None:
            raise StartError(f"wend launch: --mpirun {named!r}: there is no such program")
        return _asked(path)
    srun = shutil.which("srun")
    in_slurm = srun and "SLURM_JOB_ID" in variables and not orders.by_node
    if orders.settings.srun or in_slurm:
        if srun is None:
            raise StartError("wend launch: --srun: there is no srun on the PATH")
        return Starter(srun, "slurm")
    if orders.nodes > 1 and not orders.by_node and not _are_machines_named(orders, variables):
        raise StartError(
            f"wend launch: --nnodes {orders.nodes}: name the machines by --host or --hostfile, or "
            "run in an allocation of Slurm"
        )
    own = sysconfig.get_path("scripts")
    elsewhere = os.pathsep.join(
        folder for folder in variables.get("PATH", "").split(os.pathsep) if folder != own
    )
    path = shutil.which("mpirun", path=elsewhere) or shutil.which("mpirun", path=own)
    if path is None:
        raise StartError(
            "wend launch: there is no mpirun; install one with `pip install 'wend[mpi]'`, load the "
            "module of your site's MPI, or name one by --mpirun"
        )
    return _asked(path)


def _are_machines_named(orders: Orders, variables: Mapping[str, str]) -> bool:
    """Whether flags or variables name machines: Slurm's, PBS's, or those of the MPI operator."""
    settings = orders.settings
    if settings.host or settings.hostfile or "--hostfile" in settings.mpi_arg:
        return True
    names = ("SLURM_JOB_ID", "PBS_NODEFILE", "LSB_HOSTS", "OMPI_MCA_orte_default_hostfile")
    return any(name in variables for name in (*names, "PRTE_MCA_prte_default_hostfile"))


def _asked(path: str) -> Starter:
    """Whose mpirun lies at a path."""
    done = subprocess.run(
        [path, "--version"], capture_output=True, text=True, timeout=60, check=False
    )
    text = done.stdout + done.stderr
    version = re.search(r"Open MPI\)? v?(\d+)\.(\d+)", text)
    if version:
        return Starter(path, "openmpi", tuple(map(int, version.groups())))
    if re.search(r"HYDRA|MPICH|Intel\(R\) MPI", text):
        return Starter(path, "mpich")
    raise StartError(
        f"wend launch: {path} is neither Open MPI's mpirun nor MPICH's: {text[:200]!r}"
    )


def program_command(orders: Orders) -> list[str]:
    """The program of a rank."""
    if not orders.is_python:
        return orders.command
    as_module = ["-m"] if orders.settings.module else []
    return [sys.executable, "-u", "-m", "wend", "run", *as_module, *orders.command]


def guard_command(orders: Orders, agent: list[tuple[str, int]], log: str | None) -> list[str]:
    """The guard and the program of a rank."""
    settings = orders.settings
    order: dict[str, Any] = {
        "agent": agent,
        "log": log,
        "redirects": settings.redirects,
        "tee": settings.tee,
        "filter": settings.filter,
        "role": settings.role,
        "virtual": settings.virtual_local_rank,
        "channel": orders.is_python,
    }
    if orders.by_node:
        order |= {"first": orders.first_rank, "total": orders.ranks}
    python = [sys.executable, "-E", "-S", "-s", _GUARD]
    return [*python, json.dumps(order), *program_command(orders)]


def start_command(orders: Orders, starter: Starter, guard: list[str]) -> list[str]:
    """The whole command line that starts all guards."""
    count, here = str(orders.ranks_here), str(orders.ranks_per_node)
    settings = orders.settings
    if starter.kind == "slurm":
        spread = [f"--nodes={orders.nodes}", f"--ntasks-per-node={here}"]
        hosts = [f"--nodelist={settings.host}"] if settings.host else []
        ways = ["--mpi=pmix", "--kill-on-bad-exit=0", "--overlap", *settings.mpi_arg]
        return [starter.path, f"--ntasks={count}", *spread, *hosts, *ways, *guard]
    hosts = ["--host", settings.host] if settings.host else []
    if starter.kind == "mpich":
        hosts = ["-hosts", settings.host] if settings.host else []
        if settings.hostfile:
            hosts += ["-f", settings.hostfile]
        return [starter.path, "-n", count, "-ppn", here, *hosts, *settings.mpi_arg, *guard]
    if settings.hostfile:
        hosts += ["--hostfile", settings.hostfile]
    words = [starter.path, "-n", count, *_mapping(orders, starter), *hosts]
    if os.geteuid() == 0:
        words.append("--allow-run-as-root")
    if orders.is_elastic:
        words += ["--with-ft", "ulfm"]
    if orders.nodes > 1 and not orders.by_node:
        for name in sorted(os.environ):
            if _EXPORTED.fullmatch(name):
                words += ["-x", name]
    return [*words, *settings.mpi_arg, *guard]


def _mapping(orders: Orders, starter: Starter) -> list[str]:
    """More ranks than cores are fine, and ranks are not bound to cores unless that is asked for."""
    binding = _BINDINGS.get(orders.settings.numa_binding or "", "none")
    each = f"ppr:{orders.ranks_per_node}:node"
    if starter.version >= (5,):
        return ["--map-by", f"{each}:OVERSUBSCRIBE", "--bind-to", binding]
    return ["--map-by", each, "--oversubscribe", "--bind-to", binding]


def start_variables(orders: Orders, starter: Starter, token: str) -> dict[str, str]:
    """The environment of the starter, which ranks on this machine inherit."""
    variables = dict(os.environ)
    for assignment in orders.settings.env:
        name, has_value, value = assignment.partition("=")
        if has_value:
            variables[name] = value
    variables["WEND_LAUNCH_TOKEN"] = token
    if orders.is_elastic or orders.by_node:  # MPI ends with a rank, and knows its own ranks alone
        variables.setdefault("WEND_DISTRIBUTED_CARRIER", "sockets")
    if orders.is_elastic:
        variables["WEND_LAUNCH_ELASTIC"] = "1"
    if orders.settings.timeout is not None:
        variables["WEND_DISTRIBUTED_TIMEOUT"] = str(orders.settings.timeout)
    if starter.kind == "openmpi" and os.geteuid() == 0:
        variables["OMPI_ALLOW_RUN_AS_ROOT"] = variables["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    if orders.ranks_per_node >= len(os.sched_getaffinity(0)):  # let others run while waiting
        variables.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    library = _library_beside(starter)
    if library is not None:
        variables.setdefault("MPI4PY_LIBMPI", library)
    return variables


def _library_beside(starter: Starter) -> str | None:
    """The library of the site's MPI: mpi4py would else take the wheel's, which does not fit."""
    if starter.kind == "slurm":
        return None
    folder = Path(starter.path).absolute().parent
    if folder == Path(sysconfig.get_path("scripts")).absolute():
        return None
    for place in (folder.parent, Path(starter.path).resolve().parent.parent):
        for name in ("lib", "lib64"):
            for file in ("libmpi.so.40", "libmpi.so.12", "libmpi.so"):
                if (place / name / file).exists():
                    return str(place / name / file)
    return None
