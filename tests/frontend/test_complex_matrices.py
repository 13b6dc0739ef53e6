"""Linear algebra of complex matrices, against PyTorch: values and gradients of both orders."""

import numpy as np
import pytest

import wend

pytestmark = pytest.mark.filterwarnings("ignore")


def _matrices(*shape):
    rng = np.random.default_rng(11)
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


A, TALL, B = _matrices(2, 3, 3), _matrices(4, 3), _matrices(2, 3, 2)
POSITIVE = A @ A.conj().swapaxes(-1, -2) + np.eye(3)


def _size(x):
    """Real numbers that no choice of phases changes."""
    return (x * x.conj()).real


def _factors_of(lib, a):
    u, s, vh = lib.linalg.svd(a, full_matrices=False)
    return [s, (u * s.to(u.dtype).unsqueeze(-2) ** 2) @ vh, u @ u.mH @ a.detach()]


def _eigen(lib, a):
    values, vectors = lib.linalg.eig(a)
    return [values.sum(-1), _size(vectors).sum(-1), vectors @ (vectors.exp() * 0 + vectors.mH)]


def _hermitian(lib, a):
    values, vectors = lib.linalg.eigh(a + a.mH)
    return [values, _size(vectors), (vectors * values.unsqueeze(-2)) @ vectors.mH]


def _solved(lib, a, b):
    return [
        lib.linalg.solve(a, b),
        lib.linalg.solve(a, b.mT, left=False),
        lib.linalg.solve_triangular(a, b, upper=True),
        lib.linalg.solve_triangular(a, b.mT, upper=False, left=False),
        lib.triangular_solve(b, a, transpose=True)[0],
        lib.linalg.lu_solve(*lib.linalg.lu_factor(a), b, adjoint=True),
        lib.linalg.lu_solve(*lib.linalg.lu_factor(a), b.mT, left=False),
        lib.linalg.inv(a) @ b,
        lib.matrix_power(a, -2),
    ]


def _cholesky(lib, a, b):
    a = (a + a.mH) / 2
    lower, upper = lib.linalg.cholesky(a), lib.linalg.cholesky(a, upper=True)
    return [
        lower,
        upper,
        lib.cholesky_solve(b, lower),
        lib.cholesky_solve(b, upper, upper=True),
        lib.cholesky_inverse(lower[0]),
        lib.cholesky_inverse(upper, upper=True),
    ]


def _orthogonal(lib, a):
    q, r = lib.linalg.qr(a)
    packed, tau = lib.geqrf(a.detach())
    return [q, r, lib.linalg.qr(a.mH)[1], lib.linalg.householder_product(packed, tau)]


def _reflected(lib, a, tau):
    other = lib.ones(4, 4, dtype=a.dtype) * a[:, :1]
    return [
        lib.linalg.householder_product(a, tau),
        lib.ormqr(a, tau, other),
        lib.ormqr(a, tau, other, False, True),
    ]


CASES = {
    "solve": (_solved, A, B),
    "cholesky": (_cholesky, POSITIVE, B),
    "qr": (_orthogonal, TALL),
    "reflections": (_reflected, TALL, _matrices(3) * 0.3),
    "svd": (_factors_of, TALL),
    "eig": (_eigen, A),
    "eig of real": (_eigen, A.real.copy()),
    "eigvals": (lambda lib, a: [_size(lib.linalg.eigvals(a)).sum(-1)], A),
    "eigh": (_hermitian, A),
    "det": (lambda lib, a: [lib.linalg.det(a), *lib.linalg.slogdet(a), lib.logdet(a)], A),
    "exp": (lambda lib, a: [lib.linalg.matrix_exp(a)], A),
    "pinv": (
        lambda lib, a: [lib.linalg.pinv(a), lib.linalg.pinv(a[:3] + a[:3].mH, hermitian=True)],
        TALL,
    ),
    "lu": (lambda lib, a: list(lib.linalg.lu(a)[1:]), A),
    "lstsq": (lambda lib, a, b: list(lib.linalg.lstsq(a, b, driver="gelsd")), A, B),
    "norms": (lambda lib, a: [lib.linalg.matrix_norm(a, o) for o in (1, 2, "nuc", "fro")], A),
    "cond": (lambda lib, a: [lib.linalg.cond(a, p) for p in (None, -2, "nuc")], A),
}


@pytest.mark.parametrize("name", CASES)
def test_against_pytorch(name):
    """The same values, and gradients of the sum of squares."""
    torch = pytest.importorskip("torch")
    function, *arrays = CASES[name]
    found = []
    for lib in (wend, torch):
        tensors = [lib.tensor(x).requires_grad_() for x in arrays]
        results = function(lib, *tensors)
        wanted = [y for y in results if y.requires_grad]
        loss = sum((_size(y) + y.real).sum() for y in wanted)
        first = lib.autograd.grad(loss, tensors, create_graph=True)
        second = lib.autograd.grad(sum(_size(g).sum() for g in first), tensors)
        found.append([v.detach().resolve_conj().numpy() for v in (*results, *first, *second)])
    for a, b in zip(*found, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8 * max(1, abs(b).max(initial=0)))


def test_determinant_of_singular_matrices():
    """Gradients are polynomials: they exist where no inverse does."""
    a = A * [[0], [1], [1]]

    def along(x):
        x = wend.tensor(x).requires_grad_()
        (g,) = wend.autograd.grad(wend.linalg.det(x).real.sum(), x, create_graph=True)
        return x, _size(g).sum()

    x, size = along(a)
    (second,) = wend.autograd.grad(size, x)
    for place, turn in (((0, 0, 1), 1), ((1, 2, 0), 1j)):
        step = np.zeros_like(a)
        step[place] = 1e-5 * turn
        slope = (along(a + step)[1] - along(a - step)[1]).item() / 2e-5
        assert abs((second[place] * np.conj(turn)).real.item() - slope) < 1e-7


@pytest.mark.smoke
def test_eigenvalues():
    """Real matrices have complex eigenvalues; float32 has complex64."""
    values, vectors = wend.linalg.eig(wend.tensor([[0.0, -1.0], [1.0, 0.0]]))
    assert values.dtype is vectors.dtype is wend.complex64
    np.testing.assert_allclose(np.sort_complex(values.numpy()), [-1j, 1j], atol=1e-6)
    with pytest.raises(wend.linalg.LinAlgError, match="infs or NaNs"):
        wend.linalg.eigvals(wend.full((2, 2), float("nan")))


def test_factors_without_gradients():
    """LDL of symmetric and of hermitian matrices; ranks and types of real results."""
    for hermitian in (False, True):
        a = A + (A.conj() if hermitian else A).swapaxes(-1, -2)
        factors, pivots = wend.linalg.ldl_factor(wend.tensor(a), hermitian=hermitian)
        x = wend.linalg.ldl_solve(factors, pivots, wend.tensor(B), hermitian=hermitian)
        np.testing.assert_allclose(a @ x.numpy(), B, atol=1e-10)
    single = wend.tensor(A.astype(np.complex64))
    assert wend.linalg.svdvals(single).dtype is wend.float32
    assert wend.linalg.eigvalsh(single).dtype is wend.float32
    assert wend.linalg.matrix_rank(single).tolist() == [3, 3]


def test_norms_of_nothing():
    """The largest of no norms is 0; the smallest does not exist."""
    nothing = wend.zeros(1, 0)
    assert [wend.linalg.matrix_norm(nothing, ord).item() for ord in (1, 2, "nuc")] == [0, 0, 0]
    with pytest.raises(IndexError):
        wend.linalg.matrix_norm(nothing, -1)
