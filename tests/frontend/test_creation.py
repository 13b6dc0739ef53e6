"""Functions that make tensors: PyTorch's results, types and refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import wend
from wend._engine.base import dtypes
from wend._engine.base.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceError,
    DTypeError,
    NotImplementedInWend,
    ShapeError,
    ValueRefused,
)
from wend._engine.core._hot import Tensor
from wend._frontend import creation, formats
from wend._frontend.interop import exchange as interop  # noqa: F401 (interop gives Tensor methods)

torch = pytest.importorskip("torch")


def assert_same(made: Tensor, expected) -> None:
    assert str(made.dtype) == str(expected.dtype)
    assert tuple(made.shape) == tuple(expected.shape)
    assert made.requires_grad == expected.requires_grad
    np.testing.assert_array_equal(
        np.array(made.tolist(), dtype=complex), np.array(expected.tolist(), dtype=complex)
    )


def both(name, *args, **keywords):
    """The call in Wend and in PyTorch, dtypes given by name."""
    ours, theirs = dict(keywords), dict(keywords)
    if "dtype" in keywords:
        ours["dtype"] = dtypes.NAMES[keywords["dtype"]]
        theirs["dtype"] = getattr(torch, keywords["dtype"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(getattr(creation, name)(*args, **ours), getattr(torch, name)(*args, **theirs))


NUMBERS = [d.name for d in dtypes.ALL]


def test_tensor_of_nested_lists():
    made = creation.tensor([[1, 2.5], [3, 4]], requires_grad=True)
    assert made.tolist() == [[1.0, 2.5], [3.0, 4.0]]
    assert made.requires_grad and made.is_leaf and made.dtype is dtypes.float32


@pytest.mark.parametrize("name", ["zeros", "ones"])
@pytest.mark.parametrize(
    "size", [(3,), (2, 3), (0, 2), ((2, 3),), ([2, 3],), ((),), (torch.Size([2]),)]
)
def test_constants_of_every_size(name, size):
    both(name, *size)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_constants_of_every_type(dtype):
    for name in ("zeros", "ones"):
        both(name, 2, 3, dtype=dtype)
    both("full", (2,), 1, dtype=dtype)
    if dtype not in ("uint16", "uint32", "uint64"):  # PyTorch refuses
        both("eye", 3, dtype=dtype)
        both("eye", 2, 4, dtype=dtype)


def test_size_by_keyword_and_from_tensors():
    assert creation.zeros(size=(2, 3)).shape == (2, 3)
    assert creation.zeros(creation.tensor(2), creation.tensor([3, 4]).tolist()[0]).shape == (2, 3)
    assert creation.zeros(np.int64(2), np.int32(3)).shape == (2, 3)
    assert creation.zeros(creation.tensor([2, 3])).shape == (2, 3)
    assert creation.ones(wend.Size([2, 1])).shape == (2, 1)


def test_empty_has_the_size_and_type_asked_for():
    made = creation.empty(2, 3, dtype=dtypes.float64)
    assert made.shape == (2, 3) and made.dtype is dtypes.float64
    assert creation.empty(0).numel() == 0
    assert creation.empty((2, 1), memory_format=formats.contiguous_format).shape == (2, 1)


@pytest.mark.parametrize("value", [1, 2.5, True, 1 + 2j, float("nan"), -0.0])
def test_full_takes_the_type_of_the_number(value):
    made, expected = creation.full((2, 2), value), torch.full((2, 2), value)
    assert str(made.dtype) == str(expected.dtype)
    np.testing.assert_array_equal(made.tolist(), expected.tolist())


def test_full_of_a_tensor_or_a_numpy_number():
    assert creation.full((2,), creation.tensor(3)).dtype is dtypes.int64
    assert creation.full((2,), np.float64(3)).tolist() == [3.0, 3.0]


def test_likes_take_size_and_type():
    source, other = creation.ones(2, 3, dtype=dtypes.int16), torch.ones(2, 3, dtype=torch.int16)
    assert_same(creation.zeros_like(source), torch.zeros_like(other))
    assert_same(creation.ones_like(source), torch.ones_like(other))
    assert_same(creation.full_like(source, 7), torch.full_like(other, 7))
    assert_same(
        creation.full_like(source, 1.5, dtype=dtypes.float64),
        torch.full_like(other, 1.5, dtype=torch.float64),
    )
    made = creation.empty_like(source, memory_format=formats.preserve_format)
    assert made.shape == (2, 3) and made.dtype is dtypes.int16
    leaf = creation.tensor([1.0], requires_grad=True)
    assert not creation.zeros_like(leaf).requires_grad
    assert creation.zeros_like(leaf, requires_grad=True).requires_grad


RANGES = [
    (5,), (5.0,), (1, 5), (1, 10, 3), (10, 0, -3), (0, 1, 0.1), (1.5, 3), (0,), (3, 3), (-2, 2),
    (0, 1, 0.25), (5, 5, -1), (True,), (0, -1, -0.3),
]  # fmt: skip


@pytest.mark.parametrize("bounds", RANGES, ids=str)
def test_arange(bounds):
    made, expected = creation.arange(*bounds), torch.arange(*bounds)
    assert str(made.dtype) == str(expected.dtype) and tuple(made.shape) == tuple(expected.shape)
    np.testing.assert_allclose(made.tolist(), expected.tolist(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "float16", "bfloat16", "float64"])
def test_arange_of_a_type(dtype):
    both("arange", 5, dtype=dtype)
    both("arange", 0, 10, 3, dtype=dtype)
    both("arange", 2.7, dtype="int64")


def test_arange_takes_tensors_as_bounds():
    assert creation.arange(creation.tensor(3)).tolist() == [0, 1, 2]
    assert creation.arange(np.int64(1), np.int64(3)).tolist() == [1, 2]


def test_range_includes_its_end_and_warns():
    with pytest.warns(UserWarning, match="deprecated"):
        made = creation.range(1, 4)
    assert made.tolist() == [1.0, 2.0, 3.0, 4.0] and made.dtype is dtypes.float32
    both("range", 0, 1, 0.25)


@pytest.mark.parametrize(
    "bounds", [(0, 1, 5), (1, -1, 4), (3, 3, 3), (0, 10, 1), (0, 1, 0), (-2.5, 7, 11)]
)
def test_linspace_and_logspace(bounds):
    for name in ("linspace", "logspace"):
        made, expected = getattr(creation, name)(*bounds), getattr(torch, name)(*bounds)
        assert made.dtype is dtypes.float32 and tuple(made.shape) == tuple(expected.shape)
        np.testing.assert_allclose(made.tolist(), expected.tolist(), rtol=3e-6)


def test_linspace_ends_exactly_and_takes_types():
    assert creation.linspace(0, 0.3, 7).tolist()[-1] == np.float32(0.3)
    assert creation.linspace(0, 1, 3, dtype=dtypes.float64).tolist() == [0.0, 0.5, 1.0]
    both("linspace", 0, 10, 5, dtype="int64")
    both("linspace", 0, 10, 4, dtype="int32")
    both("logspace", 0, 3, 4, 2, dtype="float64")
    assert creation.linspace(0, 1j, 2).dtype is dtypes.complex64
    assert creation.linspace(start=0, end=creation.tensor(1.0), steps=2).tolist() == [0.0, 1.0]


def test_scalar_tensor_is_of_the_default_type():
    both("scalar_tensor", 3)
    both("scalar_tensor", 3, dtype="int64")
    both("scalar_tensor", True)


def test_empty_strided():
    made = creation.empty_strided((2, 3), (1, 2))
    assert made.shape == (2, 3)
    with pytest.raises(ArgumentError, match=r"2 extents .* 1 strides"):
        creation.empty_strided((2, 3), (1,))


def test_new_methods_take_the_type_of_the_tensor():
    source, other = creation.ones(2, dtype=dtypes.float64), torch.ones(2, dtype=torch.float64)
    assert_same(source.new_zeros(2, 3), other.new_zeros(2, 3))
    assert_same(source.new_ones((2, 3)), other.new_ones((2, 3)))
    assert_same(source.new_full((2,), 3), other.new_full((2,), 3))
    assert_same(source.new_tensor([1, 2]), other.new_tensor([1, 2]))
    assert_same(source.new_zeros(2, dtype=dtypes.int8), other.new_zeros(2, dtype=torch.int8))
    assert source.new_empty(4).shape == (4,)
    assert source.new_tensor(source).tolist() == [1.0, 1.0]


# --- data -----------------------------------------------------------------------------------------


def test_tensor_of_a_tensor_is_a_copy_and_warns():
    source = creation.tensor([1.0, 2.0], requires_grad=True)
    with pytest.warns(UserWarning, match="detach"):
        made = creation.tensor(source)
    assert not made.requires_grad and made.tolist() == [1.0, 2.0]
    with pytest.warns(UserWarning, match="clone"):
        assert creation.tensor(source, dtype=dtypes.int64).tolist() == [1, 2]


def test_tensor_of_an_array_is_a_copy():
    array = np.arange(3.0)
    made = creation.tensor(array)
    array[0] = 7
    assert made.tolist() == [0.0, 1.0, 2.0] and made.dtype is dtypes.float64


def test_as_tensor_shares_where_it_can():
    source = creation.tensor([1.0])
    assert creation.as_tensor(source) is source
    assert creation.as_tensor(source, dtype=dtypes.float64).dtype is dtypes.float64
    array = np.arange(3.0)
    shared, copied = creation.as_tensor(array), creation.as_tensor(array, dtype=dtypes.float32)
    array[0] = 7
    assert shared.tolist() == [7.0, 1.0, 2.0] and copied.tolist() == [0.0, 1.0, 2.0]
    assert creation.as_tensor([1, 2]).dtype is dtypes.int64
    # A read-only array is copied: the tensor can be written to, and the array must not change.
    array.flags.writeable = False
    assert creation.as_tensor(array).tolist() == [7.0, 1.0, 2.0]


def test_from_numpy_shares_both_ways():
    array = np.arange(3.0)
    made = creation.from_numpy(array)
    array[0] = 5
    assert made.tolist() == [5.0, 1.0, 2.0]
    made += 1
    assert array.tolist() == [6.0, 2.0, 3.0]


OVERLAPPING = {
    "windows": ((3, 3), (1, 1)),
    "rows alike": ((2, 3), (0, 1)),
    "columns alike": ((3, 2), (2, 0)),
    "one element": ((4,), (0,)),
    "steps": ((2, 2, 2), (1, 1, 2)),
}


@pytest.mark.parametrize("name", ["torch", "wend"])
@pytest.mark.parametrize(("shape", "steps"), OVERLAPPING.values(), ids=OVERLAPPING)
def test_from_numpy_of_an_array_that_shows_elements_twice(shape, steps, name):
    """A write to one place shows at all others, in the array and in the tensor."""
    t = pytest.importorskip(name)
    memory = np.arange(9.0)
    array = np.lib.stride_tricks.as_strided(memory, shape, [8 * step for step in steps])
    made = t.from_numpy(array)
    assert made.stride() == steps
    memory[1] = 20
    assert made.tolist() == array.tolist()
    made[(0,) * len(shape)] = 30
    assert memory[0] == 30 and made.tolist() == array.tolist()
    made[-1].fill_(40)
    assert (array[-1] == 40).all() and made.tolist() == array.tolist()
    assert np.shares_memory(made.numpy(), memory)
    assert (made * 2).sum().item() == 2 * array.sum()


def test_from_numpy_of_a_passing_view():
    array = np.arange(4.0)
    made = creation.from_numpy(array[1:])
    array[1] = 5
    assert made.tolist() == [5.0, 2.0, 3.0]
    made[0] = 7
    assert array.tolist() == [0.0, 7.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("array", "strides"),
    [
        (np.asfortranarray(np.arange(6.0).reshape(2, 3)), (1, 2)),
        (np.arange(6.0)[::2], (2,)),
        (np.arange(6.0).reshape(2, 3)[:, 1:], (3, 1)),
    ],
)
def test_from_numpy_has_the_arrays_strides(array, strides):
    x = creation.from_numpy(array)
    assert x.stride() == strides
    assert not x.is_contiguous()
    assert x.detach().stride() == strides
    assert x.contiguous().is_contiguous()
    if x.dim() == 2:
        assert x.t().stride() == strides[::-1]
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            x.view(-1)
        assert x.reshape(-1).tolist() == array.reshape(-1).tolist()
    x += 1.0
    assert (x.stride(), x.tolist()) == (strides, array.tolist())
    x.data = creation.zeros(4)
    assert (x.stride(), x.tolist()) == ((1,), [0.0] * 4)


def test_from_numpy_of_a_strided_array():
    array = np.arange(12.0).reshape(3, 4)[:, ::2]
    made = creation.from_numpy(array)
    assert made.tolist() == array.tolist()
    array[1, 1] = -1
    assert made.tolist()[1][1] == -1


def test_asarray():
    array = np.arange(3.0)
    shared, copied = creation.asarray(array), creation.asarray(array, copy=True)
    array[0] = 9
    assert shared.tolist()[0] == 9 and copied.tolist()[0] == 0
    assert creation.asarray([1, 2], copy=None).tolist() == [1, 2]
    assert creation.asarray(torch.ones(2)).tolist() == [1.0, 1.0]
    assert creation.asarray([1.0], requires_grad=True).requires_grad
    with pytest.raises(ArgumentError, match="can't alias"):
        creation.asarray([1, 2], copy=False)
    with pytest.raises(ArgumentError, match="can't alias"):
        creation.asarray(array, dtype=dtypes.int64, copy=False)


def test_frombuffer():
    memory = bytearray(np.arange(4, dtype=np.float32).tobytes())
    made = creation.frombuffer(memory, dtype=dtypes.float32)
    assert made.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert creation.frombuffer(memory, dtype=dtypes.float32, count=2, offset=4).tolist() == [1, 2]
    memory[:4] = np.float32(9).tobytes()
    assert made.tolist()[0] == 9
    assert creation.frombuffer(bytes(8), dtype=dtypes.int64).tolist() == [0]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: creation.frombuffer(b"abc", dtype=dtypes.int16), ArgumentError, "multiple of"),
        (lambda: creation.frombuffer(b"", dtype=dtypes.int8), ArgumentError, "must not be 0"),
        (lambda: creation.frombuffer(b"ab", dtype=dtypes.int8, offset=2), ArgumentError, "offset"),
        (lambda: creation.frombuffer(b"ab", dtype=dtypes.int8, count=3), ArgumentError, "greater"),
        (lambda: creation.frombuffer([1], dtype=dtypes.int8), ArgumentTypeError, "buffer protocol"),
        (lambda: creation.from_numpy([1]), ArgumentTypeError, r"expected np\.ndarray .got list"),
        (lambda: creation.from_numpy(np.arange(3)[::-1]), ArgumentError, "negative"),
        (lambda: creation.from_numpy(np.array(["a"])), ArgumentTypeError, "NumPy type"),
        (lambda: creation.from_numpy(np.ones(2, ">f4")), ArgumentTypeError, "byte order"),
        (lambda: creation.zeros(-1), ShapeError, "negative"),
        (lambda: creation.zeros(), ArgumentTypeError, "'size' is missing"),
        (lambda: creation.zeros(2.5), ArgumentTypeError, "zeros: argument 'size' .* float"),
        (lambda: creation.zeros(2, "3"), ArgumentTypeError, "contains a str"),
        (lambda: creation.zeros("ab"), ArgumentTypeError, "contains a str"),
        (lambda: creation.zeros(2, size=(2,)), ArgumentTypeError, "given twice"),
        (lambda: creation.zeros(2, dtype="float32"), ArgumentTypeError, "must be torch.dtype"),
        (lambda: creation.zeros(2, device="cuda"), DeviceError, "cuda"),
        (lambda: creation.zeros(2, device=1.5), ArgumentTypeError, "device"),
        (lambda: creation.ones(2, layout=formats.sparse_coo), NotImplementedInWend, "sparse_coo"),
        (lambda: creation.zeros(2, layout="strided"), ArgumentTypeError, "layout"),
        (lambda: creation.zeros(2, pin_memory=True), DeviceError, "pin_memory"),
        (lambda: creation.zeros(2, out=[1]), ArgumentTypeError, "out must be a Tensor"),
        (lambda: creation.zeros(2, colour=1), ArgumentTypeError, "unexpected keyword .*colour"),
        (lambda: creation.full((2,), "a"), ArgumentTypeError, "full: a number is needed"),
        (lambda: creation.full((2,), 1j, dtype=dtypes.float32), DTypeError, "complex"),
        (lambda: creation.zeros_like([1]), ArgumentTypeError, "must be Tensor, not list"),
        (lambda: creation.arange(0, 5, 0), ValueRefused, "step must be nonzero"),
        (lambda: creation.arange(5, 0), ValueRefused, "inconsistent with step"),
        (lambda: creation.arange(float("inf")), ValueRefused, "unsupported range"),
        (lambda: creation.arange(3, dtype=dtypes.bool_), DTypeError, "bool"),
        (lambda: creation.arange(3j), ArgumentTypeError, "complex"),
        (lambda: creation.linspace(0, 1, -1), ArgumentError, "non-negative"),
        (lambda: creation.linspace(0, 1, 2.5), ArgumentTypeError, "steps must be an int"),
        (lambda: creation.linspace(0, 1j, 2, dtype=dtypes.float32), ArgumentTypeError, "complex"),
        (lambda: creation.eye(-1), ValueRefused, "n must be greater"),
        (lambda: creation.eye(2, -1), ValueRefused, "m must be greater"),
        (lambda: creation.tensor([[1], [2, 3]]), ArgumentError, r"data\[1\]"),
    ],
)  # fmt: skip
def test_bad_arguments(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_an_integer_cannot_require_grad():
    with pytest.raises(RuntimeError, match="floating point"):
        creation.tensor([1], requires_grad=True)
    with pytest.raises(RuntimeError, match="floating point"):
        creation.zeros(2, dtype=dtypes.int64, requires_grad=True)


def test_out_is_written_to():
    out = creation.ones(3)
    assert creation.zeros(3, out=out) is out and out.tolist() == [0.0, 0.0, 0.0]
    whole = creation.ones(3, dtype=dtypes.int64)
    creation.arange(3, out=whole)
    assert whole.tolist() == [0, 1, 2]
    with pytest.raises(DTypeError, match="does not match dtype of out"):
        creation.zeros(3, out=whole, dtype=dtypes.float32)


def test_python_types_are_dtypes():
    for kind, name in [(float, "float64"), (int, "int64"), (bool, "bool"), (complex, "complex128")]:
        assert creation.zeros(2, dtype=kind).dtype.name == name
        assert str(torch.zeros(2, dtype=kind).dtype) == f"torch.{name}"


def test_default_dtype_is_respected():
    dtypes.set_default_dtype(dtypes.float64)
    try:
        for made in (
            creation.zeros(2), creation.tensor(1.5), creation.arange(0.5),
            creation.linspace(0, 1, 2), creation.full((1,), 1.5), creation.eye(2),
            creation.scalar_tensor(1),
        ):  # fmt: skip
            assert made.dtype is dtypes.float64
        assert creation.full((1,), 1j).dtype is dtypes.complex128
    finally:
        dtypes.set_default_dtype(dtypes.float32)
