"""Random draws: positions decide, distributions are right, parameters are checked."""

import numpy as np
import pytest

import wend
from wend._engine.base.dtypes import bfloat16, float16, float32, float64
from wend._engine.base.errors import ArgumentError, ExecutionError, ShapeError
from wend._engine.base.random_state import philox as philox_block
from wend._engine.core.primitive import ops
from wend._engine.ops import philox

N = 200_000


def array(x):
    return x.numpy()


@pytest.mark.parametrize("kind", [0, 3])
@pytest.mark.parametrize("first", [0, 5, 2**32 - 1, 2**40])
def test_blocks_agree_with_the_scalar_function(first, kind):
    seed = 0x299F31D0A4093822
    got = philox.blocks(seed, first, 3, kind, 7)
    for i in range(3):
        counter = ((first + i) & 0xFFFFFFFF, (first + i) >> 32, kind, 7)
        assert tuple(int(w) for w in got[i]) == philox_block(counter, (0xA4093822, 0x299F31D0))


@pytest.mark.parametrize("first", [0, 2**32 - 2, 2**64 - 3])
@pytest.mark.parametrize("seed", [0, -5, 2**64 - 1])
def test_blocks_are_the_same_without_native_code(monkeypatch, first, seed):
    quick = philox.blocks(seed % 2**64, first, 7, 2, 3)
    monkeypatch.setattr(philox, "NATIVE", [])
    np.testing.assert_array_equal(philox.blocks(seed % 2**64, first, 7, 2, 3), quick)


@pytest.mark.parametrize(
    "draw",
    [
        lambda n, o: ops.uniform((n,), 7, o, dtype=float32),
        lambda n, o: ops.uniform((n,), 7, o, dtype=float64),
        lambda n, o: ops.standard_normal((n,), 7, o, dtype=float32),
        lambda n, o: ops.standard_normal((n,), 7, o, dtype=float64),
        lambda n, o: ops.random_integers((n,), 0, 1000, 7, o),
        lambda n, o: ops.random_bits((n,), 7, o),
        lambda n, o: ops.poisson_draw(wend.full((n,), 30.0), 7, o),
        lambda n, o: ops.poisson_draw(wend.full((n,), 3.0), 7, o),
        lambda n, o: ops.standard_gamma(wend.full((n,), 0.7), 7, o),
        lambda n, o: ops.bernoulli_draw(wend.full((n,), 0.4), 7, o),
        lambda n, o: ops.dropout_draw(wend.full((n,), 1.0), 0.4, 1.0, 7, o),
    ],
)
def test_an_element_depends_on_its_position_only(draw):
    whole = array(draw(40, 100))
    for offset in (101, 102, 107, 120):
        assert np.array_equal(array(draw(9, offset)), whole[offset - 100 :][:9])
    assert np.array_equal(array(draw(40, 100)), whole)
    assert not np.array_equal(array(draw(40, 200)), whole)


@pytest.mark.smoke
def test_seeds_and_kinds_are_apart():
    a = array(ops.random_bits((50,), 1, 0))
    b = array(ops.random_bits((50,), 2, 0))
    c = array(ops.random_bits((50,), -1, 0))
    assert len({*a, *b, *c}) == 150


@pytest.mark.parametrize(
    ("dtype", "digits"), [(float16, 11), (bfloat16, 8), (float32, 24), (float64, 53)]
)
def test_uniform_is_below_1_and_on_its_grid(dtype, digits):
    u = array(ops.uniform((N,), 3, 0, dtype=dtype).to(float64))
    assert u.min() >= 0
    assert u.max() < 1
    assert np.array_equal(u * 2.0**digits, np.floor(u * 2.0**digits))
    assert abs(u.mean() - 0.5) < 4 / np.sqrt(12 * N) + 2.0**-digits
    assert abs(u.var() - 1 / 12) < 2e-3


@pytest.mark.parametrize("dtype", [float32, float64])
def test_normal_moments(dtype):
    z = array(ops.standard_normal((N,), 3, 0, dtype=dtype)).astype(np.float64)
    for power, moment in ((1, 0), (2, 1), (3, 0), (4, 3), (6, 15)):
        spread = np.sqrt(np.mean(z ** (2 * power)) / N)
        assert abs(np.mean(z**power) - moment) < 5 * spread
    assert abs(np.corrcoef(z[::2], z[1::2])[0, 1]) < 0.02
    assert np.isfinite(z).all()


def test_integers():
    x = array(ops.random_integers((N,), -3, 4, 3, 0))
    counts = np.bincount(x + 3, minlength=7)
    assert counts.size == 7
    assert np.abs(counts - N / 7).max() < 5 * np.sqrt(N / 7)
    wide = array(ops.random_integers((1000,), -(2**63), 2**63 - 1, 3, 0))
    assert wide.min() < -(2**62)
    assert wide.max() > 2**62
    with pytest.raises(ExecutionError, match="from=5 >= to=5"):
        array(ops.random_integers((2,), 5, 5, 3, 0))


@pytest.mark.parametrize("rate", [0.3, 4.0, 9.9, 12.0, 250.0, 1e6])
def test_poisson_moments(rate):
    n = 50_000
    x = array(ops.poisson_draw(wend.full((n,), rate, dtype=float64), 3, 0))
    assert np.array_equal(x, np.floor(x))
    assert abs(x.mean() - rate) < 5 * np.sqrt(rate / n)
    assert abs(x.var() - rate) < 5 * np.sqrt((rate + 3 * rate**2) / n)


def test_poisson_refuses_negative_rates():
    assert array(ops.poisson_draw(wend.zeros(3), 3, 0)).tolist() == [0, 0, 0]
    with pytest.raises(ExecutionError, match="non-negative"):
        array(ops.poisson_draw(wend.tensor([1.0, -1.0]), 3, 0))


@pytest.mark.parametrize("shape", [0.1, 0.7, 1.0, 3.5, 100.0])
def test_gamma_moments(shape):
    n = 50_000
    x = array(ops.standard_gamma(wend.full((n,), shape, dtype=float64), 3, 0))
    assert (x > 0).all()
    assert abs(x.mean() - shape) < 5 * np.sqrt(shape / n)
    assert abs(x.var() - shape) < 6 * np.sqrt((3 * shape**2 + 6 * shape) / n)


def test_composed_distributions():
    u = array(ops.uniform_between((N,), -2.0, 3.0, 3, 0))
    assert u.min() >= -2.0
    assert u.max() < 3.0
    e = array(ops.exponential_draw((N,), 2.0, 3, 0, dtype=float64))
    assert abs(e.mean() - 0.5) < 0.01
    assert (e >= 0).all()
    assert np.isfinite(e).all()
    g = array(ops.geometric_draw((N,), 0.25, 3, 0, dtype=float64))
    assert g.min() == 1
    assert abs(g.mean() - 4) < 0.1
    assert abs(np.median(array(ops.cauchy_draw((N,), 1.0, 2.0, 3, 0))) - 1) < 0.05
    assert abs(np.median(array(ops.log_normal_draw((N,), 1.0, 2.0, 3, 0))) - np.e) < 0.1
    z = array(ops.normal((N,), 5.0, 2.0, 3, 0))
    assert abs(z.mean() - 5) < 0.05
    assert abs(z.std() - 2) < 0.05
    assert abs(array(ops.bernoulli_numbers((N,), 0.3, 3, 0)).mean() - 0.3) < 0.01
    assert sorted(array(ops.random_order((100,), 3, 0))) == list(range(100))


def test_multinomial():
    weights = wend.tensor([[1.0, 0.0, 3.0], [2.0, 2.0, 0.0]])
    x = array(ops.multinomial_draw(weights, 40_000, 3, 0, replacement=True))
    assert abs((x[0] == 2).mean() - 0.75) < 0.02
    assert abs((x[1] == 0).mean() - 0.5) < 0.02
    assert not (x[0] == 1).any()
    assert not (x[1] == 2).any()
    many = wend.tensor([1.0, 2.0, 3.0, 4.0]).expand(20_000, 4)
    y = array(ops.multinomial_draw(many, 4, 3, 0))
    assert (np.sort(y, 1) == np.arange(4)).all()
    assert abs((y[:, 0] == 3).mean() - 0.4) < 0.02
    with pytest.raises(ExecutionError, match="inf, nan or an element < 0"):
        array(ops.multinomial_draw(wend.tensor([1.0, -1.0]), 1, 3, 0))
    with pytest.raises(ExecutionError, match="sum of probabilities <= 0"):
        array(ops.multinomial_draw(wend.tensor([0.0, 0.0]), 1, 3, 0))
    with pytest.raises(ShapeError, match="without replacement"):
        ops.multinomial_draw(wend.tensor([1.0, 1.0]), 3, 3, 0)


def test_dropout():
    x = wend.ones(N)
    x.requires_grad_(True)
    y = ops.dropout(x, 0.25)
    values = array(y.detach())
    assert set(np.unique(values)) == {0.0, np.float32(1 / 0.75)}
    assert abs((values == 0).mean() - 0.25) < 0.01
    y.sum().backward()
    assert np.array_equal(array(x.grad), values)
    assert ops.dropout(x, 0.5, False) is x
    assert not array(ops.dropout(x.detach(), 1.0)).any()
    with pytest.raises(ArgumentError, match="between 0 and 1"):
        ops.dropout(x, 1.5)


def test_draws_follow_the_seed():
    wend.manual_seed(11)
    first = array(ops.dropout(wend.ones(64)))
    second = array(ops.dropout(wend.ones(64)))
    wend.manual_seed(11)
    assert np.array_equal(array(ops.dropout(wend.ones(64))), first)
    assert not np.array_equal(first, second)
