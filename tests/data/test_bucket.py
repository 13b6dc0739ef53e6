"""BucketBatchSampler, over random keys, shapes and batch sizes."""

import bisect
import copy
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wend
from wend.utils.data import BucketBatchSampler, DataLoader

KEYS = st.lists(st.one_of(st.integers(0, 4), st.text("ab", max_size=1), st.none()), max_size=60)
SIZES = st.integers(1, 9)
SEEDS = st.integers(0, 2**31)


def made(keys, size, **options):
    seed = options.pop("seed", None)
    if seed is not None:
        options["generator"] = wend.Generator().manual_seed(seed)
    return BucketBatchSampler(keys, size, key=list(keys), **options)


@given(KEYS, SIZES, st.booleans(), st.booleans(), SEEDS)
def test_batches_are_of_one_bucket_and_hold_every_sample_once(keys, size, shuffle, drop_last, seed):
    sampler = made(keys, size, shuffle=shuffle, drop_last=drop_last, seed=seed)
    for _ in range(2):
        batches = list(sampler)
        assert len(batches) == len(sampler)
        assert all(len({keys[i] for i in batch}) == 1 for batch in batches)
        assert all(1 <= len(batch) <= size for batch in batches)
        seen = Counter(i for batch in batches for i in batch)
        assert set(seen.values()) <= {1}
        missing = Counter(keys[i] for i in range(len(keys)) if i not in seen)
        if drop_last:
            assert all(len(batch) == size for batch in batches)
            assert missing == Counter({k: n % size for k, n in Counter(keys).items() if n % size})
        else:
            assert not missing
            # As few batches as can be: no bucket has two that are not full.
            partial = Counter(keys[b[0]] for b in batches if len(b) < size)
            assert set(partial.values()) <= {1}


@given(KEYS, SIZES)
def test_without_a_shuffle_the_order_is_kept(keys, size):
    batches = list(made(keys, size))
    assert batches == list(made(keys, size))
    for key in set(keys):
        flat = [i for batch in batches if keys[batch[0]] == key for i in batch]
        assert flat == sorted(flat)


@given(
    st.lists(st.floats(-50, 50), max_size=40),
    st.lists(st.integers(-40, 40), unique=True, max_size=6).map(sorted),
    SIZES,
)
def test_boundaries(keys, boundaries, size):
    for batch in made(keys, size, boundaries=boundaries):
        assert len({bisect.bisect_right(boundaries, keys[i]) for i in batch}) == 1


@given(KEYS, SIZES, st.booleans(), SEEDS, st.data())
def test_an_epoch_goes_on_where_it_stopped(keys, size, shuffle, seed, data):
    first = made(keys, size, shuffle=shuffle, seed=seed)
    stop = data.draw(st.integers(0, len(first)))
    running = iter(first)
    list(islice(running, stop))
    state = copy.deepcopy(first.state_dict())
    rest, following = list(running), list(first)
    second = made(keys, size, shuffle=shuffle, seed=seed + 1)
    second.load_state_dict(state)
    if 0 < stop < len(first):
        assert list(second) == rest
    elif stop == 0:
        assert len(list(second)) == len(first)
        return  # an epoch that nobody saw begin
    assert list(second) == following


def test_a_state_may_count_what_was_used_instead():
    sampler = made("aabb", 1, shuffle=True, seed=3)
    batches = list(sampler)
    state = sampler.state_dict(consumed=1)
    again = made("aabb", 1, shuffle=True, seed=9)
    again.load_state_dict(state)
    assert list(again) == batches[1:]
    with pytest.raises(ValueError, match="an epoch has 4 batches"):
        sampler.state_dict(consumed=5)


def test_shuffles_differ_between_epochs_and_seeds():
    sampler = made([0] * 40, 4, shuffle=True, seed=1)
    first, second = list(sampler), list(sampler)
    assert first != second
    assert list(made([0] * 40, 4, shuffle=True, seed=1)) == first
    assert list(made([0] * 40, 4, shuffle=True, seed=2)) != first


def test_batches_that_are_not_full_do_not_all_come_last():
    where = Counter()
    for seed in range(40):
        batches = list(made([0] * 9, 2, shuffle=True, seed=seed))
        where[[len(batch) for batch in batches].index(1)] += 1
    assert len(where) > 2


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=20),
    st.integers(1, 4),
    SEEDS,
)
def test_images_of_random_shapes_load_in_batches(shapes, size, seed):
    images = [(np.full((1, *shape), i, np.float32), i) for i, shape in enumerate(shapes)]
    sampler = BucketBatchSampler(
        images, size, shuffle=True, generator=wend.Generator().manual_seed(seed)
    )
    seen = []
    for batch, labels in DataLoader(images, batch_sampler=sampler):
        assert tuple(batch.shape) == (len(labels), 1, *shapes[labels[0].item()])
        assert batch[:, 0, 0, 0].tolist() == labels.tolist()
        seen += labels.tolist()
    assert sorted(seen) == list(range(len(shapes)))


def test_keys_by_function_sequence_array_and_tensor():
    data = ["a", "bb", "c"]
    for key in (len, [1, 2, 1], np.array([1, 2, 1]), wend.tensor([1, 2, 1]), (1, 2, 1)):
        assert sorted(BucketBatchSampler(data, 2, key)) == [[0, 2], [1]]


def test_batch_sizes_by_bucket():
    data = ["a"] * 4 + ["bb"] * 4
    for size in ({1: 4, 2: 2}, lambda length: 4 // length):
        assert sorted(BucketBatchSampler(data, size, len)) == [[0, 1, 2, 3], [4, 5], [6, 7]]
    with pytest.raises(ValueError, match="no entry for bucket 2"):
        BucketBatchSampler(data, {1: 4}, len)


def test_default_keys_are_the_shapes():
    data = [
        {"x": np.zeros(2), "y": "ab"},
        {"y": "c", "x": np.zeros(2)},
        {"x": np.zeros(3), "y": ""},
    ]
    assert list(BucketBatchSampler(data, 2)) == [[0, 1], [2]]


def test_an_empty_data_set_has_no_batches():
    sampler = BucketBatchSampler([], 3, shuffle=True)
    assert len(sampler) == 0
    assert list(sampler) == []


@pytest.mark.parametrize(
    ("options", "error", "fault"),
    [
        ({"batch_size": 0}, ValueError, "positive int, not 0"),
        ({"batch_size": 1.5}, ValueError, "positive int, not 1.5"),
        ({"batch_size": True}, ValueError, "positive int, not True"),
        ({"key": [1]}, ValueError, "1 keys were given for 2 samples"),
        ({"key": 3}, TypeError, "a function of a sample or a sequence"),
        ({"key": [[], []]}, TypeError, "sample 0 must be hashable"),
        ({"boundaries": [1, 1]}, ValueError, "ascending"),
        ({"boundaries": [float("nan"), 1]}, ValueError, "ascending"),
        ({"boundaries": [1], "key": ["x", 1]}, TypeError, "sample 0 must be a number"),
        ({"boundaries": [1], "key": [0, float("nan")]}, ValueError, "nan"),
    ],
)
def test_bad_arguments(options, error, fault):
    given_ = {"batch_size": 2, "key": [1, 2], **options}
    with pytest.raises(error, match=fault):
        BucketBatchSampler("ab", **given_)


def test_a_state_of_another_sampler_is_refused():
    state = made("aab", 2).state_dict()
    with pytest.raises(ValueError, match="samples was 3, is 4"):
        made("aabb", 2).load_state_dict(state)
    with pytest.raises(ValueError, match="shuffle was False, is True"):
        made("aab", 2, shuffle=True).load_state_dict(state)
