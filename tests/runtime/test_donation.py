"""Writes that go into the memory of what nobody else refers to: never seen by anybody else."""

from __future__ import annotations

import random

import numpy as np
import pytest

import wend as torch
from wend._engine.base import config
from wend._engine.runtime import donation
from wend._engine.runtime.numpy_executor import plan as reference
from wend._engine.runtime.numpy_executor import runners

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
    real = runners.may_write

    def spy(env, prim, arrays, args):
        found = real(env, prim, arrays, args)
        count[0] += found and isinstance(env, donation.Lending)
        return found

    monkeypatch.setattr(runners, "may_write", spy)
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


# -- results over operands ------------------------------------------------------------------


def large(seed: int, *shape: int):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def by_reference(monkeypatch) -> None:
    monkeypatch.setattr(config.settings, "compile", False)
    monkeypatch.setattr(config.settings, "verify", False)  # what is computed twice stays


def test_a_result_takes_the_place_of_what_is_computed_and_read_no_more(monkeypatch):
    taken = [0]

    def room_among(arrays, spent):
        room = donation.room_among(arrays, spent)
        taken[0] += room is not None
        return room

    monkeypatch.setattr(runners, "room_among", room_among)
    by_reference(monkeypatch)
    x, row = large(0, 80, 90), large(1, 90)
    a, b = torch.tensor(x), torch.tensor(row)
    y = ((a * 2 + b) / 3 - a).abs().sqrt()
    np.testing.assert_array_equal(
        y.numpy(), np.sqrt(np.abs((x * np.float32(2) + row) / np.float32(3) - x))
    )
    assert taken == [5]
    np.testing.assert_array_equal(a.numpy(), x)
    np.testing.assert_array_equal(b.numpy(), row)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: (x * 2).t() + (x * 3),  # in another order
        lambda x: (x[:1] * 2) * x,  # smaller than the result
        lambda x: (lambda h: h * h)(x * 2),
        lambda x: (lambda h: (h + 1) * h)(x * 2),
        lambda x: (lambda h: h.view(-1)[1:] * (h + 1).view(-1)[1:])(x * 2),
        lambda x: (x * 2).to(torch.float64) * (x * 3),
        lambda x: ((x * 100).to(torch.int32) + 7) / 3,
        lambda x: ((x * 3).half() * 3).float() - x,
        lambda x: torch.where(x > 0, x * 2, x * 3) * 2,
        lambda x: torch.where(x[0] > 0, 0.0, x * 3) - x,
    ],
)
def test_operands_that_do_not_fit_or_are_shared_stay(monkeypatch, program):
    by_reference(monkeypatch)
    x = torch.tensor(large(2, 96, 96))
    got = program(x).numpy()
    with monkeypatch.context() as patch:
        patch.setattr(runners, "room_among", lambda arrays, spent: None)
        patch.setattr(reference, "read_turned", lambda path: set())
        patch.setattr(config.settings, "eager", True)
        want = program(torch.tensor(large(2, 96, 96))).numpy()
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(x.numpy(), large(2, 96, 96))


def test_what_a_backward_pass_reads_is_not_written_over(monkeypatch):
    by_reference(monkeypatch)
    data = large(3, 70, 70)
    x = torch.tensor(data, requires_grad=True)
    h = (x * 2).abs() + 1
    y = (h.sqrt() * h / (h + 3)).sum()
    y.item()
    y.backward()
    h = np.abs(data.astype(np.float64) * 2) + 1
    slope = 1.5 * np.sqrt(h) / (h + 3) - h**1.5 / (h + 3) ** 2
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.sign(data) * slope, rtol=1e-4, atol=1e-5)


def test_a_gradient_that_is_read_turned_lies_row_by_row(monkeypatch):
    by_reference(monkeypatch)
    found = []
    real = reference.read_turned
    monkeypatch.setattr(
        reference, "read_turned", lambda path: found.append(real(path)) or found[-1]
    )
    x = torch.tensor(large(4, 16, 40))
    weight = torch.tensor(large(5, 30, 40), requires_grad=True)
    torch.nn.functional.linear(x, weight).square().sum().backward()
    gradient = weight.grad.numpy()
    assert sum(map(len, found)) == 1
    out = large(4, 16, 40).astype(np.float64) @ large(5, 30, 40).T
    want = 2 * out.T @ large(4, 16, 40)
    np.testing.assert_allclose(gradient, want, rtol=1e-4, atol=1e-4)
