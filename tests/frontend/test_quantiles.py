"""quantile and nanquantile: PyTorch's values, gradients, shapes and refusals."""

from __future__ import annotations

import sys

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
        (1.5, r"range \[0, 1\] but got 1.5"),
        (float("nan"), "range"),
        (wend.tensor([0.5, 1.5]), r"q values must be in the range \[0, 1\]"),
        (wend.tensor(float("nan")), "range"),
        (wend.ones(1, 1), "scalar or 1D"),
        (wend.ones(1).double(), "same dtype"),
    ):
        for function in (wend.quantile, wend.nanquantile):
            with pytest.raises(RuntimeError, match=message):
                function(x, q)
    with pytest.raises(RuntimeError, match="non-empty"):
        wend.quantile(x[:0], 0.5)
    with pytest.raises(ValueError, match="interpolation must be one of"):
        wend.quantile(x, 0.5, interpolation="cubic")
    with pytest.raises((TypeError, RuntimeError)):
        wend.quantile(x.long(), 0.5)


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_levels_that_are_not_known_yet_are_checked_when_they_are(name):
    levels = wend.tensor([0.5, 1.25]) + 0.25
    found = getattr(wend, name)(wend.ones(3), levels)
    line = found_line() - 1
    with pytest.raises(RuntimeError, match=rf"{name}: q values must be in the range") as error:
        found.tolist()
    assert f"test_quantiles.py:{line}" in str(error.value)
    assert (wend.ones(3).quantile(wend.tensor([0.5, 0.25]) + 0.5) == 1).all()


def found_line():
    """The line of the caller."""
    return sys._getframe(1).f_lineno
