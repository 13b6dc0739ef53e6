"""Draws by weight as machine code: the bits of the rule, and its errors."""

import numpy as np
import pytest

import wend as torch
from wend._engine.base import config, errors
from wend._engine.core.primitive import ops
from wend._engine.ops.random import MultinomialDraw

FORCED = {"compile": True, "wait": True, "deterministic": False}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    "shape", [(1, 3), (4, 7), (5,), (3, 1), (2, 300), (0, 4), (1, 4097), (2, 2)]
)
def test_places_are_those_of_the_rule(shape, dtype):
    rule = MultinomialDraw.__new__(MultinomialDraw)
    rule.replacement = True
    weights = np.random.default_rng(0).uniform(size=shape).astype(dtype)
    weights[..., ::3] = 0
    weights[..., 0] += 0.1
    if shape[-1] > 4:
        weights[..., -2:] = 0
    with config.override(**FORCED):
        for count in (1, 5, 17, 200):
            found = ops.multinomial_draw(
                torch.from_numpy(weights), count, 7, 2**40 + count, replacement=True
            )
            expected = rule.reference(weights, count, 7, 2**40 + count)
            np.testing.assert_array_equal(found.numpy(), expected)


def test_rows_that_lie_apart():
    weights = torch.arange(24.0).reshape(4, 6)
    with config.override(**FORCED):
        for view in (weights.T, weights[::2], weights[:, ::2], weights.expand(2, 4, 6)[1]):
            torch.manual_seed(0)
            found = torch.multinomial(view, 9, True)
            torch.manual_seed(0)
            with config.override(compile=False):
                expected = torch.multinomial(view.clone(), 9, True).numpy()
            np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("weights", [[-1.0, 2], [np.nan, 1], [np.inf, 1], [0, 0.0]])
def test_weights_that_are_none(weights):
    with config.override(**FORCED), pytest.raises(errors.ExecutionError, match="multinomial"):
        torch.multinomial(torch.tensor(weights), 1, True).numpy()
