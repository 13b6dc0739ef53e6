"""torch.special: the names that lead to ops, compared with PyTorch's and SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import wend

CALLS = {
    "softmax": lambda f, v: f(v, dim=1),
    "log_softmax": lambda f, v: f(v, dim=0),
    "logsumexp": lambda f, v: f(v, dim=1),
    "polygamma": lambda f, v: f(2, v),
    "multigammaln": lambda f, v: f(v + 2, 3),
    "xlogy": lambda f, v: f(v, v + 1),
    "xlog1py": lambda f, v: f(v, v + 1),
    "gammainc": lambda f, v: f(v.detach() + 1, v),
    "gammaincc": lambda f, v: f(v.detach() + 1, v),
    "zeta": lambda f, v: f(v.detach() + 2, v),
}
for _name in wend.special.__all__:
    if "polynomial" in _name:
        CALLS[_name] = lambda f, v: f(v, 3) + f(12, v) + f(v, v * 20)
#: PyTorch's rational functions of these are less exact.
COARSE = ("bessel_", "airy_")
NO_GRADIENT = ("bessel", "airy", "polynomial")


@pytest.mark.parametrize("name", wend.special.__all__)
def test_functions_equal_pytorchs(name):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).uniform(0.1, 0.9, (3, 4))
    values, gradients = [], []
    for T in (wend, torch):
        v = T.tensor(x, requires_grad=True)
        y = CALLS.get(name, lambda f, v: f(v))(getattr(T.special, name), v)
        values.append(y.detach().numpy())
        if any(part in name for part in NO_GRADIENT):
            continue  # PyTorch has no gradient of these
        y.sum().backward()
        gradients.append(v.grad.numpy())
    np.testing.assert_allclose(*values, rtol=1e-6 if name.startswith(COARSE) else 1e-12)
    if gradients:
        np.testing.assert_allclose(
            *gradients, rtol=1e-8, atol=1e-12
        )  # as exact as torch's trigamma


POLYNOMIALS = {
    "chebyshev_polynomial_t": scipy.special.eval_chebyt,
    "chebyshev_polynomial_u": scipy.special.eval_chebyu,
    "shifted_chebyshev_polynomial_t": scipy.special.eval_sh_chebyt,
    "shifted_chebyshev_polynomial_u": scipy.special.eval_sh_chebyu,
    "hermite_polynomial_h": scipy.special.eval_hermite,
    "hermite_polynomial_he": scipy.special.eval_hermitenorm,
    "laguerre_polynomial_l": scipy.special.eval_laguerre,
    "legendre_polynomial_p": scipy.special.eval_legendre,
}


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_equal_scipys(name):
    x = np.array([-1.5, -1.0, -0.7, 0.0, 0.4, 1.0, 2.5])[:, None]
    n = np.array([0, 1, 2, 7, 9, 15])
    got = getattr(wend.special, name)(wend.tensor(x), wend.tensor(n + 0.5)).numpy()
    np.testing.assert_allclose(got, POLYNOMIALS[name](n, x), rtol=1e-9, atol=1e-9)
    below = getattr(wend.special, name)(wend.tensor(x), wend.tensor([-1.0, np.nan]))
    assert below[:, 0].tolist() == [0.0] * len(x)


@pytest.mark.parametrize("name", ["zeta", "gammainc", "gammaincc"])
def test_parameters_without_a_derivative_say_so(name):
    a = wend.tensor([2.0], requires_grad=True)
    y = getattr(wend.special, name)(a, wend.tensor([0.5]))
    with pytest.raises(NotImplementedError, match="the derivative for"):
        wend.autograd.grad(y.sum(), a)[0].item()


def test_numbers_alone_are_refused():
    with pytest.raises(TypeError, match="at least one operand must be a Tensor"):
        wend.special.zeta(2, 3)
