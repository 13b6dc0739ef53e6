"""How long threads are held back."""

import sys
import threading

import pytest

from wend._engine.base.switching import LONG, SwitchingSeldom


@pytest.fixture(autouse=True)
def interval():
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.001)
    yield
    sys.setswitchinterval(before)


def test_the_last_thread_out_restores_the_interval():
    with SwitchingSeldom():
        assert sys.getswitchinterval() == pytest.approx(LONG)
        with SwitchingSeldom():
            pass
        assert sys.getswitchinterval() == pytest.approx(LONG)
    assert sys.getswitchinterval() == pytest.approx(0.001)


def test_an_interval_set_meanwhile_stays():
    with SwitchingSeldom():
        sys.setswitchinterval(0.5)
    assert sys.getswitchinterval() == pytest.approx(0.5)


def test_a_thread_goes_on_inside():
    seen, stop = [], threading.Event()

    def busy():
        while not stop.is_set():
            seen.append(0)

    thread = threading.Thread(target=busy, daemon=True)
    thread.start()
    try:
        with SwitchingSeldom():
            first = len(seen)
            for _ in range(1000):
                assert len(seen) == first
    finally:
        stop.set()
        thread.join()
