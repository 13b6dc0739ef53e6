"""A fixture of all tests of workers: they must leave nothing behind."""

import gc
import os
import time

import pytest


def left_behind():
    """Open descriptors and names of shared memory, where the system shows them."""
    found = [len(os.listdir("/proc/self/fd"))] if os.path.isdir("/proc/self/fd") else []
    if not os.path.isdir("/dev/shm"):
        return found
    # Semaphores of other processes (tests run side by side) come and go.
    return found + sorted(name for name in os.listdir("/dev/shm") if not name.startswith("sem."))


@pytest.fixture
def no_leaks():
    """Fail if descriptors or shared memory are left behind."""
    gc.collect()
    before = settled()
    yield
    gc.collect()
    deadline = time.monotonic() + 5
    while left_behind() != before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left_behind() == before


def settled():
    """What is left behind, once workers of earlier tests have closed theirs: no change for 0.1 s."""
    found = [left_behind()]
    deadline = time.monotonic() + 5
    while len(found) < 6 or any(x != found[-1] for x in found[-6:]):
        assert time.monotonic() < deadline, f"descriptors come and go: {found[-6:]}"
        time.sleep(0.02)
        found.append(left_behind())
    return found[-1]
