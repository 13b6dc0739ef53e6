"""The NumPy builder refuses what machines would do in different ways."""

import numpy as np
import pytest

from wend._engine.runtime.numpy_executor.numpy_builder import NumpyBuilder

B = NumpyBuilder()
INT, LONG, REAL = (np.array([7, -7]).astype(dtype) for dtype in ("int32", "int64", "float64"))
TWO = ("trunc_divide", "fmod", "pow", "div", "add", "sub", "maximum", "eq", "shift_left")


@pytest.mark.parametrize("name", TWO)
def test_operands_have_one_type(name):
    with pytest.raises(TypeError, match=f"{name}|{name[:3]}.*operands of two types"):
        getattr(B, name)(INT, LONG)


@pytest.mark.parametrize("name", ["trunc_divide", "fmod"])
def test_an_int_is_not_divided_by_0(name):
    with pytest.raises(ValueError, match=f"{name}: an int divided by 0"):
        getattr(B, name)(LONG, LONG * 0)


@pytest.mark.parametrize(
    ("name", "given"),
    [("trunc_divide", (REAL, REAL)), ("div", (INT, INT)), ("real", (REAL,)), ("exp", (INT,))],
)
def test_instructions_refuse_types_that_they_do_not_take(name, given):
    with pytest.raises(TypeError, match="the instruction does not take"):
        getattr(B, name)(*given)


@pytest.mark.parametrize("count", [-1, 64])
def test_counts_of_shifts_are_in_range(count):
    with pytest.raises(ValueError, match="a count is out of range"):
        B.shift_left(LONG, np.full(2, count))


def test_division_of_ints_goes_towards_0():
    assert B.trunc_divide(LONG, np.array([2, 2])).tolist() == [3, -3]
    assert B.trunc_divide(LONG, np.array([-2, -2])).tolist() == [-3, 3]
