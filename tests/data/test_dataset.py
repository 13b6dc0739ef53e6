"""Data sets: by index, streams, and their combinations."""

import importlib.util
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wend
from wend.utils.data import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)


class Stream(IterableDataset):
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return iter(self.items)

    def __len__(self):
        return len(self.items)


def test_a_dataset_without_methods_says_so():
    with pytest.raises(NotImplementedError, match=r"Dataset\.__getitem__ is not defined"):
        Dataset()[0]
    with pytest.raises(NotImplementedError, match="__iter__ is not defined"):
        iter(IterableDataset())
    with pytest.raises(TypeError):
        len(Dataset())


def test_tensor_dataset():
    x, y = wend.arange(6).reshape(3, 2), wend.arange(3)
    data = TensorDataset(x, y)
    assert len(data) == 3
    assert [part.tolist() for part in data[1]] == [[2, 3], 1]
    assert [part.tolist() for part in data[-1]] == [[4, 5], 2]
    with pytest.raises(ValueError, match=r"first dims of \[3, 2\]"):
        TensorDataset(x, y[:2])


def test_gathering_gives_what_collating_would():
    x, y = wend.arange(12).reshape(6, 2), wend.arange(6)
    data = Subset(TensorDataset(x, y), [5, 3, 1])
    gathered = data._collated([0, 2, 2])
    assert [part.tolist() for part in gathered] == [[[10, 11], [2, 3], [2, 3]], [5, 1, 1]]
    gathered[0][0] = 99  # a copy: the data stays
    assert x.tolist()[5] == [10, 11]
    assert data._collated([]) is None
    assert TensorDataset(x)._collated([6]) is None
    assert TensorDataset(x.float().requires_grad_())._collated([0]) is None


def test_a_subclass_with_its_own_items_is_not_gathered():
    class Negated(TensorDataset):
        def __getitem__(self, index):
            return tuple(-part for part in super().__getitem__(index))

    assert Negated(wend.arange(3))._collated([0]) is None
    assert Subset(Negated(wend.arange(3)), [0])._collated([0]) is None


def test_concat():
    data = ConcatDataset([[0, 1], [], "ab"])
    assert list(data) == [0, 1, "a", "b"]
    assert data[-1] == "b"
    assert data.cumulative_sizes == [2, 2, 4]
    for error in (IndexError, ValueError):
        for index in (4, -5):
            with pytest.raises(error, match="out of range"):
                data[index]
    with pytest.raises(ValueError, match="at least one"):
        ConcatDataset([])
    with pytest.raises(ValueError, match="ChainDataset"):
        ConcatDataset([Stream([1])])


def test_adding_data_sets():
    first = Subset([1, 2], [0, 1])
    assert list(first + [3]) == [1, 2, 3]
    assert list(Stream([1]) + Stream([2])) == [1, 2]
    assert len(ChainDataset([Stream([1]), Stream([2, 3])])) == 3
    with pytest.raises(ValueError, match="not a stream"):
        list(ChainDataset([[1]]))


def test_stack_dataset():
    data = StackDataset("ab", [1, 2])
    assert data[1] == ("b", 2)
    assert data.__getitems__([1, 0]) == [("b", 2), ("a", 1)]
    named = StackDataset(letter="ab", number=[1, 2])
    assert named[0] == {"letter": "a", "number": 1}
    assert len(named) == 2
    with pytest.raises(ValueError, match="unlike lengths"):
        StackDataset("ab", [1])
    for wrong in ({}, {"letter": "ab"}):
        with pytest.raises(ValueError, match="by position"):
            StackDataset(*(["ab"] if wrong else []), **wrong)


def test_many_items_at_once():
    class Batched(Dataset):
        def __len__(self):
            return 9

        def __getitems__(self, indices):
            return [-i for i in indices]

    assert Subset(Batched(), [3, 4]).__getitems__([1, 0]) == [-4, -3]
    assert StackDataset(Batched(), range(9)).__getitems__([2]) == [(-2, 2)]

    class Short(Batched):
        def __getitems__(self, indices):
            return []

    with pytest.raises(ValueError, match="0 samples for 2 indices"):
        Subset(Short(), [3, 4]).__getitems__([1, 0])


def test_subset_of_a_list_of_indices():
    assert Subset(np.arange(9) * 10, [3, 4])[[1, 0]].tolist() == [40, 30]


@given(st.lists(st.integers(0, 20), min_size=1, max_size=5), st.integers(0, 2**31))
def test_random_split_deals_out_every_sample_once(lengths, seed):
    total = sum(lengths)
    if total == 1:
        return  # lengths that add up to 1 are fractions
    parts = random_split(range(total), lengths, wend.Generator().manual_seed(seed))
    again = random_split(range(total), lengths, wend.Generator().manual_seed(seed))
    assert [len(part) for part in parts] == lengths
    assert sorted(sample for part in parts for sample in part) == list(range(total))
    assert [list(part) for part in parts] == [list(part) for part in again]


def test_random_split_by_fractions():
    assert [len(part) for part in random_split(range(10), [0.25, 0.25, 0.5])] == [3, 2, 5]
    with pytest.warns(UserWarning, match="part 1 is empty"):
        random_split(range(1), [0.5, 0.5])
    with pytest.raises(ValueError, match="add up to 5"):
        random_split(range(10), [2, 3])
    with pytest.raises(ValueError, match="must lie in"):
        random_split(range(10), [-0.5, 1.5])


def test_loaders_of_streams_have_a_sampler_without_end():
    """Libraries ask for the class of such a loader's sampler, to leave the sampler as it is."""
    from wend.utils.data import DataLoader, IterableDataset
    from wend.utils.data.dataloader import _InfiniteConstantSampler

    packages = [(DataLoader, IterableDataset, _InfiniteConstantSampler)]
    if importlib.util.find_spec("torch") is not None:
        from torch.utils.data import dataloader, dataset

        packages.append(
            (dataloader.DataLoader, dataset.IterableDataset, dataloader._InfiniteConstantSampler)
        )
    for loader, stream, sampler in packages:
        found = loader(
            type("Stream", (stream,), {"__iter__": lambda self: iter(range(3))})()
        ).sampler
        assert type(found) is sampler
        assert list(itertools.islice(found, 3)) == [None] * 3
