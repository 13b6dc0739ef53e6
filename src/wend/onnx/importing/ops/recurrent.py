"""RNN, GRU and LSTM: as layers of `nn`; others as a loop, so that each activation fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wend
import wend.nn.functional as F
from wend._engine.core._hot import Tensor
from wend.nn._base.recurrence import walk_steps
from wend.onnx.importing.registry import OpNode, op

ACTIVATIONS = {
    "Relu": lambda x, a, b: wend.relu(x),
    "Tanh": lambda x, a, b: wend.tanh(x),
    "Sigmoid": lambda x, a, b: wend.sigmoid(x),
    "Affine": lambda x, a, b: x * (1.0 if a is None else a) + (0.0 if b is None else b),
    "LeakyRelu": lambda x, a, b: F.leaky_relu(x, 0.01 if a is None else a),
    "ThresholdedRelu": lambda x, a, b: wend.where(
        x > (1.0 if a is None else a), x, wend.zeros_like(x)
    ),
    "ScaledTanh": lambda x, a, b: (
        (1.0 if a is None else a) * wend.tanh((1.0 if b is None else b) * x)
    ),
    "HardSigmoid": lambda x, a, b: wend.clamp(
        (0.2 if a is None else a) * x + (0.5 if b is None else b), 0, 1
    ),
    "Elu": lambda x, a, b: F.elu(x, 1.0 if a is None else a),
    "Softsign": lambda x, a, b: F.softsign(x),
    "Softplus": lambda x, a, b: F.softplus(x),
}
_CASED = {name.lower(): function for name, function in ACTIVATIONS.items()}


class Cell:
    """The weights and activations of a direction of a recurrent node."""

    peepholes: Tensor | None

    def __init__(
        self,
        node: OpNode,
        direction: int,
        w: Tensor,
        r: Tensor,
        b: Tensor | None,
        defaults: tuple[str, ...],
    ) -> None:
        self.w, self.r = w[direction].t(), r[direction].t()
        self.hidden = r.shape[-1]
        bias = None if b is None else b[direction]
        half = w.shape[1]
        self.wb = 0 if bias is None else bias[:half]
        self.rb = 0 if bias is None else bias[half:]
        count = len(defaults)
        lots = 2 if node.get("direction", "forward") == "bidirectional" else 1
        names = node.get("activations") or defaults * lots
        alphas, betas = node.get("activation_alpha", ()), node.get("activation_beta", ())
        at = direction * count
        self.functions = []
        for i in range(at, at + count):
            alpha = alphas[i] if i < len(alphas) else None
            beta = betas[i] if i < len(betas) else None
            self.functions.append(self._function(names[i], alpha, beta, node.get("clip")))

    @staticmethod
    def _function(
        name: str, alpha: float | None, beta: float | None, clip: float | None
    ) -> Callable[[Tensor], Tensor]:
        function = _CASED[name.lower()]
        if clip is None:
            return lambda x: function(x, alpha, beta)
        return lambda x: function(wend.clamp(x, -clip, clip), alpha, beta)

    def gates(self, x: Tensor) -> Tensor:
        """The part of the gates that the input gives."""
        return wend.matmul(x, self.w) + self.wb


def recurrent(
    node: OpNode,
    x: Tensor,
    lengths: Tensor | None,
    states: list[Any],
    make: Callable[[int], Cell],
    step: Callable[[Cell, Tensor, list[Tensor]], list[Tensor]],
    hidden: int,
) -> tuple[Tensor, ...]:
    """All outputs and the last states; `make(d)` is a direction's cell, `step` a step of time."""
    if node.get("layout"):
        x = x.transpose(0, 1)
        states = [None if s is None else s.transpose(0, 1) for s in states]
    kind = node.get("direction", "forward")
    backward = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[kind]
    time, batch = x.shape[:2]
    outputs, lasts = [], []
    for d, back in enumerate(backward):
        cell = make(d)
        zero = wend.zeros((batch, hidden), dtype=x.dtype)
        state = [zero if s is None else s[d] for s in states]
        rows = [zero] * time
        for t in reversed(range(time)) if back else range(time):
            new = step(cell, x[t], state)
            if lengths is not None:
                there = (lengths > t).reshape(-1, 1)
                rows[t] = wend.where(there, new[0], wend.zeros_like(new[0]))
                new = [wend.where(there, n, s) for n, s in zip(new, state)]
            else:
                rows[t] = new[0]
            state = new
        outputs.append(wend.stack(rows) if rows else zero.unsqueeze(0)[:0])
        lasts.append(state)
    y = wend.stack(outputs, 1)
    ends = [wend.stack(column) for column in zip(*lasts)]
    if node.get("layout"):
        y = y.permute(2, 0, 1, 3)
        ends = [end.transpose(0, 1) for end in ends]
    return (y, *ends)


def as_layer(
    node: OpNode,
    x: Tensor,
    weights: list[Any],
    states: list[Any],
    mode: str,
    order: tuple[int, ...],
) -> tuple[Tensor, ...]:
    """All outputs and the last states of a node that is a layer of `nn`.

    weights: W, R and B of the node, of which the gates get `nn`'s order
    """
    if node.get("layout"):
        x = x.transpose(0, 1)
        states = [None if s is None else s.transpose(0, 1) for s in states]
    batch, hidden = x.shape[1], weights[1].shape[-1]
    outputs, lasts = [], []
    for d in range(weights[0].shape[0]):
        w, r, b = [None if a is None else a[d] for a in weights]
        parts = [w, r, None, None] if b is None else [w, r, *b.chunk(2)]
        parts = [None if a is None else _in_order(a, order) for a in parts]
        start = tuple(
            wend.zeros((batch, hidden), dtype=x.dtype) if s is None else s[d] for s in states
        )
        back = node.get("direction") == "reverse" or d == 1
        output, last = walk_steps(mode, x, start, [*parts, None], back)
        outputs.append(output)
        lasts.append(last)
    y = wend.stack(outputs, 1)
    ends = [wend.stack(column) for column in zip(*lasts)]
    if node.get("layout"):
        y = y.permute(2, 0, 1, 3)
        ends = [end.transpose(0, 1) for end in ends]
    return (y, *ends)


def _in_order(weight: Tensor, order: tuple[int, ...]) -> Tensor:
    """A weight with its gates in another order."""
    if len(order) == 1:
        return weight
    parts = weight.chunk(len(order))
    return wend.cat([parts[k] for k in order])


def is_layer(node: OpNode, lengths: Tensor | None, count: int) -> bool:
    """Whether a node has the activations of `nn`'s layers, and no lengths and bounds."""
    usual = ("Sigmoid", "Tanh", "Tanh")[-count:] if count > 1 else ("Tanh",)
    lots = 2 if node.get("direction") == "bidirectional" else 1
    names = tuple(name.capitalize() for name in node.get("activations") or usual * lots)
    plain = count == 1 and names == ("Relu",) * lots
    return lengths is None and node.get("clip") is None and (plain or names == usual * lots)


@op("RNN")
def rnn(
    node: OpNode,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """h = f(x W + h R + b)."""
    if is_layer(node, lengths, 1):
        relu = "relu" in [name.lower() for name in node.get("activations", ())]
        return as_layer(node, x, [w, r, b], [h], "RNN_RELU" if relu else "RNN_TANH", (0,))

    def step(cell: Cell, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        return [cell.functions[0](cell.gates(x) + wend.matmul(state[0], cell.r) + cell.rb)]

    def make(d: int) -> Cell:
        return Cell(node, d, w, r, b, ("Tanh",))

    return recurrent(node, x, lengths, [h], make, step, r.shape[-1])


@op("GRU")
def gru(
    node: OpNode,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """A gated recurrent unit; gates in the order update, reset, hidden."""
    n = r.shape[-1]
    if node.get("linear_before_reset") and is_layer(node, lengths, 2):
        return as_layer(node, x, [w, r, b], [h], "GRU", (1, 0, 2))

    def step(cell: Any, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        (h,), (f, g) = state, cell.functions
        inner, bias = cell.gates(x), cell.rb
        zr = 0 if b is None else bias[: 2 * n]
        hb = 0 if b is None else bias[2 * n :]
        gates = f(inner[:, : 2 * n] + wend.matmul(h, cell.r[:, : 2 * n]) + zr)
        z, reset = gates[:, :n], gates[:, n:]
        if node.get("linear_before_reset"):
            new = g(inner[:, 2 * n :] + reset * (wend.matmul(h, cell.r[:, 2 * n :]) + hb))
        else:
            new = g(inner[:, 2 * n :] + wend.matmul(reset * h, cell.r[:, 2 * n :]) + hb)
        return [(1 - z) * new + z * h]

    def make(d: int) -> Cell:
        return Cell(node, d, w, r, b, ("Sigmoid", "Tanh"))

    return recurrent(node, x, lengths, [h], make, step, n)


@op("LSTM")
def lstm(
    node: OpNode,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    c: Tensor | None = None,
    peepholes: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Long short-term memory; gates in the order input, output, forget, cell."""
    n = r.shape[-1]
    unusual = peepholes is not None or node.get("input_forget")
    if not unusual and is_layer(node, lengths, 3):
        return as_layer(node, x, [w, r, b], [h, c], "LSTM", (0, 2, 3, 1))

    def make(d: int) -> Cell:
        cell = Cell(node, d, w, r, b, ("Sigmoid", "Tanh", "Tanh"))
        cell.peepholes = None if peepholes is None else peepholes[d]
        return cell

    def step(cell: Cell, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        (h, c), (f, g, k) = state, cell.functions
        gates = cell.gates(x) + wend.matmul(h, cell.r) + cell.rb
        i, o, forget, new = (gates[:, j * n : (j + 1) * n] for j in range(4))
        p = cell.peepholes
        if p is not None:
            i, forget = i + p[:n] * c, forget + p[2 * n :] * c
        i = f(i)
        forget = 1 - i if node.get("input_forget") else f(forget)
        c = forget * c + i * g(new)
        o = f(o if p is None else o + p[n : 2 * n] * c)
        return [o * k(c), c]

    return recurrent(node, x, lengths, [h, c], make, step, n)
