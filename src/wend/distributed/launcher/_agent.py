"""The process that starts all ranks, sees failures, ends the run and starts the run again."""

from __future__ import annotations

import os
import secrets
import selectors
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from wend.distributed.launcher._doors import Door, TlsFiles, key_of, watch_peer
from wend.distributed.launcher._guard import Link
from wend.distributed.launcher._machines import Machine, Machines, follow, signals_read
from wend.distributed.launcher._options import Orders
from wend.distributed.launcher._report import report_end, report_hang, say
from wend.distributed.launcher._start import (
    LAST_SECONDS,
    MpiGuards,
    OwnGuards,
    Starter,
    guard_command,
    start_command,
    start_here,
    start_variables,
    tls_files,
)

_POLL_SECONDS: Final = 0.2
_REPORT_SECONDS: Final = 3.0  # for all ranks to answer when a rank waits too long
_STACKS_SECONDS: Final = 1.0  # for the guards of ranks that have not


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
    has_asked_for_stacks: bool = False
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
    is_broken: bool = False  # not all ranks have started
    secret: str = field(default_factory=secrets.token_hex)  # by which ranks know each other
    token: str = field(default_factory=secrets.token_hex)  # of this start's guards and ranks
    machines: Machines | None = None  # the further machines, each with a launcher
    tls: TlsFiles | None = None

    # --- the run -------------------------------------------------------------------------

    def run(self) -> int:
        """Start all ranks and wait for the end; returns the status of the run."""
        with self._listening() as (door, selector), signals_read(self.orders, selector):
            ports = [(address, door.listener.getsockname()[1]) for address in self._addresses()]
            guards = self._start(ports)
            for output in guards.outputs:
                selector.register(output.reading, selectors.EVENT_READ, output)
            for machine in self.machines.others if self.machines else ():
                selector.register(machine.link.end, selectors.EVENT_READ, machine)
            try:
                self._watch(guards, door, selector)
            finally:
                status = self._end(guards)
        return self._status(status)

    def _start(self, ports: list[tuple[str, int]]) -> MpiGuards | OwnGuards:
        if self.starter.kind == "sockets":
            if self.machines is not None:
                self.machines.start(self.number, self.token, ports)
            key = self._key.decode()
            return start_here(self.orders, ports, self.log, key, 0)
        command = start_command(
            self.orders, self.starter, guard_command(self.orders, ports, self.log)
        )
        return MpiGuards(command, start_variables(self.orders, self.starter, self._key.decode()))

    @property
    def _key(self) -> bytes:
        """The token of this start; of several launchers each makes the token from the secret."""
        if self.machines is None:
            return self.token.encode()
        return key_of(self.machines.secret, self.token)

    def _watch(
        self, guards: MpiGuards | OwnGuards, door: Door, selector: selectors.BaseSelector
    ) -> None:
        while guards.poll() is None or (self.machines is not None and self.machines.run()):
            for key, _ in selector.select(_POLL_SECONDS):
                if key.data == "door":
                    link = door.guest()
                    watch_peer(link, strict=True)
                    selector.register(link, selectors.EVENT_READ, Link(link))
                elif key.data == "signals":
                    self._interrupt(os.read(key.fd, 64))
                elif isinstance(key.data, Link):
                    self._hear_from(key, selector)
                elif isinstance(key.data, Machine):
                    self._hear_machine(key, selector)
                elif not key.data.pass_on():
                    selector.unregister(key.fileobj)
            for output in guards.outputs:
                output.let_go()
            self._look(guards)
        self._hear_last(selector)

    def _hear_last(self, selector: selectors.BaseSelector) -> None:
        """Take the messages that were sent before mpirun ended; an end may be among them."""
        until = time.monotonic() + LAST_SECONDS
        while any(isinstance(key.data, Link) for key in selector.get_map().values()):
            if time.monotonic() > until:
                return
            for key, _ in selector.select(_POLL_SECONDS):
                if isinstance(key.data, Link):
                    self._hear_from(key, selector)

    def _look(self, guards: MpiGuards | OwnGuards) -> None:
        """End the wait for reports when due, and guards that outlive the ranks."""
        now = time.monotonic()
        if self.hang and not self.hang.told:
            silent = [r for r in self.ranks.values() if not (r.report or r.ended or r.stacks)]
            if silent and now > self.hang.reports_by and not self.hang.has_asked_for_stacks:
                self._ask_for_stacks(silent)
            elif not silent or now > self.hang.reports_by:
                self._tell_hang()
        over = self.is_released and all(
            rank.ended or not rank.link.open for rank in self.ranks.values()
        )
        if over and self.stopping_at is None:
            self.stopping_at = now + LAST_SECONDS
        if self.stopping_at is not None and now > self.stopping_at:
            if guards.poll() is None:
                guards.terminate()
            if self.machines is not None:
                self.machines.kill()

    @contextmanager
    def _listening(self) -> Iterator[tuple[Door, selectors.BaseSelector]]:
        with selectors.DefaultSelector() as selector, socket.socket() as server:
            server.bind((self._reached(), 0))
            server.listen(self.orders.ranks)
            door = Door(server, self._key, self.tls)
            selector.register(door, selectors.EVENT_READ, "door")
            try:
                yield door, selector
            finally:
                door.close()
                for rank in self.ranks.values():
                    rank.link.end.close()

    def _reached(self) -> str:
        """The address at which the guards of all machines reach the agent; "" for any."""
        if self.machines is not None:
            return self.machines.address
        settings = self.orders.settings
        wide = self.orders.nodes > 1 or settings.host or settings.hostfile
        return "" if wide or self.starter.kind == "slurm" else "127.0.0.1"

    def _addresses(self) -> list[str]:
        if self.machines is None and (self.orders.nodes > 1 or self.orders.settings.host):
            return own_addresses()
        return [self._reached() or "127.0.0.1"]

    # --- messages ------------------------------------------------------------------------

    def _hear_from(self, key: selectors.SelectorKey, selector: selectors.BaseSelector) -> None:
        self._hear(key.data)
        if not key.data.open:
            selector.unregister(key.fileobj)

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
                    if not self.orders.by_node or rank.number < self.orders.ranks_per_node:
                        _sweep(rank)
                    lost = {"status": None, "failure": None, "stopped": self._has_told_to_stop}
                    self._heard(rank, {"say": "end", **lost})

    @property
    def _is_stopping(self) -> bool:
        return bool(self.failed or self.interrupted)

    @property
    def _has_told_to_stop(self) -> bool:
        return self.stopping_at is not None

    def _hear_machine(self, key: selectors.SelectorKey, selector: selectors.BaseSelector) -> None:
        machine: Machine = key.data
        for message in machine.link.receive():
            if message["say"] == "interrupt":
                self._interrupt(bytes([message["number"]]))
            elif message["say"] == "ended" and message["number"] == self.number:
                machine.is_running = False
                if not self.is_released:  # a guard has not come, and has told so there
                    self._fail_early()
        if not machine.link.open:
            selector.unregister(key.fileobj)
            self._lose(machine)

    def _lose(self, machine: Machine) -> None:
        """Go on without a machine, or end the run: the launcher there, or the machine, is lost."""
        was_running, machine.is_running = machine.is_running, False
        if not was_running:
            return
        say(f"{machine.name} is lost: the launcher there has ended, or the machine does not answer")
        if not self.is_released:
            self._fail_early()
        for rank in list(self.ranks.values()):
            told_by_us = self._has_told_to_stop
            if machine.has(rank.number) and (
                rank.ended is None or (rank.ended["stopped"] and not told_by_us)
            ):
                rank.link.open = False
                lost = {"status": None, "failure": None, "stopped": told_by_us}
                self._heard(rank, {"say": "end", **lost})

    def _fail_early(self) -> None:
        """End a start in which not all guards have come."""
        self.is_broken = True
        self.stopping_at = self.stopping_at or time.monotonic()

    def _greet(self, link: Link, message: dict[str, Any]) -> None:
        self.ranks[message["rank"]] = Rank(link, message)
        if len(self.ranks) == self.orders.ranks:
            self._release()

    def _release(self) -> None:
        """All guards are there: tell each guard the rank's place, and let the programs start."""
        self.is_released = True
        in_order = [self.ranks[number] for number in sorted(self.ranks)]
        hosts = list(dict.fromkeys(rank.hello["host"] for rank in in_order))
        first, settings = in_order[0].hello, self.orders.settings
        by_node = self.orders.by_node  # then the address is that of the launchers' meeting
        common = {
            "MASTER_ADDR": (not by_node and settings.master_addr) or first["address"],
            "MASTER_PORT": str((not by_node and settings.master_port) or first["port"]),
            "GROUP_WORLD_SIZE": str(self.orders.nodes if by_node else len(hosts)),
            "ROLE_NAME": settings.role,
            "TORCHELASTIC_RESTART_COUNT": str(self.number),
            "TORCHELASTIC_MAX_RESTARTS": str(settings.max_restarts),
            "TORCHELASTIC_RUN_ID": settings.rdzv_id or "none",
        }
        for assignment in settings.env:
            name, _, value = assignment.partition("=")
            common[name] = value if "=" in assignment else os.environ.get(name, "")
        for rank in in_order:
            machine = rank.number // self.orders.ranks_per_node
            number = machine if by_node else hosts.index(rank.hello["host"])
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
            if (rank.ended or {})["status"] is None:  # the network may not tell the ranks so soon
                for r in living:
                    r.link.send(say="lost", rank=rank.number)
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
            self.stopping_at = time.monotonic() + grace + LAST_SECONDS

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
        self.stopping_at = time.monotonic() + wait + LAST_SECONDS

    # --- hangs ---------------------------------------------------------------------------

    def _ask_all(self) -> None:
        if self.hang or self._is_stopping:
            return
        self.hang = Hang(time.monotonic() + _REPORT_SECONDS)
        for rank in self.ranks.values():
            if rank.ended is None:
                rank.link.send(say="report")

    def _ask_for_stacks(self, silent: list[Rank]) -> None:
        """Ask the guards of ranks that do not answer; Python's threads cannot answer there.

        faulthandler may read frames that change, and end a rank whose threads run.
        """
        assert self.hang is not None
        self.hang.has_asked_for_stacks = True
        self.hang.reports_by = time.monotonic() + _STACKS_SECONDS
        for rank in silent:
            rank.link.send(say="stacks")

    def _tell_hang(self) -> None:
        assert self.hang is not None
        self.hang.told = True
        report_hang([self.ranks[number] for number in sorted(self.ranks)])
        for rank in self.ranks.values():
            if rank.ended is None:
                rank.link.send(say="give_up", grace=self.orders.settings.grace)

    # --- the end -------------------------------------------------------------------------

    def _end(self, guards: MpiGuards | OwnGuards) -> int:
        status = guards.end(shown=not self.failed and not self.interrupted)
        return status or (1 if self.is_broken else 0)

    def _status(self, of_guards: int) -> int:
        """The status of the run: of the rank that failed first, by itself."""
        if self.interrupted:
            return 128 + self.interrupted
        if not self.failed:
            return of_guards if of_guards >= 0 else 128 - of_guards
        self.failed.sort(key=lambda rank: (rank.follows, rank.is_without_error))
        for rank in self.failed:
            if not rank.follows or self.failed[0].follows:
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
    """Run the program on all ranks, again after a failure as often as is allowed.

    Raises StartError if the launchers of several machines do not meet.
    """
    if not orders.by_node:
        return _run(orders, starter, None)
    place = Machines.meet(orders)
    if not isinstance(place, Machines):
        return follow(orders, place, log_folder(orders))
    try:
        status = _run(orders, starter, place)
    except BaseException:
        place.end(1)
        raise
    place.end(status)
    return status


def _run(orders: Orders, starter: Starter, machines: Machines | None) -> int:
    log, tls = log_folder(orders), tls_files(orders)
    most = orders.settings.max_restarts
    for number in range(most + 1):
        attempt = Attempt(orders, starter, number, log, machines=machines, tls=tls)
        status = attempt.run()
        if status == 0 or attempt.interrupted or number == most:
            break
        if machines is not None and not machines.are_all_there():
            say("the run cannot start again without the lost machine")
            break
        say(f"start {number + 2} of {most + 1}")
    if attempt.interrupted == signal.SIGINT:
        if machines is not None:
            machines.end(status)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGINT)
    return status


def log_folder(orders: Orders) -> str | None:
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
