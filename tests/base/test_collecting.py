"""How long the cyclic garbage collector is held back."""

import gc
import os
import threading

import pytest

from wend._engine.base.collecting import OFTEN_ENOUGH, CollectionPaused, CollectionSeldom


@pytest.fixture(autouse=True)
def thresholds():
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    gc.collect()
    yield
    gc.set_threshold(*before)


def test_young_objects_are_looked_through_less_often_inside():
    with CollectionSeldom():
        assert gc.get_threshold() == (OFTEN_ENOUGH, 10, 10)
        with CollectionSeldom():
            assert gc.get_threshold() == (OFTEN_ENOUGH, 10, 10)
        assert gc.get_threshold() == (OFTEN_ENOUGH, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


def test_what_was_made_inside_is_left_to_the_next_collection():
    with CollectionSeldom():
        kept = [[] for _ in range(2000)]
    assert gc.get_threshold() == (OFTEN_ENOUGH, 10, 10)
    with CollectionSeldom():
        more = [[] for _ in range(2000)]
        gc.collect(0)
        assert gc.get_threshold() == (OFTEN_ENOUGH, 10, 10)
        more += [[] for _ in range(2000)]
    assert gc.get_threshold() == (OFTEN_ENOUGH, 10, 10)
    kept += [[] for _ in range(OFTEN_ENOUGH)]
    assert gc.get_threshold() == (700, 10, 10)
    del kept, more


def test_what_is_gone_again_needs_no_collection():
    with CollectionSeldom():
        kept = [[] for _ in range(2000)]
        del kept
    assert gc.get_threshold() == (700, 10, 10)


def test_a_threshold_set_meanwhile_stays():
    with CollectionSeldom():
        kept = [[] for _ in range(2000)]
        gc.set_threshold(900, 5, 5)
    assert gc.get_threshold() == (900, 5, 5)
    gc.collect(0)
    assert gc.get_threshold() == (900, 5, 5)
    del kept


def test_a_collector_without_a_threshold_is_left_alone():
    gc.set_threshold(0)
    with CollectionSeldom():
        assert gc.get_threshold()[0] == 0
    assert gc.get_threshold()[0] == 0


def test_the_thresholds_are_restored_after_an_error():
    with pytest.raises(KeyError), CollectionSeldom():
        raise KeyError
    assert gc.get_threshold() == (700, 10, 10)


def test_the_next_collection_is_put_off_once():
    CollectionSeldom.put_off()
    CollectionSeldom.put_off()
    assert gc.get_threshold() == (OFTEN_ENOUGH, 10, 10)
    with CollectionSeldom():
        kept = [[] for _ in range(2000)]
    assert gc.get_threshold() == (OFTEN_ENOUGH, 10, 10)
    gc.collect(0)
    assert gc.get_threshold() == (700, 10, 10)
    del kept


def test_a_pause_lasts_until_the_last_thread_is_out():
    """Two pauses that overlap, in whatever order they end."""
    for first_ends_first in (True, False):
        first, second = CollectionPaused(), CollectionPaused()
        ends = [first, second] if first_ends_first else [second, first]
        first.__enter__()
        entering = threading.Thread(target=second.__enter__)
        entering.start()
        entering.join()
        assert not gc.isenabled()
        ends[0].__exit__()
        assert not gc.isenabled()
        ends[1].__exit__()
        assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with CollectionPaused(), CollectionPaused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_pause_without_its_end_ends_with_the_object():
    pause = CollectionPaused()
    pause.__enter__()
    del pause
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_pauses_of_other_threads_end_in_a_child():
    entered, leave = threading.Event(), threading.Event()

    def pause():
        with CollectionPaused():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=pause)
    thread.start()
    entered.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if gc.isenabled() else 1)
    status = os.waitpid(child, 0)[1]
    leave.set()
    thread.join()
    assert status == 0
    assert gc.isenabled()
