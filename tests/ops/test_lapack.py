"""LAPACK in NumPy's library: the same numbers as SciPy's, and where else routines come from."""

import ctypes
import sys

import numpy as np
import pytest
import scipy.linalg

import wend
from wend._engine.ops.linalg import lapack


def forget():
    for cached in (lapack._source, lapack.lapack):
        cached.cache_clear()


@pytest.fixture
def no_library(monkeypatch):
    """A NumPy whose library has no routines that NumPy does not need itself."""
    monkeypatch.setattr(lapack, "_libraries", lambda: iter(()))
    forget()
    yield
    forget()


def results():
    """Some of each routine's, for all four types."""
    rng = np.random.default_rng(5)
    for dtype in (wend.float32, wend.float64, wend.complex64, wend.complex128):
        parts = [wend.from_numpy(rng.normal(size=(2, 9, 9))) for _ in range(2)]
        a = (wend.complex(*parts) if dtype.is_complex else parts[0]).to(dtype)
        b, h = a[..., :4].contiguous(), a + a.mH + 20 * wend.eye(9)
        factor = wend.linalg.cholesky(h)
        yield from wend.linalg.lu_factor(a)
        yield from wend.linalg.ldl_factor(h, hermitian=True)
        yield wend.linalg.ldl_solve(*wend.linalg.ldl_factor(h), b)
        yield from wend.geqrf(b)
        yield wend.linalg.solve_triangular(factor, b, upper=False)
        yield wend.cholesky_solve(b, factor)
        yield wend.cholesky_inverse(factor)
        for driver in ("gels", "gelsy", "gelsd", "gelss"):
            yield wend.linalg.lstsq(b, a[..., :2], driver=driver).solution


def test_scipys_routines_serve_where_numpy_has_no_library(request):
    wanted = [x.numpy() for x in results()]
    request.getfixturevalue("no_library")
    assert lapack.integers() == np.int32
    for found, want in zip((x.numpy() for x in results()), wanted, strict=True):
        near = 1e-3 if want.dtype.itemsize == 4 or want.dtype == np.complex64 else 1e-10
        np.testing.assert_allclose(found, want, rtol=near, atol=near)


def test_without_any_the_error_names_the_extra(no_library, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "scipy"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs SciPy.*pip install 'wend-dl\[full\]'"):
        wend.geqrf(wend.ones(3, 3))[0].numpy()


def test_a_batch_is_each_matrix():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(3, 2, 30, 30)), rng.normal(size=(3, 2, 30, 2))
    lu, pivots = wend.linalg.lu_factor(wend.from_numpy(a))
    for place in np.ndindex(3, 2):
        want = scipy.linalg.lu_factor(a[place])
        np.testing.assert_allclose(lu[place].numpy(), want[0], rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(pivots[place].numpy() - 1, want[1])
    # A matrix that all right sides share is not copied for each.
    upper = np.triu(a[0, 0]) + 30 * np.eye(30)
    x = wend.linalg.solve_triangular(wend.from_numpy(upper), wend.from_numpy(b), upper=True)
    for place in np.ndindex(3, 2):
        want = scipy.linalg.solve_triangular(upper, b[place])
        np.testing.assert_allclose(x[place].numpy(), want, rtol=1e-12)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_the_size_of_integers_is_tried(kind):
    """Neither the name of a routine nor NumPy tells it."""

    def factor(m, n, a, columns, pivots, info):
        place = (ctypes.c_int32 if kind == np.int32 else ctypes.c_int64) * 2
        place.from_address(pivots)[:] = [2, 2]

    routine = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 6)(factor)
    source = lapack._tried(lambda name: ctypes.cast(routine, ctypes.c_void_p).value)
    assert source.integers == kind
