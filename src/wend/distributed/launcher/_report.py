"""Texts of the agent's: which rank failed and where, who waits for whom, and mpirun's words."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

_ZEROS: Final = re.compile(rb"(?<=\n)\0+")
_DASHES: Final = re.compile(rb"-{60,}\r?\n")
_HELD_SECONDS: Final = 0.3
#: The first words of messages of mpirun's that repeat the agent's.
_WORDS: Final = re.compile(
    rb"(prterun|prted|prte|mpirun|mpiexec|orterun|orted|ORTE|PRTE|MPI_ABORT|Primary job)\b"
)


#: Called with each text that is told: the launchers of further machines show the text too.
listeners: list[Callable[[str], None]] = []


def say(text: str) -> None:
    """Print a line of the launcher's own to stderr."""
    tell(f"wend launch: {text}")


def tell(text: str) -> None:
    """Print a text to stderr, here and on the further machines."""
    sys.stderr.write(f"{text}\n")  # a single write: `print` makes two where nothing is buffered
    sys.stderr.flush()
    for listener in listeners:
        listener(text)


class Lines:
    """Passes a stream of a rank on by whole lines, so that lines of several ranks do not mix."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading, self.writing = reading, writing
        self._held = b""
        self._since = 0.0

    def pass_on(self) -> bool:
        """Pass on the lines that have come; False at the end of the stream."""
        data = os.read(self.reading, 1 << 16)
        self._since = time.monotonic()
        lines, end, rest = (self._held + data).rpartition(b"\n")
        self._held = rest
        self._show(lines + end)
        return bool(data)

    def _show(self, data: bytes) -> None:
        try:
            _write(data, self.writing)
        except BrokenPipeError:  # nobody reads any more: the ranks go on, and are not shown
            self.writing = os.open(os.devnull, os.O_WRONLY)

    def let_go(self) -> None:
        """Pass on a line without an end, if nothing follows for a while: a question, or a bar."""
        if self._held and time.monotonic() - self._since > _HELD_SECONDS:
            self._show(self._held)
            self._held = b""

    def close(self, shown: bool) -> None:
        """Pass the rest on."""
        os.set_blocking(self.reading, False)
        try:
            while self.pass_on():
                pass
        except BlockingIOError:  # all that has come has been read
            pass
        self._show(self._held)
        self._held = b""


class Banners:
    """Passes stderr of mpirun and of ranks on, and keeps back mpirun's own messages."""

    def __init__(self, reading: int) -> None:
        self.reading = reading
        self.kept: list[bytes] = []
        self._held = b""
        self._at_start = True
        self._since = 0.0

    def pass_on(self) -> bool:
        """Pass on the text that has come; False at the end of the stream."""
        data = os.read(self.reading, 1 << 16)
        held = self._held + data
        # mpirun may write the byte that ends a text in C; it would lie before the next line.
        self._held = _ZEROS.sub(b"", held.lstrip(b"\0") if self._at_start else held)
        self._since = time.monotonic()
        while self._step():
            pass
        return bool(data)

    def close(self, shown: bool) -> None:
        """Pass the rest on; shown: show mpirun's own messages, as nothing else tells of the end."""
        os.set_blocking(self.reading, False)
        try:
            while self.pass_on():
                pass
        except BlockingIOError:  # All that has come has been read
            pass
        _write(self._held)
        self._held = b""
        if shown:
            _write(b"".join(self.kept))

    def let_go(self) -> None:
        """Pass on a text that begins as a message of mpirun's, if nothing follows for a while."""
        now = time.monotonic()
        if self._held and now - self._since > _HELD_SECONDS and not self._is_banner():
            self._forward(len(self._held))

    def _step(self) -> bool:
        """Handle the first part of the text that is held; False if more must come first."""
        if not self._held:
            return False
        if not (self._at_start and _may_be_dashes(self._held)):
            return self._forward(self._before_dashes())
        first = _DASHES.match(self._held)
        if first is None:
            return b"\n" in self._held and self._forward(self._held.index(b"\n") + 1)
        rest = self._held[first.end() :]
        if not _WORDS.match(rest):
            return len(rest) > 12 and self._forward(first.end())
        last = _DASHES.search(rest)
        if last is None:
            return False
        end = first.end() + last.end()
        self.kept.append(self._held[:end])
        self._held = self._held[end:]
        return True

    def _is_banner(self) -> bool:
        first = _DASHES.match(self._held)
        return first is not None and _WORDS.match(self._held, first.end()) is not None

    def _before_dashes(self) -> int:
        """How much of the text comes before a line that may be of dashes."""
        place = self._held.find(b"\n-")
        while place >= 0 and not _may_be_dashes(self._held[place + 1 :]):
            place = self._held.find(b"\n-", place + 1)
        return len(self._held) if place < 0 else place + 1

    def _forward(self, count: int) -> bool:
        part, self._held = self._held[:count], self._held[count:]
        self._at_start = part.endswith(b"\n")
        _write(part)
        return True


def _may_be_dashes(text: bytes) -> bool:
    """Whether a text begins with a row of dashes, or may once more of the text has come."""
    return text[:60].strip(b"-") == b"" or _DASHES.match(text) is not None


def _write(data: bytes, target: int = 2) -> None:
    while data:
        data = data[os.write(target, data) :]


class Told(Protocol):
    """The parts of a rank that reports name."""

    hello: dict[str, Any]
    pid: int
    ended: dict[str, Any] | None
    report: dict[str, Any] | None
    stacks: str


def _named(rank: Told) -> str:
    return f"rank {rank.hello['rank']} (process {rank.pid} on {rank.hello['host']})"


def report_end(rank: Told, following: bool) -> None:
    """Tell how a rank failed; following: in a line, as another rank's failure came first."""
    end = rank.ended or {"status": None}
    failure = end.get("failure") or {}
    status = end["status"]
    line = failure.get("line")
    at = f" at {line}" if line else ""
    if failure:
        text = f"failed{at}: {failure['error']}"
    elif status is None:
        text = "is lost: its guard has ended or its machine does not answer"
    elif status < 0:
        text = _of_signal(-status, end)
    else:
        text = f"ended with status {status}"
    say(f"{_named(rank)} {text}")
    details = failure.get("text") or _of_current_thread(end.get("stacks", ""))
    if details and not following:
        tell(details.rstrip())


def _of_current_thread(stacks: str) -> str:
    """The error and the stack of the thread with the error, of all that faulthandler wrote."""
    parts = re.split(r"\n\n(?=\S)", stacks)
    return "\n".join(part for part in parts if part.startswith(("Fatal", "Current thread")))


def _of_signal(number: int, end: dict[str, Any]) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:  # a signal without a name is told by number
        name = f"signal {number}"
    text = f"was killed by {name}"
    if end.get("memory"):
        text += " (out of memory, as the kernel counts)"
    seen = end.get("seen")
    return f"{text}; it was last seen at {seen}" if seen else text


def report_hang(ranks: list[Any]) -> None:
    """Tell in which collective and line each rank waits, with the stack of the rank."""
    first = next(rank.report for rank in ranks if rank.report and "timeout" in rank.report)
    say(f"no progress for {first['seconds']:.0f} s (timeout of {first['timeout']:.0f} s)")
    for rank in ranks:
        if rank.ended is not None:
            say(f"{_named(rank)} has ended with status {rank.ended['status']}")
            continue
        if rank.report is None:
            say(f"{_named(rank)} does not answer; its stacks:")
            stack = _of_current_thread(rank.stacks) or rank.stacks
            tell(stack.rstrip())
            continue
        waits = rank.report["waits"]
        say(f"{_named(rank)} " + ("waits in" if waits else "is in no collective"))
        for wait in waits:
            tell(f"  {wait}")
        tell(rank.report["stack"].rstrip())
