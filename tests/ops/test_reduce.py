"""Reductions and scans: PyTorch's conventions for ties, types, empty tensors and errors."""

import math

import numpy as np
import pytest
from against import check, refuses

import wend
from wend._engine.base.errors import DimError, DTypeError, ShapeError
from wend._engine.core.primitive import ops

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4, 5))
INTS = RNG.integers(-3, 4, size=(3, 4))
TIED = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])


@pytest.mark.parametrize("dim", [None, 0, -1, (0, 2), (1, 0), (), [1]])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize(
    "name", ["sum", "mean", "amax", "amin", "nansum", "nanmean", "logsumexp", "var", "std"]
)
def test_dims(name, dim, keepdim):
    if dim is None and (keepdim or name == "logsumexp"):
        pytest.skip("PyTorch wants a dim")
    if dim == () and name == "logsumexp":
        pytest.skip("PyTorch fails")
    options = {} if dim is None else {"dim": dim, "keepdim": keepdim}
    # PyTorch divides by 0 in the gradient of var over dim=().
    gradient = dim != () or name not in ("var", "std")
    check(lambda ns, x: getattr(ns.torch, name)(x, **options), X, gradient=gradient)


@pytest.mark.parametrize("name", ["any", "all"])
@pytest.mark.parametrize("dim", [None, 0, (0, 1), ()])
def test_logical(name, dim):
    options = {} if dim is None else {"dim": dim}
    for dtype in (np.bool_, np.uint8, np.int64, np.float64):
        check(lambda ns, x: getattr(ns.torch, name)(x, **options), (INTS > 0).astype(dtype))


@pytest.mark.parametrize("name", ["amax", "amin"])
def test_ties_share_the_gradient(name):
    check(lambda ns, x: getattr(x, name)(), TIED)
    check(lambda ns, x: getattr(x, name)(1), TIED)
    check(lambda ns, x: getattr(x, name)((0, 1), True), TIED)


@pytest.mark.parametrize("name", ["max", "min"])
def test_max_in_its_three_forms(name):
    check(lambda ns, x: getattr(ns.torch, name)(x), TIED)
    check(lambda ns, x: getattr(ns.torch, name)(x, 1), TIED)
    check(lambda ns, x: getattr(x, name)(dim=0, keepdim=True), TIED)
    check(lambda ns, x: getattr(ns.torch, name)(x, x * 0 + 2.5), TIED)
    check(lambda ns, x: getattr(ns.torch, name)(x, other=x), INTS)
    named = getattr(wend, name)(wend.tensor(TIED), 1)
    assert named.values.tolist() == named[0].tolist()
    assert named.indices.dtype is wend.int64


def test_nan_wins():
    for x in ([1.0, math.nan, 3.0], [math.nan, math.nan, 1.0]):
        array = np.array(x)
        for name in ("max", "min", "amax", "amin", "argmax", "argmin"):
            check(lambda ns, t, name=name: getattr(t, name)(), array, gradient=False)
        check(lambda ns, t: t.max(0), array, gradient=False)
        check(lambda ns, t: t.cummax(0), array, gradient=False)
        check(lambda ns, t: t.cummin(0), array, gradient=False)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int8, np.int32, np.int64])
def test_sums_of_ints_are_int64(dtype):
    x = (INTS > 0).astype(dtype) if dtype in (np.bool_, np.uint8) else INTS.astype(dtype)
    for name in ("sum", "prod", "nansum"):
        check(lambda ns, t, name=name: getattr(t, name)(), x)
        check(lambda ns, t, name=name: getattr(t, name)(0), x)
    check(lambda ns, t: t.cumsum(0), x)
    check(lambda ns, t: t.cumprod(1), x)
    check(lambda ns, t: t.count_nonzero(0), x)
    check(lambda ns, t: t.amax(1), x)


def test_dtype_is_taken_before_the_sum():
    check(lambda ns, x: x.sum(dtype=ns.torch.int64), np.array([0.6, 0.6, 0.6]), gradient=False)
    check(lambda ns, x: x.sum(0, dtype=ns.torch.float64), X.astype(np.float32))
    check(lambda ns, x: x.prod(dtype=ns.torch.float32), INTS)
    check(lambda ns, x: x.mean(dtype=ns.torch.float64), INTS)
    check(lambda ns, x: x.cumsum(0, dtype=ns.torch.float32), INTS)
    check(lambda ns, x: x.sum(dtype=ns.torch.bool), np.array([0.0, 2.0]), gradient=False)


@pytest.mark.parametrize("zeros", [(), (1,), (1, 3), (0, 1, 2, 3)])
def test_products_with_zeros_have_exact_gradients(zeros):
    x = np.array([2.0, -1.5, 0.5, 3.0])
    x[list(zeros)] = 0.0
    check(lambda ns, t: t.prod(), x)
    check(lambda ns, t: t.cumprod(0), x)
    check(lambda ns, t: ns.torch.autograd.grad(t.prod(), t, create_graph=True)[0].sum(), x)
    check(lambda ns, t: (t * 2).cumprod(0).cumsum(0), x)


def test_half_sums_are_accumulated_in_float32():
    x = wend.full((4096,), 1.0, dtype=wend.float16)
    assert x.sum().item() == 4096.0
    assert (x * 16 + 1).mean().item() == 17.0
    assert wend.full((300,), 1.0, dtype=wend.bfloat16).sum(0).item() == 300.0
    assert wend.full((4096,), 2.0, dtype=wend.float16).norm().item() == 128.0


@pytest.mark.parametrize("shape", [(1 << 20,), (1 << 18, 4), (4, 1 << 18)])
def test_float32_sums_are_as_accurate_as_pairwise(shape):
    x = RNG.uniform(size=shape).astype(np.float32)
    for dim in range(len(shape)):
        got = wend.tensor(x).sum(dim).numpy().astype(np.float64)
        want = x.astype(np.float64).sum(dim)
        assert np.max(np.abs(got - want) / want) < 4e-7


def test_empty_reductions():
    empty = np.zeros((2, 0))
    for name in ("sum", "prod", "mean", "var", "logsumexp", "any", "all", "norm", "nansum"):
        check(lambda ns, x, name=name: getattr(x, name)(dim=1), empty, gradient=False)
    for name in ("sum", "prod", "mean", "norm"):
        check(lambda ns, x, name=name: getattr(x, name)(), empty, gradient=False)
    for name in ("amax", "argmax", "max", "cummax", "cumsum", "cumprod"):
        check(lambda ns, x, name=name: getattr(x, name)(dim=0), empty, gradient=False)


@pytest.mark.parametrize("name", ["amax", "amin", "max", "min", "aminmax"])
def test_extremes_of_nothing_are_refused(name):
    function = lambda ns: getattr(ns.torch, name)(ns.torch.zeros(2, 0))  # noqa: E731
    refuses(function, ShapeError, f"{name}: ")
    function = lambda ns: getattr(ns.torch, name)(ns.torch.zeros(2, 0), dim=1)  # noqa: E731
    refuses(function, DimError, f"{name}: Expected reduction dim 1 to have non-zero size")


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_in_nothing_are_refused(name):
    function = lambda ns: getattr(ns.torch, name)(ns.torch.zeros(2, 0))  # noqa: E731
    refuses(function, DimError, f"{name}: Expected reduction dim to be specified")


def test_errors():
    zeros = lambda ns: ns.torch.zeros(2, 3)  # noqa: E731
    refuses(lambda ns: zeros(ns).sum(2), DimError, "sum: Dimension out of range")
    refuses(lambda ns: zeros(ns).sum((0, -2)), ShapeError, "dim 0 appears multiple times")
    refuses(lambda ns: zeros(ns).long().mean(), DTypeError, "mean: could not infer output dtype")
    refuses(lambda ns: zeros(ns).long().var(), DTypeError, "var: only supports floating point")
    refuses(lambda ns: zeros(ns).long().norm(), DTypeError, "norm: Expected a floating point")
    refuses(lambda ns: zeros(ns).bool().argmax(), DTypeError, "argmax: not implemented for")
    refuses(lambda ns: zeros(ns).cumsum(2), DimError, "cumsum: Dimension out of range")
    refuses(lambda ns: zeros(ns).long().nanmean(), DTypeError, "nanmean: expected input")
    refuses(lambda ns: zeros(ns).argmax(dim=5), DimError, "argmax: Dimension out of range")


@pytest.mark.parametrize("unbiased", [None, True, False])
@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_variance(name, unbiased):
    function = lambda ns: getattr(ns.torch, name)  # noqa: E731
    if unbiased is not None:
        check(lambda ns, x: function(ns)(x, unbiased), X)
        check(lambda ns, x: function(ns)(x, 1, unbiased), X)
        check(lambda ns, x: function(ns)(x, (0, 2), unbiased, True), X)
        check(lambda ns, x: function(ns)(x, dim=1, unbiased=unbiased), X)
    for correction in (0, 1, 2, 0.5):
        check(lambda ns, x, c=correction: function(ns)(x, dim=0, correction=c), X)
    check(lambda ns, x: function(ns)(x), np.array([1.5]), gradient=False)


def test_variance_of_large_offsets_is_accurate():
    x = (X + 1e6).astype(np.float32)
    want = x.astype(np.float64).var(ddof=1)
    assert wend.tensor(x).var().item() == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize("p", [0, 1, 2, 3, 0.5, 2.5, -1, math.inf, -math.inf, "fro", None])
def test_norms(p):
    gradient = p != 0  # PyTorch has none
    check(lambda ns, x: x.norm(p), X, gradient=gradient)
    check(lambda ns, x: ns.torch.norm(x, p, dim=1), X, gradient=gradient)
    check(lambda ns, x: x.norm(p, dim=(0, 1), keepdim=True), X, gradient=gradient)
    if p not in ("fro", None):
        check(lambda ns, x: ns.torch.dist(x, x * 2, p), X, gradient=gradient)


@pytest.mark.parametrize("p", [1, 2, 3, math.inf])
def test_norms_have_gradient_0_at_0(p):
    check(lambda ns, x: x.norm(p, dim=1), np.zeros((2, 3)))
    check(lambda ns, x: x.norm(p), np.array([0.0, 3.0, -4.0]))


def test_scans():
    for name in ("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"):
        for dim in (0, 1, -1):
            check(lambda ns, x, name=name, dim=dim: getattr(x, name)(dim), X)
        check(lambda ns, x, name=name: getattr(x, name)(0), np.asarray(1.5))
    check(lambda ns, x: x.logcumsumexp(0), np.array([1000.0, -1000.0, 2000.0]))
    check(lambda ns, x: x.logcumsumexp(0), np.array([-math.inf, 1.0, 2.0]), gradient=False)
    check(lambda ns, x: x.cummax(0), np.array([1.0, 1.0, 0.0, 1.0, 2.0]))


def test_logsumexp_survives_infinities():
    for x in ([1000.0, 1000.0], [-math.inf, -math.inf], [math.inf, 1.0], [-math.inf, 2.0]):
        check(lambda ns, t: t.logsumexp(0), np.array(x), gradient=False)
    check(lambda ns, t: t.logsumexp(0), np.array([1, 2, 3]), rtol=1e-6)


def test_linear_scan_is_a_linear_recurrence():
    a, b = RNG.normal(size=(2, 7))
    y = ops.linear_scan(wend.tensor(a), wend.tensor(b), 0).numpy()
    state = 0.0
    for i in range(7):
        state = a[i] * state + b[i]
        assert y[i] == pytest.approx(state)
