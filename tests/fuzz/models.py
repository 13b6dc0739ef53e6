"""Models of random training programs: layers, recurrences, a module of the program's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scope import Dims, Scope, Value

WEIGHT = (".weight", ("4", "3"))


@dataclass
class Loop(Scope):
    """A training program in the making.

    weights: parameters and leaves, as text and dims     modules: names     optimisers: names
    watched: all that is looked at after a step     between: what may happen between steps
    rows: the size of a batch     left_out: kinds of statements that are not drawn
    """

    weights: list[tuple[str, Dims]] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    optimisers: list[str] = field(default_factory=list)
    watched: list[str] = field(default_factory=list)
    between: list[str] = field(default_factory=list)
    makers: list[Any] = field(default_factory=list)
    rows: str = "n"
    left_out: frozenset[str] = frozenset()

    @property
    def dtype(self) -> str:
        """The dtype of all weights."""
        return self.floats[0]

    def put(self, text: str, **names: object) -> None:
        """Emit lines, filled in."""
        for line in self.filled(text, **names).split("\n"):
            self.emit(line)

    def filled(self, text: str, **names: object) -> str:
        """A text with names in it: {p} a weight, {m} a module, {o} an optimiser, {k} a number."""
        weight, dims = self.weight()
        found = {
            "p": weight, "shape": f"({', '.join(dims)},)", "t": f"torch.{self.dtype}",
            "m": self.pick(self.modules) if self.modules else "",
            "o": self.pick(self.optimisers) if self.optimisers else "",
            "k": self.fresh(), "rows": self.rows, **names,
        }  # fmt: skip
        return text.format(**found)

    def weight(self) -> tuple[str, Dims]:
        """A weight: every second time the first one, so that much happens to the same."""
        if not self.weights:
            return "", ()
        return self.weights[0] if self.chance(2) else self.pick(self.weights)

    def batch(self, features: str) -> str:
        """A new batch of floats, other numbers in each step."""
        number = self.fresh()
        made = f"data({100 * number} + step, ({self.rows}, {features}), torch.{self.dtype})"
        found = Value(f"v{number}", self.dtype, (self.rows, features), storage=number)
        self.emit(f"{found.text} = {made}")
        self.values.append(found)
        return found.text


@dataclass(frozen=True)
class Layer:
    """A module: how it is made, the features that it takes and gives, how it is called.

    takes: "i" for indices below 7     weights: what of it other statements may name
    """

    made: str
    takes: str
    gives: str
    call: str = "{y} = {m}({x})"
    weights: tuple[tuple[str, Dims], ...] = (WEIGHT,)


_TURNS = "for turn in range({turns}):\n    "
# fmt: off
LAYERS = (
    Layer("torch.nn.Linear(3, 4)", "3", "4", weights=(WEIGHT, (".bias", ("4",)))),
    Layer("torch.nn.Linear(4, 3)", "4", "3", weights=((".weight", ("3", "4")), (".bias", ("3",)))),
    Layer("torch.nn.Linear(3, 4)", "3", "4", "{y} = torch.nn.functional.linear({x}, {m}.weight)"),
    Layer("torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4))",
          "3", "4", weights=(("[0].weight", ("4", "3")), ("[2].bias", ("4",)))),
    Layer("torch.nn.Sequential(torch.nn.Linear(3, 4, bias=False), torch.nn.BatchNorm1d(4), "
          "torch.nn.ReLU())",
          "3", "4", weights=(("[0].weight", ("4", "3")), ("[1].weight", ("4",)))),
    Layer("torch.nn.Sequential(torch.nn.LayerNorm(3), torch.nn.Linear(3, 4), torch.nn.GELU())",
          "3", "4", weights=(("[0].weight", ("3",)), ("[1].weight", ("4", "3")))),
    Layer("torch.nn.Embedding(7, 4)", "i", "4", weights=((".weight", ("7", "4")),)),
    Layer("torch.nn.EmbeddingBag(7, 4)", "i", "4", "{y} = {m}({x}[:, None])",
          ((".weight", ("7", "4")),)),
    Layer("torch.nn.GRUCell(3, 4)", "3", "4",
          "{y} = torch.zeros({rows}, 4, dtype={t})\n" + _TURNS + "{y} = {m}({x}, {y})",
          ((".weight_hh", ("12", "4")), (".bias_ih", ("12",)))),
    Layer("torch.nn.RNNCell(3, 4)", "3", "4", "{y} = None\n" + _TURNS + "{y} = {m}({x}, {y})",
          ((".weight_ih", ("4", "3")), (".bias_hh", ("4",)))),
    Layer("torch.nn.LSTMCell(3, 4)", "3", "4",
          "{y}s = None\n" + _TURNS + "{y}s = {m}({x}, {y}s)\n{y} = {y}s[0]",
          ((".weight_hh", ("16", "4")), (".bias_ih", ("16",)))),
    Layer("torch.nn.GRU(3, 4, batch_first=True)", "3", "4",
          "{y} = {m}({x}[:, None, :].expand(-1, {turns}, -1))[0][:, -1]",
          ((".weight_hh_l0", ("12", "4")),)),
    Layer("torch.nn.LSTM(3, 4)", "3", "4", "{y} = {m}({x}[None])[1][0][0]",
          ((".weight_ih_l0", ("16", "3")),)),
    Layer("torch.nn.Conv1d(1, 2, 3, padding=1)", "3", "6", "{y} = {m}({x}[:, None]).flatten(1)",
          ((".weight", ("2", "1", "3")), (".bias", ("2",)))),
    Layer("torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)", "4", "4",
          "{y} = {m}({x}[None])[0]", ((".linear1.weight", ("8", "4")), (".norm1.bias", ("4",)))),
    Layer("torch.nn.MultiheadAttention(4, 2, batch_first=True)", "4", "4",
          "{y} = {m}({x}[None], {x}[None], {x}[None])[0][0]", ((".in_proj_weight", ("12", "4")),)),
    Layer("torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 4))", "3", "4",
          weights=((".bias", ("4",)),)),
    Layer("Own()", "3", "4"),
)
# fmt: on

OWN = """\
class Own(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(4, 3, dtype={t}))
        self.register_buffer('mean', torch.zeros(4, dtype={t}))
        self.calls = 0
    def forward(self, x):
        self.calls += 1
        y = x @ self.weight.t()
        {update}
        return torch.tanh(y - self.mean * 0.1)"""
_UPDATES = (
    "self.mean.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)",
    "self.mean = self.mean * 0.9 + y.detach().mean(0) * 0.1",
    "self.mean.data = self.mean * 0.9 + y.detach().mean(0) * 0.1",
    "self.mean[self.calls % 4] = y.detach().mean()",
    "self.mean.copy_(y.detach().mean(0))",
    "self.mean.lerp_(y.detach().mean(0), 0.1)",
)


def model(s: Loop, layer: Layer) -> str:
    """Make a module, before the loop; returns its name."""
    number = s.fresh()
    name = f"m{number}"
    if layer.made == "Own()" and not any("class Own" in line for line in s.lines):
        updates = [u for u in _UPDATES if ".data = " not in u or "data swapped" not in s.left_out]
        s.put(OWN, update=s.pick(updates))
    s.emit(f"{name} = fill({number}, {layer.made}.to(torch.{s.dtype}))")
    s.modules.append(name)
    s.weights += [(name + text, dims) for text, dims in layer.weights]
    s.watched.append(name)
    return name


def called(s: Loop, name: str, layer: Layer) -> None:
    """Call a module, in the loop: on a batch, or on what another one gave."""
    if layer.takes == "i":
        number = s.fresh()
        operand = f"(data({100 * number} + step, ({s.rows},), torch.int64) + 3)"
    else:
        fits = [v.text for v in s.values if v.dims == (s.rows, layer.takes) and not v.leaf]
        operand = s.pick(fits) if fits and not s.chance(3) else s.batch(layer.takes)
    number = s.fresh()
    turns = s.pick(("2", "1", "1 + step % 3", "step", "n"))
    if layer.call.startswith("{y} = {m}(") or "None\n" in layer.call:
        turns = turns.replace("step", "1 + step") if turns == "step" else turns
    s.put(layer.call, y=f"v{number}", m=name, x=operand, turns=turns)
    s.values.append(Value(f"v{number}", s.dtype, (s.rows, layer.gives), 3.0, True, storage=number))
