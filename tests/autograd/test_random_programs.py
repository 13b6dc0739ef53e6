"""Random programs of all that gradients meet: flushes, in-place, views, hooks, functions, orders.

Each is run under PyTorch too, where it is installed; else op by op and flushed at random, which
must make no difference.
"""

import random

import numpy as np
import pytest
from agreement import check, plain, torch

import wend

SHAPE = (3, 4)


class Program:
    """A program drawn from a seed; the same steps for each library."""

    def __init__(self, lib, seed, reads=True):
        self.lib = lib
        self.rng = random.Random(seed)
        self.reads = reads
        draw = np.random.default_rng(seed)
        self.leaves = [
            lib.tensor(draw.uniform(0.5, 1.5, size=SHAPE), requires_grad=k < 3) for k in range(4)
        ]
        self.values = list(self.leaves)
        self.seen = []
        self.hooks = 0

    def pick(self):
        return self.rng.choice(self.values[-6:])

    def step(self):
        name = self.rng.choice(STEPS)
        getattr(self, name)()

    # -- kinds of steps ---------------------------------------------------------------------

    def binary(self):
        a, b = self.pick(), self.pick()
        op = self.rng.choice([lambda x, y: x * y, lambda x, y: x + y, lambda x, y: x - y * 0.5])
        self.values.append(op(a, b))

    def unary(self):
        op = self.rng.choice(["tanh", "sigmoid", "sin", "exp", "cos"])
        self.values.append(getattr(self.pick() * 0.5, op)())

    def reduce(self):
        a = self.pick()
        dim = self.rng.randrange(2)
        self.values.append(a - a.mean(dim=dim, keepdim=True))

    def product(self):
        self.values.append((self.pick() @ self.pick().t()) @ self.pick() * 0.1)

    def softmax(self):
        # Times 1: how a softmax's gradient is written in terms of its result is nobody's business.
        self.values.append(self.lib.softmax(self.pick(), dim=self.rng.randrange(2)) * 1)

    def view(self):
        row = self.rng.randrange(3)
        a = self.pick() * 1
        v = a[row]
        if self.rng.random() < 0.5:
            v.mul_(self.pick()[0].detach())
        else:
            v.add_(self.pick()[1])
        self.values.append(a)

    def in_place(self):
        a = self.pick() + 0
        if self.rng.random() < 0.5:
            a += self.pick()
        else:
            a[:, self.rng.randrange(4)] = self.pick()[:, 0]
        self.values.append(a)

    def detached(self):
        a = self.pick()
        self.values.append(a - a.detach() * 0.5)

    def without(self):
        with self.lib.no_grad():
            b = self.pick() * 2
        self.values.append(self.pick() * b * 0.1)

    def read(self):
        a = self.pick()
        if self.reads:
            a.sum().item()

    def hook(self):
        a = self.pick()
        if not a.requires_grad:
            return
        kind = self.rng.randrange(3)
        scale = self.rng.choice([0.5, 2.0])
        if kind == 0:
            a.register_hook(lambda g: g * scale)
        elif kind == 1:
            number = self.hooks
            self.hooks += 1
            a.register_hook(lambda g: self.seen.append((number, g.sum().item())))
        elif not a.is_leaf:
            a.retain_grad()

    def function(self):
        self.values.append(function_of(self.lib).apply(self.pick(), self.pick()))

    def checkpointed(self):
        a, b = self.pick(), self.pick()
        self.values.append(
            self.lib.utils.checkpoint.checkpoint(
                lambda x: (x * b).tanh() * x, a, use_reentrant=False
            )
        )

    def gradient(self):
        a = self.pick()
        wanted = [x for x in self.leaves[:3] if self.rng.random() < 0.7] or [self.leaves[0]]
        if not a.requires_grad:
            return
        found = self.lib.autograd.grad(
            (a * a).sum(), wanted, create_graph=True, retain_graph=True, allow_unused=True
        )
        for g in found:
            if g is not None:
                self.values.append(g.tanh())

    def backward(self):
        a = self.pick()
        if a.requires_grad:
            a.sum().backward(retain_graph=True)

    # -- the whole --------------------------------------------------------------------------

    def run(self, steps):
        for _ in range(steps):
            self.step()
        loss = sum((v * v).mean() for v in self.values[-3:])
        if loss.requires_grad:
            loss.backward()
        grads = [x.grad for x in self.leaves[:3]]
        kept = [v.grad for v in self.values[4:] if v.requires_grad and v.retains_grad]
        return [plain(r) for r in (loss, grads, kept, self.values)], sorted(self.seen)


STEPS = (
    ["binary"] * 6 + ["unary"] * 5 + ["reduce", "product", "softmax", "view", "view", "in_place"]
    + ["in_place", "detached", "without", "read", "read", "hook", "hook", "function"]
    + ["checkpointed", "gradient", "backward"]
)  # fmt: skip
_FUNCTIONS = {}


def function_of(lib):
    """A product, as a user would write it."""
    if lib not in _FUNCTIONS:

        class Product(lib.autograd.Function):
            @staticmethod
            def forward(ctx, a, b):
                y = (a * b).tanh()
                ctx.save_for_backward(a, b, y)
                return y

            @staticmethod
            def backward(ctx, g):
                a, b, y = ctx.saved_tensors
                g = g * (1 - y * y)
                return g * b, g * a

        _FUNCTIONS[lib] = Product
    return _FUNCTIONS[lib]


def compare(found, wanted):
    check(found[0], wanted[0], "values")
    assert len(found[1]) == len(wanted[1])
    for (n, a), (m, b) in zip(found[1], wanted[1], strict=True):
        assert n == m
        assert a == pytest.approx(b, rel=1e-6, abs=1e-9)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(60))
def test_a_random_program(seed):
    steps = 4 + seed % 23
    try:
        found = Program(wend, seed).run(steps)
    except RuntimeError as error:
        if torch is not None:
            with pytest.raises(RuntimeError):
                Program(torch, seed).run(steps)
        pytest.skip(f"not a program: {error}")
    compare(Program(wend, seed).run(steps), found)
    compare(Program(wend, seed, reads=False).run(steps), found)
    with wend.eager():
        compare(Program(wend, seed).run(steps), found)
    if torch is not None:
        try:
            wanted = Program(torch, seed).run(steps)
        except RuntimeError as error:
            if "modified by an inplace operation" in str(error):
                return
            raise
        compare(found, wanted)
