"""Complex numbers in generated loops: the numbers of NumPy, in every form that loops have."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.runtime.native.launcher import launcher

pad = torch.nn.functional.pad

#: Functions of x and y of equal shape; under WEND_VERIFY and here the reference is NumPy's.
FUNCTIONS = {
    "sums": lambda x, y: (x * y + x) * y - x / y,
    "numbers": lambda x, y: 2.5 * x - y / 3,
    "complex numbers": lambda x, y: x * 1j + y,
    "size": lambda x, y: (x * y).abs(),
    "angle": lambda x, y: (x * y).angle(),
    "sign": lambda x, y: (x * y).sgn(),
    "exp": lambda x, y: x.exp() * y,
    "log": lambda x, y: x.log(),
    "sin": lambda x, y: x.sin() - y.cos(),
    "sigmoid": lambda x, y: x.sigmoid(),
    "tanh": lambda x, y: x.tanh() * y,
    "sum of powers": lambda x, y: torch.logaddexp(x * 3, y),
    "reciprocal": lambda x, y: 1 / x + y.square() + x.rsqrt(),
    "parts": lambda x, y: (x * y).real + y.imag,
    "made of parts": lambda x, y: torch.complex(x.real * 2, y.imag + 1) * x,
    "polar": lambda x, y: torch.polar(x.abs(), y.real),
    "as real": lambda x, y: torch.view_as_real(x * y).sum(-1),
    "sum": lambda x, y: (x * y).sum(),
    "sum of rows": lambda x, y: (x * y.conj()).sum(-1),
    "sum of columns": lambda x, y: (x * y).sum(0),
    "product": lambda x, y: (x / 2).prod(-1),
    "variance": lambda x, y: x.var() + y.mean(),
    "choice": lambda x, y: torch.where(x.real > 0, x, y * 2),
    "comparison": lambda x, y: torch.stack([(x == y).any(), (x != y).all(), x.bool().all()]),
    "tests": lambda x, y: torch.isinf(x / 0) | torch.isnan(y) | ~torch.isfinite(y),
    "transposed": lambda x, y: (x * y).T * 2,
    "joined": lambda x, y: torch.cat([x * 2, y], 0),
    "rolled": lambda x, y: x.roll(1, 0) * y.flip(0),
    "padded": lambda x, y: pad(x * y, (1, 2)),
    "parts of tensors": lambda x, y: (x * 2)[1:3, ::2] * y[1:3, ::2],
    "broadcast": lambda x, y: x[:1] * y[:, :1],
    "wider": lambda x, y: (x * y).to(torch.complex128) * y,
    "of reals": lambda x, y: x.real.to(torch.complex64) * y + torch.ones(1, 1),
    "product of matrices": lambda x, y: (x @ y.T) * 2 + 1,
}


def computed(shape, dtype, compiled):
    rng = np.random.default_rng(3)
    with own_trie(), config.override(compile=compiled, wait=compiled):
        x, y = (
            torch.from_numpy((rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype))
            for _ in range(2)
        )
        results = [f(x, y) for f in FUNCTIONS.values()]
        return [r.numpy() for r in results]


@pytest.mark.parametrize("shape", [(17, 33), (3, 5)])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_loops_of_complex_numbers(shape, dtype):
    before = launcher.runs()
    found = computed(shape, dtype, True)
    assert launcher.runs() > before
    bound = 2e-5 if dtype is np.complex64 else 1e-12
    for name, got, want in zip(FUNCTIONS, found, computed(shape, dtype, False), strict=True):
        assert got.dtype == want.dtype, name
        assert np.allclose(got, want, rtol=bound, atol=10 * bound, equal_nan=True), name
