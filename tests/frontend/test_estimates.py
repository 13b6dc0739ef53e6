"""Functions that estimate or count: gradient, histogramdd, frexp, images at places of a grid."""

from __future__ import annotations

import numpy as np
import pytest

import wend
import wend.nn.functional as F

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("edge_order", [1, 2])
@pytest.mark.parametrize("spacing", [(), (0.5,), (2.0, -1.0), "coordinates"])
def test_gradient_equals_numpys(edge_order, spacing):
    y = RNG.normal(size=(4, 5))
    steps = spacing
    if spacing == "coordinates":
        steps = [np.cumsum(RNG.uniform(0.5, 2, n)) for n in y.shape]
    want = np.gradient(y, *steps, edge_order=edge_order)
    given = [wend.tensor(s) if isinstance(s, np.ndarray) else s for s in steps]
    kept = {} if not given else {"spacing": given[0] if len(given) == 1 else given}
    found = wend.gradient(wend.tensor(y), **kept, edge_order=edge_order)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-12, atol=1e-12)


def test_gradient_of_chosen_dims_and_what_it_refuses():
    y = wend.arange(12).reshape(3, 4)
    (found,) = wend.gradient(y, dim=1)
    assert found.dtype is wend.float32 and found.tolist() == [[1.0] * 4] * 3
    for keywords, fault in (
        ({"edge_order": 3}, "edge_order=1 and edge_order=2"),
        ({"spacing": [1, 2, 3]}, "as many entries as dims"),
        ({"edge_order": 2, "dim": 0, "spacing": [wend.arange(2)]}, "must be 3 numbers"),
        ({"spacing": [y, y]}, "to have one dimension"),
    ):
        with pytest.raises(RuntimeError, match=fault):
            wend.gradient(y, **keywords)
    with pytest.raises(RuntimeError, match="at least edge_order"):
        wend.gradient(y[:1])


@pytest.mark.parametrize("density", [False, True])
def test_histogramdd_equals_numpys(density):
    points = RNG.normal(size=(30, 2))
    weight = RNG.uniform(size=30)
    edges = [np.array([-1.0, 0.0, 0.5, 2.0]), np.array([-2.0, 0.2, 1.0])]
    for bins, keywords, numpy_keywords in (
        (3, {}, {}),
        ([2, 4], {"range": [-1, 1, 0, 2]}, {"range": [(-1, 1), (0, 2)]}),
        (edges, {"weight": wend.tensor(weight)}, {"weights": weight}),
    ):
        given = [wend.tensor(b) for b in bins] if bins is edges else bins
        found = wend.histogramdd(wend.tensor(points), given, density=density, **keywords)
        want, want_edges = np.histogramdd(points, bins, density=density, **numpy_keywords)
        np.testing.assert_allclose(found.hist.numpy(), want, rtol=1e-12)
        for a, b in zip(found.bin_edges, want_edges, strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-12, atol=1e-15)


def test_frexp_equals_numpys():
    x = np.array([0.0, -0.0, 1.0, -3.5, 1e-310, 2.0**60, np.inf, -np.inf])
    mantissa, exponent = wend.frexp(wend.tensor(x))
    want = np.frexp(x)
    np.testing.assert_array_equal(mantissa.numpy(), want[0])
    assert exponent.dtype is wend.int32 and exponent[:6].tolist() == want[1][:6].tolist()
    assert wend.frexp(wend.tensor(x[3:4], dtype=wend.float16)).mantissa.dtype is wend.float16


def test_empty_permuted_lies_in_that_order():
    assert wend.empty_permuted((2, 3, 5, 7), (0, 2, 3, 1)).stride() == (105, 1, 21, 3)
    for order, fault in (((0,), "does not match"), ((0, 0), "Duplicate"), ((0, 2), "out of range")):
        with pytest.raises(RuntimeError, match=fault):
            wend.empty_permuted((2, 3), order)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_images_at_places_equal_pytorchs(mode, padding):
    torch = pytest.importorskip("torch")
    for corners in (False, True):
        for size, out in (((2, 3, 4, 5), (3, 2)), ((1, 2, 3, 4, 2), (2, 3, 2))):
            nd = len(out)
            if mode == "bicubic" and nd == 3:
                continue
            image = RNG.normal(size=size)
            grid = RNG.uniform(-1.6, 1.6, size=(size[0], *out, nd))
            found = []
            for T in (wend, torch):
                x, g = (T.tensor(a, requires_grad=True) for a in (image, grid))
                y = T.nn.functional.grid_sample(x, g, mode, padding, corners)
                y.backward(T.tensor(np.cos(np.arange(y.numel())).reshape(tuple(y.shape))))
                slope = np.zeros(grid.shape) if g.grad is None else g.grad.numpy()
                found.append((y.detach().numpy(), x.grad.numpy(), slope))
            for a, b in zip(*found, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_grids_of_volumes_equal_pytorchs():
    torch = pytest.importorskip("torch")
    theta = RNG.normal(size=(2, 3, 4))
    for corners in (False, True):
        found = [
            T.nn.functional.affine_grid(T.tensor(theta), (2, 1, 3, 1, 4), corners).numpy()
            for T in (wend, torch)
        ]
        np.testing.assert_allclose(*found, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("nd", [2, 3])
def test_fractional_pools_choose_pytorchs_elements(nd):
    torch = pytest.importorskip("torch")
    x, samples = RNG.normal(size=(2, 3, 7, 8, 6)[: 2 + nd]), RNG.uniform(size=(2, 3, nd))
    for kernel, output in ((2, 3), ((3, 2, 2)[:nd], (2, 4, 1)[:nd])):
        values, places = (
            getattr(T.nn.functional, f"fractional_max_pool{nd}d")(
                T.tensor(x),
                kernel,
                output_size=output,
                return_indices=True,
                _random_samples=T.tensor(samples),
            )
            for T in (wend, torch)
        )
        for a, b in zip(values, places, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
    drawn = getattr(F, f"fractional_max_pool{nd}d")(wend.tensor(x), 2, output_ratio=0.5)
    assert tuple(drawn.shape[2:]) == tuple(n // 2 for n in x.shape[2:])
    with pytest.raises(RuntimeError, match="too large"):
        getattr(F, f"fractional_max_pool{nd}d")(wend.tensor(x), 8, output_size=2)


def test_cross_entropy_of_linear_scores():
    x, weight = RNG.normal(size=(4, 3)), RNG.normal(size=(5, 2, 3))
    bias, target = RNG.normal(size=(5, 2)), RNG.integers(0, 5, (4, 2))
    given = [wend.tensor(a) for a in (x, weight, bias, target)]
    scores = wend.einsum("nf,cdf->ncd", given[0], given[1]) + given[2]
    want = F.cross_entropy(scores, given[3], label_smoothing=0.1)
    found = F.linear_cross_entropy(
        given[0], given[1], given[3], linear_bias=given[2], label_smoothing=0.1
    )
    np.testing.assert_allclose(found.item(), want.item(), rtol=1e-12)
    with pytest.raises(RuntimeError, match="dimensionality at least 2"):
        F.linear_cross_entropy(given[0], given[0][0], given[3])


def test_losses_of_whole_numbers_are_floats():
    a, b, sign = wend.tensor([1, 2]), wend.tensor([3, 1]), wend.tensor([1, -1])
    assert F.margin_ranking_loss(a, b, sign, margin=0.5).item() == 2.0
    assert F.margin_ranking_loss(a, b, sign, reduction="none").dtype is wend.float32


def test_a_tensor_of_an_int_is_the_other_operand_of_max():
    x = wend.tensor([3, 1])
    assert wend.max(x, wend.tensor(2)).tolist() == [3, 2]
    assert x.min(wend.tensor(2)).tolist() == [2, 1]
    assert x.max(0).values.item() == 3


def test_whole_numbers_and_bools():
    assert wend.logspace(1.9, 2.9, 2, dtype=wend.int64).tolist() == [10, 100]
    yes, no = wend.tensor([True, False]), wend.tensor([[False, False], [False, True]])
    assert wend.addr(no, yes, yes).tolist() == [[True, False], [False, True]]
    assert wend.addr(no, yes, yes, beta=False).tolist() == [[True, False], [False, False]]
    assert wend.tensor(True).sum_to_size(()).dtype is wend.int64
    assert F.local_response_norm(wend.zeros((0, 1, 2), dtype=wend.int64), 1).dtype is wend.int64


def test_refusals_of_pytorchs_kinds():
    x = wend.ones(2, 2)
    for call, error, fault in (
        (lambda: wend.hstack(()), RuntimeError, "non-empty"),
        (lambda: F.adaptive_avg_pool2d(x, (2, 2)), ValueError, "expected 3D"),
        (lambda: F.gelu(x, "x"), RuntimeError, "approximate"),
        (lambda: wend.tensor(1.0).narrow(0, 0, 1), RuntimeError, "0-dim"),
        (lambda: F.rrelu(x, 1.0, 0.0), RuntimeError, "Lower bound"),
        (lambda: F.embedding(wend.tensor([0]), x[0]), RuntimeError, "2-D"),
        (lambda: F.multi_margin_loss(x, x, reduction="x"), ValueError, "reduction"),
    ):
        with pytest.raises(error, match=fault):
            call()
