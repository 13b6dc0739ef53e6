"""Random programs of an example: `wend.batched` over many examples gives what a loop gives.

    python tests/fuzz/turns.py --seed 3 --first 0 --programs 200

A program trains for some rounds. It computes h, of `WIDTH` numbers, for each example by drawn
statements; some branch, loop and index on values. It ends in a loss, whose gradients are found in
one of the `ENDS`: in the example, in several passes, or together after the last example.

The reference is the loop, op by op. It is compared with a loop and with turns (`run_ways`), each
with lanes of common paths from the first visit on, or from the ninth.
"""

from __future__ import annotations

import argparse
import random

import numpy as np

import wend as torch
import wend.nn.functional as F
from wend import nn
from wend._engine.base import config, random_state
from wend._engine.runtime.fibers import lanes
from wend._frontend.batching.batched import streams
from wend.utils.checkpoint import checkpoint

WIDTH = 4
HEADS = 2
#: A value this near to a limit hangs on rounding.
MARGIN = 1e-6


class Undecided(Exception):
    """A branch hangs on a rounding error."""


def above(value, limit):
    """Whether a value read from a tensor is above the limit."""
    found = value.item()
    if abs(found - limit) <= MARGIN:
        raise Undecided
    return found > limit


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


class Setting:
    """What the statements of all examples share: layers, and the number of the round."""

    def __init__(self, seed):
        torch.manual_seed(seed)
        self.layers = nn.ModuleDict(
            {
                "linear": nn.Linear(WIDTH, WIDTH),
                "words": nn.Embedding(5, WIDTH),
                "norm": nn.LayerNorm(WIDTH),
                "deep": nn.Sequential(nn.Linear(WIDTH, 7), nn.ReLU(), nn.Linear(7, WIDTH)),
                "cell": nn.GRUCell(WIDTH, WIDTH),
                "lstm": nn.LSTM(WIDTH, WIDTH, batch_first=True),
                "conv": nn.Conv1d(1, 3, 3, padding=1),
                "attend": nn.MultiheadAttention(WIDTH, HEADS, batch_first=True),
            }
        ).double()
        self.round = 0

    def __getattr__(self, name):
        return self.layers[name]


# -- statements: (h, setting, number of the example, number in [0, 1), small int) -> h ---------


def in_place(h, s, i, a, n):
    h = h * 1.5
    h.add_(a)
    return h.mul_(0.7)


def write_to_view(h, s, i, a, n):
    h = h.clone()
    h[:2].mul_(1.0 + a)
    h[n] = h.mean()
    return h


def scale_without_gradient(h, s, i, a, n):
    with torch.no_grad():
        scale = h.abs().max()
    return h / (1 + scale)


def checkpointed(h, s, i, a, n):
    return checkpoint(lambda t: s.linear(t).sigmoid(), h, use_reentrant=n % 2 == 0)


def branch_on_value(h, s, i, a, n):
    return h * 0.9 if above(h[0], a) else h


def by_number(h, s, i, a, n):
    return h + s.words(torch.tensor((i + n) % 5))


def by_value(h, s, i, a, n):
    return h + s.words(torch.clamp((h.detach()[:1] * 10).long().abs(), 0, 4))[0]


def nested(h, s, i, a, n):
    def one(q):
        return (q.tanh() if above(q[0], 0.01) else q) * 0.5

    return sum(torch.batched(one)([h, h * 2]))


def inner_gradient(h, s, i, a, n):
    y = h.detach().requires_grad_()
    (g,) = torch.autograd.grad((y**3).sum(), y)
    return h + 0.01 * g


def through_gradient(h, s, i, a, n):
    y = h * 1.0
    (g,) = torch.autograd.grad((y.tanh() * y).sum(), y, create_graph=True)
    return h + 0.1 * g


def sequence(h, s, i, a, n):
    """A recurrence whose length depends on the example and the round."""
    state = h
    for _ in range((i + n + s.round) % 3 + 1):
        state = s.cell(h.unsqueeze(0), state.unsqueeze(0))[0]
    return state


def of_length(h, s, i, a, n):
    """Sizes that depend on the example."""
    rows = torch.stack([h * (k + 1) for k in range((i + n) % 3 + 1)])
    y, _ = s.lstm(rows.unsqueeze(0))
    return y[0].mean(0)


def attention(h, s, i, a, n):
    rows = torch.stack([h, h.flip(0), h * a])[: (i + n) % 3 + 1]
    y, _ = s.attend(rows[None], rows[None], rows[None], need_weights=n % 2 == 0)
    return h + y[0, -1]


def bad_product_is_caught(h, s, i, a, n):
    try:
        if i % 3 == n % 3:
            torch.ones(2) @ torch.ones(3)
        return h + 0.1
    except RuntimeError:
        return h * 0.5


def scattered(h, s, i, a, n):
    index = torch.tensor([i % WIDTH, n, 0, n])
    return torch.zeros(WIDTH, dtype=h.dtype).scatter_add(0, index, h) * 0.5


def largest(h, s, i, a, n):
    values, index = (h + torch.arange(WIDTH) * 0.01).topk(2)
    return h + values.sum() * 0.1 + index.to(h.dtype).sum() * 0.01


def softmax(h, s, i, a, n):
    return h.softmax(0) * 2 - h.log_softmax(0) * 0.1


def pieces(h, s, i, a, n):
    x, y = h.chunk(2)
    return torch.cat([y, x * a, h])[n : n + WIDTH]


def quadratic(h, s, i, a, n):
    return torch.einsum("i,j,ij->i", h, h.tanh(), torch.outer(h, h)) * 0.1 + h


STATEMENTS = {
    "linear": lambda h, s, i, a, n: s.linear(h),
    "tanh": lambda h, s, i, a, n: h.tanh(),
    "norm": lambda h, s, i, a, n: s.norm(h + torch.arange(WIDTH) * 0.1),
    "deep": lambda h, s, i, a, n: s.deep(h.unsqueeze(0)).squeeze(0),
    "conv": lambda h, s, i, a, n: s.conv(h.reshape(1, 1, WIDTH)).mean(1)[0],
    "dropout": lambda h, s, i, a, n: F.dropout(h, 0.3),
    "noise": lambda h, s, i, a, n: h + 0.1 * torch.randn(WIDTH, dtype=h.dtype),
    "square": lambda h, s, i, a, n: Square.apply(h) * 0.3,
    "detached": lambda h, s, i, a, n: h + h.detach() * 0.1,
    "times a number": lambda h, s, i, a, n: h * float(h.detach().abs().mean()),
    "where": lambda h, s, i, a, n: torch.where(h > 0, h, h * a),
    "sort": lambda h, s, i, a, n: (h + torch.arange(WIDTH) * 0.01).sort()[0],
    "index": lambda h, s, i, a, n: h[torch.tensor([0, 2, i % 3, n])],
    "logarithm": lambda h, s, i, a, n: (h * h + 0.3).log(),
    "cumsum": lambda h, s, i, a, n: h.cumsum(0) * 0.5,
    "masked": lambda h, s, i, a, n: h.masked_fill(torch.arange(WIDTH) == n, a),
    "slice": lambda h, s, i, a, n: F.pad(h[: i % 3 + 1], (0, WIDTH - i % 3 - 1)),
    "single": lambda h, s, i, a, n: h.float().double(),
    "in place": in_place,
    "write to view": write_to_view,
    "no_grad": scale_without_gradient,
    "checkpoint": checkpointed,
    "read": branch_on_value,
    "by number": by_number,
    "by value": by_value,
    "nested": nested,
    "inner gradient": inner_gradient,
    "through gradient": through_gradient,
    "sequence": sequence,
    "of length": of_length,
    "attention": attention,
    "caught": bad_product_is_caught,
    "scatter": scattered,
    "largest": largest,
    "softmax": softmax,
    "pieces": pieces,
    "quadratic": quadratic,
}
BLOCKS = ("branch", "loop")


def body(place, depth=0):
    """Draw statements: (name, number, small int), or (block, statements, small int)."""
    found = []
    for _ in range(place.randint(1, 5)):
        if depth < 2 and place.random() < 0.2:
            found.append((place.choice(BLOCKS), body(place, depth + 1), place.randrange(WIDTH)))
        else:
            name = place.choice(list(STATEMENTS))
            found.append((name, round(place.random(), 2), place.randrange(WIDTH)))
    return found


def execute(statements, h, setting, i):
    for name, what, n in statements:
        if name == "branch":
            h = execute(what, h, setting, i) if above(h[n], 0.013) else h - 0.1
        elif name == "loop":
            for _ in range((n * 7 + i * 5 + setting.round * 3) % 4 + 1):
                h = execute(what, h, setting, i).clamp(-3, 3)
        else:
            h = STATEMENTS[name](h, setting, i, what, n)
    return h


# -- the ends of an example: (loss, h, x) -> the tensors that are compared ---------------------


def together(loss, h, x):
    return [loss]


def backward(loss, h, x):
    loss.backward()
    return []


def gradient(loss, h, x):
    return list(torch.autograd.grad(loss, [x]))


def second_gradient(loss, h, x):
    (g,) = torch.autograd.grad(loss, [x], create_graph=True)
    (g * g).sum().backward()
    return [g]


def hooked(loss, h, x):
    h.register_hook(lambda g: 2 * g)
    loss.backward()
    return []


def twice(loss, h, x):
    loss.backward(retain_graph=True)
    if above(x.grad.sum(), 1e9):
        return []
    loss.backward()
    return []


def refused(loss, h, x):
    """A graph is used up by the first pass: x.exp() keeps its result."""
    loss = loss * x.exp().sum()
    loss.backward()
    try:
        loss.backward()
    except RuntimeError:
        return [torch.tensor(7.0)]
    return [torch.tensor(-1.0)]


def for_x_alone(loss, h, x):
    loss.backward(inputs=[x])
    return []


def two_losses(loss, h, x):
    torch.autograd.backward([loss, h.sum()])
    return []


ENDS = (
    backward, backward, backward, gradient, second_gradient, hooked, twice, refused, for_x_alone,
    two_losses,
)  # fmt: skip


class Program:
    """A drawn program: its statements, and how many examples and rounds there are.

    ends: by number of the example
    """

    def __init__(self, seed, number):
        place = random.Random(f"{seed}, {number}")
        self.seed = place.randrange(1 << 30)
        self.body = body(place)
        self.examples = place.choice([2, 3, 5, 8])
        self.rounds = place.choice([2, 4, 12])
        mixed = place.random() < 0.5
        first = place.choice((together, *ENDS))
        several = first is not together and mixed
        self.ends = [place.choice(ENDS) if several else first for _ in range(self.examples)]

    def __str__(self):
        ends = [end.__name__ for end in self.ends]
        return f"{self.examples} examples, {self.rounds} rounds, {ends}: {self.body}"

    def run(self, in_turns):
        """Return all results, gradients and parameters, as arrays in lists."""
        setting = Setting(self.seed)
        parameters = list(setting.layers.parameters())
        optimizer = torch.optim.SGD(parameters, lr=0.01)
        rng = np.random.default_rng(self.seed)
        found = []

        def one(x, i):
            h = execute(self.body, x * 1.0, setting, i)
            loss = (h * h).mean() + x.sum() * 0.1
            return [*self.ends[i](loss, h, x), h.detach()]

        for setting.round in range(self.rounds):
            xs = [
                torch.tensor(rng.normal(size=WIDTH), requires_grad=True)
                for _ in range(self.examples)
            ]
            optimizer.zero_grad()
            rows = torch.batched(one)(xs, range(len(xs))) if in_turns else in_sequence(one, xs)
            if self.ends[0] is together:
                sum(row[0] for row in rows).backward()
            found += [t for row in rows for t in row] + [x.grad for x in xs]
            found += [None if p.grad is None else p.grad.clone() for p in parameters]
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
        found += parameters
        return [None if t is None else t.detach().numpy().copy() for t in found]


def in_sequence(one, xs):
    """The results of a loop over the examples, each with its own random numbers."""
    rows = []
    for i, (x, stream) in enumerate(zip(xs, streams(len(xs)), strict=True)):
        before = random_state.swap(stream)
        try:
            rows.append(one(x, i))
        finally:
            random_state.swap(before)
    return rows


def apart(found, expected):
    """The number of the first array that differs, or None."""
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        if (a is None) != (b is None):
            return k
        if a is not None and not np.allclose(a, b, rtol=1e-6, atol=1e-8, equal_nan=True):
            return k
    return None


def run_ways(program):
    """Run a program in all ways. Returns "" if they agree, "undecided", or how they part."""
    try:
        with config.override(deterministic=True), torch.autobatch(False):
            expected = program.run(False)
    except Undecided:
        return "undecided"
    before = lanes.PASSED
    try:
        for way, in_turns, passed in (
            ("loop", False, before), ("in turns", True, before), ("by lanes", True, 0),
        ):  # fmt: skip
            lanes.PASSED = passed
            try:
                with torch.autobatch(True):
                    k = apart(program.run(in_turns), expected)
            except Undecided:
                continue
            except Exception as error:
                return f"{way}: {type(error).__name__}: {error}"
            if k is not None:
                return f"{way}: array {k} differs"
    finally:
        lanes.PASSED = before
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--programs", type=int, default=100)
    given = parser.parse_args()
    counts = {}
    for number in range(given.first, given.first + given.programs):
        program = Program(given.seed, number)
        found = run_ways(program)
        if found and found != "undecided":
            print(f"{number}: {found}\n    {program}", flush=True)
            found = "differs"
        counts[found or "agrees"] = counts.get(found or "agrees", 0) + 1
    print(counts)


if __name__ == "__main__":
    main()
