"""A fixture of all tests of workers: they must leave nothing behind."""

import gc
import os
import time

import pytest


def left_behind():
    """Open descriptors and names of shared memory, where the system shows them."""
    found = [len(os.listdir("/proc/self/fd"))] if os.path.isdir("/proc/self/fd") else []
    return found + (sorted(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else [])


@pytest.fixture
def no_leaks():
    """Fail if descriptors or shared memory are left behind."""
    gc.collect()
    before = left_behind()
    yield
    gc.collect()
    deadline = time.monotonic() + 5
    while left_behind() != before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left_behind() == before
