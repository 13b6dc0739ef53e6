"""Patterns of batched ops hold for the sizes they say: random programs at random sizes, in turn.

The examples share their patterns, so that one made for a size of 1 or 0 would be taken for others.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import wend
from wend.func import grad, vmap

STEPS = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y.sum(0),
    "rows": lambda x, y: x - x.mean(-1, keepdim=True),
    "columns": lambda x, y: x.amax(0) + y,
    "softmax": lambda x, y: wend.softmax(x, -1),
    "product": lambda x, y: x @ (y.T @ y),
    "cumsum": lambda x, y: x.cumsum(0),
    "cat": lambda x, y: wend.cat([x, y])[: len(x)],
    "where": lambda x, y: wend.where(x > y, x, y[:1]),
    "view": lambda x, y: x.reshape(-1).flip(0).reshape(x.shape),
    "index": lambda x, y: x[:, [0]] * y,
    "expand": lambda x, y: x.sum(1, keepdim=True).expand(x.shape) / 3,
}
extents = st.integers(1, 4)
programs = st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4)


def arrays(size, shape, seed):
    rng = np.random.default_rng(seed)
    return wend.tensor(rng.normal(size=(size, *shape)))


@settings(deadline=None)
@given(programs, extents, extents, extents, st.booleans(), st.integers(0, 99))
def test_random_programs(names, size, rows, columns, both, seed):
    def program(x, y):
        for name in names:
            x = STEPS[name](x, y)
        return x

    x = arrays(size, (rows, columns), seed)
    y = arrays(size, (rows, columns), seed + 1) if both else arrays(rows, (columns,), seed)
    in_dims = (0, 0 if both else None)
    others = [y[k] if both else y for k in range(size)]
    got = vmap(program, in_dims)(x, y)
    want = wend.stack([program(a, b) for a, b in zip(x, others, strict=True)])
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-9, atol=1e-9)

    slope = grad(lambda a, b: (program(a, b) ** 2).sum())
    got = vmap(slope, in_dims)(x, y)
    want = wend.stack([slope(a, b) for a, b in zip(x, others, strict=True)])
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-7, atol=1e-7)


@settings(deadline=None)
@given(programs, extents, extents, extents, st.integers(0, 99))
def test_nested(names, outer, inner, rows, seed):
    def program(x, y):
        for name in names:
            x = STEPS[name](x, y)
        return x

    x = arrays(outer, (rows, 2), seed)
    y = arrays(inner, (rows, 2), seed + 1)
    got = vmap(lambda a: vmap(lambda b: program(a, b))(y))(x)
    want = wend.stack([wend.stack([program(a, b) for b in y]) for a in x])
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-9, atol=1e-9)
