"""Pieces of tensors that share memory with NumPy: writes are seen, reads cost what they read."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.core import _hot
from wend._frontend.aliasing.outside_memory import FEW, LITTLE

# Numbers of elements: compared as copies, compared by NumPy, too many to compare.
SIZES = [6, FEW // 8 + 2, LITTLE // 8 + 8]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("again", ["unbind", "index", "split"])
def test_a_write_between_two_uses_of_a_piece_is_seen(n, again):
    array = np.arange(float(n))
    t = torch.from_numpy(array)
    pieces = {
        "unbind": lambda: t.view(-1, 2).unbind(0)[1],
        "index": lambda: t.view(-1, 2)[1],
        "split": lambda: t.split(2)[1],
    }
    piece = pieces[again]()
    first = piece * 2.0
    array[2] = 100.0
    second = piece * 2.0
    second_again = piece * 2.0
    array[3] = -1.0
    assert first.tolist() == [4.0, 6.0]
    assert second.tolist() == second_again.tolist() == [200.0, 6.0]
    assert piece.tolist() == [100.0, -1.0]
    piece[0] = 7.0
    assert array[2] == 7.0


@pytest.mark.parametrize("dtype", ["f8", "i8", "c16", "?"])
def test_bits_are_compared_not_values(dtype):
    array = np.zeros(4, dtype)
    t = torch.from_numpy(array)
    before = t[:1].clone()
    array.view("u1")[array.itemsize - 1] = 1 if dtype == "?" else 128  # -0.0, or the greatest
    assert before.tolist() == [0]
    np.testing.assert_array_equal(t[:1].clone().numpy().view("u1"), array[:1].view("u1"))


def test_uses_of_pieces_record_no_view_again():
    """Each use of each piece recorded the `unbind` of all pieces again."""
    words = torch.from_numpy(np.arange(50))
    with own_trie(sealed=True):
        pieces = words[:, None].unbind(0)
        results = [piece + 1 for piece in pieces for _ in range(3)]
        recorded = len(_hot.current_trace().states)
        assert [y.item() for y in results[::3]] == list(range(1, 51))
    assert recorded < 3 * 50 + 60


@pytest.mark.parametrize("n", SIZES)
def test_taking_a_piece_reads_nothing(n):
    array = np.arange(float(n))
    t = torch.from_numpy(array)
    before = (torch.zeros(3) + 1) * 2  # pending
    pieces = [t[k] for k in range(4)]
    assert _hot.current_trace().n > 0
    array[:4] = [5.0, 6.0, 7.0, 8.0]
    joined = torch.stack(pieces) + 1
    array[:4] = 0.0
    assert joined.tolist() == [6.0, 7.0, 8.0, 9.0]
    assert [piece.item() for piece in pieces] == [0.0] * 4
    assert before.tolist() == [2.0] * 3


@pytest.mark.parametrize("n", SIZES)
def test_arrays_of_pieces_share_memory_and_leave_nothing_pending(n):
    array = np.arange(float(n) // 2 * 2)
    t = torch.from_numpy(array).view(-1, 2)
    with own_trie():
        for k in range(3):
            row = t[k].numpy()
            row[0] = -1.0
            assert array[2 * k] == -1.0 and row[1] == array[2 * k + 1]
            assert t[k].tolist() == [-1.0, 2 * k + 1.0]
            np.asarray(t[k])
            assert _hot.current_trace().n == 0


def test_normalising_samples_by_broadcast_numbers_is_machine_code():
    mean = torch.as_tensor((0.5,), dtype=torch.float32)
    with own_trie(), config.override(compile=True, wait=True):
        for _ in range(3):
            sample = torch.rand(1, 6, 5)
            found = sample.clone().sub_(mean.view(-1, 1, 1)).div_(mean.view(-1, 1, 1))
            np.testing.assert_allclose(found.numpy(), (sample.numpy() - 0.5) / 0.5, rtol=1e-6)
        assert not any(flush.host_steps for flush in torch.debug.explain().flushes)
