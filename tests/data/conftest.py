"""A fixture of all tests of workers: they must leave nothing behind."""

import gc
import multiprocessing
import os
import time

import pytest


def left_behind():
    """Open descriptors and names of shared memory, where the system shows them."""
    found = [len(os.listdir("/proc/self/fd"))] if os.path.isdir("/proc/self/fd") else []
    if not os.path.isdir("/dev/shm"):
        return found
    # Semaphores and MPI's memory of other processes (tests run side by side) come and go.
    others = ("sem.", "sm_segment.")
    return found + sorted(name for name in os.listdir("/dev/shm") if not name.startswith(others))


@pytest.fixture
def no_leaks():
    """Fail if descriptors or shared memory are left behind."""
    gc.collect()
    multiprocessing.active_children()  # closes the descriptors of processes that have ended
    before = left_behind()
    yield
    gc.collect()
    deadline = time.monotonic() + 5
    while left_behind() != before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left_behind() == before
