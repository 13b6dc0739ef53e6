"""Fixtures of the tests of the runtime."""

import pytest

from wend._engine.runtime.batching import signatures


@pytest.fixture(autouse=True)
def regions_are_looked_for(monkeypatch):
    """Whatever the tests before have met: where most structure has been new, looking pauses."""
    for book in (signatures.BOOK, signatures.SINGLES):
        monkeypatch.setattr(book, "pause", 0)
        monkeypatch.setattr(book, "strikes", 0)
        monkeypatch.setattr(book, "next_pause", signatures.PAUSE)
