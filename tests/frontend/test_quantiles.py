"""quantile and nanquantile: PyTorch's values, gradients, shapes and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import wend

torch = pytest.importorskip("torch")

VALUES = np.random.default_rng(0).normal(size=(3, 4, 2))
WITH_NAN = np.where(VALUES > 0.5, np.nan, VALUES)


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize(
    ("q", "dim", "keepdim"),
    [
        (0.3, None, False), (np.array([0.0, 0.5, 1.0]), 1, False), (np.array([0.2]), -1, True),
        (np.array(0.75), 0, True), (1.0, None, True), (np.array([0.1, 0.9]), None, True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("values", [VALUES, WITH_NAN, VALUES[0, 0, 0]])
def test_against_pytorch(name, interpolation, q, dim, keepdim, values):
    if values.ndim == 0 and dim is not None:
        dim = 0 if dim != -1 else -1
    outcomes = []
    for library in (wend, torch):
        x = library.tensor(values, requires_grad=True)
        level = library.tensor(q) if isinstance(q, np.ndarray) else q
        y = getattr(library, name)(x, level, dim, keepdim, interpolation=interpolation)
        y.nansum().backward()
        outcomes.append((y.detach().numpy(), x.grad.numpy()))
    for ours, theirs in zip(*outcomes, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_refusals():
    x = wend.ones(3)
    assert x.quantile(0.5).item() == 1
    for q, message in (
        (1.5, "range"),
        (wend.ones(1, 1), "scalar or 1D"),
        (wend.ones(1).double(), "same dtype"),
    ):
        with pytest.raises((ValueError, RuntimeError), match=message):
            wend.quantile(x, q)
    with pytest.raises(IndexError):
        wend.quantile(x, wend.tensor([1.5])).tolist()
    with pytest.raises(RuntimeError, match="non-empty"):
        wend.quantile(x[:0], 0.5)
    with pytest.raises(ValueError, match="interpolation must be one of"):
        wend.quantile(x, 0.5, interpolation="cubic")
    with pytest.raises((TypeError, RuntimeError)):
        wend.quantile(x.long(), 0.5)
