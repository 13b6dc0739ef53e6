"""Results do not depend on the sizes of groups, nor on how many groups a device is given."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.compiler.codegen import device_nest, known_code
from wend._engine.runtime.devices import queue

#: Work items of a group that share a row, of a group in which each is alone, and groups at most.
SETTINGS = [(1, 1, 1), (7, 3, 3), (32, 64, 1), (256, 7, 3), (128, 64, 1 << 14)]


@pytest.fixture
def scheduled(monkeypatch, accelerator):
    """Make kernels anew with other sizes of groups."""

    def change(row, alone, groups):
        monkeypatch.setattr(device_nest, "ROW", row)
        monkeypatch.setattr(device_nest, "ALONE", alone)
        monkeypatch.setattr(queue.accelerator_at(accelerator)._ring, "most_groups", groups)
        known_code.forget()

    yield change
    known_code.forget()


def rows(t, x, y):
    """A softmax of long and of short rows, a norm, and what flows back."""
    z = t.softmax(x * 2 - y, -1)
    return [z, (z * y).sum(0), t.layer_norm(x, x.shape[-1:]), x.var(-1), z.argmax(-1)]


def totals(t, x, y):
    """Sums over all, over columns, and at places that an index names."""
    places = t.arange(x.shape[0]) % 3
    sums = t.zeros(3, x.shape[1], dtype=x.dtype).index_add(0, places, x * y)
    return [x.sum(), x.amax(), (x * y).sum(0), sums, (x > y).sum(), (x > 0).all(), x.prod(0)]


def moved(t, x, y):
    """Parts, shifts and other orders of the elements."""
    joined = t.cat([x[:, 1:], y.flip(1)[:, :3], x.new_ones(x.shape[0], 2)], 1)
    return [joined, x.t().contiguous(), x[::2, ::3] + 1, t.roll(x, 3, 1), x[:, 1:] - x[:, :-1]]


SHAPES = [(3, 5), (1, 1000), (700, 2), (40, 129), (0, 4), (4, 0)]


def computed(program, x, y, place):
    """The results, then the gradients, as arrays."""
    with own_trie(), torch.device(place):
        a, b = (torch.tensor(array, device=place, requires_grad=True) for array in (x, y))
        results = program(torch, a, b)
        total = sum((r * r).sum() for r in results if r.requires_grad)
        grads = torch.autograd.grad(total, (a, b), allow_unused=True)
        return [r.detach().cpu().numpy() for r in (*results, *grads) if r is not None]


@pytest.mark.parametrize("program", [rows, totals, moved])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sizes_of_groups(program, shape, accelerator, scheduled):
    if 0 in shape and (program is totals or (program is rows and not shape[1])):
        pytest.skip("an extreme of no elements is an error")
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(0.5, 1.5, size=shape) for _ in range(2))
    want = computed(program, x, y, "cpu")
    for setting in SETTINGS:
        scheduled(*setting)
        got, again = (computed(program, x, y, accelerator) for _ in range(2))
        assert len(got) == len(want)
        for a, b, c in zip(got, want, again, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape, setting
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=str(setting))
            np.testing.assert_array_equal(a, c, err_msg=f"{setting}: other bits")
