"""Methods as functions, the short form of where, numbers by name, switches."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

import wend

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (0, 2)])
def test_where_of_a_condition(shape):
    values = np.arange(math.prod(shape)).reshape(shape) % 3
    ours, theirs = wend.where(wend.tensor(values)), torch.where(torch.tensor(values))
    assert isinstance(ours, tuple) and len(ours) == len(theirs)
    for got, expected in zip(ours, theirs, strict=True):
        assert got.tolist() == expected.tolist() and got.dtype is wend.int64
    mask = wend.tensor(values > 1)
    assert [i.tolist() for i in wend.where(condition=mask)] == [
        i.tolist() for i in torch.where(torch.tensor(values > 1))
    ]
    if shape:  # a 0-d tensor has no dim to index
        picked = wend.tensor(values)[wend.where(mask)]
        assert picked.tolist() == values[values > 1].tolist()
    assert wend.where(mask, 1.0, 2.0).shape == shape
    with pytest.raises(TypeError):
        wend.where(mask, 1.0)


def test_functions_that_write():
    x = wend.arange(6.0).reshape(2, 3)
    assert wend.zero_(x) is x and not x.any()
    assert wend.fill_(x, 2) is x and x.tolist() == [[2.0] * 3] * 2
    assert wend.clamp_(x, max=1.5) is x and x.max().item() == 1.5
    assert wend.clip_(x, 3, 4) is x and x.min().item() == 3
    assert wend.index_put_(x, (wend.tensor([1]), wend.tensor([2])), wend.tensor(9.0)) is x
    assert x[1, 2].item() == 9
    assert wend.resize_as_(x, wend.zeros(3)).shape == (3,)
    w = wend.ones(2, requires_grad=True)
    y = w * 2
    assert wend.detach_(y) is y and not y.requires_grad
    with pytest.raises(TypeError, match="must be Tensor"):
        wend.zero_([1])


def test_fill_makes_a_tensor():
    x, value = wend.zeros(2, 3), wend.tensor(1.5, requires_grad=True)
    y = wend.fill(x, value)
    y.sum().backward()
    assert y.tolist() == [[1.5] * 3] * 2 and not x.any() and value.grad.item() == 6
    assert wend.fill(x.long(), 2.0).dtype is wend.int64


def test_strided_forms():
    x = wend.arange(6)
    assert x.as_strided_((2, 2), (1, 3)) is x and x.tolist() == [[0, 3], [1, 4]]
    with pytest.raises(RuntimeError, match="requires grad"):
        wend.ones(3, requires_grad=True).as_strided_((1,), (1,))
    y = x.new_empty_strided((2, 3), (1, 2))
    assert y.stride() == (1, 2) and y.dtype is x.dtype and y.shape == (2, 3)
    parts = wend.arange(5).unsafe_split_with_sizes((2, 3))
    assert [p.tolist() for p in parts] == [[0, 1], [2, 3, 4]]


def test_numbers_and_queries():
    for name in ("e", "inf", "pi"):
        assert getattr(wend, name) == getattr(torch, name)
    assert math.isnan(wend.nan) and wend.newaxis is None
    x = wend.ones(2)
    assert wend.is_signed(x) and not wend.is_signed(x.byte())
    assert wend.get_device(x) == -1 and wend.real(x) is x and wend.conj(x) is x
    assert not (wend.is_conj(x) or wend.is_neg(x) or wend.is_inference(x))


def test_switches():
    wend.set_float32_matmul_precision("high")
    assert wend.get_float32_matmul_precision() == "high"
    wend.set_float32_matmul_precision("highest")
    with pytest.raises(ValueError, match="'best' is not one of"):
        wend.set_float32_matmul_precision("best")
    wend.set_num_interop_threads(2)
    assert wend.get_num_interop_threads() == 2
    wend.set_num_interop_threads(1)


def test_parts_of_utils_are_there_without_an_import():
    """In a process of their own: nothing else has loaded them."""
    program = (
        "import wend; wend.utils.data.DataLoader; wend.utils.checkpoint.checkpoint;"
        "assert not hasattr(wend.utils, 'nothing')"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_function_as_an_attribute_of_a_class_gets_no_self():
    class Loss(wend.nn.Module):
        product = wend.mul

    class Plain:
        total = wend.sum

    x = wend.tensor([1.0, 2.0])
    assert Loss().product(x, x).tolist() == [1.0, 4.0] and Plain().total(x).item() == 3.0
    assert x.mul(x).tolist() == [1.0, 4.0]
