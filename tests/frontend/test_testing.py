"""`wend.testing`: PyTorch's verdicts, in its words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wend
from wend._engine.base import dtypes
from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend.nn.parameter import Parameter
from wend.testing import assert_allclose, assert_close, make_tensor

torch = pytest.importorskip("torch")
NAN, INF = float("nan"), float("inf")


def verdict(function, *args, **keywords):
    """None, or the error's kind, with its text if it is about the values."""
    try:
        function(*args, **keywords)
    except AssertionError as error:
        return "AssertionError", str(error)
    except (TypeError, ValueError):
        return "refused", ""
    return None


def translated(value, library):
    """T(...) stands for a tensor of the library."""
    if isinstance(value, T):
        dtype = getattr(library, value.dtype) if value.dtype else None
        return library.tensor(value.values, dtype=dtype)
    if isinstance(value, (list, tuple)):
        return type(value)(translated(item, library) for item in value)
    if isinstance(value, dict):
        return {key: translated(item, library) for key, item in value.items()}
    return value


class T:
    def __init__(self, values, dtype=None):
        self.values, self.dtype = values, dtype

    def __repr__(self):
        return f"T({self.values}, {self.dtype})"


CASES = [
    (T([1.0, 2, 3]), T([1.0, 2, 4])),
    (T([[1.0, 2], [3, 4]]), T([[1.0, 2], [3.5, 9]])),
    (T([1.0, 2]), T([1.0, 2.0000001])),
    (T(1.0), T(2.0)),
    (T(1.0), T(1.0)),
    (1.0, 2.0),
    (1, 2),
    (1, 1.0),
    (1 + 1j, 1 + 2j),
    (True, False),
    (True, True),
    (T([1, 2]), T([1, 3])),
    (T([True]), T([False])),
    (T([1, 2, 3], "uint8"), T([2, 2, 3], "uint8")),
    (T([1.0]), T([1.0, 2])),
    (T([1.0]), T([1.0], "float64")),
    ([1, 2], [1, 2, 3]),
    ({"a": 1}, {"b": 1}),
    ({"a": T(1.0)}, {"a": T(2.0)}),
    ([T([1.0]), T([2.0])], [T([1.0]), T([3.0])]),
    ({"a": {"b": [T(1.0), T(2.0)]}}, {"a": {"b": [T(1.0), T(5.0)]}}),
    ((T([1.0]),), [T([1.0])]),
    (T([1.0]), [1.0]),
    (T([1.0]), None),
    (None, None),
    ("a", "a"),
    (T(1), 1),
    (T([NAN]), T([NAN])),
    (T([1.0, INF]), T([2.0, 1.0])),
    (T([INF, -INF]), T([INF, -INF])),
    (T([1.0], "float16"), T([1.002], "float16")),
    (T([1.0, 2.0], "bfloat16"), T([1.0, 2.5], "bfloat16")),
    (T([1e10]), T([0.0])),
    (T([0.0]), T([0.0])),
    (T([1.0 + 1j]), T([2.0 + 1j])),
    (T([]), T([])),
    (T([1.0, 1.0 + 1e-6]), T([1.0, 1.0])),
    (T([1.0], "float64"), T([1.0 + 1e-6], "float64")),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_same_verdict_in_the_same_words(case):
    ours = verdict(assert_close, *(translated(value, wend) for value in case))
    theirs = verdict(torch.testing.assert_close, *(translated(value, torch) for value in case))
    assert ours == theirs


OPTIONS = [
    {"rtol": 0.3, "atol": 0.0}, {"rtol": 0.0, "atol": 0.0}, {"rtol": 0.0, "atol": 1.0},
    {"equal_nan": True}, {"check_dtype": False}, {"msg": "mine"}, {"rtol": 1.0},
    {"msg": lambda text: "before " + text},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=lambda row: "-".join(map(str, row)) or "none")
@pytest.mark.parametrize("case", CASES[:5] + CASES[11:16] + CASES[27:31], ids=str)
def test_options_act_the_same_way(case, options):
    ours = verdict(assert_close, *(translated(value, wend) for value in case), **options)
    theirs = verdict(
        torch.testing.assert_close, *(translated(value, torch) for value in case), **options
    )
    assert ours == theirs


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.floats(width=32), st.floats(-1e-5, 1e-5)), min_size=1, max_size=6),
    st.sampled_from(["float16", "float32", "float64"]),
)
def test_any_floats_get_the_same_verdict(pairs, dtype):
    a = [x for x, _ in pairs]
    b = [x + x * d for x, d in pairs]
    ours = verdict(assert_close, translated(T(a, dtype), wend), translated(T(b, dtype), wend))
    theirs = verdict(
        torch.testing.assert_close, translated(T(a, dtype), torch), translated(T(b, dtype), torch)
    )
    assert (ours is None) == (theirs is None)


def test_arrays_are_compared_too():
    assert_close(np.ones(2), np.ones(2))
    with pytest.raises(AssertionError, match="2 / 2"):
        assert_close(np.ones(2), np.zeros(2))


def test_strides_and_classes():
    assert_close(wend.ones(2, 3).t(), wend.ones(3, 2))
    with pytest.raises(AssertionError, match=r"'stride\(\)' do not match: \(1, 3\) != \(2, 1\)"):
        assert_close(wend.ones(2, 3).t(), wend.ones(3, 2), check_stride=True)
    assert_close(Parameter(wend.ones(2)), wend.ones(2))
    with pytest.raises(ArgumentTypeError, match="no comparison pair"):
        assert_close(Parameter(wend.ones(2)), wend.ones(2), allow_subclasses=False)


def test_pending_values_are_computed():
    x = wend.ones(3, requires_grad=True)
    assert_close(x * 2 + 1, wend.tensor([3.0, 3.0, 3.0]))


def test_the_former_function():
    with pytest.warns(FutureWarning, match="assert_close"):
        assert_allclose(wend.tensor([1.0]), wend.tensor([1.00001], dtype=dtypes.float64))
    with pytest.warns(FutureWarning, match="assert_close"):
        assert_allclose(wend.tensor([NAN]), [NAN])
    with pytest.warns(FutureWarning), pytest.raises(AssertionError, match="not close"):
        assert_allclose(wend.tensor([1.0]), wend.tensor([1.1]))


class TestMakeTensor:
    @pytest.mark.parametrize(
        "name", ["bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32"]
    )
    def test_ranges(self, name):
        dtype = dtypes.NAMES[name]
        values = make_tensor(50, 20, dtype=dtype)
        assert values.shape == (50, 20) and values.dtype is dtype
        low, high = {"bool": (0, 1), "uint8": (0, 9)}.get(name, (-9, 9))
        flat = np.array(values.tolist()).astype(float)
        assert flat.min() >= low and flat.max() <= high and flat.std() > 0.1 * (high - low)
        given = make_tensor((200,), dtype=dtype, low=1, high=2)
        assert all(1 <= float(v) <= 2 for v in given.tolist())

    def test_sizes(self):
        assert make_tensor((), dtype=dtypes.float32).shape == ()
        assert make_tensor(0, 3, dtype=dtypes.float32).shape == (0, 3)
        assert make_tensor([2, 3], dtype=dtypes.float32).shape == (2, 3)

    def test_options(self):
        assert make_tensor(3, dtype=dtypes.float32, requires_grad=True).requires_grad
        assert not make_tensor(3, 4, dtype=dtypes.float32, noncontiguous=True).is_contiguous()
        assert 0 not in make_tensor(500, dtype=dtypes.int8, exclude_zero=True).tolist()
        assert make_tensor(9, dtype=dtypes.int8, low=-1000, high=-127).tolist() == [-128] * 9

    @pytest.mark.parametrize(
        ("options", "error", "words"),
        [
            ({"dtype": dtypes.float32, "low": 2, "high": 1}, ArgumentError, "low must be less"),
            ({"dtype": dtypes.float32, "low": NAN}, ArgumentError, "nan"),
            ({"dtype": dtypes.int64, "requires_grad": True}, ArgumentError, "requires_grad"),
            ({"dtype": None}, ArgumentTypeError, "dtype must be given"),
            ({"dtype": dtypes.uint8, "low": 300, "high": 400}, ArgumentError, "no values in"),
            ({"dtype": dtypes.int8, "low": 0.2, "high": 0.7}, ArgumentError, "no values in"),
        ],
    )
    def test_bad_arguments(self, options, error, words):
        with pytest.raises(error, match=words):
            make_tensor(2, **options)
