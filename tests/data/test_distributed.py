"""DistributedSampler: the processes' parts are disjoint, even, and together everything."""

from __future__ import annotations

import pytest

import wend
from wend.utils.data.distributed import DistributedSampler


@pytest.mark.parametrize("count", [0, 1, 7, 8])
@pytest.mark.parametrize("replicas", [1, 3, 10])
@pytest.mark.parametrize("drop_last", [False, True])
def test_parts(count, replicas, drop_last):
    data = range(count)
    samplers = [
        DistributedSampler(data, replicas, rank, drop_last=drop_last) for rank in range(replicas)
    ]
    parts = [list(s) for s in samplers]
    assert [len(p) for p in parts] == [len(s) for s in samplers] if count else True
    together = [i for part in parts for i in part]
    if drop_last:
        assert len(set(together)) == len(together) == count // replicas * replicas
    else:
        assert set(together) == set(data)


def test_epochs_differ_and_repeat():
    sampler = DistributedSampler(range(50), 2, 0)
    first = list(sampler)
    assert list(sampler) == first
    sampler.set_epoch(1)
    assert list(sampler) != first
    plain = DistributedSampler(range(5), 2, 1, shuffle=False)
    assert list(plain) == [1, 3, 0]
    loader = wend.utils.data.DataLoader(list(range(5)), sampler=plain, batch_size=3)
    assert next(iter(loader)).tolist() == [1, 3, 0]


def test_refusals():
    with pytest.raises(ValueError, match="invalid rank 2"):
        DistributedSampler(range(3), 2, 2)
    with pytest.raises(ValueError, match="process group has not been initialized"):
        DistributedSampler(range(3))
