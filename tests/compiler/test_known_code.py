"""Nests and tails of equal structure: their code is written once, and is the same code."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.compiler.codegen import known_code, nest_prefetch
from wend._engine.compiler.codegen.nest import NestCode
from wend._engine.compiler.kernels.matmul.epilogue import EpilogueCode


@pytest.fixture(autouse=True)
def nothing_known():
    """Plans are compiled before their first run, and no code is known."""
    known_code.forget()
    with own_trie(), config.override(compile=True, wait=True, verify=False):
        yield
    known_code.forget()


@pytest.fixture
def written(monkeypatch):
    """The texts that were written, and not taken from the table."""
    texts = []
    for maker in (NestCode, EpilogueCode):

        def write(self, _write=maker.write):
            found = _write(self)
            texts.append(found.text)
            return found

        monkeypatch.setattr(maker, "write", write)
    return texts


def values(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def apart(*arrays):
    """Exponentials that no nest shares: a scan lies between them."""
    total = torch.zeros(1)
    for k, array in enumerate(arrays):
        total = (torch.tensor(array) + total[-1:]).exp().cumsum(0) + k
    return total.numpy()


def test_nests_of_other_values_and_sizes_share_code(written):
    first = apart(values(8), values(24))
    one_path = len(written)
    assert len(set(written)) == one_path
    again = apart(values(8), values(24), values(32), values(40))
    assert len(written) <= one_path + 2  # the first and the last nest may differ
    with config.override(compile=False, wait=False), own_trie():
        np.testing.assert_allclose(first, apart(values(8), values(24)), rtol=1e-5)
        expected = apart(values(8), values(24), values(32), values(40))
        np.testing.assert_allclose(again, expected, rtol=1e-5)


def test_tails_of_equal_structure_share_code(written):
    def turns(n):
        h, weight = torch.tensor(values(3, 5)), torch.tensor(values(5, 5, seed=1))
        for _ in range(n):
            h = torch.tanh(h @ weight)
        return h.numpy()

    turns(2)
    before = len(written)
    found = turns(6)
    assert len(written) == before
    with config.override(compile=False, wait=False), own_trie():
        np.testing.assert_allclose(found, turns(6), rtol=1e-5)


@pytest.mark.parametrize(
    "other",
    [
        lambda x, y: torch.cos(x) * y,
        lambda x, y: torch.sin(x) * x,
        lambda x, y: torch.sin(x) * y.double(),
        lambda x, y: torch.sin(x) * y[:, :1],
        lambda x, y: torch.sin(x.T) * y,
        lambda x, y: (torch.sin(x) * y).sum(),
        lambda x, y: (torch.sin(x) * y).sum(1),
        lambda x, y: torch.sin(x[1:]) * y[:-1],
        lambda x, y: torch.sin(x) * 0.0,
        lambda x, y: torch.sin(x) * -0.0,
        lambda x, y: torch.sin(x).clamp(min=0.5) * y,
        lambda x, y: torch.roll(torch.sin(x), 1, 0) * y,
    ],
)
def test_other_structure_is_other_code(other):
    """Results are right, bit by bit those of code that is written anew."""
    x, y = torch.tensor(values(4, 4)), torch.tensor(values(4, 4, seed=1))

    def run():
        (torch.sin(x) * y).numpy()
        return other(x, y).numpy()

    found = run()
    with own_trie():
        known_code.forget()
        anew = other(x, y).numpy()
    assert found.tobytes() == anew.tobytes()


def test_constants_are_told_apart_by_their_bits():
    """0.0 equals -0.0, and 1 equals 1.0 and True, but not as numbers in a text."""
    form = known_code.KernelForm(None)
    numbers = [0.0, -0.0, 0, False, 1, 1.0, True, float("nan"), "lowest"]
    assert len({form.number(n) for n in numbers}) == len(numbers)


def test_other_code_is_a_failure_while_plans_are_verified(monkeypatch, planted_failure):
    def run():
        with own_trie():
            return torch.tensor(values(64)).exp().numpy()

    run()
    monkeypatch.setattr(nest_prefetch, "FAR_BYTES", 64)
    run()
    with config.override(verify=True), pytest.raises(Exception, match=r"kernel was taken for"):
        run()


def test_rules_that_are_not_shared_are_written_each_time(written, monkeypatch):
    monkeypatch.setattr(known_code, "is_shared", lambda rule: False)
    for _ in range(2):
        with own_trie():
            torch.tensor(values(64)).exp().numpy()
    assert len(written) == 2 and len(set(written)) == 1 and not known_code._WRITTEN


def test_few_forms_are_kept(monkeypatch):
    monkeypatch.setattr(known_code, "MOST", 3)
    for op in (torch.exp, torch.sin, torch.cos, torch.tanh, torch.sqrt):
        op(torch.tensor(values(8))).numpy()
        assert len(known_code._WRITTEN) <= 3
