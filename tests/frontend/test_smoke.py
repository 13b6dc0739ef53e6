"""The quickest check of each part whose other tests load PyTorch, which takes a second."""

from __future__ import annotations

import io
from collections import OrderedDict

import pytest

import wend

pytestmark = pytest.mark.smoke


def test_numpy_shares_memory_both_ways():
    x = wend.zeros(3).clone()
    array = x.numpy()
    array[0] = 5
    assert x.tolist() == [5.0, 0.0, 0.0]
    x += 1
    assert array.tolist() == [6.0, 1.0, 1.0]
    x[2] = 9
    assert array.tolist() == [6.0, 1.0, 9.0]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1.0, 2.5], "tensor([1.0000, 2.5000])"),
        ([[1, 2], [3, 4]], "tensor([[1, 2],\n        [3, 4]])"),
        (True, "tensor(True)"),
        ([], "tensor([])"),
        ([1e9, 1.0], "tensor([1.0000e+09, 1.0000e+00])"),
    ],
)
def test_a_tensor_is_printed(values, text):
    assert repr(wend.tensor(values)) == text


def test_a_state_dict_is_saved_and_loaded():
    state = OrderedDict(weight=wend.tensor([[1.0, 2.0]]), bias=wend.tensor([3.0]))
    file = io.BytesIO()
    wend.save(state, file)
    file.seek(0)
    result = wend.load(file)
    assert type(result) is OrderedDict and list(result) == ["weight", "bias"]
    assert result["weight"].tolist() == [[1.0, 2.0]]


def test_a_nested_tensor_knows_its_sizes():
    rows = [wend.ones(n, 3) for n in (2, 4, 1)]
    made = wend.nested.nested_tensor(rows, layout=wend.jagged)
    assert made.is_nested and len(made) == 3 and made.numel() == 21
    assert repr(made.shape) == "torch.Size([3, j1, 3])"


@pytest.mark.smoke
def test_a_tensor_without_data_knows_its_sizes():
    x = wend.empty(2, 3, device="meta", requires_grad=True)
    assert (x.is_meta, tuple(x.shape), x.stride(), x.is_leaf) == (True, (2, 3), (3, 1), True)
    assert (x @ x.mT).is_meta
