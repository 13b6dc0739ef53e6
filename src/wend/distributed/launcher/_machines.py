"""Several machines without MPI: a launcher on each, which machine 0 leads.

The launchers meet at the address of machine 0, and prove a shared secret there. Machine 0 says when
ranks start; their guards then talk to machine 0 themselves, so all reports are made there. The
kernel ends connections with a machine that does not answer.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from wend.distributed.launcher import _report
from wend.distributed.launcher._doors import (
    SECRET,
    Door,
    RefusedError,
    TlsFiles,
    enter,
    key_of,
    watch_peer,
)
from wend.distributed.launcher._guard import Link
from wend.distributed.launcher._options import Orders
from wend.distributed.launcher._start import (
    LAST_SECONDS,
    OwnGuards,
    StartError,
    shared_token,
    start_here,
    tls_files,
)

_TRY_SECONDS: Final = 0.2  # until machine 0 is called again
_NOTICE_SECONDS: Final = 5.0  # until it is told who is waited for
_CALL_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.2


@dataclass(slots=True)
class Machine:
    """Another machine's launcher, as machine 0 sees it."""

    link: Link
    number: int
    host: str
    ranks: int
    is_running: bool = False

    @property
    def name(self) -> str:
        """The words for messages."""
        return f"machine {self.number} ({self.host})"

    def has(self, rank: int) -> bool:
        """Whether a rank is on the machine."""
        return rank // self.ranks == self.number


@dataclass(slots=True)
class Place:
    """A further machine's place in the run: the link with machine 0, the number, the secret."""

    link: Link
    number: int
    secret: bytes
    early: list[dict[str, Any]]  # messages that have come already


class Machines:
    """All further machines.

    others: by number   address: at which they reach this machine   secret: of the run
    """

    def __init__(self, others: list[Machine], address: str, secret: bytes) -> None:
        self.others, self.address, self.secret = others, address, secret
        _report.listeners.append(self._show)

    @classmethod
    def meet(cls, orders: Orders) -> Machines | Place:
        """Meet the launchers of all machines; machine 0 gets all, each other machine its place.

        Raises StartError if they do not come in time, or do not fit.
        """
        secret = shared_token(orders, os.environ).encode()
        tls, key = tls_files(orders), key_of(secret, "machines")
        with _ended_by_signals(orders):
            if is_first(orders):
                others, address = Reception(orders, key, tls).all()
                return cls(others, address, secret)
            link, number, early = call(orders, key, tls)
            return Place(link, number, secret, early)

    def start(self, number: int, token: str, ports: list[tuple[str, int]]) -> None:
        """Start the ranks of all further machines."""
        for machine in self.others:
            machine.is_running = machine.link.open
            machine.link.send(say="start", number=number, token=token, ports=ports)

    def run(self) -> bool:
        """Whether guards live on some machine."""
        return any(machine.is_running for machine in self.others)

    def are_all_there(self) -> bool:
        """Whether no machine is lost."""
        return all(machine.link.open for machine in self.others)

    def kill(self) -> None:
        """End all guards; machines that do not answer are waited for no more."""
        for machine in self.others:
            if machine.is_running:
                machine.link.send(say="kill")
                machine.is_running = False

    def end(self, status: int) -> None:
        """Tell all launchers the status of the run."""
        for machine in self.others:
            machine.link.send(say="over", status=status)
            machine.link.open = False
            machine.link.end.close()
        if self._show in _report.listeners:
            _report.listeners.remove(self._show)

    def _show(self, text: str) -> None:
        for machine in self.others:
            machine.link.send(say="told", text=text)


def is_first(orders: Orders) -> bool:
    """Whether this machine leads: number 0, or that of the address if nobody has a number.

    Raises StartError for a name without an address.
    """
    settings = orders.settings
    if settings.node_rank is not None:
        return bool(settings.node_rank == 0)
    address = address_of(settings.master_addr)
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:  # the address is another machine's
            return False
    return True


def address_of(host: str) -> str:
    """The IPv4 address of a machine's name. Raises StartError if there is none."""
    try:
        return socket.gethostbyname(host)
    except OSError as error:
        raise StartError(
            f"wend launch: --master-addr {host}: {error}; name machine 0 by a name that all "
            "machines know, or by its IPv4 address"
        ) from error


@contextmanager
def _ended_by_signals(orders: Orders) -> Iterator[None]:
    """Context: SIGTERM and the like end the wait for machines, as Ctrl-C does."""
    names = [name.strip() for name in orders.settings.signals_to_handle.split(",") if name.strip()]
    before = {n: signal.signal(n, _leave) for n in (getattr(signal, name) for name in names)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


# -- machine 0 ---------------------------------------------------------------------------------


class Reception:
    """Machine 0, until all launchers have come."""

    def __init__(self, orders: Orders, key: bytes, tls: TlsFiles | None) -> None:
        settings = orders.settings
        self.orders = orders
        address = address_of(settings.master_addr)
        # A machine's own name may stand for 127.0.1.1 there, and for a true address elsewhere.
        named = settings.master_addr == "localhost" or settings.master_addr.startswith("127.")
        place = "" if address.startswith("127.") and not named else address
        try:
            listener = socket.create_server((place, settings.master_port), backlog=256)
        except OSError as error:
            raise StartError(
                f"wend launch: cannot listen at {settings.master_addr}:{settings.master_port}: "
                f"{error}; name an address of machine 0 by --master-addr, and a free port there "
                "by --master-port"
            ) from error
        self.door = Door(listener, key, tls)
        self.others: dict[int, Machine] = {}

    def all(self) -> tuple[list[Machine], str]:
        """The launchers of all further machines, and the address at which these reach this one."""
        seconds = self.orders.settings.join_timeout
        begun = time.monotonic()
        notice: float = begun + _NOTICE_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self.door, selectors.EVENT_READ, "door")
            while len(self.others) < self.orders.nodes - 1:
                for key, _ in selector.select(_POLL_SECONDS):
                    if key.data == "door":
                        link = Link(self.door.guest())
                        watch_peer(link.end, strict=True)
                        selector.register(link.end, selectors.EVENT_READ, link)
                    elif not self._hear(key.data) or not key.data.open:
                        selector.unregister(key.fileobj)
                        key.data.end.close()
                now = time.monotonic()
                if now > begun + seconds:
                    raise StartError(f"wend launch: after {seconds:g} s {self._missing()}")
                if now > notice:
                    notice = float("inf")
                    _report.say(f"waits: {self._missing()}")
        self.door.close()
        others = [self.others[number] for number in sorted(self.others)]
        return others, others[0].link.end.getsockname()[0]

    def _missing(self) -> str:
        settings = self.orders.settings
        missing = sorted(set(range(1, self.orders.nodes)) - set(self.others))
        are_numbered = settings.node_rank is not None
        names = ", ".join(map(str, missing)) if are_numbered else f"({len(missing)})"
        who = f"machine {names} has" if len(missing) == 1 else f"machines {names} have"
        place = f"{settings.master_addr}:{settings.master_port}"
        refused = ", ".join(sorted(self.door.strangers)[:4])
        theirs = f"; {refused} called with another secret or certificate" if refused else ""
        return f"{who} not come to {place}{theirs}"

    def _hear(self, link: Link) -> bool:
        """Take a launcher's word, or its end; whether the launcher stays."""
        for message in link.receive():
            fault = self._fault(message)
            if fault:
                _report.say(f"the launcher on {message['host']} {fault}")
                link.send(say="refused", why=fault)
                return False
            number = message["node"]
            if number is None:
                number = min(set(range(1, self.orders.nodes)) - set(self.others))
            here = self.orders.ranks_per_node
            self.others[number] = Machine(link, number, message["host"], here)
            link.send(say="welcome", number=number)
        if not link.open:  # lost, or ended, before all have come
            self.others = {n: m for n, m in self.others.items() if m.link is not link}
        return True

    def _fault(self, message: dict[str, Any]) -> str:
        """Why a launcher does not fit, or an empty text."""
        theirs, own = message["size"], [self.orders.nodes, self.orders.ranks_per_node]
        if theirs != own:
            return (
                f"has --nnodes {theirs[0]} --nproc-per-node {theirs[1]}, and machine 0 has "
                f"{own[0]} and {own[1]}; pass the same on all machines"
            )
        if message["node"] == 0 or message["node"] in self.others:
            return f"has --node-rank {message['node']}, which another machine has too"
        return ""


# -- further machines --------------------------------------------------------------------------


def call(
    orders: Orders, key: bytes, tls: TlsFiles | None
) -> tuple[Link, int, list[dict[str, Any]]]:
    """A link with machine 0, this machine's number, and messages that have come already.

    Raises StartError if machine 0 does not answer in time, or refuses.
    """
    settings = orders.settings
    place = f"{settings.master_addr}:{settings.master_port}"
    begun = time.monotonic()
    is_told = False
    while True:
        try:
            target = address_of(settings.master_addr), settings.master_port
            link = Link(enter(target, key, tls, SECRET, _CALL_SECONDS))
            break
        except RefusedError as error:
            raise StartError(f"wend launch: machine 0: {error}") from error
        except OSError as error:
            waited = time.monotonic() - begun
            if waited > settings.join_timeout:
                raise StartError(
                    f"wend launch: machine 0 does not answer at {place} in {waited:.0f} s: {error}"
                ) from error
            if waited > _NOTICE_SECONDS and not is_told:
                is_told = True
                _report.say(f"machine 0 does not answer at {place} yet: {error}")
            time.sleep(_TRY_SECONDS)
    watch_peer(link.end, strict=True)
    size = [orders.nodes, orders.ranks_per_node]
    host = socket.gethostname()
    link.send(say="machine", node=settings.node_rank, host=host, size=size)
    while link.open:
        for message, *early in [messages] if (messages := link.receive()) else ():
            if message["say"] == "welcome":
                return link, int(message["number"]), early
            raise StartError(f"wend launch: machine 0 refuses: this launcher {message['why']}")
    raise StartError(f"wend launch: machine 0 at {place} has ended before all machines came")


def follow(orders: Orders, place: Place, log: str | None) -> int:
    """Start ranks when machine 0 says so, until the run is over; returns the run's status."""
    return Follower(orders, place, log).run()


class Follower:
    """A further machine's launcher: it starts guards, passes their output and signals on."""

    def __init__(self, orders: Orders, place: Place, log: str | None) -> None:
        self.orders, self.place, self.log = orders, place, log
        self.guards: OwnGuards | None = None
        self.status: int | None = None
        self.start = 0  # the number of the start
        self.selector = selectors.DefaultSelector()
        self.interrupted = 0

    def run(self) -> int:
        """Follow machine 0 to the end."""
        link = self.place.link
        self.selector.register(link.end, selectors.EVENT_READ, link)
        with signals_read(self.orders, self.selector):
            try:
                for message in self.place.early:
                    self._obey(message)
                while self.status is None and link.open:
                    for key, _ in self.selector.select(_POLL_SECONDS):
                        if key.data == "signals":
                            self._interrupt(os.read(key.fd, 64))
                        elif isinstance(key.data, Link):
                            for message in link.receive():
                                self._obey(message)
                        elif not key.data.pass_on():
                            self.selector.unregister(key.fileobj)
                    self._look()
            finally:
                self._end_guards()
        if self.status is not None:
            return self.status
        if self.interrupted:
            return 128 + self.interrupted
        _report.say("machine 0 is lost: the launcher there has ended, or it does not answer")
        return 1

    def _obey(self, message: dict[str, Any]) -> None:
        if message["say"] == "start":
            self._end_guards()
            self.start = message["number"]
            key = key_of(self.place.secret, message["token"]).decode()
            ports = [(host, port) for host, port in message["ports"]]
            self.guards = start_here(self.orders, ports, self.log, key, self.place.number)
            for output in self.guards.outputs:
                self.selector.register(output.reading, selectors.EVENT_READ, output)
        elif message["say"] == "told":
            _report.tell(message["text"])
        elif message["say"] == "kill":
            self._end_guards()
        elif message["say"] == "over":
            self.status = message["status"]

    def _look(self) -> None:
        if self.guards is None:
            return
        for output in self.guards.outputs:
            output.let_go()
        if self.guards.poll() is not None:
            self._end_guards()
            self.place.link.send(say="ended", number=self.start)

    def _interrupt(self, numbers: bytes) -> None:
        for number in numbers:
            if number != signal.SIGCHLD:
                self.interrupted = number
                self.place.link.send(say="interrupt", number=number)

    def _end_guards(self) -> None:
        if self.guards is None:
            return
        guards, self.guards = self.guards, None
        registered = {key.fd for key in self.selector.get_map().values()}
        for output in guards.outputs:
            if output.reading in registered:
                self.selector.unregister(output.reading)
        if not self.place.link.open:  # the guards have lost machine 0 too, and end the ranks
            until = time.monotonic() + LAST_SECONDS
            while guards.poll() is None and time.monotonic() < until:
                time.sleep(0.05)
        guards.end(shown=True)


@contextmanager
def signals_read(orders: Orders, selector: selectors.BaseSelector) -> Iterator[None]:
    """Context: signals are bytes of a pipe in the selector, with the data "signals"."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    before = {}
    for name in filter(None, orders.settings.signals_to_handle.split(",")):
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
