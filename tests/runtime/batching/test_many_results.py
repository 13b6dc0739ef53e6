"""Ops of more results than a region may have values."""

import numpy as np

import wend as torch
from wend._engine.core.primitive import ops


def test_an_op_of_many_results_is_left_to_another_executor():
    """The values of a region are bits of a word: an op of 100 results has no room there."""
    numbers = np.arange(300, dtype=np.float32).reshape(100, 3)
    x = torch.tensor(numbers, requires_grad=True)
    for turn in range(3):
        parts = ops.even_parts(x, 100, 0)
        total = torch.zeros(1, 3)
        for k, part in enumerate(parts):
            total = torch.tanh(total + part * (k % 7 + turn)) if k % (turn + 2) else total + part
        x.grad = None
        total.sum().backward()
        mine, value = x.grad.numpy().copy(), total.detach().numpy().copy()
        with torch.autobatch(False):
            parts = ops.even_parts(x, 100, 0)
            total = torch.zeros(1, 3)
            for k, part in enumerate(parts):
                total = (
                    torch.tanh(total + part * (k % 7 + turn)) if k % (turn + 2) else total + part
                )
            x.grad = None
            total.sum().backward()
            np.testing.assert_allclose(value, total.detach().numpy(), rtol=1e-5)
            np.testing.assert_allclose(mine, x.grad.numpy(), rtol=1e-5, atol=1e-7)
