"""Sobol's sequence, against PyTorch's and SciPy's."""

import numpy as np
import pytest

import wend
from wend.quasirandom import SobolEngine


@pytest.mark.parametrize("dims", [1, 2, 3, 37, 300])
def test_points_equal_torchs(dims):
    torch = pytest.importorskip("torch")
    theirs, ours = torch.quasirandom.SobolEngine(dims), SobolEngine(dims)
    assert repr(ours) == repr(theirs)
    np.testing.assert_array_equal(ours.sobolstate.numpy(), theirs.sobolstate.numpy())
    for count in (1, 5, 1, 26):
        np.testing.assert_array_equal(ours.draw(count).numpy(), theirs.draw(count).numpy())
    ours.fast_forward(1000)
    theirs.fast_forward(1000)
    np.testing.assert_array_equal(ours.draw(3).numpy(), theirs.draw(3).numpy())
    assert ours.reset() is ours
    np.testing.assert_array_equal(ours.draw_base2(3).numpy(), theirs.reset().draw_base2(3).numpy())
    ours.reset().fast_forward(5)
    theirs.reset().fast_forward(5)
    np.testing.assert_array_equal(
        ours.draw(2, dtype=wend.float64).numpy(), theirs.draw(2, dtype=torch.float64).numpy()
    )


def test_points_equal_scipys():
    qmc = pytest.importorskip("scipy.stats.qmc")
    expected = qmc.Sobol(7, scramble=False, bits=30).random_base2(6)
    found = SobolEngine(7).draw_base2(6, dtype=wend.float64)
    np.testing.assert_array_equal(found.numpy(), expected)


def test_the_largest_dimension():
    points = SobolEngine(SobolEngine.MAXDIM).draw(4)
    assert points.shape == (4, 21201)
    assert points[1].eq(0.5).all()


@pytest.mark.parametrize("dims", [1, 3, 20])
def test_scrambled_points_fill_all_intervals(dims):
    engine = SobolEngine(dims, scramble=True, seed=3)
    assert repr(engine) == f"SobolEngine(dimension={dims}, scramble=True, seed=3)"
    points = engine.draw_base2(6, dtype=wend.float64).numpy()
    cells = np.sort((points * 64).astype(int), 0)
    np.testing.assert_array_equal(cells, np.arange(64)[:, None].repeat(dims, 1))
    again = SobolEngine(dims, scramble=True, seed=3).draw(64, dtype=wend.float64)
    np.testing.assert_array_equal(again.numpy(), points)
    other = SobolEngine(dims, scramble=True, seed=4).draw(64, dtype=wend.float64)
    assert (other.numpy() != points).any()


def test_scrambling_without_a_seed_draws_from_the_common_stream():
    wend.manual_seed(1)
    first = SobolEngine(2, scramble=True).draw(3).tolist()
    assert SobolEngine(2, scramble=True).draw(3).tolist() != first
    wend.manual_seed(1)
    assert SobolEngine(2, scramble=True).draw(3).tolist() == first


def test_a_given_result_takes_the_points():
    out = wend.zeros(0)
    back = SobolEngine(2).draw(2, out=out)
    assert back is out
    assert out.tolist() == [[0, 0], [0.5, 0.5]]


def test_refusals():
    for dims in (0, 21202):
        with pytest.raises(ValueError, match="Supported range"):
            SobolEngine(dims)
    with pytest.raises(ValueError, match="1 or more"):
        SobolEngine(2).draw(0)
    engine = SobolEngine(2)
    engine.draw(3)
    with pytest.raises(ValueError, match="power of 2"):
        engine.draw_base2(2)
    with pytest.raises(ValueError, match=r"2\*\*30 points"):
        engine.fast_forward(2**30)
