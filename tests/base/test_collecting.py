"""How long the cyclic garbage collector is held back."""

import gc

import pytest

from wend.base.collecting import OFTEN_ENOUGH, CollectionSeldom


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
