"""DataLoader in one process: options, order, streams."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wend
from wend.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    Subset,
    TensorDataset,
    get_worker_info,
)


class Stream(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return iter(range(self.count))


def lists(loader):
    return [batch.tolist() for batch in loader]


@given(st.integers(0, 40), st.integers(1, 9), st.booleans())
def test_batches_in_order(count, size, drop_last):
    loader = DataLoader(range(count), batch_size=size, drop_last=drop_last)
    batches = lists(loader)
    assert len(loader) == len(batches)
    assert batches == list(BatchSampler(range(count), size, drop_last))


def test_a_shuffle_repeats_with_its_seed():
    def epochs():
        loader = DataLoader(range(20), 3, shuffle=True, generator=wend.Generator().manual_seed(4))
        return [lists(loader), lists(loader)]

    first, second = epochs()
    assert first != second
    assert sorted(i for batch in first for i in batch) == list(range(20))
    assert epochs() == [first, second]


def test_single_samples():
    assert list(DataLoader([(1, "a"), (2, "b")], batch_size=None)) == [[1, "a"], [2, "b"]]
    sample = next(iter(DataLoader([np.zeros(3)], batch_size=None)))
    assert isinstance(sample, wend.Tensor)
    assert list(DataLoader(range(3), batch_size=None, sampler=[2, 0])) == [2, 0]


def test_own_collate_and_samplers():
    assert list(DataLoader("abcd", 2, collate_fn="".join)) == ["ab", "cd"]
    assert list(DataLoader("abcd", batch_sampler=[[3], [0, 1]], collate_fn=list)) == [
        ["d"],
        ["a", "b"],
    ]
    assert list(DataLoader("abcd", sampler=[1, 3], collate_fn=list)) == [["b"], ["d"]]
    keyed = {"x": 1, "y": 2}
    assert lists(DataLoader(keyed, sampler=["y", "x"], batch_size=2)) == [[2, 1]]


@given(st.integers(0, 20), st.integers(1, 6), st.booleans())
def test_streams(count, size, drop_last):
    loader = DataLoader(Stream(count), batch_size=size, drop_last=drop_last)
    assert lists(loader) == list(BatchSampler(range(count), size, drop_last))
    assert list(DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]
    with pytest.raises(TypeError):
        len(loader)


def test_a_stream_longer_than_announced_warns_once():
    class Announced(Stream):
        def __len__(self):
            return 2

    loader = DataLoader(Announced(5))
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="announced 2 batches, and it goes on") as caught:
        list(loader)
    assert len(caught) == 1


def test_tensor_data_sets_are_gathered():
    x, y = wend.arange(10).reshape(5, 2), wend.arange(5)
    data = TensorDataset(x, y)
    for loader in (DataLoader(data, 2), DataLoader(Subset(data, range(5)), 2)):
        batches = [(a.tolist(), b.tolist()) for a, b in loader]
        assert batches == [
            ([[0, 1], [2, 3]], [0, 1]),
            ([[4, 5], [6, 7]], [2, 3]),
            ([[8, 9]], [4]),
        ]
    with pytest.raises(IndexError):
        list(DataLoader(data, sampler=[7]))


def test_memory_that_others_write_to_is_read_as_it_is():
    array = np.arange(24.0).reshape(2, 3, 4)
    whole = wend.from_numpy(array)
    turned = whole.permute(0, 2, 1)
    loaders = [
        DataLoader(TensorDataset(whole), 2),
        DataLoader([wend.from_numpy(part) for part in array], 2),
        DataLoader([part.T for part in turned], 2),
    ]
    for added in (0.0, 5.0):
        array += added
        whole[0, 0, 0] += added
        for loader in loaders:
            (batch,) = loader
            batch = batch[0] if isinstance(batch, list) else batch
            np.testing.assert_array_equal(batch.numpy(), array)
            batch += 100  # its own memory
    (turned_batch,) = DataLoader(list(turned), 2)
    np.testing.assert_array_equal(turned_batch.numpy(), array.transpose(0, 2, 1))


def test_samples_fetched_together():
    class Batched(Dataset):
        def __getitems__(self, indices):
            return [-i for i in indices]

        def __getitem__(self, index):
            raise AssertionError

    assert lists(DataLoader(Batched(), 2, sampler=[1, 2, 3])) == [[-1, -2], [-3]]


def test_stop_iteration_of_a_sample_does_not_end_the_loop():
    class Ends(Dataset):
        def __getitem__(self, index):
            raise StopIteration

    with pytest.raises(RuntimeError, match=r"dataset\[0\] raised StopIteration"):
        list(DataLoader(Ends(), sampler=[0]))


def test_no_worker_info_in_the_main_process():
    assert get_worker_info() is None


@pytest.mark.parametrize(
    ("options", "error", "fault"),
    [
        ({"num_workers": -1}, ValueError, "num_workers is -1"),
        ({"num_workers": 1.5}, TypeError, "num_workers must be an int"),
        ({"timeout": -1}, ValueError, "timeout"),
        ({"prefetch_factor": 2}, ValueError, "prefetch_factor needs num_workers"),
        ({"num_workers": 1, "prefetch_factor": 0}, ValueError, "must be positive"),
        ({"persistent_workers": True}, ValueError, "persistent_workers needs num_workers"),
        ({"multiprocessing_context": "fork"}, ValueError, "needs num_workers"),
        ({"num_workers": 1, "multiprocessing_context": "x"}, ValueError, "'x' is not one of"),
        ({"num_workers": 1, "multiprocessing_context": 3}, TypeError, "must be the name"),
        ({"sampler": [0], "shuffle": True}, ValueError, "leave shuffle out"),
        ({"batch_sampler": [[0]], "batch_size": 2}, ValueError, "batch_sampler sets order"),
        ({"batch_sampler": [[0]], "shuffle": True}, ValueError, "batch_sampler sets order"),
        ({"batch_sampler": [[0]], "sampler": [0]}, ValueError, "batch_sampler sets order"),
        ({"batch_sampler": [[0]], "drop_last": True}, ValueError, "batch_sampler sets order"),
        ({"batch_size": None, "drop_last": True}, ValueError, "drop_last needs a batch_size"),
        ({"batch_size": 0}, ValueError, "batch_size must be a positive int"),
        ({"dataset": Stream(1), "shuffle": True}, ValueError, "shuffle is for data sets"),
        ({"dataset": Stream(1), "sampler": [1]}, ValueError, "Stream is a stream"),
        ({"dataset": Stream(1), "batch_sampler": [[1]]}, ValueError, "Stream is a stream"),
        ({"dataset": [], "shuffle": True}, ValueError, "the data set is empty"),
    ],
)
def test_bad_options(options, error, fault):
    with pytest.raises(error, match=fault):
        DataLoader(**{"dataset": [1, 2], **options})


def test_what_is_fixed_stays():
    loader = DataLoader([1, 2])
    for name in ("batch_size", "sampler", "dataset", "drop_last"):
        with pytest.raises(ValueError, match="cannot be changed"):
            setattr(loader, name, None)
    loader.anything = 1
    assert isinstance(loader.sampler, SequentialSampler)
    assert loader.prefetch_factor is None


def test_copies():
    loader = DataLoader([1, 2, 3], 2)
    for copied in (copy.copy(loader), pickle.loads(pickle.dumps(loader))):
        assert lists(copied) == [[1, 2], [3]]


def test_too_many_workers_are_warned_of_when_asked():
    with pytest.warns(UserWarning, match="99999 workers share"):
        DataLoader([1], num_workers=99999).check_worker_number_rationality()
