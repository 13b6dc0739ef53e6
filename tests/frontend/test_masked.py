"""torch.masked against NumPy's masked arrays."""

from __future__ import annotations

import numpy as np
import pytest

import wend
from wend import masked

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4, 2))
MASK = RNG.uniform(size=X.shape) < 0.6
MASK[0] = True
MASK[1, :, 0] = False  # nothing is left
GIVEN = np.ma.array(X, mask=~MASK)
ALIKE = ("sum", "prod", "mean", "var", "std", "amax", "amin")
NOTHING = {"sum": 0.0, "prod": 1.0, "amax": -np.inf, "amin": np.inf}


@pytest.mark.parametrize("dim", [0, 1, (0, 2), None])
@pytest.mark.parametrize("name", ALIKE)
def test_reductions_equal_numpys(name, dim):
    of_numpy = getattr(GIVEN, {"amax": "max", "amin": "min"}.get(name, name))
    want = of_numpy(axis=dim, **({"ddof": 0} if name in ("var", "std") else {}))
    keywords = {"unbiased": False} if name in ("var", "std") else {}
    found = getattr(masked, name)(
        wend.tensor(X), dim, keepdim=True, mask=wend.tensor(MASK), **keywords
    )
    assert found.dim() == 3
    want = np.ma.filled(want, NOTHING.get(name, np.nan))
    np.testing.assert_allclose(found.numpy().reshape(np.shape(want)), want, rtol=1e-12)


def test_places_medians_and_norms():
    x, mask = wend.tensor(X[0]), wend.tensor([True, False])
    assert masked.argmax(x, 1, mask=mask).tolist() == [0.0] * 4
    assert masked.argmin(x, 0, mask=mask)[0].item() == np.argmin(X[0, :, 0])
    assert masked.median(x, 0, mask=mask)[0].item() == np.sort(X[0, :, 0])[1]
    assert masked.norm(x, 1, 0, mask=mask)[0].item() == pytest.approx(np.abs(X[0, :, 0]).sum())
    found = masked.logsumexp(x, 0, mask=mask)
    assert found[0].item() == pytest.approx(np.log(np.exp(X[0, :, 0]).sum()))
    assert found[1].item() == -np.inf


def test_shapes_that_stay():
    x = wend.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    mask = wend.tensor([True, False, True])
    assert masked.cumsum(x, 1, mask=mask).tolist() == [[1.0, 1.0, 4.0]]
    assert masked.cumprod(x, 1, mask=mask).tolist() == [[1.0, 1.0, 3.0]]
    shares = masked.softmax(x, 1, mask=mask)
    assert shares[0, 1].item() == 0 and shares.sum().item() == pytest.approx(1)
    shares[0, 0].backward()
    assert x.grad[0, 1].item() == 0
    assert masked.softmin(-x, 1, mask=mask).tolist() == shares.tolist()
    found = masked.log_softmax(x, 1, mask=mask).exp()
    np.testing.assert_allclose(found.detach(), shares.detach(), rtol=1e-6)
    assert masked.normalize(x, 2.0, 1, mask=mask)[0, 1].item() == 0
    assert masked.logaddexp(x, x, input_mask=mask)[0, 1].item() == 2.0


def test_whole_numbers_and_refusals():
    n = wend.tensor([[1, 2], [3, 4]])
    mask = wend.tensor([[True, False], [False, False]])
    assert masked.sum(n, 1, mask=mask).tolist() == [1, 0]
    assert masked.var(n, 1).dtype is wend.float32
    with pytest.raises(ValueError, match="could not infer output dtype"):
        masked.mean(n, 1)
    with pytest.raises(ValueError, match="fully masked out"):
        masked.median(n, 1, mask=mask)
    with pytest.raises(IndexError, match="at most 2 dims"):
        masked.sum(n, mask=mask.unsqueeze(0))
