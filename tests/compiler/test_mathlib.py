"""The library of functions: near the exact values, right at the edges, on older processors too.

`benchmarks/ulp.py` measures every float32; here are samples.
"""

import elementwise
import numpy as np
import pytest
from targets import targets

from wend._engine.base import dtypes
from wend._engine.compiler import mathlib
from wend._engine.compiler.codegen import instructions
from wend._engine.compiler.llvm_ir import jit

NUMPY = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "atan2": "arctan2",
    "pow": "power",
}
#: Those that have an exact value to compare with, and by how much they may miss it, in ulp.
UNARY = [n for n, (_, count) in mathlib.FUNCTIONS.items() if count == 1]
UNARY = [n for n in UNARY if n not in ("polygamma", "digamma", "lgamma", "erfinv")]
UNARY = [n for n in UNARY if not n.startswith("normal_") and n != "exp_of_negative"]
BINARY = ["pow", "atan2", "hypot", "fmod", "nextafter"]
BOUND = 2.0
INF, NAN = float("inf"), float("nan")


def exact(name, double):
    """A function more precise than float32, or than float64."""
    if name == "sigmoid":
        return lambda x: 1 / (1 + np.exp(-x))
    found = getattr(np, NUMPY.get(name, name), None)
    if found is None and not double:
        from scipy import special

        found = getattr(special, name)
    return found


def ulps(got, want):
    """Distances in ulp; equal infinities and NaN are 0 apart."""
    info = np.finfo(got.dtype)
    rounded = want.astype(got.dtype)
    scale = np.ldexp(want.dtype.type(1), np.frexp(want)[1] - info.nmant - 1)
    found = np.abs(got - want) / np.maximum(scale, want.dtype.type(info.smallest_subnormal))
    found[(got == rounded) & ~np.isfinite(rounded) | np.isnan(got) & np.isnan(want)] = 0
    found[np.isnan(found)] = np.inf
    return found


def special(dtype):
    info = np.finfo(dtype)
    # fmt: off
    ends = [info.max, info.tiny, info.smallest_subnormal, 3 * info.smallest_subnormal, info.eps]
    rest = [0.0, 0.1, 0.5, 0.55, 0.84, 0.9999999, 1.0, 1.0000001, 1.5, 2.0, 2.5, 3.0, 9.0, 10.5,
            16.6, 27.0, 88.7, 88.73, 89.0, 104.0, 104.7, 105.01, 105.3, 127.5, 128.0, 150.0,
            709.7, 709.8, 711.0, 746.0, 1e4, 1e6, 1e18, INF, NAN]
    # fmt: on
    values = np.array(ends + rest, dtype)
    return np.concatenate([values, -values])


def sample(dtype, rng):
    words = rng.integers(0, 2**64, 2000, dtype=np.uint64)
    anything = words.view(dtype) if dtype == np.float64 else words.view(np.float32)
    plain = [rng.uniform(-r, r, 3000).astype(dtype) for r in (1, 5, 100)]
    return np.concatenate([special(dtype), anything, *plain])


@pytest.mark.parametrize(("kind", "target"), targets())
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", UNARY)
def test_functions_are_near(name, dtype, kind, target):
    double = dtype == np.float64
    function = exact(name, double)
    if function is None:
        pytest.skip("nothing to compare with")
    x = sample(dtype, np.random.default_rng(7))
    with np.errstate(all="ignore"):
        want = function(x.astype(np.longdouble if double else np.float64))
        got, _ = elementwise.run(lambda b, x: b.function(name, x), [x], 8, target)
        found = ulps(got, want)
    worst = int(found.argmax())
    assert found[worst] <= BOUND, f"{name}({x[worst]!r}) = {got[worst]!r}, not {want[worst]!r}"
    zero = (got == 0) & (want == 0)
    signs = np.signbit(got[zero]) == np.signbit(want[zero])
    assert signs.all(), f"{name}: a 0 of the wrong sign at {x[zero][~signs]}"


@pytest.mark.parametrize(("kind", "target"), targets())
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exp_of_negative_is_exp(dtype, kind, target):
    x = -np.abs(sample(dtype, np.random.default_rng(9)))
    short, whole = (
        elementwise.run(lambda b, x, name=name: b.function(name, x), [x], 8, target)[0]
        for name in ("exp_of_negative", "exp")
    )
    np.testing.assert_array_equal(short, whole)


@pytest.mark.parametrize(("kind", "target"), targets())
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tanh_is_odd_and_never_beyond_1(dtype, kind, target):
    x = sample(dtype, np.random.default_rng(8))
    x = np.abs(x[~np.isnan(x)])
    found = [elementwise.run(lambda b, x: b.tanh(x), [y], 8, target)[0] for y in (x, -x)]
    np.testing.assert_array_equal(found[0], -found[1])
    assert found[0].max() == 1.0


def pairs(dtype, rng):
    ends = special(dtype)
    grid = [a.ravel() for a in np.meshgrid(ends, ends)]
    words = rng.integers(0, 2**64, (2, 2000), dtype=np.uint64).view(dtype)
    x = np.exp(rng.uniform(-20, 20, 4000)).astype(dtype)
    y = rng.uniform(-12, 12, 4000).astype(dtype)
    near = rng.uniform(0.5, 2, 4000).astype(dtype)
    rows = [grid, words, (x, y), (y, y * near), (x, x * near)]
    return [np.concatenate([row[i].ravel() for row in rows]) for i in (0, 1)]


@pytest.mark.parametrize(("kind", "target"), targets())
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_are_near(name, dtype, kind, target):
    x, y = pairs(dtype, np.random.default_rng(7))
    function = exact(name, True)
    with np.errstate(all="ignore"):
        if name == "nextafter":
            want = function(x, y)
        else:
            want = function(x.astype(np.longdouble), y.astype(np.longdouble))
        got, _ = elementwise.run(lambda b, x, y: b.function(name, x, y), [x, y], 8, target)
        found = ulps(got, want)
    worst = int(found.argmax())
    bound = 0.0 if name in ("fmod", "nextafter") else BOUND
    at = f"{name}({x[worst]!r}, {y[worst]!r})"
    assert found[worst] <= bound, f"{at} = {got[worst]!r}, not {want[worst]!r}"
    zero = (got == 0) & (want == 0)
    assert (np.signbit(got[zero]) == np.signbit(want[zero])).all()


@pytest.mark.parametrize(("kind", "target"), targets())
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_normal_gate_and_its_slope_are_near(dtype, kind, target):
    from scipy.special import ndtr

    x = np.concatenate([special(dtype), np.linspace(-9, 9, 4001, dtype=dtype)])
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        density = np.exp(-0.5 * wide * wide) / np.sqrt(2 * np.pi)
        wanted = {"normal_gate": wide * ndtr(wide), "normal_slope": ndtr(wide) + wide * density}
    for name, want in wanted.items():
        got, _ = elementwise.run(lambda b, x, name=name: b.function(name, x), [x], 8, target)
        rel, near = (2e-7, 4e-7) if dtype == np.float32 else (1e-15, 2e-15)
        np.testing.assert_allclose(got, want.astype(dtype), rtol=rel, atol=near)
        far = abs(wide) > 40
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(got[far], want.astype(dtype)[far])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("erf", -6, 6),
        ("erfc", -6, 12),
        ("erfinv", -1, 1),
        ("lgamma", 0.1, 50),
        ("digamma", 2, 50),
        ("i0e", -60, 60),
        ("i1e", -60, 60),
    ],
)
def test_special_functions_are_near_scipys(name, low, high, dtype):
    from scipy import special

    x = np.random.default_rng(7).uniform(low, high, 4000).astype(dtype)
    got, _ = elementwise.run(lambda b, x: b.function(name, x), [x], 16)
    function = {"lgamma": "gammaln", "digamma": "psi"}.get(name, name)
    want = getattr(special, function)(x.astype(np.float64))
    want = want.astype(dtype).astype(np.float64)
    # SciPy's own float64 is some ulp off, more in tails; beside a zero nobody's is relatively near.
    bound = 4e-14 if dtype == np.float64 else 2.5e-7
    np.testing.assert_allclose(got, want, rtol=bound, atol=bound / 100)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.int32, np.int64])
def test_gcd(dtype):
    rng, info = np.random.default_rng(7), np.iinfo(dtype)
    x, y = rng.integers(info.min, info.max, (2, 3000), dtype, endpoint=True)
    x[:9], y[3:12], y[100:300] = 0, 0, info.min
    got, _ = elementwise.run(lambda b, x, y: b.gcd(x, y), [x, y], 8)
    np.testing.assert_array_equal(got, np.gcd(x, y))


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_polygamma(n):
    from scipy import special

    x = np.random.default_rng(7).uniform(0.01, 40, 1000)
    got, _ = elementwise.run(lambda b, x: b.polygamma(n, x), [x], 8)
    np.testing.assert_allclose(got, special.polygamma(n, x), rtol=1e-13)
    # Left of 0 by the recurrence psi_n(x + 1) = psi_n(x) + (-1)^n n! / x^(n + 1).
    x = -x - 0.003
    here, _ = elementwise.run(lambda b, x: b.polygamma(n, x), [x], 8)
    there, _ = elementwise.run(lambda b, x: b.polygamma(n, x), [x + 1], 8)
    step = (-1.0) ** n * special.factorial(n) / x ** (n + 1)
    np.testing.assert_allclose(there - here, step, rtol=1e-9, atol=1e-9 * np.abs(here).max())


def test_large_arguments_of_periodic_functions():
    x = np.concatenate([10.0 ** np.arange(3, 300, 7.0), [3e4, 1e6, 2.0**53, 2.0**1000]])
    for name in ("sin", "cos", "tan"):
        got, _ = elementwise.run(lambda b, x: b.function(name, x), [x], 8)  # noqa: B023
        want = getattr(np, name)(x)
        np.testing.assert_allclose(got, want, rtol=1e-15)


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8, dtypes.int16])
def test_integer_division_of_all_values(dtype):
    info = dtypes.iinfo(dtype)
    values = np.arange(info.min, info.max + 1, 1 if dtype.itemsize == 1 else 251)
    x, y = (a.ravel().astype(dtype.numpy) for a in np.meshgrid(values, values[values != 0]))
    got, _ = elementwise.run(lambda b, x, y: b.trunc_divide(x, y), [x, y], 16)
    want = np.trunc(x.astype(np.float64) / y).astype(np.int64).astype(dtype.numpy)
    np.testing.assert_array_equal(got, want)
    rest, _ = elementwise.run(lambda b, x, y: b.fmod(x, y), [x, y], 16)
    np.testing.assert_array_equal(rest, x - want * y)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integer_division_at_the_ends(dtype):
    info = np.iinfo(dtype)
    ends = np.array([info.min, info.min + 1, -7, -2, -1, 1, 2, 7, info.max - 1, info.max], dtype)
    x, y = (a.ravel() for a in np.meshgrid(ends, ends))
    got, _ = elementwise.run(lambda b, x, y: b.trunc_divide(x, y), [x, y], 4)
    for a, b, q in zip(x.tolist(), y.tolist(), got.tolist(), strict=True):
        want = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        assert q == (want + info.max + 1) % 2 ** (8 * info.dtype.itemsize) + info.min, (a, b)


# -- without the C library, as on accelerators --------------------------------------------------


@pytest.fixture
def no_library(monkeypatch):
    """Functions are written as for accelerators; the processor runs them."""
    calls = property(lambda builder: False)
    monkeypatch.setattr(elementwise.VectorBuilder, "calls_library", calls)
    instructions._library.cache_clear()  # texts are kept by target
    yield
    instructions._library.cache_clear()


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_large_angles_without_a_library(name, lanes, no_library):
    """An angle next to a multiple of pi / 2 is among them: 5.3e-19 away, the nearest there is."""
    words = np.random.default_rng(4).integers(0, 1 << 63, 6000, dtype=np.uint64)
    drawn = words.view(np.float64)
    drawn = drawn[np.isfinite(drawn) & (drawn > 1e6)][:1992]
    near = 6381956970095103 * 2.0**797
    x = np.concatenate([drawn, [near, -near, 1e6, 1000001.0, 1e22, -1e300, INF, NAN]])
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x.astype(np.longdouble))
        got, _ = elementwise.run(lambda b, x: b.function(name, x), [x], lanes, jit.host())
    assert ulps(got, want).max() <= BOUND


def test_lgamma_without_a_library(no_library):
    special = pytest.importorskip("scipy.special")
    rng = np.random.default_rng(5)
    drawn = [
        rng.uniform(-30, 30, 3000),
        rng.uniform(0.4, 3, 1000),
        10 ** rng.uniform(-300, 305, 992),
    ]
    ends = [0.0, -0.0, 1.0, 2.0, -3.0, INF, -INF, NAN]
    x = np.concatenate([*drawn, ends])
    with np.errstate(all="ignore"):
        want = special.gammaln(x)
        got, _ = elementwise.run(lambda b, x: b.function("lgamma", x), [x], 8, jit.host())
        near = np.abs(got - want) <= 1e-14 * np.maximum(np.abs(want), 1)
    assert np.all(near | (got == want) | (np.isnan(got) & np.isnan(want)))
