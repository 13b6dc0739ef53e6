"""A sync across threads and forks: whoever needs a pending value gets it, from whatever trace."""

from __future__ import annotations

import os
import random
import sys
import threading
import time

import pytest
from disabling import run_python

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.core import _hot
from wend._engine.core._select import is_compiled
from wend._engine.runtime.native import _launch


def in_thread(function):
    """What `function` returns, or raises, in a thread of its own."""
    found = []

    def run() -> None:
        try:
            found.append(function())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


# -- a thread that reads another's pending value --------------------------------------------


def test_another_thread_reads_a_pending_value():
    """Disabled: a pending value does not know its trace, so that nobody else can flush that."""
    x = torch.ones(3) * 2.0
    assert in_thread(lambda: (x + 1.0).tolist()) == [3.0] * 3
    assert x.tolist() == [2.0] * 3

    x = torch.ones(3) * 2.0
    x.value.trace = None
    lost = in_thread(lambda: (x + 1.0).tolist())
    assert isinstance(lost, RuntimeError)
    assert "a value was lost" in str(lost)


def entries_of(x, forget: bool, ended: bool = False) -> int:
    """How often `x` enters this thread's path if another thread uses it in between.

    ended: the other thread has come to its end before this one goes on
    """
    used, done = threading.Event(), threading.Event()

    def use() -> None:
        (x + 1.0).tolist()
        used.set()
        done.wait()

    with own_trie():
        trace = _hot.current_trace()
        a = x * 2.0
        thread = threading.Thread(target=use)
        thread.start()
        used.wait()
        if ended:
            done.set()
            thread.join()
        if forget:
            trace.foreign = {}
        b = x * 3.0
        done.set()
        thread.join()
        count = sum(state.prim.name == "leaf" for state in trace.states)
        assert (a.tolist(), b.tolist()) == ([2.0] * 3, [3.0] * 3)
    return count


def test_what_other_threads_do_is_no_part_of_the_path():
    """Disabled: a thread forgets what it had entered of the values that others use too.

    Its path then depends on when they use them.
    """
    x = torch.ones(3)
    x.tolist()
    assert entries_of(x, forget=False) == 1
    assert entries_of(x, forget=False, ended=True) == 1
    assert entries_of(x, forget=True) == 2


def test_threads_record_side_by_side():
    shared = torch.ones(8)
    results: dict[int, float] = {}

    def work(k: int) -> None:
        total = torch.zeros(8)
        for i in range(200):
            total = total + shared * float(k)
            if i % 17 == k:
                total.sum().item()
        results[k] = total.sum().item()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {k: 8.0 * 200 * k for k in range(6)}


def test_threads_compute_side_by_side_where_no_path_comes_back():
    """Disabled: groups of ops fill tables and argument blocks that all threads' flushes use."""
    shared = torch.ones(8)
    results: dict[int, tuple[float, float]] = {}

    def work(k: int) -> None:
        draw = random.Random(k)
        total, expected = torch.zeros(8), 0.0
        for _ in range(400):
            number = float(draw.randrange(1, 5))
            if draw.random() < 0.5:
                total, expected = total + shared * number, expected + number
            else:
                total, expected = shared * number - total, number - expected
            if draw.random() < 0.1:
                total.sum().item()
        results[k] = total.sum().item(), 8.0 * expected

    interval = sys.getswitchinterval()
    with own_trie():
        for _ in range(40):  # structure does not come back: groups get their code
            x = shared
            for _ in range(random.randrange(3, 40)):
                x = x + 1.0 if random.random() < 0.5 else x * 0.5
            x.sum().item()
        sys.setswitchinterval(1e-5)
        try:
            threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        finally:
            sys.setswitchinterval(interval)
    assert [a for a, _ in results.values()] == [b for _, b in results.values()]
    assert len(results) == 6


@pytest.mark.skipif(is_compiled(_launch), reason="compiled, no other thread gets a turn in between")
def test_memory_of_a_run_is_given_back_before_others_may_run(monkeypatch):
    """Disabled: the next run's memory is let go of, and is written to by whoever gets it."""
    frames, early = [], []

    class Arenas(list):
        def append(self, arena):
            early.extend(frame for frame in frames if not frame.busy or frame.arena is not None)
            super().append(arena)

    def take(frame):
        frames.append(frame)
        return take_arena(frame)

    take_arena = _launch.take_arena
    monkeypatch.setattr(_launch, "take_arena", take)
    monkeypatch.setattr(_launch, "ARENAS", Arenas())
    x = torch.ones(64, 64)
    with own_trie(), config.override(wait=True):
        for _ in range(3):
            y = (x @ x).softmax(1) @ x
            assert y.sum().item() == pytest.approx(64 * 64)
    assert frames and not early


# -- forks ----------------------------------------------------------------------------------

FORK = """
import logging, os, random, sys, threading, time
import numpy as np

if "unprepared" in sys.argv:
    real, os.register_at_fork = os.register_at_fork, lambda **handlers: None
import wend as torch
from wend._engine.core import _hot
if "unprepared" in sys.argv:
    os.register_at_fork = real

def child_prints(function):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            print(function(), flush=True)
        finally:
            os._exit(0)
    deadline = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    print("the child hangs")

executed = []
execute = _hot.slot("execute")
in_flush = threading.Event()

def spy(batch, live):
    executed.append(os.getpid())
    if threading.current_thread() is not threading.main_thread():
        in_flush.set()
        time.sleep(0.3)
    execute(batch, live)

_hot.set_slot("execute", spy)
"""

WORK_PENDING = (
    FORK
    + """
y = torch.ones(3) * 2.0 + 1.0
child_prints(lambda: (y.tolist(), len(executed), executed.count(os.getpid())))
print((y.tolist(), len(executed)))
"""
)

FLUSH_UNDER_WAY = (
    FORK
    + """
made = []

def work():
    made.append(torch.ones(3) * 2.0)
    made[0].tolist()

thread = threading.Thread(target=work)
thread.start()
in_flush.wait()
child_prints(lambda: (made[0] + 1.0).tolist())
thread.join()
print(made[0].tolist())
"""
)


def forked(program: str, how: str, patience: float) -> list[str]:
    """What child and parent print."""
    done = run_python(program, how, str(patience))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@needs_fork
def test_fork_with_work_pending():
    """Disabled: the handlers that the core registers for forks.

    What is pending is computed before the fork. Without that each child computes it again.
    """
    values = [3.0, 3.0, 3.0]
    child, parent = forked(WORK_PENDING, "prepared", 30)
    assert (child, parent) == (str((values, 1, 0)), str((values, 1)))
    child, parent = forked(WORK_PENDING, "unprepared", 30)
    assert (child, parent) == (str((values, 1, 1)), str((values, 1)))


@needs_fork
def test_fork_while_another_thread_is_in_a_flush():
    """Disabled: the handlers for forks.

    The fork waits until the flush is over. Without that the child waits for ever, for the lock of
    a thread that it does not have.
    """
    right = [str([3.0] * 3), str([2.0] * 3)]
    assert forked(FLUSH_UNDER_WAY, "prepared", 30) == right
    assert forked(FLUSH_UNDER_WAY, "unprepared", 3) == ["the child hangs", right[1]]


def in_child(function) -> int:
    """Exit code of `function` run in a forked child: 0 if it returned True."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if function() else 2
        finally:
            sys.stdout.flush()
            os._exit(code)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return 99


@needs_fork
def test_the_child_goes_on_with_what_was_pending():
    x = torch.ones(3) * 2.0
    y = x + 1.0
    assert in_child(lambda: (y * 2.0).tolist() == [6.0, 6.0, 6.0]) == 0
    assert y.tolist() == [3.0, 3.0, 3.0]


@needs_fork
def test_fork_while_other_threads_record_and_flush():
    stop = threading.Event()

    def work() -> None:
        total = torch.zeros(4)
        while not stop.is_set():
            total = total + 1.0
            total.sum().item()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        for _ in range(5):
            assert in_child(lambda: (torch.ones(2) + 1.0).tolist() == [2.0, 2.0]) == 0
    finally:
        stop.set()
        for t in threads:
            t.join()


@needs_fork
def test_grad_mode_survives_the_fork():
    with torch.no_grad():
        assert in_child(lambda: not torch.is_grad_enabled()) == 0
