"""Forks: a child never goes on with a trace, a lock or a thread of its parent."""

from __future__ import annotations

import os
import sys
import threading
import time

import pytest

import wend as torch

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


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


def test_fork_with_work_pending():
    x = torch.ones(3) * 2.0
    y = x + 1.0
    assert in_child(lambda: (y * 2.0).tolist() == [6.0, 6.0, 6.0]) == 0
    assert y.tolist() == [3.0, 3.0, 3.0]


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


def test_grad_mode_survives_the_fork():
    with torch.no_grad():
        assert in_child(lambda: not torch.is_grad_enabled()) == 0
