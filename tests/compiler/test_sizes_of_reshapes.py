"""Sizes that numbers of the program make: results of reshapes meet other tensors in kernels."""

import numpy as np
import pytest

import wend
from tries import own_trie
from wend._engine.base import config
from wend.nn import functional as F

PROGRAMS = {
    "products of pairs": lambda h: (
        h + wend.bmm(h.view(6, 4, 8), h.view(6, 8, 4)).reshape(6, 16).repeat(1, 2)
    ),
    "pooling": lambda h: h + F.adaptive_avg_pool1d(h[:, None], 8).repeat(1, 1, 4)[:, 0],
    "norm of groups": lambda h: h * F.group_norm(h.view(6, 8, 4), 2).reshape(6, 32),
    "heads": lambda h: h + h.view(6, 4, 8).transpose(1, 2).reshape(6, 32),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_sums_of_what_was_reshaped_are_kernels(name):
    program = PROGRAMS[name]
    x = np.random.default_rng(0).normal(size=(6, 32))

    def step():
        h = wend.tensor(x, requires_grad=True)
        (program(h.tanh()).sin()).sum().backward()
        return h.grad.numpy()

    with config.override(compile=False):
        expected = step()
    with own_trie(), config.override(compile=True, wait=True):
        for _ in range(4):
            got = step()
        flushes = wend.debug.explain().flushes
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)
    assert flushes and not any(flush.host_steps for flush in flushes)
