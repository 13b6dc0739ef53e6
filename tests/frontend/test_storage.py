"""Memory seen as elements of another dtype, and as a storage: what PyTorch says of it."""

from __future__ import annotations

import io
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import wend

CALLS = [
    lambda T, x: x.view(T.int32),
    lambda T, x: x.view(dtype=T.float64),
    lambda T, x: x.view(T.uint8),
    lambda T, x: x[1:].view(T.int16)[:, 1:],
    lambda T, x: x.t().view(T.int32),
    lambda T, x: x[:, 2:].view(T.float64),
    lambda T, x: x.view(float).view(T.float32),
    lambda T, x: x[:0].view(T.int64),
    lambda T, x: x.view(T.int32).as_strided((2, 2), (1, 2), 1),
    lambda T, x: x.bfloat16().view(T.int16),
    lambda T, x: T.tensor(1.5).view(T.int32),
    lambda T, x: (x.clone().requires_grad_() * 2).view(T.float32),
]
REFUSED = [
    (lambda T, x: x.t().view(T.int16), r"self.stride\(-1\) must be 1 to view"),
    (lambda T, x: x[:, :3].view(T.float64), r"self.size\(-1\) must be divisible by 2"),
    (lambda T, x: x[:, 1:3].view(T.float64), r"self.storage_offset\(\) must be divisible by 2"),
    (lambda T, x: x.view(2, 4)[:, :2].view(-1, 2)[:, None].permute(1, 0, 2)[0, 0, 0].view(T.int8),
     r"self.dim\(\) cannot be 0"),
]  # fmt: skip


def told(y: Any) -> Any:
    return [str(y.dtype), y.shape, y.stride(), y.storage_offset(), y.requires_grad, y.tolist()]


@pytest.mark.parametrize("call", CALLS)
def test_views_of_another_dtype(call):
    torch = pytest.importorskip("torch")
    assert told(call(wend, wend.arange(8.0).view(2, 4))) == told(
        call(torch, torch.arange(8.0).view(2, 4))
    )


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refused_views(call, message):
    with pytest.raises(RuntimeError, match=message):
        call(wend, wend.arange(8.0).view(2, 4))
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError, match=message):
        call(torch, torch.arange(8.0).view(2, 4))


def test_bits_are_numpys_and_shared():
    array = np.array([1.0, -2.0, 3.5, 0.0], np.float32)
    x = wend.from_numpy(array)
    bits = x.view(wend.int32)
    np.testing.assert_array_equal(bits.numpy(), array.view(np.int32))
    bits[0] = 0
    x[1] = 4.0
    bits[2:].view(wend.int64).fill_(-1)
    np.testing.assert_array_equal(array.view(np.int32), bits.tolist())
    assert array[0] == 0 and array[1] == 4 and np.isnan(array[2:]).all()
    leaf = wend.ones(2, requires_grad=True)
    leaf.view(wend.int32).add_(1)
    assert leaf.tolist() == [float(np.nextafter(np.float32(1), np.float32(2)))] * 2
    assert leaf.requires_grad and leaf.is_leaf


def test_saved_bits():
    x = wend.arange(6.0)
    for part in (x.view(wend.int32), x[2:].view(wend.int64), x.view(wend.uint8)[3:9]):
        file = io.BytesIO()
        wend.save(part, file)
        file.seek(0)
        assert told(wend.load(file)) == told(part)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        wend.save([x, x.view(wend.int32)], io.BytesIO())


def test_storages():
    torch = pytest.importorskip("torch")

    def program(T: Any) -> Any:
        x = T.arange(8.0).reshape(2, 4)
        s, typed = x.untyped_storage(), x[1:].storage()
        facts = [s.nbytes(), s.size(), len(s), s[7], s.tolist(), str(s.device), s.is_shared()]
        facts += [s.data_ptr() == x.data_ptr() == x[1].untyped_storage().data_ptr()]
        facts += [s == x.t().untyped_storage(), s == T.zeros(2).untyped_storage(), repr(s)]
        facts += [isinstance(s, T.UntypedStorage), isinstance(typed, T.TypedStorage)]
        facts += [T.is_storage(s), len(typed), typed[2], typed.tolist(), list(typed), repr(typed)]
        facts += [typed.data_ptr() - s.data_ptr(), typed.nbytes(), typed.untyped() == s]
        facts += [T.zeros(3).expand(4, 3).untyped_storage().nbytes(), T.zeros(0).data_ptr()]
        facts += [x.view(T.int32).storage()[1], s.resize_(32).nbytes()]
        typed[3] = 9.0
        return [*facts, x.tolist(), s.fill_(0).nbytes(), x.tolist()]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert program(wend) == program(torch)
    with pytest.raises(NotImplementedError, match=r"UntypedStorage.resize_: .* 8 elements"):
        wend.ones(2).untyped_storage().resize_(0)


@pytest.mark.parametrize("kind", ["untyped_storage", "storage"])
def test_size_of_a_storage_counts_its_bytes(kind):
    """Programs that sum up memory ask sys.getsizeof (torchinfo does)."""
    few, many = (getattr(wend.ones(n), kind)() for n in (1, 1001))
    assert sys.getsizeof(many) - sys.getsizeof(few) == 4000
