"""Inside a rank's program: tells the guard of failures, and of where the program is.

`wend run` calls `begin` below a guard, and `leave_by` around the program.
"""

from __future__ import annotations

import atexit
import faulthandler
import json
import os
import signal
import socket
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final, NoReturn

_DUMP_SIGNAL: Final = signal.SIGRTMIN + 9  # as the guard's
_SEEN_BYTES: Final = 4096
_SEEN_SECONDS: Final = 0.5  # between two notes of the line that runs
_EXIT_SECONDS: Final = 3.0  # for functions registered with atexit, after a failure
_OURS: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_LIBRARY: Final = sysconfig.get_paths()["stdlib"]

#: Is called with each message of the guard's, in the thread that listens.
Listener = Callable[[dict[str, Any]], None]


class Channel:
    """The socket between this program and the guard, a JSON object a line."""

    def __init__(self, fd: int, stacks: int) -> None:
        self.end = socket.socket(fileno=fd)
        self.stacks = stacks
        self.listeners: list[Listener] = []
        self._sending = threading.Lock()
        self._shown = threading.Event()

    def send(self, **message: object) -> None:
        """Send a message; raises OSError if the guard is gone."""
        data = json.dumps(message).encode() + b"\n"
        with self._sending:
            self.end.sendall(data)

    def listen(self) -> None:
        """Take the guard's messages until the guard ends: the body of a thread."""
        rest = b""
        while True:
            try:
                data = self.end.recv(1 << 16)
            except OSError:  # the guard is gone: nothing more will come
                return
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if message["say"] == "shown":
                    self._shown.set()
                for listener in list(self.listeners):
                    listener(message)

    def fail(self, **failure: object) -> bool:
        """Tell of the failure that ends this program; True if the agent will show it."""
        try:
            self.send(say="failure", **failure)
        except OSError:  # the guard is gone: the program prints the traceback by itself
            return False
        return self._shown.wait(2.0)


_channel: Channel | None = None
_leaving = False


def channel() -> Channel | None:
    """The way to the guard; None in a program that no guard has started."""
    return _channel


def is_leaving() -> bool:
    """Whether this program ends by a failure: the launcher ends the other ranks, not MPI."""
    return _leaving


def watch_failure() -> tuple[Callable[[], bool], Callable[[], None]]:
    """Functions: whether an error has ended the program since now; and to watch no more."""
    failed: list[bool] = []
    shown = sys.excepthook

    def note(kind: Any, error: Any, traceback: Any) -> None:
        failed.append(True)
        shown(kind, error, traceback)

    def undo() -> None:
        if sys.excepthook is note:
            sys.excepthook = shown

    sys.excepthook = note
    return lambda: bool(failed), undo


def begin() -> None:
    """Open the channel that the guard has left, and report uncaught errors through it."""
    global _channel
    fd, stacks = map(int, os.environ.pop("WEND_LAUNCH_CHANNEL").split(","))
    os.set_inheritable(fd, False)
    os.set_inheritable(stacks, False)
    _channel = Channel(fd, stacks)
    faulthandler.enable(file=stacks)
    faulthandler.register(_DUMP_SIGNAL, file=stacks, all_threads=True)
    for body in (_channel.listen, _note_lines):
        threading.Thread(target=body, name=f"wend launch: {body.__name__}", daemon=True).start()
    own = os.getpid()
    shown_before = sys.excepthook

    def tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if os.getpid() != own or _channel is None:
            shown_before(kind, error, trace)
            return
        failure = _failure_of(kind, error, trace)
        if not _channel.fail(**failure):
            shown_before(kind, error, trace)
        _leave(130 if issubclass(kind, KeyboardInterrupt) else 1)

    sys.excepthook = tell


def leave_by(program: Callable[[], int]) -> int:
    """Run the program; an exit with a status other than 0 waits for no other rank.

    Python's own way out ends MPI, which waits for ranks that may wait for this rank.
    """
    own = os.getpid()
    try:
        status = program()
    except SystemExit as left:
        if os.getpid() != own:
            raise
        status = _status_of(left.code)
        if status == 0:
            raise
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)
        if _channel is not None:
            where = _line_of(left.__traceback__)
            _channel.fail(error=f"the program called sys.exit({left.code!r})", line=where, text="")
        _leave(status)
    if status:
        _leave(status)
    return status


def _status_of(code: object) -> int:
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else 1


def _failure_of(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> dict[str, Any]:
    lines = traceback.format_exception(kind, error, trace)
    return {
        "error": traceback.format_exception_only(kind, error)[0].strip(),
        "line": _line_of(trace),
        "text": "".join(lines),
        "time": time.time(),
        "follows": bool(getattr(error, "from_another_rank", False)),
    }


def _leave(status: int) -> NoReturn:
    """End the process: functions of atexit run, within a few seconds, and MPI is not ended."""

    global _leaving
    _leaving = True

    def end() -> None:
        time.sleep(_EXIT_SECONDS)
        os._exit(status)

    threading.Thread(target=end, daemon=True).start()
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _line_of(trace: TracebackType | None) -> str:
    """The innermost line of the user's in a traceback: "train.py:34 in step"."""
    users_line = last = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        last = _named(code.co_filename, trace.tb_lineno, code.co_qualname)
        if is_users(code.co_filename):
            users_line = last
        trace = trace.tb_next
    return users_line or last


def line_of_frame(frame: FrameType | None) -> str:
    """The innermost line of the user's on a running stack; "" if there is none."""
    while frame is not None:
        code = frame.f_code
        if is_users(code.co_filename):
            return _named(code.co_filename, frame.f_lineno, code.co_qualname)
        frame = frame.f_back
    return ""


def _named(path: str, line: int | None, function: str) -> str:
    relative = os.path.relpath(path)
    return f"{path if relative.startswith('..') else relative}:{line} in {function}"


def is_users(path: str) -> bool:
    """Whether a file is the program's own: not of Wend, Python or an installed package."""
    if path.startswith("<") or "site-packages" in path:
        return False
    return not path.startswith((_OURS, _LIBRARY))


def is_wends(path: str) -> bool:
    """Whether a file belongs to Wend."""
    return path.startswith(_OURS)


def _note_lines() -> None:
    """Keep the main thread's line where the guard finds it after a SIGKILL."""
    main = threading.main_thread().ident or 0
    before = ""
    while _channel is not None:
        line = line_of_frame(sys._current_frames().get(main))
        if line and line != before:
            before = line
            text = line.encode()[: _SEEN_BYTES - 1]
            os.pwrite(_channel.stacks, text.ljust(_SEEN_BYTES, b"\0"), 0)
        time.sleep(_SEEN_SECONDS)
