"""Special functions by NumPy, beside SciPy's; both are some roundings off."""

import numpy as np
import pytest
from scipy import special

from wend._engine.ops.functions import bessel, errorfunction, gamma

ENDS = [0.0, -0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 5e-324, 1e-310, 1e300, np.inf]
ENDS = np.array(ENDS + [-x for x in ENDS] + [np.nan, 171.0, -2.5])


def between(low, high):
    return np.random.default_rng(7).uniform(low, high, 2000)


def spread(low, high):
    return np.exp(between(np.log(low), np.log(high)))


#: By name: the function, SciPy's, samples; how near in parts of the value, and beside a zero.
CASES = {
    "erf": (errorfunction.erf, special.erf, [between(-6, 6), spread(1e-300, 1)], 1e-15, 0),
    "erfc": (errorfunction.erfc, special.erfc, [between(-6, 26)], 1e-13, 0),
    "erfcx": (errorfunction.erfcx, special.erfcx, [between(-20, 30), spread(1, 1e300)], 1e-13, 0),
    "erfinv": (
        errorfunction.erfinv,
        special.erfinv,
        [between(-1, 1), 1 - spread(1e-16, 0.1), spread(1e-300, 0.1)],
        2e-15,
        0,
    ),
    "ndtri": (errorfunction.ndtri, special.ndtri, [between(0, 1), spread(1e-307, 1)], 2e-15, 0),
    "log_ndtr": (
        errorfunction.log_ndtr,
        special.log_ndtr,
        [between(-40, 8), -spread(1, 1e10)],
        1e-14,
        0,
    ),
    "lgamma": (
        gamma.lgamma,
        special.gammaln,
        [between(0, 20), spread(1e-300, 1e300), between(-20, 0)],
        1e-14,
        1e-14,
    ),
    "digamma": (
        gamma.digamma,
        special.psi,
        [between(0, 20), spread(1e-300, 1e300), between(-20, 0)],
        1e-12,
        1e-13,
    ),
    "i0": (bessel.i0, special.i0, [between(-50, 50), spread(0.1, 700)], 4e-15, 0),
    "i1": (bessel.i1, special.i1, [between(-50, 50), spread(1e-10, 700)], 4e-15, 0),
    "i0e": (bessel.i0e, special.i0e, [between(-50, 50), spread(0.1, 1e6)], 4e-15, 0),
    "i1e": (bessel.i1e, special.i1e, [between(-50, 50), spread(1e-10, 1e6)], 4e-15, 0),
    "k0": (bessel.k0, special.k0, [between(0, 50), spread(1e-10, 700)], 4e-15, 0),
    "k1": (bessel.k1, special.k1, [between(0, 50), spread(1e-10, 700)], 4e-15, 0),
    "k0e": (bessel.k0e, special.k0e, [between(0, 50), spread(1e-10, 1e6)], 4e-15, 0),
    "k1e": (bessel.k1e, special.k1e, [between(0, 50), spread(1e-10, 1e6)], 4e-15, 0),
    "j0": (bessel.j0, special.j0, [between(-50, 50), spread(1e-10, 1e3)], 1e-13, 4e-15),
    "j1": (bessel.j1, special.j1, [between(-50, 50), spread(1e-10, 1e3)], 1e-13, 4e-15),
    "y0": (bessel.y0, special.y0, [between(0, 50), spread(1e-10, 1e3)], 1e-13, 4e-15),
    "y1": (bessel.y1, special.y1, [between(0, 50), spread(1e-10, 1e3)], 1e-13, 4e-15),
    "airy": (bessel.airy, lambda x: special.airy(x)[0], [between(-40, 30)], 1e-12, 2e-14),
}
#: Where SciPy's have another value at an end: the limit is known.
LIMITS = {
    **dict.fromkeys(("j0", "j1", "y0", "y1", "airy"), np.abs(ENDS) >= 1e300),
    "lgamma": (ENDS != 0) & (np.abs(ENDS) < 1e-300),
}


@pytest.mark.parametrize("name", CASES)
def test_functions_are_near_scipys(name):
    function, reference, samples, rel, near = CASES[name]
    with np.errstate(all="ignore"):
        x = np.concatenate([*samples, ENDS])
        np.testing.assert_allclose(
            function(x)[: -ENDS.size], reference(x)[: -ENDS.size], rtol=rel, atol=near
        )
        found, want = function(ENDS), reference(ENDS)
        known = ~LIMITS.get(name, np.zeros(ENDS.shape, bool))
        np.testing.assert_allclose(found[known], want[known], rtol=1e-13, atol=1e-307)
        single = x.astype(np.float32)
        assert function(single).dtype == np.float32
        np.testing.assert_array_equal(
            function(single), function(single.astype(np.float64)).astype(np.float32)
        )


def test_shapes_and_blocks():
    x = np.linspace(-3, 3, 3 * 4100).reshape(3, 4100)
    whole = errorfunction.erf(x)
    assert whole.shape == x.shape
    np.testing.assert_array_equal(errorfunction.erf(x.T[::7]), whole.T[::7])
    assert errorfunction.erf(np.float64(0.5)).shape == ()
    assert errorfunction.erf(np.zeros((0, 2), np.float32)).shape == (0, 2)
    assert gamma.zeta(np.float64(2), np.ones((2, 3))).shape == (2, 3)


def test_zeta_and_polygamma():
    rng = np.random.default_rng(3)
    for s, q in (
        (between(1, 30), rng.uniform(0, 50, 2000)),
        (1 + spread(1e-10, 1e3), np.exp(rng.uniform(-10, 18, 2000))),
        (np.floor(between(2, 20)), rng.uniform(-20, 0, 2000)),
        (np.array([1.0, 0.5, 2.0, 2.5, 2.0, np.nan]), np.array([3.0, 1.0, -3.0, -0.5, 0.0, 1.0])),
    ):
        np.testing.assert_allclose(gamma.zeta(s, q), special.zeta(s, q), rtol=1e-13, atol=1e-307)
    x = between(-5, 20)
    for n in (1, 2, 5):
        want = (-1) ** (n + 1) * special.factorial(n) * special.zeta(n + 1, x)
        np.testing.assert_allclose(gamma.polygamma(n, x), want, rtol=1e-13)


def test_incomplete_gamma_functions():
    rng = np.random.default_rng(4)
    large = spread(1, 9999)
    for a, x in (
        (between(0, 20), rng.uniform(0, 40, 2000)),
        (spread(1e-5, 1e3), np.exp(rng.uniform(-11, 7, 2000))),
        (large, large * rng.uniform(0.8, 1.2, 2000)),
    ):
        lower, upper = gamma.gammainc(a, x), gamma.gammaincc(a, x)
        np.testing.assert_allclose(lower, special.gammainc(a, x), rtol=1e-11, atol=1e-300)
        np.testing.assert_allclose(upper, special.gammaincc(a, x), rtol=1e-11, atol=1e-300)
        np.testing.assert_allclose(lower + upper, 1, rtol=1e-13)
    # SciPy's are wrong here from the second digit on: integrals of the density, with 40 digits.
    a, x = np.array([2e4, 1e6, 1e8]), np.array([1.97e4, 9.98e5, 9.997e7])
    want = [0.016599815969023858, 0.022696114006736802, 0.0013487164491615506]
    np.testing.assert_allclose(gamma.gammainc(a, x), want, rtol=1e-14)
    np.testing.assert_allclose(gamma.gammaincc(a, x), 1 - np.array(want), rtol=1e-14)
