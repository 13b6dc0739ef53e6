"""torch.special: the names that lead to ops, compared with PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import wend

torch = pytest.importorskip("torch")

CALLS = {
    "softmax": lambda f, v: f(v, dim=1),
    "log_softmax": lambda f, v: f(v, dim=0),
    "logsumexp": lambda f, v: f(v, dim=1),
    "polygamma": lambda f, v: f(2, v),
    "multigammaln": lambda f, v: f(v + 2, 3),
    "xlogy": lambda f, v: f(v, v + 1),
    "xlog1py": lambda f, v: f(v, v + 1),
}


@pytest.mark.parametrize("name", wend.special.__all__)
def test_functions_equal_pytorchs(name):
    x = np.random.default_rng(0).uniform(0.1, 0.9, (3, 4))
    values, gradients = [], []
    for T in (wend, torch):
        v = T.tensor(x, requires_grad=True)
        y = CALLS.get(name, lambda f, v: f(v))(getattr(T.special, name), v)
        values.append(y.detach().numpy())
        if name.startswith("modified_bessel"):
            continue  # PyTorch has no gradient of these
        y.sum().backward()
        gradients.append(v.grad.numpy())
    np.testing.assert_allclose(*values, rtol=1e-12)
    if gradients:
        np.testing.assert_allclose(
            *gradients, rtol=1e-8, atol=1e-12
        )  # as exact as torch's trigamma
