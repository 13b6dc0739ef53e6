"""Writes that go into the memory of what nobody else refers to: never seen by anybody else."""

from __future__ import annotations

import random

import numpy as np
import pytest

import wend as torch
from wend.base import config
from wend.runtime import donation, reference

ROWS, WIDTH = 5, 4


class Program:
    """A random program of writes, reads and copies, beside the same in NumPy."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.pairs = [self.fresh() for _ in range(3)]
        self.later: list[tuple] = []  # gradients still to be taken: (loss, leaf, expected)

    def fresh(self):
        data = np.random.default_rng(self.rng.random().__hash__() % 2**32).normal(
            size=(ROWS, WIDTH)
        )
        return torch.tensor(data), data.copy()

    def write(self) -> None:
        x, a = self.rng.choice(self.pairs)
        i, j = sorted(self.rng.sample(range(ROWS + 1), 2))
        kind = self.rng.randrange(4)
        number = self.rng.random()
        if kind == 0:
            x[i % ROWS], a[i % ROWS] = number, number
        elif kind == 1:
            x[i:j] += number
            a[i:j] += number
        elif kind == 2:
            source, b = self.rng.choice(self.pairs)
            row = b[j - 1].copy()
            x[i] = source[j - 1]
            a[i] = row
        else:
            x[:, j % WIDTH], a[:, j % WIDTH] = number, number

    def keep(self) -> None:
        x, a = self.rng.choice(self.pairs)
        self.pairs.append((x.clone(), a.copy()))
        if len(self.pairs) > 6:
            self.pairs.pop(0)

    def alias(self) -> None:
        x, a = self.rng.choice(self.pairs)
        self.pairs.append((x.detach(), a))

    def differentiate(self) -> None:
        x, a = self.rng.choice(self.pairs)
        w = torch.ones(ROWS, WIDTH, dtype=torch.float64, requires_grad=True)
        self.later.append(((w * x * x).sum(), w, a * a))

    def look(self) -> None:
        x, a = self.rng.choice(self.pairs)
        np.testing.assert_array_equal(x[1].numpy(), a[1])

    def fail(self) -> None:
        """Writes after an op that fails are undone, those before it are not."""
        self.write()
        before = [(x, a.copy()) for x, a in self.pairs]
        bad = torch.ones(3)[torch.tensor([7]) + 0]  # pending, or it would raise here
        for _ in range(2):
            self.write()
        with pytest.raises(IndexError):
            bad.tolist()
        for _, a, (_, kept) in ((x, a, pair) for (x, a), pair in zip(self.pairs, before)):
            a[...] = kept

    def run(self, steps: int) -> None:
        moves = [self.write] * 6 + [self.look] * 2 + [self.keep, self.alias, self.differentiate]
        for _ in range(steps):
            self.rng.choice([*moves, self.fail, torch.synchronize])()
        for x, a in self.pairs:
            np.testing.assert_array_equal(x.numpy(), a)
        for loss, w, expected in self.later:
            loss.backward()
            np.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_random_writes_agree_with_numpy(seed):
    Program(seed).run(40)


def lent_writes(monkeypatch) -> list[int]:
    """Count the writes into held buffers."""
    count = [0]
    real = reference.may_write

    def spy(env, prim, arrays, args):
        found = real(env, prim, arrays, args)
        count[0] += found and isinstance(env, donation.Lending)
        return found

    monkeypatch.setattr(reference, "may_write", spy)
    return count


def test_held_buffers_are_written_to(monkeypatch):
    monkeypatch.setattr(config.settings, "verify", False)  # what is computed twice is not lent
    monkeypatch.setattr(config.settings, "compile", False)  # plans lend in their own way
    lent = lent_writes(monkeypatch)
    out = torch.zeros(ROWS, WIDTH)
    out.tolist()
    for t in range(ROWS):
        out[t] = float(t)
        assert out[t, 0].item() == t
    assert lent == [ROWS]


@pytest.mark.parametrize("other", ["saved", "memory", "thread", "handle"])
def test_buffers_that_others_have_are_not(monkeypatch, other):
    lent = lent_writes(monkeypatch)
    x = torch.ones(ROWS, WIDTH)
    x.tolist()
    w = torch.ones(ROWS, WIDTH, requires_grad=True)
    held = {
        "saved": lambda: (w * x).sum(),
        "memory": lambda: x.numpy(),
        "thread": lambda: x.value,
        "handle": lambda: x.detach().requires_grad_(),
    }[other]()
    torch.synchronize()
    x[0] = 5.0
    assert x[0].tolist() == [5.0] * WIDTH
    assert lent == [0]
    if other == "saved":
        held.backward()
        assert w.grad[0].tolist() == [1.0] * WIDTH
