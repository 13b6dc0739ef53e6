"""Samplers: orders, weights, and lists of indices."""

import collections

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wend
from wend.utils.data import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

SEEDS = st.integers(0, 2**31)


def seeded(seed):
    return wend.Generator().manual_seed(seed)


def test_sequential():
    assert list(SequentialSampler("abc")) == [0, 1, 2]
    assert len(SequentialSampler("abc")) == 3
    assert list(SequentialSampler("")) == []


def test_a_sampler_without_an_order_says_so():
    with pytest.raises(NotImplementedError, match=r"Sampler\.__iter__"):
        iter(Sampler())
    assert isinstance(Sampler("data"), Sampler)


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(1, 500), SEEDS)
def test_random_without_replacement_is_even(count, wanted, seed):
    sampler = RandomSampler(range(count), num_samples=wanted, generator=seeded(seed))
    drawn = list(sampler)
    assert len(drawn) == len(sampler) == wanted
    often = collections.Counter(drawn)
    assert set(often) <= set(range(count))
    assert set(often.values()) <= {wanted // count, wanted // count + 1}


@settings(deadline=None)
@given(st.integers(1, 50), st.integers(1, 3000), SEEDS)
def test_random_with_replacement(count, wanted, seed):
    drawn = list(RandomSampler(range(count), True, wanted, seeded(seed)))
    assert len(drawn) == wanted
    assert set(drawn) <= set(range(count))


def test_random_epochs_differ_and_seeds_repeat_them():
    sampler = RandomSampler(range(50), generator=seeded(1))
    first, second = list(sampler), list(sampler)
    assert first != second
    assert list(RandomSampler(range(50), generator=seeded(1))) == first
    wend.manual_seed(3)
    unseeded = list(RandomSampler(range(50)))
    wend.manual_seed(3)
    assert list(RandomSampler(range(50))) == unseeded


def test_random_follows_a_growing_data_set():
    data = [1]
    sampler = RandomSampler(data)
    data.append(2)
    assert len(sampler) == 2
    assert sorted(sampler) == [0, 1]


def test_random_refuses():
    for count in (0, -1, 2.5):
        with pytest.raises(ValueError, match="num_samples must be a positive int"):
            RandomSampler("abc", num_samples=count)
    with pytest.raises(ValueError, match="the data set is empty"):
        RandomSampler([])
    with pytest.raises(TypeError, match="replacement must be a bool"):
        RandomSampler("abc", replacement=1)


def test_subset():
    sampler = SubsetRandomSampler([7, 8, 9], seeded(0))
    assert sorted(sampler) == [7, 8, 9]
    assert len(sampler) == 3
    assert list(SubsetRandomSampler([])) == []


def test_weighted_follows_the_weights():
    weights = [0.0, 1.0, 0.0, 3.0, 0.0]
    drawn = collections.Counter(WeightedRandomSampler(weights, 20_000, generator=seeded(5)))
    assert set(drawn) == {1, 3}
    assert 0.72 < drawn[3] / 20_000 < 0.78


def test_weighted_without_replacement():
    first = collections.Counter()
    for seed in range(400):
        drawn = list(WeightedRandomSampler([1, 0, 3], 2, False, seeded(seed)))
        assert sorted(drawn) == [0, 2]
        first[drawn[0]] += 1
    assert 0.65 < first[2] / 400 < 0.85  # 3 of 4 in expectation


def test_weighted_takes_tensors():
    sampler = WeightedRandomSampler(wend.tensor([0.0, 2.0]), 4)
    assert list(sampler) == [1, 1, 1, 1]
    assert len(sampler) == 4
    assert str(sampler.weights.dtype) == "torch.float64"


@pytest.mark.parametrize(
    ("weights", "fault"),
    [
        ([], "sum of the weights is 0"),
        ([0.0, 0.0], "sum of the weights is 0"),
        ([1.0, -1.0], r"weights\[1\] is -1"),
        ([float("nan")], r"weights\[0\] is nan"),
        ([float("inf")], r"weights\[0\] is inf"),
        ([1e308, 1e308], "sum of the weights is inf"),
        ([[1.0]], "one dim"),
    ],
)
def test_weighted_refuses_weights(weights, fault):
    with pytest.raises(ValueError, match=fault):
        WeightedRandomSampler(weights, 1)


def test_weighted_refuses_counts():
    with pytest.raises(ValueError, match="3 samples without replacement"):
        WeightedRandomSampler([1, 1, 0], 3, replacement=False)
    for count in (0, -1, True, 1.5):
        with pytest.raises(ValueError, match="num_samples"):
            WeightedRandomSampler([1], count)
    with pytest.raises(ValueError, match="replacement must be a bool"):
        WeightedRandomSampler([1], 1, replacement=None)


@settings(deadline=None)
@given(st.integers(0, 100), st.integers(1, 20), st.booleans())
def test_batches(count, size, drop_last):
    sampler = BatchSampler(range(count), size, drop_last)
    batches = list(sampler)
    assert len(sampler) == len(batches)
    flat = [index for batch in batches for index in batch]
    assert flat == list(range(count))[: len(flat)]
    assert count - len(flat) == (count % size if drop_last else 0)
    assert all(len(batch) == size for batch in batches[:-1])


def test_batches_refuse():
    for size in (0, -2, True, 1.0):
        with pytest.raises(ValueError, match="batch_size"):
            BatchSampler(range(3), size, False)
    with pytest.raises(ValueError, match="drop_last"):
        BatchSampler(range(3), 1, 1)
