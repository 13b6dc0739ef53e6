"""Slopes of grid_sample at the centres of pixels, where rounding decides the neighbour."""

import numpy as np
import pytest

import wend


def slopes(t, n, align_corners):
    theta = t.tensor([[[1.0, 0, 0], [0, 1, 0]]]).requires_grad_()
    grid = t.nn.functional.affine_grid(theta, (1, 1, n, n), align_corners=align_corners)
    image = t.tensor(np.random.RandomState(n).rand(1, 1, n, n).astype(np.float32))
    found = t.nn.functional.grid_sample(image, grid, align_corners=align_corners)
    (found * found.detach().flip(-1)).sum().backward()
    return grid.detach().numpy(), found.detach().numpy(), theta.grad.numpy()


@pytest.mark.parametrize("n", [1, 2, 5, 20, 28, 33, 64])
@pytest.mark.parametrize("align_corners", [False, True])
def test_the_identity(n, align_corners):
    """A spatial transformer begins with the identity: its first step goes PyTorch's way."""
    grid, found, slope = slopes(wend, n, align_corners)
    centres = (2 * np.arange(n) + 1) / n - 1
    ends = np.linspace(-1, 1, n) if n > 1 else np.zeros(1)
    np.testing.assert_allclose(grid[0, 0, :, 0], ends if align_corners else centres, atol=1e-6)
    torch = pytest.importorskip("torch")
    expected = slopes(torch, n, align_corners)
    np.testing.assert_array_equal(grid, expected[0])
    np.testing.assert_allclose(found, expected[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(slope, expected[2], rtol=1e-3, atol=1e-3)
