"""The process that starts all ranks, sees failures, ends the run and starts the run again."""

from __future__ import annotations

import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from wend.distributed.launcher._guard import Link
from wend.distributed.launcher._options import Orders
from wend.distributed.launcher._report import Banners, report_end, report_hang, say
from wend.distributed.launcher._start import (
    Starter,
    guard_command,
    start_command,
    start_variables,
)

_POLL_SECONDS: Final = 0.2
_REPORT_SECONDS: Final = 3.0  # for all ranks to answer when a rank waits too long
_LAST_SECONDS: Final = 2.0  # for mpirun to end after the ranks


@dataclass(slots=True)
class Rank:
    """A rank, as the agent sees the rank."""

    link: Link
    hello: dict[str, Any]
    pid: int = 0
    ended: dict[str, Any] | None = None
    report: dict[str, Any] | None = None
    stacks: str = ""
    told: bool = False
    meeting: dict[str, Any] | None = None  # what the rank has said, who waits for the other ranks

    @property
    def number(self) -> int:
        return int(self.hello["rank"])

    @property
    def follows(self) -> bool:
        """Whether the rank failed as a consequence of another rank's failure."""
        return bool(((self.ended or {}).get("failure") or {}).get("follows"))

    @property
    def is_without_error(self) -> bool:
        """Whether the rank ended with a status only: so does MPI end a rank that loses another."""
        end = self.ended or {}
        return not end.get("failure") and (end.get("status") or 0) > 0

    @property
    def has_failed(self) -> bool:
        return self.ended is not None and self.ended["status"] != 0


@dataclass(slots=True)
class Hang:
    """A rank has waited too long: all ranks are asked for a report."""

    reports_by: float
    told: bool = False


@dataclass(slots=True)
class Attempt:
    """A start of all ranks, to the end."""

    orders: Orders
    starter: Starter
    number: int
    log: str | None
    ranks: dict[int, Rank] = field(default_factory=dict)
    failed: list[Rank] = field(default_factory=list)
    interrupted: int = 0
    stopping_at: float | None = None
    hang: Hang | None = None
    is_released: bool = False
    is_given_up: bool = False  # the living ranks cannot go on
    secret: str = field(default_factory=secrets.token_hex)  # by which ranks know each other
    token: str = field(default_factory=secrets.token_hex)
    store_token: str = field(default_factory=secrets.token_hex)  # of the store of all ranks

    # --- the run -------------------------------------------------------------------------

    def run(self) -> int:
        """Start all ranks and wait for the end; returns the status of the run."""
        with self._listening() as (server, selector), self._signals(selector):
            ports = [(address, server.getsockname()[1]) for address in self._addresses()]
            command = start_command(
                self.orders, self.starter, guard_command(self.orders, ports, self.log)
            )
            mpirun = subprocess.Popen(
                command,
                env=start_variables(self.orders, self.starter, self.token),
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            assert mpirun.stderr is not None
            banners = Banners(mpirun.stderr.fileno())
            selector.register(mpirun.stderr, selectors.EVENT_READ, banners)
            try:
                self._watch(mpirun, server, selector, banners)
            finally:
                self._end(mpirun, banners)
        return self._status(mpirun.returncode)

    def _watch(
        self,
        mpirun: subprocess.Popen[bytes],
        server: socket.socket,
        selector: selectors.BaseSelector,
        banners: Banners,
    ) -> None:
        while mpirun.poll() is None:
            for key, _ in selector.select(_POLL_SECONDS):
                if key.data == "server":
                    end, _ = server.accept()
                    selector.register(end, selectors.EVENT_READ, Link(end))
                elif key.data == "signals":
                    self._interrupt(os.read(key.fd, 64))
                elif isinstance(key.data, Link):
                    self._hear(key.data)
                    if not key.data.open:
                        selector.unregister(key.fileobj)
                elif not banners.pass_on():
                    selector.unregister(key.fileobj)
            banners.let_go()
            self._look(mpirun)

    def _look(self, mpirun: subprocess.Popen[bytes]) -> None:
        """End the wait for reports when due, and mpirun that outlives the ranks."""
        now = time.monotonic()
        if self.hang and not self.hang.told:
            answered = all(rank.report or rank.ended for rank in self.ranks.values())
            if answered or now > self.hang.reports_by:
                self._tell_hang()
        over = self.is_released and all(
            rank.ended or not rank.link.open for rank in self.ranks.values()
        )
        if over and self.stopping_at is None:
            self.stopping_at = now + _LAST_SECONDS
        if self.stopping_at is not None and now > self.stopping_at:
            _kill(mpirun)

    @contextmanager
    def _listening(self) -> Iterator[tuple[socket.socket, selectors.BaseSelector]]:
        nodes = 1 if self.orders.by_node else self.orders.nodes
        wide = nodes > 1 or self.orders.settings.host or self.orders.settings.hostfile
        with selectors.DefaultSelector() as selector, socket.socket() as server:
            server.bind(("" if wide or self.starter.kind == "slurm" else "127.0.0.1", 0))
            server.listen(self.orders.ranks_here)
            selector.register(server, selectors.EVENT_READ, "server")
            yield server, selector
            for rank in self.ranks.values():
                rank.link.end.close()

    def _addresses(self) -> list[str]:
        if self.orders.by_node or (self.orders.nodes == 1 and not self.orders.settings.host):
            return ["127.0.0.1"]
        return own_addresses()

    @contextmanager
    def _signals(self, selector: selectors.BaseSelector) -> Iterator[None]:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        names = self.orders.settings.signals_to_handle.split(",")
        before = {}
        for name in filter(None, names):
            number = getattr(signal, name.strip())
            before[number] = signal.signal(number, lambda *_: None)
        selector.register(reading, selectors.EVENT_READ, "signals")
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(reading)
            os.close(writing)

    # --- messages ------------------------------------------------------------------------

    def _hear(self, link: Link) -> None:
        for message in link.receive():
            if message["say"] == "hello":
                self._greet(link, message)
                continue
            rank = next((r for r in self.ranks.values() if r.link is link), None)
            if rank is not None:
                self._heard(rank, message)
        if not link.open:
            for rank in self.ranks.values():
                if rank.link is link and rank.ended is None and self.is_released:
                    _sweep(rank)
                    lost = {"status": None, "failure": None, "stopped": self._is_stopping}
                    self._heard(rank, {"say": "end", **lost})

    @property
    def _is_stopping(self) -> bool:
        return bool(self.failed or self.interrupted)

    def _greet(self, link: Link, message: dict[str, Any]) -> None:
        if not secrets.compare_digest(message["token"], self.token):
            link.open = False
            link.end.close()
            return
        self.ranks[message["rank"]] = Rank(link, message)
        if len(self.ranks) == self.orders.ranks_here:
            self._release()

    def _release(self) -> None:
        """All guards are there: tell each guard the rank's place, and let the programs start."""
        self.is_released = True
        in_order = [self.ranks[number] for number in sorted(self.ranks)]
        hosts = list(dict.fromkeys(rank.hello["host"] for rank in in_order))
        first, settings = in_order[0].hello, self.orders.settings
        common = {
            "MASTER_ADDR": settings.master_addr or first["address"],
            "MASTER_PORT": str(settings.master_port or first["port"]),
            "GROUP_WORLD_SIZE": str(self.orders.nodes if self.orders.by_node else len(hosts)),
            "ROLE_NAME": settings.role,
            "TORCHELASTIC_RESTART_COUNT": str(self.number),
            "TORCHELASTIC_MAX_RESTARTS": str(settings.max_restarts),
            "TORCHELASTIC_RUN_ID": settings.rdzv_id or "none",
        }
        if not self.orders.by_node:  # else each machine has a launcher, and the user names a token
            common["WEND_STORE_TOKEN"] = os.environ.get("WEND_STORE_TOKEN") or self.store_token
        for assignment in settings.env:
            name, _, value = assignment.partition("=")
            common[name] = value if "=" in assignment else os.environ.get(name, "")
        for rank in in_order:
            number = settings.node_rank if self.orders.by_node else hosts.index(rank.hello["host"])
            group = {"GROUP_RANK": str(number)}
            rank.link.send(say="go", variables=common | group)

    def _heard(self, rank: Rank, message: dict[str, Any]) -> None:
        if message["say"] == "started":
            rank.pid = message["pid"]
        elif message["say"] == "end":
            rank.ended = message
            if rank.has_failed and (not message["stopped"] or self._explains(rank)):
                self._failed(rank)
            self._let_meet()
        elif message["say"] == "stuck":
            rank.report = message
            self._ask_all()
        elif message["say"] == "report":
            rank.report = rank.report or message
        elif message["say"] == "stacks":
            rank.stacks = message["text"]
        elif message["say"] == "meet":
            rank.meeting = message
            self._let_meet()
        elif message["say"] == "cannot":
            self.is_given_up = True
            if self.failed:
                self._stop()

    def _explains(self, rank: Rank) -> bool:
        """Whether a rank that was told to stop has an error that explains the ends before.

        Ranks that lose a connection end by MPI or with an error of their own. The agent may hear
        of these ends first.
        """
        has_error = bool((rank.ended or {}).get("failure")) and not rank.follows
        follow = [r.is_without_error or r.follows for r in self.failed]
        return has_error and bool(follow) and all(follow)

    def _let_meet(self) -> None:
        """Tell all living ranks of each other, when the last of them asks."""
        living = {n: rank for n, rank in self.ranks.items() if rank.ended is None}
        asked = {n: rank.meeting for n, rank in living.items() if rank.meeting is not None}
        if self.is_given_up or len(asked) < len(living):
            return
        epoch = max((said["epoch"] for said in asked.values()), default=0)
        rows = {n: said["row"] for n, said in asked.items() if said["epoch"] == epoch}
        for number in rows:
            rank = living[number]
            rank.meeting = None
            rank.link.send(say="world", epoch=epoch, rows=rows, token=self.secret)

    def _failed(self, rank: Rank) -> None:
        self.failed.append(rank)
        living = [r for r in self.ranks.values() if r.ended is None]
        enough = len(living) >= max(1, self.orders.fewest_ranks)
        if self.orders.is_elastic and enough and not self.is_given_up:
            self._tell(rank)
            say(f"{len(living)} ranks go on")
        elif self.hang is None:  # else each rank raises an error, within the grace
            self._stop()

    def _tell(self, rank: Rank) -> None:
        if not rank.told:
            others = any(r.told for r in self.failed) and not self.orders.is_elastic
            report_end(rank, following=others or self.hang is not None)
            rank.told = True

    def _stop(self) -> None:
        grace = self.orders.settings.grace
        for rank in self.ranks.values():
            if rank.ended is None:
                rank.link.send(say="stop", grace=grace)
        if self.stopping_at is None:
            self.stopping_at = time.monotonic() + grace + _LAST_SECONDS

    def _interrupt(self, numbers: bytes) -> None:
        """Hand Ctrl-C to the ranks; who does not end in time, or a second Ctrl-C, is killed."""
        numbers = bytes(n for n in numbers if n != signal.SIGCHLD)
        if not numbers:
            return
        self.interrupted, before = numbers[0], self.interrupted
        soft = numbers[0] == signal.SIGINT and not before
        for rank in self.ranks.values():
            if rank.ended is None:
                grace = 0.0 if before else self.orders.settings.grace
                rank.link.send(say="interrupt" if soft else "stop", grace=grace)
        wait = 0.0 if before or not self.is_released else self.orders.settings.grace
        self.stopping_at = time.monotonic() + wait + _LAST_SECONDS

    # --- hangs ---------------------------------------------------------------------------

    def _ask_all(self) -> None:
        if self.hang or self._is_stopping:
            return
        self.hang = Hang(time.monotonic() + _REPORT_SECONDS)
        for rank in self.ranks.values():
            if rank.ended is None:
                rank.link.send(say="stacks")
                rank.link.send(say="report")

    def _tell_hang(self) -> None:
        assert self.hang is not None
        self.hang.told = True
        report_hang([self.ranks[number] for number in sorted(self.ranks)])
        for rank in self.ranks.values():
            if rank.ended is None:
                rank.link.send(say="give_up", grace=self.orders.settings.grace)

    # --- the end -------------------------------------------------------------------------

    def _end(self, mpirun: subprocess.Popen[bytes], banners: Banners) -> None:
        if mpirun.poll() is None:
            _kill(mpirun)
        mpirun.wait()
        banners.close(shown=not self.failed and not self.interrupted)

    def _status(self, of_mpirun: int) -> int:
        """The status of the run: of the rank that failed first, by itself."""
        if self.interrupted:
            return 128 + self.interrupted
        if not self.failed:
            return of_mpirun if of_mpirun >= 0 else 128 - of_mpirun
        self.failed.sort(key=lambda rank: (rank.follows, rank.is_without_error))
        for rank in self.failed:
            self._tell(rank)
        if (
            self.orders.is_elastic
            and not self.is_given_up
            and any(rank.ended and rank.ended["status"] == 0 for rank in self.ranks.values())
        ):
            return 0
        status = (self.failed[0].ended or {})["status"]
        return 1 if status is None else status if status > 0 else 128 - status


def run(orders: Orders, starter: Starter) -> int:
    """Run the program on all ranks, again after a failure as often as is allowed."""
    log = _log_folder(orders)
    for number in range(orders.settings.max_restarts + 1):
        attempt = Attempt(orders, starter, number, log)
        status = attempt.run()
        if status == 0 or attempt.interrupted or number == orders.settings.max_restarts:
            break
        say(f"start {number + 2} of {orders.settings.max_restarts + 1}")
    if attempt.interrupted == signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGINT)
    return status


def _log_folder(orders: Orders) -> str | None:
    settings = orders.settings
    if not (settings.redirects or settings.tee):
        return None
    import tempfile

    if settings.log_dir is None:
        return tempfile.mkdtemp(prefix="wend-launch-")
    os.makedirs(settings.log_dir, exist_ok=True)
    run_id = settings.rdzv_id or "none"
    return tempfile.mkdtemp(prefix=f"{run_id}_", dir=os.path.abspath(settings.log_dir))


def own_addresses() -> list[str]:
    """Addresses (IPv4) by which machines may reach this machine, and the machine's name."""
    import fcntl
    import struct

    addresses = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(probe.fileno(), 0x8915, request)  # SIOCGIFADDR
            except OSError:  # the network interface has no address: another may
                continue
            addresses.append(socket.inet_ntoa(answer[20:24]))
    addresses.sort(key=lambda address: address.startswith("127."))
    return [*addresses, socket.gethostname()]


def _sweep(rank: Rank) -> None:
    """Kill the program of a guard that has ended, with the program's process group.

    The kernel has killed the program; processes that the program has started may live on.
    """
    if rank.pid and rank.hello["host"] == socket.gethostname():
        try:
            os.killpg(rank.pid, signal.SIGKILL)
        except ProcessLookupError:  # no process is left in the group, as it should be
            return


def _kill(mpirun: subprocess.Popen[bytes]) -> None:
    """End mpirun, and with mpirun all guards that still live."""
    mpirun.terminate()
    try:
        mpirun.wait(_LAST_SECONDS)
    except subprocess.TimeoutExpired:  # mpirun does not end when asked: the process is killed
        mpirun.kill()
