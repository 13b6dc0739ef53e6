"""The rule of aliasing: writes through any handle, or from outside, show in all others."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import wend as torch
from wend.core import _hot
from wend.runtime import reference


def test_from_numpy_shares_both_ways():
    a = np.zeros(4, np.float32)
    x = torch.from_numpy(a)
    a[0] = 1
    assert x.tolist() == [1, 0, 0, 0]
    x.add_(1)
    assert a.tolist() == [2, 1, 1, 1]
    v = x[1:3]
    v.mul_(5)
    assert a.tolist() == [2, 5, 5, 1]
    a[1] = 7
    assert v.tolist() == [7, 5]


def test_what_was_read_from_shared_memory_stays_as_it_was():
    a = np.array([2.0, 7.0])
    x = torch.from_numpy(a)
    y = x * 2
    part = x[1:]
    kept = part + 0
    a[:] = 0
    assert y.tolist() == [4, 14]
    assert kept.tolist() == [7]
    assert part.tolist() == [0]


def test_numpy_shares_both_ways_while_it_lives():
    x = torch.ones(3)
    n = x.numpy()
    n[0] = 9
    assert x.tolist() == [9, 1, 1]
    x[1] = 4
    assert n.tolist() == [9, 4, 1]
    part = n[2:]
    del n
    part[0] = 6
    assert x.tolist() == [9, 4, 6]
    del part
    x.add_(1)
    assert x.tolist() == [10, 5, 7]
    assert x.alias is None, "sharing ends with the last array outside"


def test_a_write_through_a_temporary_array_is_not_lost():
    x = torch.ones(3)
    x.numpy()[0] = 5
    assert x.tolist() == [5, 1, 1]


def test_views_share_the_memory_of_their_base():
    x = torch.ones(2, 3)
    x[0].numpy()[1] = 8
    assert x.tolist() == [[1, 8, 1], [1, 1, 1]]
    n, t = x.numpy(), x.t().numpy()
    t[0, 0] = 3
    assert n[0, 0] == 3
    assert x[0, 0].item() == 3


def test_gradients_of_a_leaf_whose_memory_is_shared():
    w = torch.ones(3, requires_grad=True)
    m = w.detach().numpy()
    m[0] = 2
    (w * w).sum().backward()
    assert w.grad.tolist() == [4, 2, 2]
    with torch.no_grad():
        w.sub_(1.0)
    assert m.tolist() == [1, 0, 0]


def test_an_adopted_view_of_an_array_whose_base_lives_on():
    b = np.arange(10.0)
    q = torch.from_numpy(b[2:5])
    b[2] = 100
    assert q.tolist() == [100, 3, 4]
    del b
    q.add_(1)
    assert q.tolist() == [101, 4, 5]


def test_data_ptr_pins_the_memory():
    p = torch.ones(3)
    memory = ctypes.cast(p.data_ptr(), ctypes.POINTER(ctypes.c_float))
    memory[0] = 3.0
    assert p.tolist() == [3, 1, 1]
    p.add_(1)
    assert memory[1] == 2.0
    assert p.data_ptr() == ctypes.addressof(memory.contents)


def test_a_gather_from_shared_memory_copies_only_what_it_reads():
    table = np.zeros((1000, 1000), np.float32)
    x = torch.from_numpy(table)
    assert _hot.refreshed(x).buffer is table
    row = x[3]
    table[3] = 1
    assert float(row.sum()) == 1000.0
    picked = x[torch.tensor([3, 4])]
    table[3] = 5
    assert float(picked.sum()) == 1000.0


def test_detach_data_and_parameter_are_aliases():
    x = torch.zeros(3)
    p = torch.nn.Parameter(x)
    p.data.add_(1)
    assert x.tolist() == [1, 1, 1]
    x.mul_(3)
    assert p.tolist() == [3, 3, 3]
    d = p.detach()
    with torch.no_grad():
        p.sub_(1)
    assert d.tolist() == [2, 2, 2]
    state = torch.nn.Linear(2, 2).state_dict()
    assert all(not v.requires_grad for v in state.values())


def test_gradients_are_those_of_the_values_as_they_were_used():
    a = torch.tensor([2.0, 3.0], requires_grad=True)
    b = a * 1.0
    c = (b * b).sum()
    b.data.mul_(10)
    c.backward()
    assert a.grad.tolist() == [4.0, 6.0]
    assert b.tolist() == [20.0, 30.0]


def test_filling_row_by_row_writes_in_place():
    """out[t] = h has no other reader of the old value: each write touches its row only."""
    rows = 400
    copies: list[bool] = []
    flushes = _hot.count("flushes")
    real = reference._exclusive

    def spy(arrays):
        found = real(arrays)
        copies.append(not found)
        return found

    reference._exclusive = spy
    try:
        out = torch.zeros(rows, 1000)
        for t in range(rows):
            out[t] = float(t)
        assert out[7, 3].item() == 7.0
    finally:
        reference._exclusive = real
    flushes = _hot.count("flushes") - flushes
    assert len(copies) >= rows
    assert sum(copies) <= 2 * flushes < rows / 10, "only the first write of a flush may copy"
    assert out.sum().item() == 1000.0 * sum(range(rows))


def test_in_place_on_a_leaf_that_requires_grad_raises_while_recording():
    w = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        w.add_(1)
    with pytest.raises(RuntimeError, match="view of a leaf Variable"):
        w[0].mul_(2)
    assert w.tolist() == [1, 1, 1]
