"""torch.linalg, covariances and cross products: values, gradients and refusals as PyTorch's."""

from __future__ import annotations

import math

import numpy as np
import pytest

import wend

torch = pytest.importorskip("torch")

rng = np.random.default_rng(3)
MATRICES = rng.normal(size=(2, 3, 4))
SQUARES = rng.normal(size=(2, 3, 3)) + 3 * np.eye(3)
VECTORS = rng.normal(size=(2, 3))


def both(function, *arrays):
    """function(library, *tensors) in both libraries, values and gradients compared."""
    outcomes = []
    for library in (wend, torch):
        leaves = [library.tensor(a) for a in arrays]
        for leaf in leaves:
            leaf.requires_grad_(leaf.is_floating_point())
        made = function(library, *leaves)
        (made * made.cos()).sum().backward()
        grads = [
            np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy()
            for leaf in leaves
            if leaf.requires_grad
        ]
        outcomes.append((made.detach().numpy(), *grads))
    for ours, theirs in zip(*outcomes, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize(
    ("ord", "dim"),
    [
        (None, None), (None, 1), (None, (0, 2)), (2, 1), (1, -1), (math.inf, 2), (0, 1), (3, 0),
        ("fro", (0, 2)), (1, (0, 1)), (-1, (2, 1)), (math.inf, (1, 2)), (-math.inf, (-1, 0)),
    ],
)  # fmt: skip
def test_norms(ord, dim, keepdim):
    both(lambda t, x: t.linalg.norm(x, ord, dim, keepdim), MATRICES)


def test_norms_of_matrices_and_vectors():
    both(lambda t, x: t.linalg.matrix_norm(x), MATRICES)
    both(lambda t, x: t.linalg.vector_norm(x, 3, (0, 1)), MATRICES)
    both(lambda t, x: t.linalg.norm(x, 1), MATRICES[0])
    with pytest.raises(RuntimeError, match="1D or 2D"):
        wend.linalg.norm(wend.tensor(MATRICES), 1)
    with pytest.raises(RuntimeError, match="Order 5 not supported"):
        wend.linalg.matrix_norm(wend.tensor(MATRICES), 5)


def test_products():
    both(lambda t, x, y: t.linalg.cross(x, y), VECTORS, VECTORS[::-1].copy())
    both(lambda t, x, y: t.linalg.cross(x, y[:1]), VECTORS, VECTORS[::-1].copy())
    both(lambda t, x, y: t.cross(x.T, y.T, dim=0), VECTORS, VECTORS + 1)
    both(lambda t, x, y: x.cross(y, dim=1), VECTORS, VECTORS + 1)
    both(lambda t, x, y: t.linalg.vecdot(x, y[0]), VECTORS, VECTORS + 1)
    both(lambda t, x, y: t.linalg.vecdot(x, y, dim=0), VECTORS, VECTORS + 1)
    both(lambda t, x, y: t.linalg.multi_dot([x[0], y[0].T, x[1]]), MATRICES, MATRICES + 1)
    both(lambda t, x: t.linalg.vander(x, N=3), VECTORS)
    both(lambda t, x: t.linalg.diagonal(x, offset=1), SQUARES)
    with pytest.raises(RuntimeError, match="must have length 3"):
        wend.linalg.cross(wend.ones(2), wend.ones(2))
    with pytest.raises(RuntimeError, match="no dimension of size 3"):
        wend.cross(wend.ones(2), wend.ones(2))


def test_moments():
    both(lambda t, x: t.cov(x), MATRICES[0])
    both(lambda t, x: t.cov(x, correction=0), MATRICES[0, :1])
    both(lambda t, x: t.cov(x), MATRICES[0, 0])
    both(lambda t, x, w: t.cov(x, fweights=w), MATRICES[0], np.array([1, 3, 1, 2]))
    both(lambda t, x, w: t.cov(x, aweights=w.abs()), MATRICES[0], MATRICES[1, 0])
    both(lambda t, x: t.corrcoef(x), MATRICES[0])
    assert wend.corrcoef(wend.tensor(MATRICES[0, 0])).item() == 1.0
    whole = np.array([[1, 2, 4], [4, 5, 7]])
    theirs = torch.cov(torch.tensor(whole))
    ours = wend.cov(wend.tensor(whole))
    assert str(ours.dtype) == str(theirs.dtype)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)


def test_solve():
    both(lambda t, a, b: t.linalg.solve(a, b), SQUARES, MATRICES)
    both(lambda t, a, b: t.linalg.solve(a, b), SQUARES[:1], MATRICES)
    both(lambda t, a, b: t.linalg.solve(a[0], b), SQUARES, MATRICES)
    both(lambda t, a, b: t.linalg.solve(a, b), SQUARES, VECTORS)
    both(lambda t, a, b: t.linalg.solve(a[0], b[0]), SQUARES, VECTORS)
    both(lambda t, a, b: t.linalg.solve(a, b.mT, left=False), SQUARES, MATRICES)
    out = wend.empty(2, 3, 4, dtype=wend.float64)
    assert wend.linalg.solve(wend.tensor(SQUARES), wend.tensor(MATRICES), out=out) is out


def test_a_singular_matrix_is_refused_at_once():
    with pytest.raises(wend.linalg.LinAlgError, match="singular"):
        wend.linalg.solve(wend.zeros(2, 2), wend.ones(2))
    assert issubclass(wend.linalg.LinAlgError, RuntimeError)
    with pytest.raises(RuntimeError, match="square"):
        wend.linalg.solve(wend.zeros(2, 3), wend.ones(2, 1))
    with pytest.raises(RuntimeError, match="Incompatible shapes of A and B"):
        wend.linalg.solve(wend.eye(2), wend.ones(3, 1))
    with pytest.raises(RuntimeError, match="same dtype"):
        wend.linalg.solve(wend.eye(2), wend.ones(2, 1).double())


def test_cholesky():
    positive = SQUARES @ np.swapaxes(SQUARES, -1, -2)
    both(lambda t, a: t.linalg.cholesky(a), positive)
    both(lambda t, a: t.linalg.cholesky(a[0], upper=True), positive)
    with pytest.raises(wend.linalg.LinAlgError, match="not positive-definite"):
        wend.linalg.cholesky(-wend.eye(2))
    with pytest.raises(RuntimeError, match="square"):
        wend.linalg.cholesky(wend.ones(2, 3))


def test_renorm():
    both(lambda t, x: t.renorm(x, 2, 0, 1.0), MATRICES)
    both(lambda t, x: x.renorm(1, -1, 2.5), MATRICES)
    x, y = wend.tensor(MATRICES), torch.tensor(MATRICES)
    assert x.renorm_(3, 1, 1.0) is x
    np.testing.assert_allclose(x.numpy(), y.renorm_(3, 1, 1.0).numpy(), rtol=1e-6)
    with pytest.raises(RuntimeError, match="at least 2"):
        wend.renorm(wend.ones(2), 2, 0, 1.0)
    with pytest.raises(ValueError, match="non-positive"):
        wend.renorm(wend.ones(2, 2), 0, 0, 1.0)


def test_pooling_with_indices_takes_the_argument():
    x = wend.arange(16.0).reshape(1, 1, 4, 4)
    for given in ({}, {"return_indices": False}, {"return_indices": True}):
        values, places = wend.nn.functional.max_pool2d_with_indices(x, 2, **given)
        assert values.flatten().tolist() == places.flatten().tolist() == [5, 7, 13, 15]
