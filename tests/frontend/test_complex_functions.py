"""Functions of complex numbers whose results, dtypes and ends need a look of their own."""

import cmath
import itertools

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend import masked
from wend._engine.base import config

INF, NAN = float("inf"), float("nan")
ENDS = [complex(a, b) for a in (0, 1, -1, INF, -INF, NAN) for b in (0, 1, -2, INF, NAN)]


def drawn(*size, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=size) + 1j * rng.normal(size=size)


@pytest.mark.parametrize("compiled", [False, True])
def test_logaddexp_at_all_ends(compiled):
    pytorch = pytest.importorskip("torch")
    x, y = np.array(list(itertools.product(ENDS, ENDS)), np.complex128).T.copy()
    want = pytorch.logaddexp(pytorch.tensor(x), pytorch.tensor(y)).numpy()
    with own_trie(), config.override(compile=compiled, wait=compiled, deterministic=False):
        # A path of this op alone may be left to the rule.
        got = torch.logaddexp(torch.tensor(x) + 0, torch.tensor(y)).numpy()
    one_is_nan = np.isnan(got.real) != np.isnan(want.real)
    assert not one_is_nan.any(), list(zip(x, y, got, want, strict=True))[one_is_nan.argmax()]
    np.testing.assert_allclose(got.real, want.real, rtol=1e-12, atol=1e-12, equal_nan=True)
    np.testing.assert_allclose(got.imag, want.imag, rtol=1e-12, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_exp_at_all_ends(dtype, compiled):
    x = np.array([complex(a, b) for a in (0, 1, INF, -INF, NAN) for b in (0, 2, INF, -INF, NAN)])
    x = x.astype(dtype)
    settings = config.override(compile=compiled, wait=compiled, deterministic=False)
    with own_trie(), settings, np.errstate(all="ignore"):
        got, want = torch.exp(torch.tensor(x) + 0).numpy(), np.exp(x)
    np.testing.assert_allclose(got.real, want.real, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(got.imag, want.imag, rtol=1e-6, atol=1e-6)


def test_logaddexp_is_the_logarithm_of_the_sum_without_overflow():
    x, y = drawn(50), drawn(50, seed=1)
    got = torch.logaddexp(torch.tensor(x), torch.tensor(y)).numpy()
    np.testing.assert_allclose(got, np.log(np.exp(x) + np.exp(y)))
    far = torch.logaddexp(torch.tensor([1000 + 1j]), torch.tensor([1000 + 1j]))
    assert cmath.isclose(far.item(), 1000 + np.log(2) + 1j, rel_tol=1e-6)


def test_a_norm_by_root_mean_square_takes_squares_not_sizes():
    x = drawn(2, 3)
    got = torch.nn.functional.rms_norm(torch.tensor(x), (3,), eps=0.0).numpy()
    np.testing.assert_allclose(got, x / np.sqrt((x * x).mean(-1, keepdims=True)))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_losses_of_complex_numbers_are_real(dtype):
    x, y, z = (torch.tensor(drawn(4, 3, seed=k)).to(dtype).requires_grad_() for k in range(3))
    F = torch.nn.functional
    for loss in (F.l1_loss(x, y), F.triplet_margin_loss(x, y, z)):
        assert loss.dtype is dtype.to_real()
        loss.backward()
    want = np.abs(drawn(4, 3) - drawn(4, 3, seed=1)).mean()
    assert np.isclose(F.l1_loss(x, y).item(), want, rtol=1e-5)
    assert x.grad.dtype is dtype


def test_powers_in_the_widest_type():
    z = torch.tensor(drawn(3)).to(torch.complex64)
    for base, power in ((z, 2), (2, z), (z, z), (torch.ones(2), 1j), (torch.ones(3), z)):
        assert torch.float_power(base, power).dtype is torch.complex128
    assert torch.float_power(torch.tensor([3], dtype=torch.int8), 2).dtype is torch.float64
    got = torch.float_power(z, 2).numpy()
    np.testing.assert_allclose(got, z.numpy().astype(np.complex128) ** 2)


def test_which_numbers_are_real():
    z = torch.tensor([1 + 0j, 2 + 1j, complex(NAN, 0), complex(0, NAN), complex(0, -0.0)])
    assert torch.isreal(z).tolist() == [True, False, True, False, True]
    assert torch.isreal(torch.tensor([1.0, NAN])).all()


def test_masked_variances_are_of_sizes():
    z = drawn(3, 4)
    mask = np.array([[1, 0, 1, 1], [1, 1, 1, 0], [0, 1, 1, 0]], bool)
    got = masked.var(torch.tensor(z), 1, mask=torch.tensor(mask)).numpy()
    want = [np.var(row[keep], ddof=1) for row, keep in zip(z, mask, strict=True)]
    np.testing.assert_allclose(got, want, atol=1e-12)
    got = masked.std(torch.tensor(z), 1, mask=torch.tensor(mask)).numpy()
    np.testing.assert_allclose(got, np.sqrt(want), atol=1e-12)
