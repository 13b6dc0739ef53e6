"""What the tests of the core and of what runs its flushes share."""

import gc

import pytest

from wend.runtime import structure
from wend.transforms import hooks


@pytest.fixture(autouse=True)
def whatever_the_tests_before_have_left(monkeypatch):
    """Regions are looked for, which pauses where most structure has been new.

    No tensor retains its gradient: some wait for the collector, and flushes of which something is
    differentiated later are not run by groups as long as there are any.
    """
    if hooks.retaining():
        gc.collect()
    for book in (structure.BOOK, structure.SINGLES):
        monkeypatch.setattr(book, "pause", 0)
        monkeypatch.setattr(book, "strikes", 0)
        monkeypatch.setattr(book, "next_pause", structure.PAUSE)
