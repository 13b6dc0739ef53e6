"""Compares one expression under Wend and under PyTorch: values, dtypes, shapes, gradients."""

import numpy as np
import pytest

import wend

torch = pytest.importorskip("torch")


class Namespace:
    """What an expression may use: one library under the names torch and F."""

    def __init__(self, library):
        self.torch = library

    @property
    def F(self):
        return self.torch.nn.functional


def flat(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def run(library, function, arrays, gradient):
    """(results, gradients of a fixed weighting of the float results) as arrays."""
    leaves = []
    for array in arrays:
        leaf = library.tensor(array)
        if gradient and array.dtype.kind in "fc":
            leaf.requires_grad_(True)
        leaves.append(leaf)
    results = flat(function(Namespace(library), *leaves))
    rng = np.random.default_rng(0)
    roots, seeds = [], []
    for result in results:
        weight = rng.normal(size=tuple(result.shape))
        if result.requires_grad:
            roots.append(result)
            seeds.append(library.tensor(weight).to(result.dtype))
    values = [np.asarray(result.detach().numpy()) for result in results]
    if not roots:
        return values, []
    variables = [leaf for leaf in leaves if leaf.requires_grad]
    grads = library.autograd.grad(roots, variables, seeds, allow_unused=True)
    return values, [None if g is None else g.numpy() for g in grads]


def check(function, *arrays, rtol=1e-9, atol=1e-10, gradient=True):
    """Assert that function(namespace, *tensors) gives the same under both libraries."""
    arrays = [np.asarray(array) for array in arrays]
    got, got_grads = run(wend, function, arrays, gradient)
    want, want_grads = run(torch, function, arrays, gradient)
    assert len(got) == len(want)
    for a, b in zip(got, want):
        assert a.dtype == b.dtype, (a.dtype, b.dtype)
        assert a.shape == b.shape, (a.shape, b.shape)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
    assert len(got_grads) == len(want_grads), "another number of results has gradients"
    for i, (a, b) in enumerate(zip(got_grads, want_grads)):
        if a is None or b is None:
            a, b = (np.zeros(()) if g is None else g for g in (a, b))
            assert not np.any(a) and not np.any(b), f"gradient {i} exists on one side only"
            continue
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=f"gradient {i}")


def refuses(function, error, match):
    """Assert that the call raises `error`, derived from what PyTorch raises, with this message."""
    with pytest.raises(error, match=match) as caught:
        function(Namespace(wend))
    with pytest.raises(Exception) as theirs:
        function(Namespace(torch))
    kinds = (RuntimeError, IndexError, TypeError, ValueError)
    assert [isinstance(caught.value, k) for k in kinds] == [
        isinstance(theirs.value, k) for k in kinds
    ], f"PyTorch raises {theirs.type.__name__}: {theirs.value}"
