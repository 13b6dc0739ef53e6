"""float16 and bfloat16 in generated code: bit for bit what NumPy and ml_dtypes make of them."""

import elementwise
import ml_dtypes
import numpy as np
import pytest
from targets import targets

import wend
from tries import own_trie
from wend._engine.base import config, dtypes
from wend._engine.compiler.llvm_ir.number_bits import rounded

HALVES = [(dtypes.float16, np.float16), (dtypes.bfloat16, ml_dtypes.bfloat16)]
ALL = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)


def same(got, want):
    """Equal bits, or both NaN."""
    size = {2: np.uint16, 4: np.uint32, 8: np.uint64}[got.dtype.itemsize]
    with np.errstate(all="ignore"):
        nan = np.isnan(got.astype(np.float64)) & np.isnan(want.astype(np.float64))
    equal = (got.view(size) == want.view(size)) | nan
    assert equal.all(), f"{got[~equal][:5]}, not {want[~equal][:5]}"


def floats(dtype):
    """Ties, neighbours of ties, subnormal results, overflow, and anything."""
    bits = np.arange(0, 1 << 32, 65521, dtype=np.uint64).astype(np.uint32)
    tie = (ALL.astype(np.uint32) << 16)[:, None] + np.array([0x7FFF, 0x8000, 0x8001], np.uint32)
    half = ALL.view(np.float16).astype(np.float64)
    with np.errstate(all="ignore"):
        middle = (half[:-1] + half[1:]) / 2
        around = np.concatenate([middle, np.nextafter(middle, 0), np.nextafter(middle, 1e9)])
        singles = np.concatenate([bits.view(np.float32), tie.ravel().view(np.float32)])
        return np.concatenate([singles.astype(dtype), around.astype(dtype)])


@pytest.mark.parametrize(("kind", "target"), targets())
@pytest.mark.parametrize(("dtype", "numpy"), HALVES)
def test_every_half_is_widened(dtype, numpy, kind, target):
    for lanes in (1, 16):
        got, _ = elementwise.run(
            lambda b, x: b.convert(x, dtypes.float32), [ALL.view(numpy)], lanes, target
        )
        same(got, ALL.view(numpy).astype(np.float32))
        back, _ = elementwise.run(lambda b, x: x, [ALL.view(numpy)], lanes, target)
        same(back, ALL.view(numpy))


@pytest.mark.parametrize(("kind", "target"), targets())
@pytest.mark.parametrize("source", [np.float32, np.float64])
@pytest.mark.parametrize(("dtype", "numpy"), HALVES)
def test_floats_are_rounded_once(dtype, numpy, source, kind, target):
    x = floats(source)
    with np.errstate(all="ignore"):
        want = x.astype(numpy)
    for lanes in (1, 16):
        got, _ = elementwise.run(lambda b, x: b.convert(x, dtype), [x], lanes, target)
        same(got, want)


@pytest.mark.parametrize(("dtype", "numpy"), HALVES)
def test_neighbours_of_halves(dtype, numpy):
    x = ALL.view(numpy)
    for towards in (numpy(1), numpy(-np.inf), numpy(np.inf), numpy(0)):
        got, _ = elementwise.run(
            lambda b, x, y: b.nextafter(x, y), [x, np.full_like(x, towards)], 16
        )
        with np.errstate(all="ignore"):
            want = np.nextafter(x, towards).astype(numpy)
            want[x == towards] = towards  # as C has it: of two zeros, the second
        same(got, want)


@pytest.mark.parametrize(("dtype", "numpy"), HALVES)
def test_constants_are_rounded_as_the_processor_does(dtype, numpy):
    values = floats(np.float64)[::97]
    with np.errstate(all="ignore"):
        want = values.astype(numpy).astype(np.float64)
    same(np.array([rounded(float(v), dtype) for v in values]), want)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("shape", [(3, 5, 7), (1, 64, 64), (17, 1, 9), (40, 130, 33), (0, 4, 2)])
def test_products_are_kernels_and_round_once(dtype, shape):
    """Sums are float32, and are rounded at the end; the plan leaves no step to NumPy."""
    m, k, n = shape
    rng = np.random.default_rng(m)
    kind = getattr(wend, dtype)
    x, w = (wend.tensor(rng.normal(size=s), dtype=kind) for s in ((m, k), (n, k)))
    x, w = x.requires_grad_(), w.requires_grad_()
    weights = wend.tensor(rng.normal(size=(m, n)), dtype=kind)

    def step():
        x.grad = w.grad = None
        y = x @ w.T
        (y * weights).sum().backward()
        return [v.detach().float().numpy() for v in (y, x.grad, w.grad)]

    with own_trie(), config.override(compile=True, wait=True):
        for _ in range(4):
            got = step()
        flushes = wend.debug.explain().flushes
    assert not any(flush.host_steps for flush in flushes)
    a, b, g = (v.detach().double().numpy() for v in (x, w, weights))
    eps = {"bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype]
    for mine, exact, size in zip(
        got, (a @ b.T, g @ b, g.T @ a), (abs(a) @ abs(b.T), abs(g) @ abs(b), abs(g.T) @ abs(a)),
        strict=True,
    ):  # fmt: skip
        assert (abs(mine - exact) <= eps * abs(exact) + 1e-5 * size).all()


def test_a_weight_is_widened_once():
    """All products of a plan that read a value share its copy in float32."""
    w = wend.tensor(np.eye(4), dtype=wend.bfloat16)
    x = wend.tensor(np.ones((2, 4)), dtype=wend.bfloat16)
    with own_trie(), config.override(compile=True, wait=True):
        for _ in range(4):
            y = ((x @ w) + 1) @ w @ w
            assert y.tolist() == [[2.0] * 4] * 2
        (flush,) = wend.debug.explain().flushes
    widened = [step for step in flush.steps if [name for name, _ in step.ops] == ["widen"]]
    assert len(widened) == 2  # x and w; the other operands are widened behind their products
