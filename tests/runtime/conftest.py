"""Fixtures of the tests of the runtime."""

import pytest

from wend.runtime.batching import signatures as structure


@pytest.fixture(autouse=True)
def regions_are_looked_for(monkeypatch):
    """Whatever the tests before have met: where most structure has been new, looking pauses."""
    for book in (structure.BOOK, structure.SINGLES):
        monkeypatch.setattr(book, "pause", 0)
        monkeypatch.setattr(book, "strikes", 0)
        monkeypatch.setattr(book, "next_pause", structure.PAUSE)
