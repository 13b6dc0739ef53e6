"""Matrix products: every rank, einsum's whole language, and what is refused."""

import numpy as np
import pytest
from against import check, refuses

import wend
from wend._engine.base.errors import DTypeError, ShapeError

RNG = np.random.default_rng(0)


def normal(*shapes):
    return [RNG.normal(size=shape) for shape in shapes]


MATMULS = [
    ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)), ((5, 2, 3), (1, 3, 4)), ((6, 1, 2, 3), (5, 3, 4)),
    ((6, 5, 2, 3), (6, 5, 3, 1)), ((1, 1), (1, 1)), ((0, 3), (3, 4)), ((2, 0), (0, 4)),
    ((0, 2, 3), (0, 3, 4)), ((5, 2, 0), (5, 0, 4)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", MATMULS)
def test_matmul(shapes):
    check(lambda ns, x, w: ns.torch.matmul(x, w), *normal(*shapes))
    check(lambda ns, x, w: x @ w, *normal(*shapes))
    check(lambda ns, x, w: ns.torch.einsum("...,...->...", (x @ w), (x @ w)), *normal(*shapes))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.float32])
def test_dtypes(dtype):
    x, w = (RNG.integers(0, 9, size=s).astype(dtype) for s in ((3, 4), (4, 2)))
    check(lambda ns, a, b: a @ b, x, w, rtol=1e-6)
    check(lambda ns, a, b: ns.torch.tensordot(a, b, 1), x, w, rtol=1e-6)


def test_halves_are_accumulated_in_float32():
    x = wend.full((1, 4096), 1.0, dtype=wend.float16)
    assert (x @ x.T).item() == 4096.0
    b = wend.full((300,), 1.0, dtype=wend.bfloat16)
    assert wend.dot(b, b).item() == 300.0


def test_ints_are_exact():
    big = np.array([[2**40 + 1, 3]])
    assert (wend.tensor(big) @ wend.tensor(big.T)).item() == int((big @ big.T)[0, 0])


def test_named_products():
    check(lambda ns, a, b: ns.torch.mm(a, b), *normal((2, 3), (3, 4)))
    check(lambda ns, a, b: ns.torch.bmm(a, b), *normal((5, 2, 3), (5, 3, 4)))
    check(lambda ns, a, b: ns.torch.mv(a, b), *normal((2, 3), (3,)))
    check(lambda ns, a, b: ns.torch.dot(a, b), *normal((3,), (3,)))
    check(lambda ns, a, b: ns.torch.inner(a, b), *normal((2, 3), (5, 3)))
    check(lambda ns, a, b: ns.torch.outer(a, b), *normal((2,), (3,)))
    check(lambda ns, a, b, c: ns.torch.chain_matmul(a, b, c), *normal((2, 9), (9, 1), (1, 5)))


@pytest.mark.parametrize("scale", [{}, {"beta": 0.5}, {"alpha": -2.0}, {"beta": 0, "alpha": 3}])
def test_scaled_sums(scale):
    check(lambda ns, c, a, b: ns.torch.addmm(c, a, b, **scale), *normal((4,), (2, 3), (3, 4)))
    check(lambda ns, c, a, b: c.addmv(a, b, **scale), *normal((2,), (2, 3), (3,)))
    check(lambda ns, c, a, b: c.addbmm(a, b, **scale), *normal((2, 4), (5, 2, 3), (5, 3, 4)))
    check(lambda ns, c, a, b: c.baddbmm(a, b, **scale), *normal((1, 4), (5, 2, 3), (5, 3, 4)))
    check(lambda ns, c, a, b: c.addr(a, b, **scale), *normal((2, 3), (2,), (3,)))


def test_beta_0_ignores_nan():
    nan = np.full((2, 4), np.nan)
    check(
        lambda ns, c, a, b: ns.torch.addmm(c, a, b, beta=0),
        nan,
        *normal((2, 3), (3, 4)),
        gradient=False,
    )


def test_int_factors_are_cut():
    c, a, b = (RNG.integers(-3, 4, size=s) for s in ((2, 4), (2, 3), (3, 4)))
    check(lambda ns, c, a, b: ns.torch.addmm(c, a, b, beta=1.5, alpha=2.7), c, a, b)


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ij,kj->ki", (2, 3), (4, 3)),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)), ("...ij,...jk->...ik", (5, 1, 2, 3), (6, 3, 4)),
    ("ii", (3, 3)), ("ii->i", (3, 3)), ("iij->ji", (2, 2, 3)), ("ij->", (2, 3)), ("ij->ji", (2, 3)),
    ("i,j->ij", (2,), (3,)), ("i,i", (3,), (3,)), ("i,i->i", (3,), (3,)),
    ("ij,ij->ij", (2, 3), (2, 3)), ("bn,anm,bm->ba", (2, 3), (5, 3, 4), (2, 4)),
    ("ab,bc,cd,de", (2, 3), (3, 2), (2, 4), (4, 3)),
    ("ij,j", (2, 1), (3,)), ("ij,ij->i", (2, 1), (1, 3)), (",i->i", (), (3,)), ("i->", (0,)),
    ("...", (2, 3)), ("...i->...", (2, 3)), ("i...,i...->...", (2, 3), (2, 3)),
    ("Aa,aB->BA", (2, 3), (3, 4)),
    ("bhid,bhjd->bhij", (2, 3, 4, 5), (2, 3, 6, 5)), ("ij,...jk->...ik", (2, 3), (4, 3, 5)),
    ("a...b,b...c->a...c", (2, 4, 3), (3, 4, 5)), ("aab,bcc->ac", (2, 2, 3), (3, 4, 4)),
    ("ijk,ik->", (2, 3, 4), (2, 4)), ("b...i,b...i->b...", (2, 3, 4), (2, 1, 4)),
]  # fmt: skip


@pytest.mark.parametrize("case", EINSUMS, ids=lambda case: case[0])
def test_einsum(case):
    equation, *shapes = case
    check(lambda ns, *xs: ns.torch.einsum(equation, *xs), *normal(*shapes))


def test_einsum_takes_lists():
    a, b = normal((2, 3), (3, 4))
    check(lambda ns, x, w: ns.torch.einsum("ij,jk->ik", [x, w]), a, b)
    check(lambda ns, x, w: ns.torch.einsum(x, [0, 1], w, [1, 2], [2, 0]), a, b)
    check(lambda ns, x, w: ns.torch.einsum(x, [0, 1], w, [1, 2]), a, b)
    check(lambda ns, x: ns.torch.einsum(x, [Ellipsis, 1], [1, Ellipsis]), a)


def test_einsum_errors():
    a = lambda ns: ns.torch.zeros(2, 3)  # noqa: E731
    e = lambda ns, *args: ns.torch.einsum(*args)  # noqa: E731
    refuses(lambda ns: e(ns, "ij,jk", a(ns)), (RuntimeError, ValueError), "einsum: .*2 operands")
    refuses(lambda ns: e(ns, "ijk", a(ns)), ShapeError, "subscripts in the equation \\(3\\)")
    refuses(lambda ns: e(ns, "ii", a(ns)), ShapeError, "subscript i is repeated for operand 0")
    refuses(lambda ns: e(ns, "ij,ij", a(ns), a(ns).T), ShapeError, "does not broadcast")


def test_linear():
    shapes = [((2, 3), (4, 3), (4,)), ((5, 2, 3), (4, 3)), ((3,), (4, 3), (4,)), ((2, 3), (3,))]
    for case in shapes:
        check(lambda ns, *xs: ns.F.linear(*xs), *normal(*case))
    check(lambda ns, *xs: ns.F.bilinear(*xs), *normal((2, 3), (2, 4), (5, 3, 4), (5,)))


def test_tensordot():
    a, b = normal((2, 3, 4), (3, 4, 5))
    for dims in (2, ([1, 2], [0, 1]), ([2], [1]), 0, [[-1], [1]]):
        check(lambda ns, x, w, d=dims: ns.torch.tensordot(x, w, d), a, b)


def test_matrix_power():
    x = RNG.normal(size=(2, 3, 3)) / 2
    for n in (0, 1, 2, 5):
        check(lambda ns, t, n=n: ns.torch.matrix_power(t, n), x)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf")])
def test_cdist(p):
    a, b = normal((2, 4, 3), (1, 5, 3))
    check(lambda ns, x, y: ns.torch.cdist(x, y, p), a, b)
    check(lambda ns, x: ns.torch.cdist(x, x, p), a, atol=1e-7)


def test_cdist_of_many_points():
    a, b = normal((40, 3), (30, 3))
    check(lambda ns, x, y: ns.torch.cdist(x, y), a, b)
    mode = "use_mm_for_euclid_dist"
    check(lambda ns, x, y: ns.torch.cdist(x[:5], y[:4], compute_mode=mode), a, b)


def test_errors():
    def t(ns, *shape, dtype="float32"):
        return ns.torch.zeros(shape, dtype=getattr(ns.torch, dtype))

    # fmt: off
    refuses(lambda ns: ns.torch.mm(t(ns, 3, 4), t(ns, 5, 6)), ShapeError,
            "mm: mat1 and mat2 shapes cannot be multiplied \\(3x4 and 5x6\\)")
    refuses(lambda ns: t(ns, 3, 4) @ t(ns, 5, 6), ShapeError, "matmul: mat1 and mat2 shapes")
    refuses(lambda ns: t(ns, 2, 3, 4) @ t(ns, 3, 4, 5), ShapeError, "matmul: shapes .* broadcast")
    refuses(lambda ns: t(ns) @ t(ns, 3), ShapeError, "at least 1-D")
    refuses(lambda ns: ns.torch.mm(t(ns, 3), t(ns, 3, 3)), ShapeError, "mm: self must be a 2-D")
    refuses(lambda ns: ns.torch.bmm(t(ns, 2, 3, 4), t(ns, 3, 4, 5)), ShapeError, "bmm: batch1")
    refuses(lambda ns: ns.torch.dot(t(ns, 3), t(ns, 4)), ShapeError, "dot: inconsistent tensor")
    refuses(lambda ns: ns.torch.mv(t(ns, 3, 4), t(ns, 3)), ShapeError, "mv: ")
    refuses(lambda ns: t(ns, 2, 2) @ t(ns, 2, 2, dtype="float64"), DTypeError, "matmul: expected")
    refuses(lambda ns: ns.torch.mm(t(ns, 2, 2, dtype="bool"), t(ns, 2, 2, dtype="bool")),
            DTypeError, "mm: not implemented for torch.bool")
    refuses(lambda ns: ns.F.linear(t(ns, 2, 3), t(ns, 4, 5)), ShapeError,
            "linear: input has 3 features .* weight takes 5")
    refuses(lambda ns: ns.F.linear(t(ns, 2, 3), t(ns, 4, 3), t(ns, 5)), ShapeError, "linear: bias")
    refuses(lambda ns: ns.torch.addmm(t(ns, 3, 3), t(ns, 2, 3), t(ns, 3, 3)), ShapeError, "addmm: ")
    refuses(lambda ns: ns.torch.tensordot(t(ns, 2, 3), t(ns, 4, 5), 1), ShapeError, "tensordot: ")
    refuses(lambda ns: ns.torch.matrix_power(t(ns, 2, 3), 2), ShapeError, "batches of square")
    refuses(lambda ns: ns.torch.cdist(t(ns, 2, 3), t(ns, 2, 4)), ShapeError, "cdist: ")
    # fmt: on


def test_one_program_serves_all_sizes():
    """The second and third call differ in sizes only."""
    for n, m in ((2, 3), (4, 5), (7, 1)):
        a, b = normal((n, m), (m, n))
        check(lambda ns, x, w: ns.torch.einsum("ij,jk->ki", x, w).sum(0), a, b)
