"""`wend.xp`, the array API: NumPy's numbers, the standard's names, types and errors."""

import inspect

import numpy as np
import pytest

import wend
from wend import xp

rng = np.random.default_rng(5)
A, B = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
WHOLE, POSITIVE = rng.integers(-9, 9, size=(3, 4)), rng.integers(1, 9, size=(3, 4))
C = A + 1j * B
S = A @ A.T + np.eye(3)

#: Calls that NumPy takes in the same form.
CALLS = {
    "add": (A, B), "subtract": (A, 2.5), "multiply": (WHOLE, POSITIVE), "divide": (WHOLE, POSITIVE),
    "floor_divide": (WHOLE, POSITIVE), "remainder": (A, B), "pow": (POSITIVE, 2), "maximum": (A, B),
    "hypot": (A, B), "atan2": (A, B), "logaddexp": (A, B), "copysign": (A, B), "exp": (C,),
    "log1p": (np.abs(A),), "sqrt": (np.abs(A),), "sign": (WHOLE,), "round": (A,), "floor": (WHOLE,),
    "conj": (C,), "real": (C,), "imag": (C,), "isfinite": (A,), "signbit": (A,), "square": (WHOLE,),
    "bitwise_xor": (WHOLE, POSITIVE), "bitwise_invert": (WHOLE,), "logical_not": (WHOLE > 0,),
    "less": (WHOLE, 3),
    "clip": (A, -0.5, 0.5), "tanh": (C,), "expm1": (A,), "reciprocal": (A,), "nextafter": (A, B),
    "flip": (A,), "roll": (A, 2), "moveaxis": (A, 0, 1), "permute_dims": (A, (1, 0)),
    "reshape": (A, (4, 3)), "tile": (A, (2, 1)), "repeat": (A, 2), "matmul": (A, B.T),
    "vecdot": (A, B), "tensordot": (A, B), "matrix_transpose": (A,), "cumulative_sum": (A[0],),
    "sort": (WHOLE,), "argsort": (A,), "argmax": (A,), "nonzero": (WHOLE > 0,), "searchsorted":
    (np.sort(A[0]), B[0]), "count_nonzero": (WHOLE,), "where": (WHOLE > 0, A, B),
    "sum": (WHOLE,), "prod": (POSITIVE,), "mean": (A,), "std": (A,), "var": (A,), "max": (A,),
    "all": (WHOLE > 0,), "diff": (A,), "tril": (A,), "take": (A[0], np.array([3, -1, 0])),
    "concat": ([A, B],),
    "stack": ([A, B],), "linspace": (0.0, 1.0, 7), "arange": (2, 9, 3), "eye": (3, 4),
    "broadcast_to": (A[0], (3, 4)), "expand_dims": (A, 1), "full": ((2, 3), 7),
}  # fmt: skip


def moved(value):
    if isinstance(value, np.ndarray):
        return xp.asarray(value)
    return [moved(v) for v in value] if isinstance(value, list) else value


def as_arrays(result):
    return [np.asarray(r) for r in (result if isinstance(result, (tuple, list)) else [result])]


@pytest.mark.parametrize("name", CALLS)
def test_numbers_are_numpys(name):
    arguments = CALLS[name]
    got = as_arrays(getattr(xp, name)(*map(moved, arguments)))
    want = as_arrays(getattr(np, name)(*arguments))
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        assert a.dtype.kind == b.dtype.kind
        assert np.allclose(a, b, rtol=1e-6, atol=1e-7)


def test_linear_algebra_and_transforms():
    for name, x in {"det": S, "inv": S, "cholesky": S, "svdvals": A, "eigvalsh": S}.items():
        got = np.asarray(getattr(xp.linalg, name)(moved(x)))
        assert np.allclose(got, getattr(np.linalg, name)(x))
    b = rng.normal(size=3)
    assert np.allclose(xp.linalg.solve(moved(S), moved(b)), np.linalg.solve(S, b))
    for name in ("fft", "ifft", "fftn", "rfft", "fftshift"):
        x = C if name != "rfft" else A
        assert np.allclose(np.asarray(getattr(xp.fft, name)(moved(x))), getattr(np.fft, name)(x))


def test_types_are_the_standards():
    assert xp.result_type(xp.uint8, xp.int8) is xp.int16
    assert xp.result_type(xp.ones(2, dtype=xp.float32), 1j) is xp.complex64
    assert (xp.ones(2, dtype=xp.uint8) + xp.ones((), dtype=xp.uint16)).dtype is xp.uint8  # PyTorch
    assert xp.add(xp.ones(2, dtype=xp.uint8), xp.ones((), dtype=xp.uint16)).dtype is xp.uint16
    assert xp.sum(xp.ones(3, dtype=xp.uint8)).dtype is xp.uint64
    assert xp.isdtype(xp.float32, ("integral", "real floating"))
    assert not xp.can_cast(xp.int64, xp.int32)
    info = xp.__array_namespace_info__()
    assert info.dtypes(kind="signed integer")["int16"] is xp.int16
    assert info.default_dtypes()["real floating"] is wend.get_default_dtype()
    assert info.capabilities()["boolean indexing"]


def test_special_values_are_the_standards():
    inf, nan = float("inf"), float("nan")
    x = xp.asarray([inf, -inf, 5.0, nan])
    assert xp.floor_divide(x, xp.asarray(2.0)).tolist()[:3] == [inf, -inf, 2.0]
    assert np.signbit(np.asarray(xp.remainder(xp.asarray(0.0), xp.asarray(-2.0))))
    assert np.isnan(float(xp.sign(x)[3]))
    assert complex(xp.expm1(xp.asarray(complex(-inf, inf)))) == -1


def test_equal_elements():
    x = xp.asarray([3, 1, 3, 2, 1, 1])
    found = xp.unique_all(x)
    assert found.values.tolist() == [1, 2, 3] and found.counts.tolist() == [3, 1, 2]
    assert found.indices.tolist() == [1, 3, 0]
    assert xp.take(found.values, found.inverse_indices).tolist() == x.tolist()


def test_namespace_of_tensors():
    x = wend.ones(2, requires_grad=True)
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2023.12") is xp
    assert x.to_device("cpu") is x
    with pytest.raises(ValueError, match=r"version .1999\.12. of the array API"):
        x.__array_namespace__(api_version="1999.12")
    (grad,) = wend.autograd.grad(xp.sum(xp.square(x)), [x])
    assert grad.tolist() == [2.0, 2.0]


def test_public_names_have_docstrings_and_keywords():
    for name in xp.__all__:
        found = getattr(xp, name)
        if inspect.isfunction(found):
            assert found.__doc__, name
    parameters = inspect.signature(xp.sum).parameters
    assert list(parameters) == ["x", "axis", "dtype", "keepdims"]
    assert parameters["axis"].kind is inspect.Parameter.KEYWORD_ONLY
