"""`x[mask]`, `x[mask] = values`, `nonzero`: the mask is read, and the rest is ops with kernels."""

import numpy as np
import pytest

import wend
from tries import own_trie
from wend._engine.base import config

RNG = np.random.default_rng(3)
#: Shape of x, the mask's first dim, the mask's number of dims.
CASES = [((4,), 0, 1), ((3, 4), 0, 2), ((3, 4), 1, 1), ((3, 4), 0, 1), ((2, 3, 4), 1, 2),
         ((2, 3, 4), 0, 2), ((2, 3, 0), 0, 3), ((2, 3, 4), 1, 1)]  # fmt: skip


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_elements_and_gradients_equal_numpys(case, share):
    shape, dim, rank = case
    x, mask = RNG.normal(size=shape), RNG.random(shape[dim : dim + rank]) < share
    key = (*(slice(None),) * dim, mask)
    values = RNG.normal(size=x[key].shape)
    expected = x.copy()
    expected[key] = values
    for dtype in (wend.bool, wend.uint8):
        a, v = (wend.tensor(array, requires_grad=True) for array in (x, values))
        flags = (*(slice(None),) * dim, wend.tensor(mask, dtype=dtype))
        picked, y = a[flags], a * 1
        np.testing.assert_array_equal(picked.detach().numpy(), x[key])
        y[flags] = v
        np.testing.assert_array_equal(y.detach().numpy(), expected)
        weights = RNG.normal(size=shape)
        ((y * wend.tensor(weights)).sum() + (picked * 3).sum()).backward()
        slopes = np.where(np.isin(np.arange(x.size).reshape(shape), places(shape, key)), 3, weights)
        np.testing.assert_allclose(a.grad.numpy(), slopes)
        np.testing.assert_allclose(v.grad.numpy(), weights[key])


def places(shape, key):
    return np.arange(int(np.prod(shape))).reshape(shape)[key]


def test_a_mask_without_a_place_keeps_the_history():
    """Gradients of 0, not none: an optimizer steps by its momentum and decay."""
    w, y = wend.ones(2, requires_grad=True), wend.zeros(3, 2)
    y[wend.zeros(3, dtype=wend.bool)] = (w * 2).expand(3, 2)[:0]
    assert y.requires_grad
    y.sum().backward()
    assert w.grad.tolist() == [0.0, 0.0]


def test_values_of_fewer_dims_are_stretched():
    mask = np.array([True, False, True])
    x, row = RNG.normal(size=(3, 4)), RNG.normal(size=4)
    y = wend.tensor(x)
    y[wend.tensor(mask)] = wend.tensor(row)
    x[mask] = row
    np.testing.assert_array_equal(y.numpy(), x)


def test_values_of_another_count_are_refused():
    y = wend.zeros(4, 2)
    with pytest.raises(wend.errors.ShapeError, match="shape mismatch"):
        y[wend.tensor([True, True, True, False])] = wend.ones(2, 2)
    assert y.sum() == 0


def test_zeros_keep_their_sign():
    y = wend.ones(3)
    y[wend.tensor([True, False, True])] = wend.tensor([-0.0, 0.0])
    assert np.signbit(y.numpy()).tolist() == [True, False, False]


def test_masks_leave_no_step_to_numpy():
    """Neither forward nor backward."""
    w = wend.tensor(RNG.normal(size=(4, 4)), requires_grad=True)

    def step():
        h = wend.tensor(RNG.normal(size=(6, 4))) @ w
        h[h > 0.5] = h[h > 0.5] * 0.5
        (h[h.sum(1) > 0] * 2).sum().backward()
        w.grad.numpy()
        w.grad = None

    with own_trie(), config.override(compile=True, wait=True):
        for _ in range(6):
            step()
        flushes = wend.debug.explain().flushes
    assert len(flushes) >= 4 and any(flush.kernels for flush in flushes)
    assert not any(flush.host_steps for flush in flushes)


def test_positions_are_made_in_inference_mode():
    with wend.inference_mode():
        (places,) = wend.tensor([0.0, 2.0]).nonzero(as_tuple=True)
    assert places.is_inference() and places.tolist() == [1]


def test_nonzero_of_what_is_not_known_yet_is_still_recorded():
    """A function that is traced has no values: the count is a size of the graph."""

    def function(x):
        return x[x > 0].sum()

    x = wend.tensor([1.0, -2.0, 3.0])
    assert wend.func.vmap(lambda row: (row * (row > 0)).sum())(x[None]).tolist() == [4.0]
    exported = wend.jit.trace(function, (x,))
    assert exported(wend.tensor([4.0, -1.0, 2.0, 5.0])[:3]).item() == 6.0
