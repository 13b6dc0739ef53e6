"""uint16, uint32 and uint64: NumPy's numbers, by reference rules and by generated loops."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config

DTYPES = [np.uint16, np.uint32, np.uint64]

#: (of tensors, of arrays), where NumPy has no function of the same form.
FUNCTIONS = {
    "sums": (lambda x, y: x + y * 3 - x // 2, lambda x, y: x + y * x.dtype.type(3) - x // 2),
    "wraps": (lambda x, y: y - x, lambda x, y: y - x),
    "quotient": (lambda x, y: x // y, lambda x, y: x // y),
    "remainder": (lambda x, y: x % y, lambda x, y: x % y),
    "division": (lambda x, y: (x / y).double(), lambda x, y: x.astype("f4") / y.astype("f4")),
    "order": (lambda x, y: (x > y) ^ (x <= y), lambda x, y: (x > y) ^ (x <= y)),
    "maximum": (lambda x, y: torch.maximum(x, y).max(), lambda x, y: np.maximum(x, y).max()),
    "sorted": (lambda x, y: x.sort().values, lambda x, y: np.sort(x)),
    "sum": (lambda x, y: (x % 7).sum(), lambda x, y: (x % 7).astype("i8").sum()),
    "bits": (lambda x, y: (x & y) | (x ^ 5), lambda x, y: (x & y) | (x ^ x.dtype.type(5))),
    "shifts": (lambda x, y: (x >> 3) << 1, lambda x, y: (x >> 3) << 1),
    "to int": (lambda x, y: x.to(torch.int64), lambda x, y: x.astype("i8")),
    "from float": (
        lambda x, y: x.double().to(x.dtype),
        lambda x, y: x.astype("f8").astype(x.dtype),
    ),
    "wider": (lambda x, y: (x % 9).byte() + x, lambda x, y: (x % 9).astype("u1") + x),
    "square": (lambda x, y: y.square(), lambda x, y: y * y),
    "power": (lambda x, y: (x % 5) ** 3, lambda x, y: (x % 5) ** 3),
    "sign": (lambda x, y: (x - x).sign() + x.sign(), lambda x, y: np.sign(x)),
    "chosen": (lambda x, y: torch.where(x > y, x, 0)[2:], lambda x, y: np.where(x > y, x, 0)[2:]),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_unsigned_numbers(dtype, compiled):
    info = np.iinfo(dtype)
    # 2**63 + 2048 is a float64; the largest uint64 is none.
    large = [info.max - (2047 if info.bits == 64 else 0), info.max // 2 + 2048 + 1, 40_000, 100, 1]
    a, b = np.array([*large, 0, 7], dtype), np.array([3, 65_535, 41, 7, 2, 9, 7], dtype)
    with own_trie(), config.override(compile=compiled, wait=compiled), np.errstate(all="ignore"):
        x, y = torch.from_numpy(a), torch.from_numpy(b)
        assert x.dtype.name == np.dtype(dtype).name and not x.dtype.is_signed
        found = {name: ours(x, y) for name, (ours, _) in FUNCTIONS.items()}
        for name, (_, theirs) in FUNCTIONS.items():
            want = np.asarray(theirs(a, b))
            got = found[name].numpy()
            assert np.array_equal(got, want.astype(got.dtype)), (name, got, want)
            assert got.dtype == want.dtype or name in ("division", "order", "chosen"), name


def test_largest_numbers_and_words():
    assert torch.tensor([2**64 - 1], dtype=torch.uint64).tolist() == [2**64 - 1]
    assert torch.iinfo(torch.uint32).max == 2**32 - 1
    assert repr(torch.tensor([1, 2], dtype=torch.uint16)) == "tensor([1, 2], dtype=torch.uint16)"
    with pytest.raises(RuntimeError, match="no integer type holds both"):
        torch.ones(2, dtype=torch.uint64) + torch.ones(2, dtype=torch.int64)
