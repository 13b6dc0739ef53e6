"""Random small programs with an op in each that makes a NaN or an infinity.

A program is written as text: a model of a random kind and size, with the lines of a plant in a
random place.  The plant behaves for one `z` and not for another, so that the path stays the same.
The text is compiled under a name of its own, so that lines can be compared.
"""

from __future__ import annotations

import linecache
import random
from dataclasses import dataclass
from itertools import pairwise
from textwrap import indent

import numpy as np
from tests.debugging.modes import MODES

import wend
import wend as torch

__all__ = ["PLANTS", "Plant", "Program", "written"]


@dataclass(frozen=True)
class Plant:
    """An op that goes wrong.

    op: the name of the op, or of the gradient's node     good, bad: numbers for `z`
    lines: make `h` of `h` and `z`; the op is in the line that ends in "# here"
    also: further names that the finding may have: the forward op whose infinity is hidden there
    """

    op: str
    good: float
    bad: float
    lines: str
    also: tuple[str, ...] = ()

    @property
    def backward(self) -> bool:
        return "Backward" in self.op


def _plants() -> list[Plant]:
    found = []

    def add(op, good, bad, *lines, also=()):
        found.append(Plant(op, good, bad, "\n".join(lines), also))

    # -- forward: NaN
    add("log", 1.0, -1e3, "h = h.abs() + z", "h = h.log()  # here")
    add("div", 1.0, 0.0, "a = h * z", "h = a / z  # here")
    add("sqrt", 1.0, -1e5, "h = h.square() + z", "h = torch.sqrt(h)  # here")
    add(
        "softmax",
        1.0,
        2.0,
        "h = h.masked_fill(z.expand_as(h) > 1, float('-inf'))",
        "h = h.softmax(-1)  # here",
    )
    add(
        "log_softmax",
        1.0,
        2.0,
        "h = torch.where(z > 1, float('-inf'), h)",
        "h = F.log_softmax(h, -1)  # here",
    )
    add("acos", 0.0, 4.0, "h = torch.tanh(h) * 0.5 + z", "h = h.acos()  # here")
    add("pow", 1.0, -9.0, "h = h.tanh() + z + 1", "h = h**0.5  # here", also=("pow_special",))
    add("fmod", 1.0, 0.0, "a = h + z", "h = torch.fmod(a, z)  # here")
    add("remainder", 1.0, 0.0, "h = (h + z) % z  # here")
    add("atanh", 0.1, 3.0, "h = h * 0 + z", "h = torch.atanh(h)  # here")
    add("erfinv", 0.1, 3.0, "h = h * 0 + z", "h = torch.erfinv(h)  # here")
    add("logit", 0.5, 3.0, "h = h * 0 + z", "h = torch.logit(h)  # here")
    add("div", 1.0, 0.0, "a = (h * z).std()", "h = h / a  # here")
    # -- forward: infinity, and NaN made of infinity
    add("exp", 1.0, 1e3, "h = h.abs() + z", "h = torch.exp(h)  # here")
    add("mul", 1.0, 1e30, "h = h.abs() + z", "h = h * h  # here")
    add("square", 1.0, 1e30, "h = h + z", "h = h.square()  # here")
    add("rsqrt", 1.0, 0.0, "h = (h * z).square()", "h = h.rsqrt()  # here")
    add("reciprocal", 1.0, 0.0, "h = h.abs() * z + z", "h = h.reciprocal()  # here")
    add("div", 1.0, 0.0, "a = 1 / (h.abs() * z + z)  # here", "h = a - a")
    add("log", 1.0, 0.0, "a = torch.log(h.abs() * z + z)  # here", "h = a * 0")
    add("cosh", 1.0, 1e3, "h = torch.cosh(h.tanh() + z)  # here")
    add("sum", 1.0, 3e38, "a = h * 0 + z", "h = h + a.sum()  # here")
    add("cumsum", 1.0, 3e38, "a = h * 0 + z", "h = a.cumsum(-1) * 1e-30  # here")
    add("prod", 1.0, 1e38, "h = h + (h * 0 + z).prod(-1, keepdim=True)  # here")
    add("expm1", 1.0, 1e4, "h = (h.abs() + z).expm1()  # here")
    # -- backward
    add("SqrtBackward0", 1.0, 0.0, "a = h.abs() * z", "h = a.sqrt()  # here")
    add("SqrtBackward0", 1.0, 0.0, "a = (h * z).square().sum()", "h = h + a.sqrt()  # here")
    add(
        "LogBackward0",
        1.0,
        0.0,
        "a = h.abs() * z + z",
        "h = torch.where(z > 0, a.log(), h)  # here",
        also=("log",),
    )
    add(
        "DivBackward0",
        1.0,
        0.0,
        "a = h.abs() * z + z",
        "h = torch.where(z > 0, h / a, h)  # here",
        also=("div",),
    )
    add(
        "ReciprocalBackward0",
        1.0,
        0.0,
        "a = h.abs() * z + z",
        "h = torch.where(z > 0, a.reciprocal(), h)  # here",
        also=("reciprocal",),
    )
    add(
        "ExpBackward0",
        1.0,
        1e3,
        "a = h.abs() + z",
        "h = torch.where(z < 2, torch.exp(a), h)  # here",
        also=("exp",),
    )
    add(
        "ExpBackward0",
        1.0,
        -1e3,
        "a = torch.exp(-(h.tanh() + z))  # here",
        "h = 1 / (1 + a)",
        also=("exp",),
    )
    add("PowBackward0", 1.0, 0.0, "a = h.abs() * z", "h = a**0.5  # here")
    add("PowBackward0", 1.0, 0.0, "a = h.square() * z", "h = torch.pow(a, 1 / 3)  # here")
    add("AsinBackward0", 0.5, 1.0, "h = h * 0 + z", "h = torch.asin(h)  # here")
    add("AcosBackward0", 0.5, -1.0, "h = h * 0 + z", "h = h.acos()  # here")
    add("AcoshBackward0", 2.0, 1.0, "h = h * 0 + z", "h = h.acosh()  # here")
    add("HypotBackward0", 1.0, 0.0, "a = h * z", "h = torch.hypot(a, a)  # here")
    add("Atan2Backward0", 1.0, 0.0, "a = h * z", "h = torch.atan2(a, a * 2)  # here")
    add(
        "Log1PBackward0",
        1.0,
        -1.0,
        "a = h * 0 + z",
        "h = torch.where(z > -1, torch.log1p(a), h)  # here",
        also=("log1p",),
    )
    add(
        "LogsumexpBackward0",
        1.0,
        2.0,
        "a = torch.where(z > 1, float('-inf'), h)",
        "h = torch.where(z > 1, h, h + a.logsumexp(-1, keepdim=True))  # here",
    )
    add("StdBackward0", 1.0, 0.0, "a = h * z", "h = h + a.std()  # here")
    add(
        "LinalgVectorNormBackward0",
        1.0,
        0.0,
        "a = h * z",
        "h = h + torch.linalg.vector_norm(a, 0.5)  # here",
        also=("linalg_vector_norm",),
    )
    return found


PLANTS = _plants()
HEAD = "import wend as torch\nfrom wend import nn\n\nF = nn.functional\n\n\n"
ACTIVATIONS = ("torch.tanh({})", "{}.relu()", "F.gelu({})", "torch.sigmoid({})", "F.silu({})")


def _mlp(rng):
    sizes = [4, *(rng.choice((3, 5, 6)) for _ in range(rng.randint(1, 3))), 2]
    layers = [f"self.l{k} = nn.Linear({a}, {b})" for k, (a, b) in enumerate(pairwise(sizes))]
    body = []
    for k in range(len(layers)):
        body += [f"h = self.l{k}(h)", f"h = {rng.choice(ACTIVATIONS).format('h')}"]
    return layers, body, (rng.randint(2, 4), 4)


def _cnn(rng):
    wide = rng.choice((2, 3))
    norm = rng.choice(NORMS).format(wide)
    layers = [f"self.c = nn.Conv2d(1, {wide}, 3, bias=False)", f"self.n = nn.{norm}"]
    layers += [f"self.l = nn.Linear({wide * 4}, 2)"]
    body = ["h = self.c(h)", "h = self.n(h)", f"h = {rng.choice(ACTIVATIONS).format('h')}"]
    body += [f"h = F.{rng.choice(('max', 'avg'))}_pool2d(h, 2)", "h = self.l(h.flatten(1))"]
    return layers, body, (2, 1, 6, 6)


NORMS = ("BatchNorm2d({})", "GroupNorm(1, {})", "InstanceNorm2d({})")


def _rnn(rng):
    cell = rng.choice(("RNNCell(4, 5)", "GRUCell(4, 5)", "LSTMCell(4, 5)"))
    lstm = cell.startswith("LSTM")
    layers = [f"self.cell = nn.{cell}", "self.l = nn.Linear(5, 2)"]
    turn = "s = self.cell(x[:, t], s)" if lstm else "h = self.cell(x[:, t], h)"
    begin = ["x = h", "h = h.new_zeros(x.shape[0], 5)", "s = (h, h)"]
    body = [*begin, f"for t in range({rng.randint(1, 4)}):\n    {turn}"]
    body += ["h = s[0]"] if lstm else []
    return layers, [*body, "h = self.l(h)"], (2, 4, 4), len(begin) + 1 + lstm


def _ragged(rng):
    """Sequences of unlike lengths, each by its own loop."""
    layers = ["self.cell = nn.RNNCell(4, 5)", "self.l = nn.Linear(5, 2)"]
    lengths = [rng.randint(1, 4) for _ in range(3)]
    body = [
        "x = h",
        "rows = []",
        f"for k, n in enumerate({lengths}):\n    s = x.new_zeros(1, 5)\n"
        "    for t in range(n):\n        s = self.cell(x[k, t][None], s)\n    rows.append(s)",
        "h = torch.cat(rows)",
        "h = self.l(h)",
    ]
    return layers, body, (3, 4, 4), 4


def _tree(rng):
    layers = ["self.join = nn.Linear(8, 4)", "self.l = nn.Linear(4, 2)"]

    def shape(depth):
        if depth == 0 or rng.random() < 0.2:
            return rng.randrange(3)
        return (shape(depth - 1), shape(depth - 1))

    body = [
        "x = h",
        "def walk(t):\n    if isinstance(t, int):\n        return x[t]\n"
        "    return torch.tanh(self.join(torch.cat([walk(t[0]), walk(t[1])])))",
        f"h = walk({(shape(3), shape(2))!r})",
        "h = self.l(h[None])",
    ]
    return layers, body, (3, 4), 3


def _attention(rng):
    layers = ["self.a = nn.MultiheadAttention(4, 2, batch_first=True)", "self.n = nn.LayerNorm(4)",
              "self.l = nn.Linear(4, 2)"]  # fmt: skip
    body = ["h = h + self.a(h, h, h)[0]", "h = self.n(h)", "h = self.l(h)"]
    return layers, body, (2, 3, 4)


def _branching(rng):
    """A branch on a value: the forward pass is in several flushes."""
    layers = ["self.l = nn.Linear(4, 5)", "self.m = nn.Linear(5, 2)"]
    body = ["h = torch.tanh(self.l(h))", "if h.abs().sum() > -1:\n    h = h * 2", "h = self.m(h)"]
    return layers, body, (3, 4)


KINDS = {f.__name__[1:]: f for f in (_mlp, _cnn, _rnn, _ragged, _tree, _attention, _branching)}
LOSSES = (
    "h.mean()",
    "(h * h).sum()",
    "F.mse_loss(h, h.detach() * 0 + 0.5)",
    "F.smooth_l1_loss(h, torch.ones_like(h))",
    "F.cross_entropy(h.reshape(-1, h.shape[-1]), h.new_zeros(h.numel() // h.shape[-1]).long())",
    "-F.logsigmoid(h).mean()",
)
OPTIMIZERS = ("SGD({}, lr=1e-3)", "Adam({}, lr=1e-3, eps=1e-3)", "SGD({}, lr=1e-3, momentum=0.9)",
              "AdamW({}, lr=1e-3, eps=1e-3)")  # fmt: skip
#: Lines between the loss and the backward pass, or after the backward pass.
HABITS = ("", "loss.item()", "loss.detach().numpy()", "float(loss) + 1")
AFTER = ("", "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "", "")


class Program:
    """A program with a plant; `run(numbers)` does a step."""

    def __init__(self, seed: int, backward: bool) -> None:
        rng = random.Random(seed)
        self.plant = rng.choice([p for p in PLANTS if p.backward == backward])
        self.kind = rng.choice(list(KINDS))
        self.mode = rng.choice(MODES)
        self.backward = backward
        self.before, self.after = rng.choice(HABITS), rng.choice(AFTER)
        layers, body, self.shape, *first = KINDS[self.kind](rng)
        at = rng.randint(first[0] if first else 0, len(body))
        loss = rng.choice(LOSSES)
        body = [*body[:at], self.plant.lines, *body[at:]]
        text = (
            HEAD + "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        )
        text += indent("\n".join(layers), " " * 8) + "\n\n    def forward(self, h, z):\n"
        text += indent("\n".join(body), " " * 8) + f"\n        return {loss}\n"
        self.file = f"<planted {seed} {'backward' if backward else 'forward'}>"
        self.text = text
        linecache.cache[self.file] = (len(text), None, text.splitlines(True), self.file)
        names: dict = {}
        exec(compile(text, self.file, "exec"), names)
        torch.manual_seed(seed % 1000)
        self.model = names["Model"]()
        self.x = torch.randn(*self.shape) + 0.3
        self.optimizer = eval(
            "torch.optim." + rng.choice(OPTIMIZERS).format("self.model.parameters()")
        )
        self.line = 1 + next(k for k, row in enumerate(text.splitlines()) if "# here" in row)

    def __str__(self) -> str:
        return f"{self.plant.op} in {self.kind}, {self.mode.__name__}, {self.before or 'no read'}"

    def run(self, numbers: list[float], fibers: bool = False) -> float:
        zs = [torch.tensor([z]) for z in numbers]
        with torch.set_grad_enabled(self.backward):
            if fibers:
                parts = wend.batched(lambda z: self.model(self.x, z))(zs)
            else:
                parts = [self.model(self.x, z) for z in zs]
            loss = sum(parts[1:], parts[0])
        exec(self.before, {"loss": loss})
        if self.backward:
            loss.backward()
            exec(self.after, {"torch": torch, "model": self.model})
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.last = loss.item()
        return self.last

    def go(self) -> None:
        """Run the program up to the bad step."""
        self.mode(self.run, self.plant.good, self.plant.bad)

    def is_harmed(self) -> bool:
        """Whether the bad step leaves a loss or a parameter that is not finite; runs it all."""
        self.go()
        bad = [not np.isfinite(p.detach().numpy()).all() for p in self.model.parameters()]
        return any(bad) or not np.isfinite(self.last)

    def fault(self, found) -> str:
        """Why a finding is not that of the plant; "" for the right finding."""
        if found is None:
            return "nothing found"
        names = (self.plant.op, *self.plant.also)
        if found.op not in names:
            return f"op {found.op!r} in place of {names}"
        if found.line != self.line or found.site.code.co_filename != self.file:
            return f"line {found.line} in place of {self.line}"
        if not found.exact:
            return f"not exact: {found.note}"
        return ""


def written(seed: int, backward: bool) -> Program:
    """The program of a seed."""
    return Program(seed, backward)
