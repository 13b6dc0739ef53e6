"""Python data to arrays: PyTorch's element types and values, and errors that say where."""

from __future__ import annotations

import array
import collections
import enum

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wend._engine.base import dtypes
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, ValueRefused
from wend._frontend.interop.arrays import Op, array_from_data

torch = pytest.importorskip("torch")


class NoTensor:
    """Stands for the tensor class where no tensor occurs."""


class FakeTensor:
    def __init__(self, values, dtype):
        self.values = np.asarray(values)
        self.dtype = dtype
        self.shape = self.values.shape

    def numel(self):
        return self.values.size

    def item(self):
        return self.values.item()


OP = Op("tensor", FakeTensor)


def made(data, dtype=None):
    return array_from_data(data, dtype, OP)


def assert_like_torch(data, dtype=None):
    expected = torch.tensor(data, dtype=getattr(torch, dtype) if dtype else None)
    result = made(data, dtypes.NAMES[dtype] if dtype else None)
    assert repr(dtypes.from_numpy(result.dtype)) == str(expected.dtype)
    assert result.shape == tuple(expected.shape)
    if result.dtype == ml_dtypes.bfloat16:
        result, expected = result.astype(np.float32), expected.float()
    np.testing.assert_array_equal(result, expected.numpy())


class Sequence:
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Colour(enum.IntEnum):
    RED = 7


CASES = {
    "no items": [],
    "one empty row": [[]],
    "empty rows": [[], []],
    "deep": [[[1], [2]]],
    "int and float": [1, 2.5],
    "bool and int": [True, 2],
    "bools": [True, False],
    "int and complex": [1, 2j],
    "tuple of lists": ([1, 2], [3, 4]),
    "range": range(3),
    "deque": collections.deque([1, 2]),
    "array.array": array.array("d", [1, 2]),
    "bytearray": bytearray(b"ab"),
    "memoryview": memoryview(b"ab"),
    "own sequence": Sequence([1, 2.5]),
    "rows of an own sequence": [Sequence([1, 2]), [3, 4]],
    "int": 3,
    "float": 2.5,
    "bool": True,
    "complex": 1 + 2j,
    "infinity": float("inf"),
    "smallest int": -(2**63),
    "int beyond 32 bits": [1, 2**31],
    "huge int with a float": [2**63, 1.0],
    "np.float64": np.float64(3),
    "np.float32": np.float32(3),
    "np.int8": np.int8(3),
    "np.bool": np.bool_(True),
    "list of np.float64": [np.float64(1)],
    "np.float64 and float": [np.float64(1), 2.0],
    "float and np.float32": [2.0, np.float32(1)],
    "np.int8 and int": [np.int8(1), 2],
    "list of np.bool": [np.bool_(True)],
    "list of arrays": [np.array([1, 2]), np.array([3, 4])],
    "array and list": [np.array([1.0, 2]), [3, 4]],
    "arrays of two types": [np.array([1, 2]), np.array([1.5, 2])],
    "0-d array": np.array(3),
    "empty array": np.zeros((0, 3)),
    "transposed array": np.arange(6.0).reshape(2, 3).T,
    "float16 array": np.ones(3, np.float16),
    "IntEnum": [Colour.RED, 2],
}


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list of numpy")
@pytest.mark.filterwarnings("ignore:The given buffer is not writable")
@pytest.mark.parametrize("data", CASES.values(), ids=CASES.keys())
def test_values_and_types_as_in_pytorch(data):
    assert_like_torch(data)


@pytest.mark.parametrize("dtype", [d.name for d in dtypes.ALL])
@pytest.mark.parametrize("data", [[1, 2], [1.5, 0.0], [True, False], [[100.7], [3]]], ids=str)
def test_a_given_type_as_in_pytorch(data, dtype):
    if dtype == "uint64" and "." in str(data):
        pytest.skip("PyTorch asks for integers")
    assert_like_torch(data, dtype)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [([-1], "uint8"), ([-255], "uint8"), ([2**63], "float64"), ([1e40], "float32"),
     ([70000.0], "float16"), (np.array([300]), "uint8"), (np.array([1.5]), "int64"),
     (float("nan"), "float32"), (float("nan"), "bool"), ([], "int8")],
    ids=str,
)  # fmt: skip
def test_conversions_at_the_edges_as_in_pytorch(data, dtype):
    assert_like_torch(data, dtype)


OVERFLOWS = [
    ([300], "uint8"), ([-256], "uint8"), ([2**40], "int32"), ([float("nan")], "int64"),
    ([float("inf")], "int32"), ([256.0], "uint8"), ([-1.0], "uint8"), ([1e10], "int32"),
    ([127.5], "int8"), ([np.int64(300)], "uint8"), (300, "int8"), ([1e19], "int64"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "dtype"), OVERFLOWS, ids=str)
def test_overflow_is_an_error_as_in_pytorch(data, dtype):
    with pytest.raises(RuntimeError, match="overflow"):
        torch.tensor(data, dtype=getattr(torch, dtype))
    with pytest.raises(ValueRefused, match=r"without overflow: data.* is "):
        made(data, dtypes.NAMES[dtype])


nested = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(width=32),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(nested)
def test_any_nesting_as_in_pytorch(data):
    """Where PyTorch makes a tensor, so do we, of the same values; where it refuses, we do too."""
    try:
        torch.tensor(data)
    except (TypeError, ValueError, RuntimeError):
        with pytest.raises((ArgumentError, ArgumentTypeError)):
            made(data)
        return
    expected = torch.tensor(data)
    if 0 in expected.shape:
        # PyTorch looks no further than the first row when that is empty; we refuse what follows.
        try:
            assert made(data).shape == tuple(expected.shape)
        except (ArgumentError, ArgumentTypeError):
            pass
        return
    result = made(data)
    assert result.shape == tuple(expected.shape)
    np.testing.assert_array_equal(result, expected.numpy())


def test_default_dtype_is_respected():
    dtypes.set_default_dtype(dtypes.float64)
    try:
        assert made([1.5]).dtype == np.float64 == made([]).dtype
        assert made([1j]).dtype == np.complex128
        assert made([1]).dtype == np.int64
    finally:
        dtypes.set_default_dtype(dtypes.float32)


def test_tensors_among_the_data():
    one = FakeTensor(1.5, dtypes.float64)
    assert made([one, 2]).dtype == np.float64
    assert made([[FakeTensor([1], dtypes.int8)], [FakeTensor(2, dtypes.uint8)]]).dtype == np.int16
    with pytest.raises(
        ArgumentError, match=r"one element tensors.*data\[1\] has shape \(2,\).*stack"
    ):
        made([one, FakeTensor([1, 2], dtypes.int64)])


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        ([[1, 2], [3]], ArgumentError, r"length 2 at dim 1 \(got 1\): data\[0\] .* data\[1\]"),
        ([[[1], [2]], [[3], [4, 5]]], ArgumentError, r"dim 2 .* data\[1\]\[1\] has length 2"),
        ([[], [1]], ArgumentError, r"data\[1\] has length 1"),
        ([[1, 2], 3], ArgumentTypeError, r"data\[1\] is a int, not a sequence"),
        ([1, [2]], ArgumentTypeError, r"data\[1\] is a sequence, and data\[0\] is a number"),
        ([[[1]], [2]], ArgumentTypeError, r"data\[1\]\[0\] is a int"),
        ("abc", ArgumentTypeError, "data is a str"),
        (["a"], ArgumentTypeError, r"data\[0\] is a str"),
        ([1, None], ArgumentTypeError, r"data\[1\] is a NoneType"),
        (None, ArgumentTypeError, "data is a NoneType"),
        ({1: 2}, ArgumentTypeError, "data is a dict"),
        ({1, 2}, ArgumentTypeError, "data is a set"),
        (b"ab", ArgumentTypeError, "data is a bytes"),
        ([object()], ArgumentTypeError, r"data\[0\] is a object"),
        ([[0, 2**63]], ArgumentError, r"data\[0\]\[1\] is too large for 64 bits"),
        ([1.0, 10**400], ArgumentError, r"data\[1\] is too large for a float"),
        (np.array([1, None]), ArgumentTypeError, "object"),
        (np.array(["a"]), ArgumentTypeError, "NumPy type <U1"),
        (np.array([1], np.longdouble), ArgumentTypeError, "float128"),
        (np.array([1], ">i4"), ArgumentTypeError, "byte order"),
        ([np.zeros(2), np.zeros(3)], ArgumentError, r"shape \(2,\) .* shape \(3,\)"),
    ],
)
def test_errors_say_where(data, error, words):
    with pytest.raises(error, match=words):
        made(data)


def test_complex_into_a_real_type():
    with pytest.raises(ArgumentTypeError, match=r"data\[1\] is complex and torch.float32 is"):
        made([1, 2j], dtypes.float32)


def test_endless_nesting():
    endless = []
    endless.append(endless)
    with pytest.raises(ArgumentError, match="nested more than 64 deep"):
        made(endless)


def test_negative_strides_are_copied():
    np.testing.assert_array_equal(made(np.arange(3)[::-1]), [2, 1, 0])


def test_the_result_shares_no_memory():
    source = np.arange(3.0)
    assert not np.shares_memory(made(source), source)
