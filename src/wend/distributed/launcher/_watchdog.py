"""A thread in each rank that sees collectives without progress, and ends the wait with an error.

Under `wend launch` all ranks are asked, and the launcher makes a report of the answers. Under a
bare `mpirun` each rank prints a report alone.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
import traceback
from types import FrameType
from typing import Any, Final, NoReturn

from wend._engine.base.errors import ArgumentError
from wend.distributed.launcher import _rank

_LOOKS_PER_TIMEOUT: Final = 20
_MOST_SECONDS: Final = 5.0  # between two looks
_RAISE_SECONDS: Final = 1.0  # for the main thread to take the error
_RAISE_SIGNAL: Final = signal.SIGRTMIN + 10
_DEFAULT: Final = 1800.0

_lock = threading.Lock()
_thread: threading.Thread | None = None
_fault: BaseException | None = None


def begin() -> None:
    """Start the watch, once in a process; the main thread must call."""
    global _thread
    with _lock:
        if _thread is not None and _thread.is_alive():
            return
        timeout_of("default")  # tells a wrong setting here
        channel = _rank.channel()
        if channel is not None and hear not in channel.listeners:
            channel.listeners.append(hear)
        if threading.current_thread() is threading.main_thread():
            signal.signal(_RAISE_SIGNAL, _raise)
        _thread = threading.Thread(target=_watch, name="watch of collectives", daemon=True)
        _thread.start()


def _raise(number: int, frame: FrameType | None) -> None:
    """Runs in the main thread, between two steps of the program."""
    global _fault
    fault, _fault = _fault, None
    if fault is not None:
        raise fault


def timeout_of(group: str) -> float:
    """Seconds without progress that are too many in a group; infinity if there is no limit."""
    setting = os.environ.get("WEND_DISTRIBUTED_TIMEOUT")
    if setting is not None:
        try:
            return float(setting) or math.inf
        except ValueError:
            raise ArgumentError(
                f"WEND_DISTRIBUTED_TIMEOUT: {setting!r} is no number of seconds (0 for no limit)"
            ) from None
    seconds: float = _DEFAULT
    groups = sys.modules.get("wend.distributed._group")
    for known in groups.state.groups if groups else ():
        if known.group_name == group:
            seconds = known.timeout.total_seconds()
    return seconds or math.inf


def _pending() -> list[Any]:
    engine = sys.modules.get("wend.distributed._engine")
    return engine.pending() if engine is not None else []


def waits() -> list[str]:
    """The collectives under way, each as a line of a report."""
    lines = []
    for entry in _pending():
        state = "" if entry.running else ", behind others"
        number = f"collective {entry.number}" if entry.number else "message"
        lines.append(
            f"{number} of group {entry.group!r}: {entry.name}, "
            f"for {entry.seconds:.1f} s{state}, at {entry.line}"
        )
    return lines


def _main_stack() -> list[FrameType]:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


def stack_text() -> str:
    """The main thread's stack, without the frames that start the program and those inside Wend."""
    stack = _main_stack()
    users = [k for k, f in enumerate(stack) if _rank.is_users(f.f_code.co_filename)]
    if not users:
        return "  outside of the program: at its start, or at its end, which waits for all ranks\n"
    lines = traceback.format_stack(stack[users[-1]])
    first, end = users[0], users[-1] + 1
    shown = [not _rank.is_wends(frame.f_code.co_filename) for frame in stack[first:end]]
    return "".join(line for line, is_shown in zip(lines[first:], shown, strict=True) if is_shown)


def report() -> dict[str, Any]:
    """A report of this rank: collectives under way, and the main thread's stack."""
    line = _rank.line_of_frame(_main_stack()[-1])
    return {"waits": waits(), "stack": stack_text(), "line": line}


def _watch() -> None:
    """Look for a wait that has become too long: the body of the thread."""
    since: dict[Any, float] = {}
    while True:
        now = time.monotonic()
        current = {(e.group, e.number, e.name): e for e in _waited_for()}
        since = {key: since.get(key, now) for key in current}
        limits = [timeout_of(group) for group, _, _ in since] or [timeout_of("default")]
        for (key, begun), limit in zip(since.items(), limits, strict=False):
            if now - begun > limit:
                _tell(current[key], now - begun, limit)
                return
        time.sleep(min(_MOST_SECONDS, max(0.05, min(limits) / _LOOKS_PER_TIMEOUT)))


def _waited_for() -> list[Any]:
    """Collectives whose turn it is, and messages if the main thread waits for a message."""
    entries = [entry for entry in _pending() if entry.running]
    if any(frame.f_code.co_name == "_await_message" for frame in _main_stack()):
        return entries
    return [entry for entry in entries if entry.number]


def _tell(entry: object, seconds: float, limit: float) -> None:
    channel = _rank.channel()
    told = {**report(), "seconds": seconds, "timeout": limit}
    if channel is not None:
        try:
            channel.send(say="stuck", **told)
            return  # the launcher answers with `give_up`
        except OSError:  # the launcher is gone: the rank prints its report by itself
            pass
    rank = os.environ.get("RANK") or os.environ.get("OMPI_COMM_WORLD_RANK", "?")
    text = "\n  ".join(told["waits"])
    print(
        f"wend: rank {rank}: no progress for {seconds:.0f} s (timeout of {limit:.0f} s)\n  {text}\n"
        f"{told['stack']}",
        file=sys.stderr,
        flush=True,
    )
    give_up()


def hear(message: dict[str, Any]) -> None:
    """Answer the launcher, who asks for a report, or says that the wait is given up."""
    channel = _rank.channel()
    if channel is None:
        return
    if message["say"] == "report":
        channel.send(say="report", **report())
    elif message["say"] == "give_up":
        threading.Thread(target=give_up, daemon=True).start()


def give_up() -> None:
    """Raise the error in the main thread; a main thread within MPI cannot, and is ended.

    The error is a DistBackendError, as PyTorch's, and names the collective that did not end.
    """
    global _fault
    fault = _error()
    _fault = fault
    if not _is_within_mpi():
        signal.pthread_kill(threading.main_thread().ident or 0, _RAISE_SIGNAL)
        time.sleep(_RAISE_SECONDS)
    if _fault is not None:
        _end(fault)


def _error() -> Exception:
    from wend.distributed._wire._faults import DistBackendError

    lines = waits()
    if lines:
        return DistBackendError(
            f"no progress in {lines[0]}: another rank has not called, or is late"
        )
    return DistBackendError("other ranks wait for a collective that this rank has not called")


def _is_within_mpi() -> bool:
    stack = _main_stack()
    return bool(stack) and os.path.basename(stack[-1].f_code.co_filename) == "_mpi.py"


def _end(fault: BaseException) -> NoReturn:
    channel = _rank.channel()
    line = _rank.line_of_frame(_main_stack()[-1])
    error = traceback.format_exception_only(fault)[0].strip()
    if channel is None or not channel.fail(error=error, line=line, text="", follows=False):
        print(f"wend: {error}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(1)
