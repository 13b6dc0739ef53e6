"""`torch.Tensor(...)` and the typed constructors read their arguments as PyTorch's do."""

from __future__ import annotations

import numpy as np
import pytest

import wend
from wend._engine.base import dtypes
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, DeviceError, ShapeError
from wend._frontend import typed

torch = pytest.importorskip("torch")


def constructor(name):
    return wend.Tensor if name == "Tensor" else getattr(typed, name)


def assert_same(made, expected) -> None:
    assert str(made.dtype) == str(expected.dtype)
    assert tuple(made.shape) == tuple(expected.shape)
    assert made.tolist() == expected.tolist()


DATA = [
    ([1, 2],), ((2, 3),), ([[1, 2], [3, 4]],), ([],), (np.array([1.0, 2.0]),), (range(3),),
    ([True, False],), ([1.7, 2.2],), (np.arange(3, dtype=np.int8),),
]  # fmt: skip


@pytest.mark.parametrize("name", ["Tensor", *typed.__all__])
@pytest.mark.parametrize("args", DATA, ids=str)
def test_of_data(name, args):
    assert_same(constructor(name)(*args), getattr(torch, name)(*args))


SIZES = [(), (2, 3), (0,), (np.int64(3),), (3,), (2, 0)]


@pytest.mark.parametrize("name", ["Tensor", "FloatTensor", "LongTensor", "BoolTensor"])
@pytest.mark.parametrize("args", SIZES, ids=str)
def test_of_a_size(name, args):
    made, expected = constructor(name)(*args), getattr(torch, name)(*args)
    assert str(made.dtype) == str(expected.dtype) and tuple(made.shape) == tuple(expected.shape)


def test_of_a_shape():
    assert wend.Tensor(wend.ones(2, 3).shape).shape == (2, 3)
    assert typed.LongTensor(wend.Size([2])).shape == (2,)
    assert wend.Tensor(size=(2, 1)).shape == (2, 1)


def test_of_a_tensor_is_an_alias():
    source = wend.ones(2)
    made = wend.Tensor(source)
    made[0] = 5
    assert source.tolist() == [5.0, 1.0]
    assert wend.Tensor(wend.tensor([1, 2])).dtype is dtypes.int64
    with pytest.raises(ArgumentTypeError, match=r"expected a tensor of torch\.float32"):
        typed.FloatTensor(wend.tensor([1, 2]))


def test_gradients_flow_through_an_alias():
    leaf = wend.ones(2, requires_grad=True)
    made = typed.FloatTensor(leaf)
    assert made.requires_grad and not made.is_leaf


def test_of_keywords():
    assert wend.Tensor(data=[1, 2], device="cpu").tolist() == [1.0, 2.0]
    with pytest.raises(DeviceError):
        wend.Tensor([1], device="cuda")


def test_isinstance_asks_for_the_elements():
    ints = wend.tensor([1])
    assert isinstance(ints, typed.LongTensor) and not isinstance(ints, typed.FloatTensor)
    assert isinstance(wend.ones(1), typed.FloatTensor)
    assert not isinstance([1], typed.LongTensor)
    assert typed.LongTensor.dtype is dtypes.int64 and "LongTensor" in repr(typed.LongTensor)


def test_default_dtype_decides_for_tensor():
    dtypes.set_default_dtype(dtypes.float64)
    try:
        assert wend.Tensor([1]).dtype is dtypes.float64 is wend.Tensor(2).dtype
        assert typed.FloatTensor([1]).dtype is dtypes.float32
    finally:
        dtypes.set_default_dtype(dtypes.float32)


def test_subclasses_are_made_the_same_way():
    class Special(wend.Tensor):
        pass

    made = Special([1, 2])
    assert type(made) is Special and made.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: wend.Tensor(2.5), ArgumentTypeError, "must be a sequence .got float"),
        (lambda: wend.Tensor(True), ArgumentTypeError, "must be a sequence .got bool"),
        (lambda: wend.Tensor(None), ArgumentTypeError, "must be a sequence .got NoneType"),
        (lambda: wend.Tensor("a"), ArgumentTypeError, "str"),
        (lambda: wend.Tensor(2, "a"), ArgumentTypeError, "size"),
        (lambda: wend.Tensor([1], [2]), ArgumentTypeError, "one sequence of data"),
        (lambda: wend.Tensor([[1, 2], [3]]), ArgumentError, r"data\[1\]"),
        (lambda: wend.Tensor([1j]), ArgumentTypeError, "complex"),
        (lambda: wend.Tensor(-1), ShapeError, "negative"),
        (lambda: typed.ByteTensor([300]), ArgumentError, "overflow"),
        (lambda: wend.Tensor([1], colour=2), ArgumentTypeError, "colour"),
    ],
)
def test_bad_arguments(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("name", ["FloatTensor", "ByteTensor", "BoolTensor", "LongStorage"])
def test_types_of_cuda_are_there_and_have_no_instance(name):
    kind = getattr(wend.cuda, name)
    assert not isinstance(wend.ones(2), (kind, wend.cuda.HalfTensor))
    assert kind.dtype is getattr(wend, name).dtype
    assert repr(kind) == f"<class 'torch.cuda.{name}'>"
    with pytest.raises(TypeError, match=f"cuda.{name} is not available.*use torch.{name}"):
        kind(2)


@pytest.mark.parametrize("given", ["torch.cuda.FloatTensor", wend.cuda.FloatTensor], ids=str)
def test_no_tensor_becomes_one_of_cuda(given):
    for convert in (
        wend.ones(2).type,
        wend.nn.Linear(2, 2).type,
        wend.set_default_tensor_type,
        wend.ones(2, device="meta").type,
    ):
        with pytest.raises(RuntimeError, match="'cuda' is not available"):
            convert(given)
