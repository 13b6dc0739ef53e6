"""Factorisations, solvers and functions of matrices: values, gradients and errors as PyTorch's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import wend
from wend.func import vmap

torch = pytest.importorskip("torch")

rng = np.random.default_rng(5)
SQUARE = rng.normal(size=(2, 3, 3)) + 3 * np.eye(3)
SYMMETRIC = SQUARE + np.swapaxes(SQUARE, -1, -2) + np.diag([0.0, 2.0, 5.0])
POSITIVE = SQUARE @ np.swapaxes(SQUARE, -1, -2)
TALL = rng.normal(size=(2, 4, 3))
WIDE = np.swapaxes(TALL, -1, -2).copy()
RIGHT = rng.normal(size=(2, 3, 2))
LOWER = np.tril(SQUARE)

# What is compared does not depend on signs of vectors, which are an algorithm's choice.
CASES = {
    "cholesky": (lambda t, a: t.cholesky(a), POSITIVE),
    "cholesky_upper": (lambda t, a: t.linalg.cholesky(a, upper=True), POSITIVE[0]),
    "cholesky_ex": (lambda t, a: t.linalg.cholesky_ex(a).L, POSITIVE),
    "cholesky_solve": (lambda t, b, a: t.cholesky_solve(b, a), RIGHT, LOWER),
    "cholesky_solve_one": (lambda t, b, a: b.cholesky_solve(a[0].mT, upper=True), RIGHT, LOWER),
    "cholesky_inverse": (lambda t, a: t.cholesky_inverse(a), LOWER),
    "lu": (lambda t, a: sum(x.sum(-1).sum(-1) for x in t.linalg.lu(a)[1:]), SQUARE),
    "lu_tall": (lambda t, a: t.linalg.lu(a).L ** 2, TALL),
    "lu_wide": (lambda t, a: t.linalg.lu(a).U, WIDE),
    "lu_order": (lambda t, a: t.linalg.lu(a).P + 0 * a, SQUARE),
    "lu_factor": (lambda t, a: t.linalg.lu_factor(a)[0], SQUARE),
    "lu_former": (lambda t, a: a.lu()[0] + t.lu(a, get_infos=True).LU, TALL),
    "lu_unpack": (lambda t, a: t.lu_unpack(*t.linalg.lu_factor(a))[1], TALL),
    "lu_solve": (lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b), SQUARE, RIGHT),
    "lu_solve_right": (
        lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b.mT, left=False, adjoint=True),
        SQUARE,
        RIGHT,
    ),
    "lu_solve_former": (lambda t, a, b: b.lu_solve(*t.linalg.lu_factor(a)), SQUARE, RIGHT),
    "qr": (lambda t, a: t.linalg.qr(a)[0] ** 2 + t.linalg.qr(a)[1].sum(), TALL),
    "qr_wide": (lambda t, a: t.linalg.qr(a).R ** 2, WIDE),
    "qr_complete": (lambda t, a: t.qr(a, some=False).Q ** 2, SQUARE),
    "qr_r": (lambda t, a: t.linalg.qr(a.detach(), mode="r").R ** 2 + 0 * a[:, :3], TALL),
    "householder": (lambda t, a, s: t.linalg.householder_product(a, s), TALL, RIGHT[:, :, 0]),
    "orgqr": (lambda t, a, s: t.orgqr(a, s[:, :2]), TALL, RIGHT[:, :, 0]),
    "ormqr": (lambda t, a, s, c: t.ormqr(a, s, c), TALL, RIGHT[:, :, 0], TALL),
    "ormqr_right": (
        lambda t, a, s, c: t.ormqr(a, s, c, False, True), TALL, RIGHT[:, :, 0], WIDE
    ),
    "solve_right": (lambda t, a, b: t.linalg.solve(a, b.mT, left=False), SQUARE, RIGHT),
    "solve_ex": (lambda t, a, b: t.linalg.solve_ex(a, b).result, SQUARE, RIGHT),
    "solve_triangular": (
        lambda t, a, b: t.linalg.solve_triangular(a, b, upper=False), SQUARE, RIGHT
    ),
    "solve_triangular_right": (
        lambda t, a, b: t.linalg.solve_triangular(
            a, b.mT, upper=True, left=False, unitriangular=True
        ),
        SQUARE,
        RIGHT,
    ),
    "triangular_solve": (
        lambda t, b, a: t.triangular_solve(b, a, transpose=True).solution, RIGHT, SQUARE
    ),
    "inv": (lambda t, a: t.linalg.inv(a), SQUARE),
    "inverse": (lambda t, a: a.inverse(), SQUARE[0]),
    "pinv": (lambda t, a: t.linalg.pinv(a), TALL),
    "pinv_hermitian": (lambda t, a: t.linalg.pinv(a, hermitian=True), SYMMETRIC),
    "pinverse": (lambda t, a: a.pinverse(), WIDE),
    "lstsq": (lambda t, a, b: t.linalg.lstsq(a, b)[0], TALL, rng.normal(size=(2, 4, 2))),
    "lstsq_residuals": (
        lambda t, a, b: t.linalg.lstsq(a, b, driver="gelsd").residuals,
        TALL,
        rng.normal(size=(2, 4, 2)),
    ),
    "lstsq_vector": (lambda t, a, b: t.linalg.lstsq(a, b, driver="gels")[0], WIDE, RIGHT[..., 0]),
    "det": (lambda t, a: t.det(a), SQUARE),
    "det_singular": (lambda t, a: t.linalg.det(a[..., :1] * a[..., :1, :]), SQUARE),
    "slogdet": (lambda t, a: t.linalg.slogdet(a).logabsdet, SQUARE),
    "logdet": (lambda t, a: a.logdet(), POSITIVE),
    "eigvalsh": (lambda t, a: t.linalg.eigvalsh(a), SYMMETRIC),
    "eigh": (lambda t, a: t.linalg.eigh(a).eigenvectors ** 2, SYMMETRIC),
    "eigh_upper": (lambda t, a: t.linalg.eigh(a, UPLO="U")[1].abs(), SQUARE),
    "svdvals": (lambda t, a: t.linalg.svdvals(a), WIDE),
    "svd": (lambda t, a: t.linalg.svd(a, full_matrices=False).U ** 2, TALL),
    "svd_wide": (lambda t, a: t.linalg.svd(a, False)[2] ** 2, WIDE),
    "svd_product": (lambda t, a: (lambda u, s, v: u * s[:, None] @ v.mT)(*a.svd()), TALL),
    "matrix_exp": (lambda t, a: t.matrix_exp(a / 3), SQUARE),
    "matrix_power": (lambda t, a: t.linalg.matrix_power(a, -2), SQUARE),
    "norm_2": (lambda t, a: t.linalg.matrix_norm(a, 2), TALL),
    "norm_least": (lambda t, a: t.linalg.matrix_norm(a, -2, (2, 0), keepdim=True), TALL),
    "norm_nuclear": (lambda t, a: t.linalg.norm(a, "nuc", dim=(0, 1)), TALL),
    "nuclear_norm": (lambda t, a: t.nuclear_norm(a[0]), TALL),
    "cond": (lambda t, a: t.linalg.cond(a), TALL),
    "cond_least": (lambda t, a: t.linalg.cond(a, -2), SQUARE),
    "cond_1": (lambda t, a: t.linalg.cond(a.detach(), 1) + 0 * a[:, 0, 0], SQUARE),
    "cond_nuclear": (lambda t, a: t.linalg.cond(a, "nuc"), SQUARE),
    "tensorinv": (lambda t, a: t.linalg.tensorinv(a[0].reshape(3, 3, 1), ind=1), SQUARE),
    "tensorsolve": (
        lambda t, a, b: t.linalg.tensorsolve(a[0].reshape(3, 3, 1), b[0, :, 0]), SQUARE, RIGHT
    ),
    "tensorsolve_moved": (
        lambda t, a, b: t.linalg.tensorsolve(a[0].reshape(1, 3, 3), b[0, :, 0], dims=(0,)),
        SQUARE,
        RIGHT,
    ),
}  # fmt: skip


def outcome(library, function, arrays, twice):
    """(values, gradients, second gradients) of a weighted sum of the results."""
    leaves = [library.tensor(a).requires_grad_() for a in arrays]
    made = function(library, *leaves)
    weights = library.tensor(np.cos(np.arange(made.numel())).reshape(tuple(made.shape)))
    grads = library.autograd.grad(
        (made * weights).sum(), leaves, create_graph=twice, allow_unused=True
    )
    again = [None] * len(leaves)
    if twice and any(g is not None and g.requires_grad for g in grads):
        total = sum((g * g * g).sum() for g in grads if g is not None)
        again = library.autograd.grad(total, leaves, allow_unused=True)
    found = [made, *grads, *again]
    return [np.zeros(()) if x is None else x.detach().numpy() for x in found]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    function, *arrays = CASES[name]
    twice = not name.startswith(("lu_order", "qr_r", "cond_1"))
    ours = outcome(wend, function, arrays, twice)
    theirs = outcome(torch, function, arrays, twice)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        if np.any(a) or np.any(b):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9 + 1e-6 * np.abs(b).max())


def test_float32_stays():
    a = wend.tensor(POSITIVE.astype(np.float32))
    made = [
        wend.linalg.inv(a), *wend.linalg.svd(a), *wend.linalg.qr(a), wend.matrix_exp(a),
        *wend.linalg.eigh(a), wend.linalg.pinv(a), wend.linalg.lstsq(a, a)[0], wend.det(a),
    ]  # fmt: skip
    assert all(x.dtype is wend.float32 for x in made)


# -- results ---------------------------------------------------------------------------------------


def test_results_have_pytorchs_names():
    eye = wend.eye(2)
    theirs = torch.eye(2)
    for call in (
        lambda t, a: t.linalg.svd(a), lambda t, a: t.svd(a), lambda t, a: t.linalg.qr(a),
        lambda t, a: t.qr(a), lambda t, a: t.linalg.slogdet(a), lambda t, a: t.slogdet(a),
        lambda t, a: t.linalg.inv_ex(a), lambda t, a: t.linalg.cholesky_ex(a),
        lambda t, a: t.linalg.lu(a), lambda t, a: t.linalg.lu_factor(a),
        lambda t, a: t.linalg.lu_factor_ex(a), lambda t, a: t.linalg.solve_ex(a, a),
        lambda t, a: t.linalg.eigh(a), lambda t, a: t.linalg.ldl_factor_ex(a),
        lambda t, a: t.linalg.ldl_factor(a), lambda t, a: t.geqrf(a),
        lambda t, a: t.linalg.lstsq(a, a, driver="gelsd"), lambda t, a: t.triangular_solve(a, a),
        lambda t, a: t.lu_unpack(*t.linalg.lu_factor(a)),
    ):  # fmt: skip
        ours, wanted = call(wend, eye), call(torch, theirs)
        assert repr(ours).split("(")[0] == repr(wanted).split("(")[0]
        fields = [line.split("=")[0] for line in repr(wanted).splitlines() if "=" in line]
        for field in fields:
            field = field.strip().split("(")[-1]
            a, b = getattr(ours, field), getattr(wanted, field)
            assert (str(a.dtype), tuple(a.shape)) == (str(b.dtype), tuple(b.shape)), field


def test_out():
    a = wend.tensor(POSITIVE)
    out = wend.empty(0, dtype=wend.float64)
    assert wend.linalg.inv(a, out=out) is out
    np.testing.assert_allclose(out.numpy(), np.linalg.inv(POSITIVE))
    pair = (wend.empty(0, dtype=wend.float64), wend.empty(0, dtype=wend.float64))
    q, r = wend.linalg.qr(a, out=pair)
    assert q is pair[0] and r is pair[1]
    np.testing.assert_allclose((q @ r).numpy(), POSITIVE)


def test_ldl_factors_solve():
    factors, pivots = wend.linalg.ldl_factor(wend.tensor(SYMMETRIC))
    found = wend.linalg.ldl_solve(factors, pivots, wend.tensor(RIGHT))
    np.testing.assert_allclose(found.numpy(), np.linalg.solve(SYMMETRIC, RIGHT))
    theirs = torch.linalg.ldl_factor(torch.tensor(SYMMETRIC))
    np.testing.assert_allclose(factors.numpy(), theirs.LD.numpy())
    assert pivots.tolist() == theirs.pivots.tolist()


def test_ranks():
    low = TALL[..., :1] * WIDE[:, :1]
    for a, how in itertools.product(
        (TALL, low, np.zeros((0, 3, 3)), np.zeros((2, 0, 3))),
        ({}, {"atol": 1.0}, {"rtol": 0.5}, {"tol": 2.0}, {"atol": 1e-9, "rtol": 0.1}),
    ):
        ours = wend.linalg.matrix_rank(wend.tensor(a), **how)
        theirs = torch.linalg.matrix_rank(torch.tensor(a), **how)
        assert ours.tolist() == theirs.tolist() and str(ours.dtype) == str(theirs.dtype)
    assert wend.linalg.matrix_rank(wend.tensor(SYMMETRIC), hermitian=True).tolist() == [3, 3]
    bound = [1e-3, 100.0]
    ours = wend.linalg.pinv(wend.tensor(SQUARE), atol=wend.tensor(bound))
    theirs = torch.linalg.pinv(torch.tensor(SQUARE), atol=torch.tensor(bound))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
def test_empty_matrices(shape):
    for call in (
        lambda t, a: t.linalg.inv(a), lambda t, a: t.linalg.svd(a)[0], lambda t, a: t.det(a),
        lambda t, a: t.linalg.qr(a)[1], lambda t, a: t.linalg.eigh(a)[1], lambda t, a: t.logdet(a),
        lambda t, a: t.linalg.cholesky(a), lambda t, a: t.linalg.lu(a)[0],
        lambda t, a: t.linalg.pinv(a), lambda t, a: t.matrix_exp(a), lambda t, a: t.linalg.cond(a),
        lambda t, a: t.linalg.solve(a, a),
        lambda t, a: t.linalg.matrix_norm(a, "nuc"), lambda t, a: t.linalg.ldl_factor(a)[1],
    ):  # fmt: skip
        ours, theirs = call(wend, wend.zeros(shape)), call(torch, torch.zeros(shape))
        assert ours.tolist() == theirs.tolist() and tuple(ours.shape) == tuple(theirs.shape)


def test_vmap_and_errors_inside():
    a = wend.tensor(POSITIVE)
    for function in (
        wend.linalg.inv, wend.linalg.cholesky, wend.linalg.eigvalsh, wend.matrix_exp,
        lambda x: wend.linalg.solve(x, x[0]), lambda x: wend.linalg.lu_factor(x)[0],
        lambda x: wend.linalg.lstsq(x, x[:, :1]).solution, wend.linalg.svdvals,
    ):  # fmt: skip
        mapped = vmap(function)(a).numpy()
        each = np.stack([function(a[i]).numpy() for i in range(2)])
        np.testing.assert_allclose(mapped, each, rtol=1e-9)
    with pytest.raises(wend.linalg.LinAlgError, match="Batch element 0"):
        vmap(wend.linalg.inv)(wend.zeros(2, 3, 3)).tolist()


def test_many_small_matrices_are_factored_together():
    a = rng.normal(size=(50, 2, 3, 3))
    a[7, 1], a[9, 0, 1] = 0, a[9, 0, 0]
    tensor, theirs = wend.tensor(a), torch.linalg.lu_factor_ex(torch.tensor(a))
    found = wend.linalg.lu_factor_ex(tensor)
    np.testing.assert_allclose(found.LU.numpy(), theirs.LU.numpy(), atol=1e-12)
    assert found.pivots.tolist() == theirs.pivots.tolist()
    assert found.info.tolist() == theirs.info.tolist()
    a += 4 * np.eye(3)
    right = rng.normal(size=(2, 3, 4))
    for upper, ones in itertools.product((True, False), (True, False)):
        calls = [
            t.linalg.solve_triangular(t.tensor(a), t.tensor(right), upper=upper, unitriangular=ones)
            for t in (wend, torch)
        ]
        np.testing.assert_allclose(calls[0].numpy(), calls[1].numpy())


# -- refusals --------------------------------------------------------------------------------------

ZERO, HALF_ZERO = np.zeros((3, 3)), np.stack([np.eye(3), np.zeros((3, 3))])
REFUSED = [
    (lambda t, a: t.linalg.inv(a), ZERO),
    (lambda t, a: t.inverse(a), HALF_ZERO),
    (lambda t, a: t.linalg.inv_ex(a, check_errors=True), ZERO),
    (lambda t, a: t.linalg.solve(a, a), HALF_ZERO),
    (lambda t, a: t.linalg.cholesky(a), HALF_ZERO),
    (lambda t, a: t.cholesky(-a), np.eye(2)),
    (lambda t, a: t.linalg.cholesky_ex(a, check_errors=True), ZERO),
    (lambda t, a: t.linalg.lu_factor(a), HALF_ZERO),
    (lambda t, a: t.linalg.lu(a, pivot=False), ZERO),
    (lambda t, a: t.linalg.svd(a), np.full((2, 3, 3), np.nan)),
    (lambda t, a: t.linalg.svdvals(a), np.full((3, 3), np.nan)),
    (lambda t, a: t.linalg.matrix_power(a, -1), ZERO),
    (lambda t, a: t.linalg.inv(a), np.zeros((2, 3))),
    (lambda t, a: t.linalg.inv(a), np.zeros(3)),
    (lambda t, a: t.det(a), np.zeros((2, 3))),
    (lambda t, a: t.linalg.eigh(a), np.zeros((2, 3))),
    (lambda t, a: t.linalg.eigh(a, UPLO="X"), ZERO),
    (lambda t, a: t.linalg.qr(a, mode="x"), ZERO),
    (lambda t, a: t.linalg.svd(a, driver="gesvd"), ZERO),
    (lambda t, a: t.linalg.lstsq(a, a, driver="x"), ZERO),
    (lambda t, a: t.linalg.lstsq(a, a[:1]), ZERO),
    (lambda t, a: t.linalg.lstsq(a[0], a), ZERO),
    (lambda t, a: t.linalg.solve(a, a[:2]), ZERO),
    (lambda t, a: t.linalg.solve(a, a.float()), ZERO),
    (lambda t, a: t.linalg.solve(a, a[0], left=False), ZERO),
    (lambda t, a: t.linalg.solve_triangular(a, a[:2], upper=True), ZERO),
    (lambda t, a: t.linalg.solve_triangular(a, a[0], upper=True), ZERO),
    (lambda t, a: t.linalg.cond(a, 3), ZERO),
    (lambda t, a: t.linalg.matrix_norm(a, 5), ZERO),
    (lambda t, a: t.linalg.tensorinv(a, ind=0), ZERO),
    (lambda t, a: t.linalg.householder_product(a[:2], a[0, :2]), ZERO),
    (lambda t, a: t.linalg.householder_product(a[:, :2], a[0]), ZERO),
    (lambda t, a: t.cholesky_solve(a[:2], a), ZERO),
    (lambda t, a: t.cholesky_inverse(a[:2]), ZERO),
    (lambda t, a: t.lu_solve(a, a, a[0]), ZERO),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refusals(case):
    function, array = REFUSED[case]
    with pytest.raises(RuntimeError) as theirs:
        function(torch, torch.tensor(array))
    kind = RuntimeError
    if isinstance(theirs.value, torch.linalg.LinAlgError):
        kind = wend.linalg.LinAlgError
    with pytest.raises(kind) as ours:
        function(wend, wend.tensor(array))
    wanted = str(theirs.value).splitlines()[0]
    wanted = wanted.replace("type Double", "type torch.float64").replace(
        "type Float", "type torch.float32"
    )
    assert str(ours.value).splitlines()[0] == wanted


@pytest.mark.parametrize("mode", ["r", "complete"])
def test_gradients_of_qr_that_do_not_exist(mode):
    a = wend.ones(3, 2, requires_grad=True)
    r = wend.linalg.qr(a, mode=mode).R
    assert r.sum().item() < 0
    r.sum().backward()
    with pytest.raises(RuntimeError, match=r"The derivative|is not differentiable"):
        a.grad.tolist()
    assert (wend.ones(2) + 1).tolist() == [2, 2]


def test_ints_and_strangers_are_refused():
    whole = wend.ones(2, 2, dtype=wend.int64)
    for function in (
        wend.linalg.inv, wend.det, wend.linalg.svd, wend.linalg.qr, wend.linalg.eigh,
        wend.matrix_exp, wend.linalg.pinv, wend.linalg.cholesky, wend.linalg.lu, wend.logdet,
        wend.linalg.matrix_rank, wend.linalg.svdvals, wend.linalg.ldl_factor, wend.geqrf,
    ):  # fmt: skip
        with pytest.raises(RuntimeError):
            function(whole)
        with pytest.raises(TypeError):
            function([[1.0]])


# -- low rank --------------------------------------------------------------------------------------


def test_factors_of_low_rank():
    wend.manual_seed(0)
    low = rng.normal(size=(9, 2)) @ rng.normal(size=(2, 6))
    for a in (low, low.T.copy()):
        u, s, v = wend.svd_lowrank(wend.tensor(a), q=3)
        assert (tuple(u.shape), tuple(s.shape), tuple(v.shape)) == (
            (a.shape[0], 3), (3,), (a.shape[1], 3)
        )  # fmt: skip
        np.testing.assert_allclose((u * s @ v.mT).numpy(), a, atol=1e-10)
    _, s, v = wend.pca_lowrank(wend.tensor(low), q=2)
    centred = low - low.mean(0)
    np.testing.assert_allclose(s.numpy(), np.linalg.svd(centred)[1][:2])
    symmetric = wend.tensor(rng.normal(size=(9, 9)))
    symmetric = symmetric + symmetric.mT
    weight = symmetric @ symmetric + 3 * wend.eye(9)
    for how in ({}, {"largest": False}, {"B": weight}):
        values, vectors = wend.lobpcg(symmetric, k=2, **how)
        right = how["B"] @ vectors if "B" in how else vectors
        assert float((symmetric @ vectors - right * values).abs().max()) < 1e-9
        assert float((vectors.mT @ right - wend.eye(2)).abs().max()) < 1e-9
        assert (values[0] > values[1]).item() is how.get("largest", True)
    with pytest.raises(ValueError, match="not applicable"):
        wend.lobpcg(symmetric, k=4)
    with pytest.raises(RuntimeError, match=r"torch\.linalg\.eigh"):
        wend.symeig(symmetric)
    with pytest.raises(ValueError, match="not greater than"):
        wend.pca_lowrank(wend.tensor(low), q=9)


# -- nearly singular matrices ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 40])
def test_a_pivot_of_rounding_errors_is_seldom_zero(dtype, count):
    """The null vector of a matrix of rank 8, by way of LU, as libraries find homographies."""
    rows = np.random.default_rng(3).normal(size=(count, 8, 9)).astype(dtype)
    given = rows.swapaxes(-1, -2) @ rows
    factors, pivots, info = wend.linalg.lu_factor_ex(wend.tensor(given))
    theirs = torch.linalg.lu_factor_ex(torch.tensor(given)).info
    assert info.shape == (count,) and int((info != 0).sum()) <= int((theirs != 0).sum())
    product = wend.lu_unpack(factors, pivots)
    again = (product[0] @ product[1] @ product[2]).numpy()
    np.testing.assert_allclose(again, given, rtol=0, atol=1e-4 if dtype == "float32" else 1e-12)
    found = wend.linalg.lu_solve(factors, pivots, wend.ones(count, 9, 1, dtype=factors.dtype))
    unit = (found / found.abs().amax(1, keepdim=True)).numpy()
    assert np.abs(rows @ unit).max() < 1e-2


def test_a_singular_matrix_of_whole_numbers_has_a_zero_pivot():
    for given in (np.ones((3, 3)), np.arange(9.0).reshape(3, 3), np.zeros((2, 3, 2)), np.eye(4)):
        ours = wend.linalg.lu_factor_ex(wend.tensor(given))
        theirs = torch.linalg.lu_factor_ex(torch.tensor(given))
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
