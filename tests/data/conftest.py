"""Data sets and helpers that the tests of data loading share."""

import os
import time

import pytest

from wend.utils.data import Dataset


class Squares(Dataset):
    """Sample i is i * i; some indices do something else, to try the loader."""

    def __init__(self, count, do=None):
        self.count = count
        self.do = do or {}

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index in self.do:
            self.do[index]()
        return index * index


@pytest.fixture
def no_leaks():
    """Fail if descriptors, child processes or shared memory are left behind."""
    before = descriptors(), shared_files()
    yield
    deadline = time.monotonic() + 5
    while (descriptors(), shared_files()) != before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert (descriptors(), shared_files()) == before


def descriptors():
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def shared_files():
    return sorted(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else []
