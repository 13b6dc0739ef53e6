"""The process beside each rank: starts the rank's program, and sees how the program ends.

The launcher or `mpirun` runs this file as a script, with the standard library alone. The program is
the guard's child, so the guard learns the exact status, also of a program that is killed or runs
out of memory. The end of a guard is the end of the program and of all processes below.

A guard tells the agent (`_agent.py`) over a socket, one JSON object a line. Between guard and
program lies a socket pair of the same form, for tracebacks and reports of hangs.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING or __package__:
    from wend.distributed.launcher import _doors
else:
    import _doors  # beside this script

_SET_DEATH_SIGNAL: Final = 1  # prctl(2)
_SET_SUBREAPER: Final = 36
_CONNECT_SECONDS: Final = 5.0
_START_SECONDS: Final = 300.0  # for the ranks of all machines to start
_HANDLED: Final = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_DUMP_SIGNAL: Final = signal.SIGRTMIN + 9  # faulthandler writes all stacks of the program


def main(arguments: list[str]) -> int:
    """Guard a rank; returns the status for `mpirun`. arguments: the order as JSON, the program.

    The status is 0 where an agent knows how the program ended: `mpirun` would say so again.
    """
    order = json.loads(arguments[0])
    guard = Guard(order, arguments[1:])
    guard.start()
    guard.watch()
    return guard.end()


class Link:
    """A socket with a JSON object a line in each direction; `open` is False after the end."""

    def __init__(self, end: Any) -> None:
        self.end = end  # a socket, with TLS or without
        self.open = True
        self._rest = b""

    def send(self, **message: object) -> None:
        """Send a message; a link that is closed already stays so in silence."""
        if not self.open:
            return
        try:
            self.end.sendall(json.dumps(message).encode() + b"\n")
        except OSError:  # the peer is gone: noted for the holder of the link
            self.open = False

    def receive(self) -> list[dict[str, Any]]:
        """The messages that have come; blocks if none has."""
        try:
            data = self.end.recv(1 << 16)
        except OSError:  # the peer is gone: noted for the holder of the link
            data = b""
        if not data:
            self.open = False
            return []
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]


class Guard:
    """A rank's program: the start, signals, and the end."""

    def __init__(self, order: dict[str, Any], command: list[str]) -> None:
        self.order = order
        self.command = command
        # A launcher without MPI says the place.
        place: tuple[int, int, int, int] = order.get("place") or _place(os.environ)
        self.rank, self.local_rank, self.size, self.local_size = place
        self.agent: Link | None = None
        self.early: list[dict[str, Any]] = []  # came before the program has started
        self.program: Link | None = None
        self.pid = 0
        self.wait_status: int | None = None
        self.failure: dict[str, Any] | None = None
        self.kill_at: float | None = None
        self.has_killed = False
        self.is_given_up = False  # the program raises an error for a wait without end
        self.told_to_stop = False
        self.selector = selectors.DefaultSelector()
        self.stacks = -1
        self.tees: dict[int, tuple[int, int, bytes]] = {}
        self.killed_before = _killed_for_memory()

    # --- start ----------------------------------------------------------------------

    def start(self) -> None:
        """Meet the agent, then start the program with the variables of the rank."""
        parent = os.getppid()
        _prctl(_SET_DEATH_SIGNAL, int(signal.SIGTERM))
        _prctl(_SET_SUBREAPER, 1)
        if os.getppid() != parent:
            sys.exit(1)
        self._listen_to_signals()
        if self.order.get("cores"):
            os.sched_setaffinity(0, self.order["cores"])
        variables = self._meet_agent()
        ours, theirs = socket.socketpair()
        self.stacks = os.memfd_create("stacks")
        os.lseek(self.stacks, 4096, os.SEEK_SET)
        variables["WEND_LAUNCH_CHANNEL"] = f"{theirs.fileno()},{self.stacks}"
        outputs = self._outputs(variables)
        self.pid = os.fork()
        if self.pid == 0:
            self._become_program(variables, theirs, outputs)
        theirs.close()
        for fd in outputs:
            if fd >= 0:
                os.close(fd)
        self.program = Link(ours)
        self.selector.register(ours, selectors.EVENT_READ, self.program)
        if self.agent:
            self.agent.send(say="started", pid=self.pid)
            self.selector.register(self.agent.end, selectors.EVENT_READ, self.agent)
            for message in self.early:
                self._obey(message)

    def _listen_to_signals(self) -> None:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in _HANDLED:
            signal.signal(number, lambda *_: None)
        self.selector.register(reading, selectors.EVENT_READ, "signals")

    def _meet_agent(self) -> dict[str, str]:
        """The variables of this rank: the agent's, who knows all ranks, or those found here."""
        self.agent = self._connect()
        if self.agent is None:
            return self._own_variables()
        own, port = self.agent.end.getsockname()[0], _free_port()
        self.agent.send(
            say="hello",
            rank=self.rank,
            local_rank=self.local_rank,
            local_size=self.local_size,
            host=socket.gethostname(),
            address=own,
            port=port,
            pid=os.getpid(),
        )
        self.agent.end.settimeout(_START_SECONDS)
        variables = None
        while self.agent.open:
            for message in self.agent.receive():
                if message["say"] != "go":
                    self.early.append(message)
                    continue
                variables = message["variables"]
            if variables is not None:
                self.agent.end.settimeout(None)
                return {**self._own_variables(), **variables}
        sys.exit(1)

    def _connect(self) -> Link | None:
        token = os.environ.get("WEND_LAUNCH_TOKEN", "").encode()
        tls = _doors.TlsFiles.of(os.environ)
        fault = ""
        for host, port in self.order.get("agent", ()):
            try:
                end = _doors.enter((host, port), token, tls, _doors.SECRET, _CONNECT_SECONDS)
            except OSError as error:
                # The agent is not at this address: the next is tried, or the rank runs alone.
                fault += f"; {host}:{port}: {error}"
                continue
            _doors.watch_peer(end, strict=True)
            return Link(end)
        if self.order.get("place"):
            who = f"rank {self.rank} on {socket.gethostname()}"
            print(f"wend launch: {who} cannot reach the launcher{fault}", file=sys.stderr)
            sys.exit(1)
        return None

    def _own_variables(self) -> dict[str, str]:
        variables = dict(os.environ)
        token = variables.pop("WEND_LAUNCH_TOKEN", "").encode()
        if token and not variables.get("WEND_STORE_TOKEN"):  # alike in all ranks, and never sent
            variables["WEND_STORE_TOKEN"] = _doors.key_of(token, "store").decode()
        variables |= {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.size),
            "LOCAL_RANK": "0" if self.order.get("virtual") else str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(self.local_size),
            "GROUP_RANK": str(self.rank // max(1, self.local_size)),
            "ROLE_RANK": str(self.rank),
            "ROLE_WORLD_SIZE": str(self.size),
        }
        if self.local_size == self.size:
            variables.setdefault("MASTER_ADDR", "127.0.0.1")
        elif "SLURM_LAUNCH_NODE_IPADDR" in variables:
            variables.setdefault("MASTER_ADDR", variables["SLURM_LAUNCH_NODE_IPADDR"])
        variables.setdefault("MASTER_PORT", "29500")
        if "OMP_NUM_THREADS" not in variables and self.local_size > 1:
            cores = len(os.sched_getaffinity(0))
            variables["OMP_NUM_THREADS"] = str(max(1, cores // self.local_size))
        return variables

    def _outputs(self, variables: dict[str, str]) -> list[int]:
        """Where stdout and stderr of the program go: -1 leaves the guard's own."""
        log = self.order.get("log")
        chosen = self.order.get("filter")
        shown = chosen is None or self.local_rank in chosen
        descriptors = []
        for number, name in ((1, "stdout"), (2, "stderr")):
            keeps = self._asked("redirects", number)
            tees = self._asked("tee", number)
            if log and (keeps or tees):
                attempt = variables.get("TORCHELASTIC_RESTART_COUNT", "0")
                folder = os.path.join(log, f"attempt_{attempt}", str(self.rank))
                os.makedirs(folder, exist_ok=True)
                path = os.path.join(folder, f"{name}.log")
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
                descriptors.append(self._teed(file, number) if tees and shown else file)
            else:
                descriptors.append(-1 if shown else os.open(os.devnull, os.O_WRONLY))
        return descriptors

    def _asked(self, way: str, number: int) -> bool:
        """Whether a stream is among those of a flag: "3", or by local rank {"0": 1, "1": 3}."""
        wanted = self.order.get(way, 0)
        if isinstance(wanted, dict):
            wanted = wanted.get(str(self.local_rank), 0)
        return bool(wanted & number)

    def _teed(self, file: int, number: int) -> int:
        reading, writing = os.pipe()
        self.tees[reading] = (file, number, b"")
        self.selector.register(reading, selectors.EVENT_READ, "tee")
        return writing

    def _become_program(
        self, variables: dict[str, str], channel: socket.socket, outputs: list[int]
    ) -> NoReturn:
        try:
            _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
            os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            for handled in _HANDLED:
                signal.signal(handled, signal.SIG_DFL)
            for number, fd in enumerate(outputs, 1):
                if fd >= 0:
                    os.dup2(fd, number)
            if self.order.get("channel", True):
                os.set_inheritable(channel.fileno(), True)
                os.set_inheritable(self.stacks, True)
            else:
                del variables["WEND_LAUNCH_CHANNEL"]
            os.execvpe(self.command[0], self.command, variables)
        except OSError as error:
            # The program cannot be run: told, and the process ends as a shell's would.
            print(f"wend launch: cannot run {self.command[0]!r}: {error}", file=sys.stderr)
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)
        finally:
            os._exit(125)

    # --- while the program runs -------------------------------------------------------

    def watch(self) -> None:
        """Return when the program has ended, by itself or by the agent's word."""
        while self.wait_status is None:
            wait = None if self.kill_at is None else max(0.0, self.kill_at - time.monotonic())
            for key, _ in self.selector.select(wait):
                if isinstance(key.data, Link):
                    self._hear(key.data)
                elif key.data == "tee":
                    self._pass_on(key.fd)
                else:
                    self._signalled(os.read(key.fd, 4096))
            if self.kill_at is not None and time.monotonic() >= self.kill_at:
                _signal(self.pid, signal.SIGKILL)
                self.has_killed = True
                self.kill_at = time.monotonic() + 1.0
            self._reap()

    def _hear(self, link: Link) -> None:
        for message in link.receive():
            if link is self.agent:
                self._obey(message)
            elif message["say"] == "failure":
                self.failure = message
                if self.agent and self.agent.open and self.program:
                    self.program.send(say="shown")
            elif self.agent:
                self.agent.send(**message)
        if not link.open and link.end in self.selector.get_map():
            self.selector.unregister(link.end)
            if link is self.agent:
                self._stop(0.5)

    def _obey(self, message: dict[str, Any]) -> None:
        if message["say"] == "interrupt":
            self.told_to_stop = True
            _signal(self.pid, signal.SIGINT)
            self.kill_at = time.monotonic() + message["grace"]
        elif message["say"] == "stop":
            self._stop(message["grace"])
        elif message["say"] == "stacks":
            if self.order.get("channel", True):
                _signal(self.pid, _DUMP_SIGNAL)
                time.sleep(0.05)
            if self.agent:
                self.agent.send(say="stacks", text=self._stacks())
        elif self.program:
            if message["say"] == "give_up":
                self.is_given_up = True
                self.kill_at = time.monotonic() + message["grace"]
            self.program.send(**message)

    def _stop(self, grace: float) -> None:
        """Ask the program to end; kill the program after `grace` seconds."""
        self._reap()
        if self.wait_status is not None:  # the program has ended by itself just before
            return
        if not self.told_to_stop:
            self.told_to_stop = True
            _signal(self.pid, signal.SIGTERM)
            _signal(self.pid, signal.SIGCONT)
        ends = time.monotonic() + grace
        self.kill_at = ends if self.kill_at is None else min(self.kill_at, ends)

    def _signalled(self, numbers: bytes) -> None:
        # mpirun ends all ranks when the first of those that give up has left without MPI's
        # farewell. The others have their grace, to raise their own errors.
        if any(number != signal.SIGCHLD for number in numbers) and not self.is_given_up:
            self._stop(0.5)

    def _pass_on(self, reading: int) -> bool:
        file, number, rest = self.tees[reading]
        data = os.read(reading, 1 << 16)
        os.write(file, data) if data else None
        *lines, rest = (rest + data).split(b"\n")
        if not data and rest:
            lines, rest = [rest], b""
        self.tees[reading] = (file, number, rest)
        role = self.order.get("role", "default")
        for line in lines:
            os.write(number, f"[{role}{self.local_rank}]:".encode() + line + b"\n")
        if not data:
            self.selector.unregister(reading)
            del self.tees[reading]
        return bool(data)

    def _reap(self) -> None:
        """Take the status of the program, and of orphans below, which come to the guard."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:  # no child is left
                return
            if pid == 0:
                return
            if pid == self.pid:
                self.wait_status = status

    # --- the end ------------------------------------------------------------------------

    def end(self) -> int:
        """Tell how the program ended, leave nothing behind, and return the status."""
        status = os.waitstatus_to_exitcode(self.wait_status or 0)
        if self.program:
            self.program.end.setblocking(False)
            self._hear(self.program)  # the last messages
        _kill_children()
        for reading in list(self.tees):
            while self._pass_on(reading):
                pass
        if self.agent is None or not self.agent.open:
            return status if status >= 0 else 128 - status
        is_killed = status == -signal.SIGKILL
        memory = is_killed and _killed_for_memory() > self.killed_before
        self.agent.send(
            say="end",
            status=status,
            failure=self.failure,
            # Who asks a program to end does not kill it at once: then others have.
            stopped=self.told_to_stop and not (is_killed and not self.has_killed),
            memory=memory,
            stacks=self._stacks() if status < 0 else "",
            seen=self._seen(),
        )
        self.agent.end.settimeout(_START_SECONDS)
        if self.order.get("stays", False) and status:
            while self.agent.open:  # until the agent has seen who failed
                self.agent.receive()
        return 0

    def _stacks(self) -> str:
        """The last stacks that faulthandler wrote, behind the page of `_seen`."""
        size = os.fstat(self.stacks).st_size
        text = os.pread(self.stacks, max(0, size - 4096), 4096)
        os.ftruncate(self.stacks, min(size, 4096))
        os.lseek(self.stacks, 4096, os.SEEK_SET)
        return text.decode(errors="replace")

    def _seen(self) -> str:
        """Where the program was at the last look of the watchdog."""
        return os.pread(self.stacks, 4096, 0).rstrip(b"\0").decode(errors="replace")


def _place(variables: Any) -> tuple[int, int, int, int]:
    """(rank, local rank, ranks, ranks on this machine) as the starter tells."""
    for rank, size, local_rank, local_size in (
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
        + ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
        ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
        ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
    ):
        if rank in variables and size in variables:
            ranks = int(variables[size])
            here = variables.get(local_size, str(ranks)).split("(")[0]
            return int(variables[rank]), int(variables.get(local_rank, 0)), ranks, int(here)
    return 0, 0, 1, 1


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:  # the process has ended
        pass


def _kill_children() -> None:
    """Kill all processes below this process; those whose parent ends become children."""
    while True:
        pids = _children()
        if not pids:
            return
        for pid in pids:
            _signal(pid, signal.SIGKILL)
        for pid in pids:
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:  # the child has been waited for already
                pass


def _children() -> list[int]:
    own, pids = os.getpid(), []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            # The process has ended while the list was read.
            continue
        if int(parent) == own and state != b"X":
            pids.append(int(entry))
    return pids


def _killed_for_memory() -> int:
    """How many processes the kernel has killed for memory: of this control group, or of all."""
    for path in ("/sys/fs/cgroup/memory.events", "/proc/vmstat"):
        try:
            with open(path) as file:
                for line in file:
                    name, number = line.split()
                    if name == "oom_kill":
                        return int(number)
        except OSError:  # the kernel does not count here: the next file is tried
            continue
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
