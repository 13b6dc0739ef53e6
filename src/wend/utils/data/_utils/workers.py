"""Worker processes: the code that runs in a worker, and the pool in the main process.

Each worker has a pipe for tasks and a socket for results, shared with nobody: a killed worker holds
no lock that another needs, and the end of the socket tells at once.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import random
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from wend._engine.base.system import system
from wend.utils.data._utils import channel, info, seam
from wend.utils.data._utils.failure import Failure, WorkerDied
from wend.utils.data._utils.fetch import MapFetcher, Stopped, StreamEnd, StreamFetcher, make_fetcher

GRACE = 5.0  # seconds that a worker has to finish a sample before the worker is made to end
PARENT_CHECK = 2.0  # seconds between looks for the main process, where no pipe's end tells

# The main process's ends of all pipes. A forked worker inherits those of its elder siblings, and
# would keep them from seeing the main process end.
_own_ends: weakref.WeakSet[Connection] = weakref.WeakSet()


@dataclass
class Job:
    """The facts that every worker of a pool gets at its start."""

    dataset: Any
    stream: bool
    batched: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    init: Callable[[int], Any] | None
    count: int
    seed: int
    parent: int


# --- in the worker -------------------------------------------------------------


class _Inbox:
    """Reads tasks in a thread, so that the main process can always write, and its end is seen."""

    def __init__(self, tasks: Connection, parent: int) -> None:
        self.tasks, self.parent = tasks, parent
        # Not so for a worker of a fork server; the pipe's end has to do there.
        self.is_child = hasattr(os, "getppid") and os.getppid() == parent
        self.waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.epoch = 0
        self.stopping = False
        threading.Thread(target=self._read, daemon=True, name="wend-tasks").start()

    def _read(self) -> None:
        while True:
            try:
                while not self.tasks.poll(PARENT_CHECK):
                    if self.is_child and os.getppid() != self.parent:
                        raise EOFError
                task = self.tasks.recv()
            except (EOFError, OSError):  # the parent process is gone: the worker ends
                os._exit(1)  # the main process is gone, and with it whoever wants the results
            if task is None:
                self.stopping = True
            elif task[0] == "epoch":
                self.epoch = task[1]  # seen at once: batches of the epoch before are unwanted
            self.waiting.put(task)
            if task is None:
                return


def run(number: int, job: Job, tasks: Connection, results: Connection, spawned: bool) -> None:
    """Be worker ``number`` until told to stop."""
    if not spawned:
        for end in list(_own_ends):
            end.close()
    # Ctrl-C goes to all processes of the terminal; the main process decides about this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A handler that the main process installed is not for workers.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    inbox = _Inbox(tasks, job.parent)
    worker = _Worker(number, job, inbox, results)
    # The results are wanted no more: a quiet end.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        worker.serve()


class _Worker:
    def __init__(self, number: int, job: Job, inbox: _Inbox, results: Connection) -> None:
        self.number, self.job, self.inbox, self.results = number, job, inbox, results
        self.epoch = 0
        self.fetcher: MapFetcher | StreamFetcher | None = None
        self.broken: Failure | None = None

    def place(self, doing: str) -> str:
        return f"DataLoader worker {self.number} (pid {os.getpid()}), {doing}"

    def serve(self) -> None:
        """Answer tasks, in order."""
        self._begin()
        while (task := self.inbox.waiting.get()) is not None:
            if task[0] == "epoch":
                self.epoch, self.fetcher = task[1], None
                continue
            _, epoch, ticket, request = task
            if epoch != self.inbox.epoch:
                continue
            try:
                self._answer(ticket, request)
            except Stopped:  # the pass was stopped by the parent
                continue

    def _begin(self) -> None:
        seed = (self.job.seed + self.number) % 2**63
        random.seed(seed)
        words = np.random.SeedSequence([self.job.seed, self.number]).generate_state(4)
        np.random.seed(words)
        seam.seed_default(seed)
        info.current = info.WorkerInfo(
            id=self.number, num_workers=self.job.count, seed=seed, dataset=self.job.dataset
        )
        try:
            if self.job.init is not None:
                self.job.init(self.number)
        except Exception as error:  # a user's error in a worker: it is raised in the parent
            self.broken = Failure.of(error, self.place("in worker_init_fn"))

    def _unwanted(self) -> bool:
        return self.inbox.stopping or self.epoch != self.inbox.epoch

    def _answer(self, ticket: int, request: Any) -> None:
        if self.broken is not None:
            self._send("failure", ticket, self.broken)
            return
        try:
            if self.fetcher is None:
                job = self.job
                self.fetcher = make_fetcher(
                    job.dataset, job.stream, job.batched, job.collate_fn, job.drop_last,
                    self._unwanted,
                )  # fmt: skip
            batch = self.fetcher.fetch(request)
        except StreamEnd:
            # A user's error in a worker, or the end of its stream: raised or told in the parent.
            self._send("end", ticket, None)
        except Stopped:
            raise
        except Exception as error:
            # A user's error in a worker, or the end of its stream: raised or told in the parent.
            self._send("failure", ticket, Failure.of(error, self.place(self._doing(request))))
        else:
            self._send_batch(ticket, request, batch)

    def _doing(self, request: Any) -> str:
        if self.job.stream:
            return "reading its stream"
        return f"fetching dataset{request if isinstance(request, list) else [request]}"[:200]

    def _send_batch(self, ticket: int, request: Any, batch: object) -> None:
        try:
            self._send("batch", ticket, batch)
        except (BrokenPipeError, ConnectionResetError):
            raise
        except Exception as error:  # a batch that cannot be sent: raised in the parent
            doing = f"sending the batch of {self._doing(request).removeprefix('fetching ')}"
            self._send("failure", ticket, Failure.of(error, self.place(doing)))

    def _send(self, kind: str, ticket: int, value: object) -> None:
        channel.send(self.results, (kind, self.epoch, ticket, value))


# --- in the main process -------------------------------------------------------


@dataclass
class _Handle:
    process: BaseProcess
    tasks: Connection
    results: Connection


class Pool:
    """Started workers. ``close`` ends them; so does the end of the pool."""

    def __init__(self, job: Job, context: BaseContext) -> None:
        self.owner = os.getpid()
        self.handles: list[_Handle] = []
        self.closed = False
        self.epoch = 0  # of the pass that the workers serve
        self._closer = weakref.finalize(self, _end_all, self.handles, self.owner)
        try:
            for number in range(job.count):
                self.handles.append(_start(number, job, context))
        except BaseException:
            self.close()
            raise

    def send(self, number: int, task: tuple[Any, ...]) -> None:
        """Give a worker a task. Raises WorkerDied if the worker is no more."""
        try:
            self.handles[number].tasks.send(task)
        except (BrokenPipeError, ConnectionResetError):
            raise self._obituary(number) from None

    def receive(self, timeout: float | None) -> list[tuple[int, Any]] | None:
        """Return (worker, message) of all workers with a message, waiting for the first.

        Returns None after ``timeout`` seconds. Raises WorkerDied if a worker is no more.
        """
        sources: dict[Any, int] = {h.results: n for n, h in enumerate(self.handles)}
        ends: dict[Any, int] = {h.process.sentinel: n for n, h in enumerate(self.handles)}
        ready = wait([*sources, *ends], timeout)
        if not ready:
            return None
        messages = []
        for source in ready:
            if source in sources:
                number = sources[source]
                try:
                    messages.append((number, channel.receive(self.handles[number].results)))
                except (EOFError, OSError) as error:
                    self.handles[number].process.join(1.0)
                    if self.handles[number].process.is_alive():
                        raise
                    raise self._obituary(number) from error
        if not messages:
            # All messages sent by a worker before its end have been read by now.
            raise self._obituary(ends[ready[0]])
        return messages

    def _obituary(self, number: int) -> WorkerDied:
        process = self.handles[number].process
        process.join(1.0)
        return WorkerDied(
            f"DataLoader: worker {number} (pid {process.pid}) {_cause(process.exitcode)}; "
            "num_workers=0 runs the data set in the main process, where a debugger can see it"
        )

    def close(self) -> None:
        """End all workers: working workers are given time to finish a sample."""
        self.closed = True
        self._closer()


def _start(number: int, job: Job, context: Any) -> _Handle:
    task_end, tasks = context.Pipe(duplex=False)
    results, result_end = context.Pipe(duplex=True)  # a socket: descriptors go through it
    _own_ends.update((tasks, results))
    spawned = context.get_start_method() != "fork"
    process = context.Process(
        target=run,
        args=(number, job, task_end, result_end, spawned),
        daemon=True,
        name=f"wend-data-{number}",
    )
    try:
        process.start()
    except BaseException as error:
        tasks.close()
        results.close()
        if spawned and isinstance(error, (AttributeError, TypeError, pickle.PicklingError)):
            error.add_note(
                "DataLoader: processes that are not forked get the data set, collate_fn and "
                "worker_init_fn by pickle; define them at the top level of a module"
            )
        raise
    finally:
        # Only the worker holds these ends now: if the worker ends, so do they.
        task_end.close()
        result_end.close()
    return _Handle(process, tasks, results)


def _end_all(handles: list[_Handle], owner: int) -> None:
    if os.getpid() != owner:  # a forked process, whose copies of the handles belong to the parent
        return
    for handle in handles:
        with contextlib.suppress(OSError):
            handle.tasks.send(None)
        handle.results.close()  # a worker that waits to write here stops waiting
    deadline = time.monotonic() + GRACE
    _join(handles, deadline)
    for handle in handles:
        if handle.process.is_alive():
            handle.process.terminate()
    _join(handles, time.monotonic() + GRACE)
    for handle in handles:
        if handle.process.is_alive():
            handle.process.kill()
            handle.process.join()
        handle.tasks.close()
    handles.clear()


def _join(handles: Iterable[_Handle], deadline: float) -> None:
    for handle in handles:
        handle.process.join(max(0.0, deadline - time.monotonic()))


def _cause(code: int | None) -> str:
    if code is None:
        return "closed its connection"
    if code >= 0:
        return f"ended with exit status {code} before its work was done"
    name = system.cause_of_death(code)
    hint = {
        "SIGKILL": " (the system does that when memory runs out)",
        "SIGSEGV": " (a native library crashed; python -X faulthandler shows where)",
        "SIGBUS": " (a native library crashed, or a memory-mapped file was cut short)",
    }.get(name, "")
    return f"was killed by {name}{hint}"
