"""torch.distributed.launcher.api: start a function or a command in the processes of a machine.

The processes have the variables of torchrun, and sockets carry the data.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

from wend._engine.base.errors import ArgumentError
from wend.distributed.elastic.multiprocessing import DefaultLogsSpecs
from wend.distributed.elastic.multiprocessing.errors import (
    ChildFailedError,
    ProcessFailure,
    record,
)
from wend.distributed.launcher._doors import SECRET, TOKEN, own_token

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]

_LOOK_SECONDS: Final = 0.05
_GRACE_SECONDS: Final = 5.0


@dataclass
class LaunchConfig:
    """How processes are started.

    min_nodes, max_nodes: machines; more than a single machine needs `rdzv_backend="static"`,
        `rdzv_endpoint="host:port"` of machine 0, and this machine's number in
        `rdzv_configs["rank"]`
    nproc_per_node: processes on each machine
    max_restarts: how often all processes of this machine are started again after a failure
    start_method: spawn, fork or forkserver, for functions
    signals_to_handle: names of signals that end the processes, and raise SystemExit(128 + n) here.
        A signal that the program itself handles or ignores stays so: Ctrl-C remains a
        KeyboardInterrupt, which ends the processes too. Only the main thread can set handlers
    rdzv_timeout, monitor_interval, log_line_prefix_template, metrics_cfg, local_addr,
    event_log_handler, numa_options and the filters of duplicates are accepted, and change nothing.
    Raises ArgumentError (a ValueError) for numbers that do not fit.
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: DefaultLogsSpecs | None = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "c10d"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: int | None = None

    def __post_init__(self) -> None:
        if self.logs_specs is None:
            self.logs_specs = DefaultLogsSpecs()
        if not 1 <= self.min_nodes <= self.max_nodes or self.nproc_per_node < 1:
            raise ArgumentError(
                f"LaunchConfig: {self.min_nodes} to {self.max_nodes} machines of "
                f"{self.nproc_per_node} processes: numbers from 1 on are needed"
            )
        unknown = [name for name in self.signals() if name not in signal.Signals.__members__]
        if unknown:
            raise ArgumentError(
                f"LaunchConfig: signals_to_handle: there are no signals {', '.join(unknown)}"
            )
        static = self.rdzv_backend == "static" and "rank" in self.rdzv_configs
        if self.max_nodes > 1 and not (static and ":" in self.rdzv_endpoint):
            raise ArgumentError(
                "LaunchConfig: several machines need rdzv_backend='static', rdzv_endpoint="
                "'host:port' of machine 0 and rdzv_configs={'rank': number of this machine}; or "
                "use `wend launch --nnodes`"
            )

    def signals(self) -> list[str]:
        """The names of the signals that end the processes."""
        return [name.strip() for name in self.signals_to_handle.split(",") if name.strip()]

    @property
    def first(self) -> int:
        """The rank of this machine's first process."""
        return int(self.rdzv_configs.get("rank", 0)) * self.nproc_per_node

    def master(self) -> tuple[str, int]:
        """Address and port where the processes meet."""
        if ":" in self.rdzv_endpoint:
            host, _, port = self.rdzv_endpoint.rpartition(":")
            if int(port):
                return host, int(port)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return "127.0.0.1", int(probe.getsockname()[1])


class elastic_launch:
    """`elastic_launch(config, function)(*args)` calls the function in each process.

    entrypoint: a function at the top of a module, or the path of a program
    Returns a dict of results by rank: those of this machine; None for programs.
    Raises ChildFailedError if a process fails, when no restart is left; ArgumentError for several
    machines without WEND_TOKEN.
    """

    def __init__(
        self,
        config: LaunchConfig,
        entrypoint: Callable[..., Any] | str | None,
        health_check_server: Any = None,
    ) -> None:
        if entrypoint is None:
            raise ArgumentError("elastic_launch: entrypoint is None; pass a function or a program")
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args: object) -> dict[int, Any]:
        return launch_agent(self._config, self._entrypoint, list(args))


def launch_agent(
    config: LaunchConfig,
    entrypoint: Callable[..., Any] | str,
    args: Sequence[Any],
    health_check_server: Any = None,
) -> dict[int, Any]:
    """See `elastic_launch`."""
    run_id = config.run_id or secrets.token_hex(8)
    for attempt in range(config.max_restarts + 1):
        with tempfile.TemporaryDirectory(prefix="wend-elastic-") as folder:
            children = _Children(config, entrypoint, args, Path(folder))
            with _ended_by(config.signals()):
                failures = children.run(run_id, attempt)
            if not failures:
                return children.results()
    name = entrypoint if isinstance(entrypoint, str) else entrypoint.__qualname__
    raise ChildFailedError(name, failures)


@contextmanager
def _ended_by(names: Sequence[str]) -> Iterator[None]:
    """Context: the first of these signals raises SystemExit, so that processes are ended.

    Signals that have a handler already, or are ignored, stay so. Only the main thread can set any.
    """
    owner = os.getpid()
    come: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        if os.getpid() != owner:  # a process made by fork, which dies of the signal as before
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif not come:
            come.append(number)
            raise SystemExit(128 + number)

    is_first = threading.current_thread() is threading.main_thread()
    numbers = [signal.Signals[name] for name in names] if is_first else []
    numbers = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


class _Children:
    """The processes of a single start."""

    def __init__(
        self, config: LaunchConfig, entrypoint: object, args: Sequence[Any], folder: Path
    ) -> None:
        self.config, self.entrypoint, self.args = config, entrypoint, args
        self.folder = folder
        self.processes: list[Any] = []

    def run(self, run_id: str, attempt: int) -> dict[int, ProcessFailure]:
        """Start all processes, and wait for their end; returns those that failed by themselves."""
        host, port = self.config.master()
        common = {
            "MASTER_ADDR": host,
            "MASTER_PORT": str(port),
            "TORCHELASTIC_RUN_ID": run_id,
            "TORCHELASTIC_RESTART_COUNT": str(attempt),
            "TORCHELASTIC_MAX_RESTARTS": str(self.config.max_restarts),
        }
        if not own_token():
            if self.config.max_nodes > 1:
                raise ArgumentError(
                    "elastic_launch: several machines need a shared secret, by which they know "
                    f"each other: set {SECRET} to the same text on all machines"
                )
            common[TOKEN] = secrets.token_hex()
        try:
            for local_rank in range(self.config.nproc_per_node):
                variables = common | self._variables(local_rank)
                assert self.config.logs_specs is not None
                files = self.config.logs_specs.files_of(local_rank, attempt)
                self.processes.append(self._start(local_rank, variables, files))
            while True:
                codes = [self._code(process) for process in self.processes]
                failed = [k for k, code in enumerate(codes) if code]
                if failed or all(code == 0 for code in codes):
                    break
                time.sleep(_LOOK_SECONDS)
        finally:
            try:
                self._end()
            finally:
                self._end()  # where a signal has cut the first call short
        failures = {}
        for k in failed:
            code = codes[k]
            assert code is not None
            file = str(self._file(k, "error"))
            failure = ProcessFailure(k, self.processes[k].pid, code, file)
            failures[self.config.first + k] = failure
        return failures

    def _variables(self, local_rank: int) -> dict[str, str]:
        here, nodes = self.config.nproc_per_node, self.config.max_nodes
        rank, size = self.config.first + local_rank, here * nodes
        return {
            "RANK": str(rank),
            "WORLD_SIZE": str(size),
            "LOCAL_RANK": "0" if self.config.virtual_local_rank else str(local_rank),
            "LOCAL_WORLD_SIZE": str(here),
            "GROUP_RANK": str(self.config.first // here),
            "GROUP_WORLD_SIZE": str(nodes),
            "ROLE_RANK": str(rank),
            "ROLE_WORLD_SIZE": str(size),
            "ROLE_NAME": self.config.role,
            "WEND_DISTRIBUTED_CARRIER": "sockets",
            "TORCHELASTIC_ERROR_FILE": str(self._file(local_rank, "error")),
        }

    def _file(self, local_rank: int, kind: str) -> Path:
        return self.folder / f"{local_rank}.{kind}"

    def _start(self, local_rank: int, variables: dict[str, str], files: dict[int, str]) -> Any:
        if isinstance(self.entrypoint, str):
            streams: dict[str, Any] = {
                ("stdout", "stderr")[number - 1]: open(path, "w")  # noqa: SIM115 (the child's)
                for number, path in files.items()
            }
            try:
                command = [self.entrypoint, *map(str, self.args)]
                return subprocess.Popen(command, env=os.environ | variables, **streams)
            finally:
                for stream in streams.values():
                    stream.close()
        context: Any = multiprocessing.get_context(self.config.start_method)
        result = str(self._file(local_rank, "result"))
        arguments = (self.entrypoint, tuple(self.args), variables, files, result)
        process = context.Process(target=_work, args=arguments)
        process.start()
        return process

    def _code(self, process: Any) -> int | None:
        if isinstance(process, subprocess.Popen):
            return process.poll()
        code: int | None = process.exitcode
        return code

    def _end(self) -> None:
        """Ask processes that live to end, and kill them after a grace."""
        seconds = self.config.shutdown_timeout
        end = time.monotonic() + (_GRACE_SECONDS if seconds is None else seconds)
        for process in self.processes:
            if self._code(process) is None:
                process.send_signal(signal.SIGTERM) if isinstance(
                    process, subprocess.Popen
                ) else process.terminate()
        for process in self.processes:
            while self._code(process) is None and time.monotonic() < end:
                time.sleep(_LOOK_SECONDS)
            if self._code(process) is None:
                process.kill()
            process.wait() if isinstance(process, subprocess.Popen) else process.join()

    def results(self) -> dict[int, Any]:
        """The results of the processes, by rank."""
        results = {}
        for k in range(len(self.processes)):
            path = self._file(k, "result")
            value = pickle.loads(path.read_bytes()) if path.exists() else None
            results[self.config.first + k] = value
        return results


def _work(
    entrypoint: Callable[..., Any],
    args: tuple[Any, ...],
    variables: dict[str, str],
    files: dict[int, str],
    result: str,
) -> None:
    """The main function of a process."""
    os.environ.update(variables)
    for number, path in files.items():
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(target, number)
        os.close(target)
    value = record(entrypoint)(*args)
    sys.stdout.flush()
    Path(result).write_bytes(pickle.dumps(value))
