"""Three ways to hold the same parameters, and to compute with them.

`Tensors` keeps plain tensors in a dict, computes by operators, and takes the steps of SGD itself.
`Modules` are PyTorch's own layers. `Cells` are modules with parameters of their own and functions.
A layer is a kind and its two widths: `LAYERS` of a program names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

Layers = dict[str, tuple[str, int, int]]
State = tuple[torch.Tensor, torch.Tensor]


def shapes(kind: str, a: int, b: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the parameters of a layer from width a to width b."""
    if kind == "embedding":
        return {"weight": (a, b)}
    if kind == "linear":
        return {"weight": (b, a), "bias": (b,)}
    if kind == "conv":
        return {"weight": (b, a, 3, 3), "bias": (b,)}
    gates = {"lstm": 4, "gru": 3}[kind] * b
    return {
        "weight_ih": (gates, a),
        "weight_hh": (gates, b),
        "bias_ih": (gates,),
        "bias_hh": (gates,),
    }


def drawn(layers: Layers, seed: int) -> dict[str, dict[str, np.ndarray]]:
    """Return parameters that are the same for each hand and framework."""
    rng = np.random.default_rng(seed)
    found: dict[str, dict[str, np.ndarray]] = {}
    for name, (kind, a, b) in layers.items():
        bound = 1.0 if kind == "embedding" else (9 * a if kind == "conv" else a) ** -0.5
        found[name] = {
            key: rng.uniform(-bound, bound, shape).astype(np.float32)
            for key, shape in shapes(kind, a, b).items()
        }
    return found


def lstm(gates: Sequence[torch.Tensor], c: torch.Tensor) -> State:
    """Return the next (h, c) of an LSTM."""
    i, f, g, o = gates
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def binary_lstm(
    i: torch.Tensor,
    o: torch.Tensor,
    u: torch.Tensor,
    forget: tuple[torch.Tensor, torch.Tensor],
    c: tuple[torch.Tensor, torch.Tensor],
) -> State:
    """Return (h, c) of a node of a binary TreeLSTM, from its gates and its children's c."""
    now = torch.sigmoid(i) * torch.tanh(u)
    now = now + torch.sigmoid(forget[0]) * c[0] + torch.sigmoid(forget[1]) * c[1]
    return torch.sigmoid(o) * torch.tanh(now), now


def gru(
    mine: Sequence[torch.Tensor], theirs: Sequence[torch.Tensor], h: torch.Tensor
) -> torch.Tensor:
    """Return the next state of a GRU from the products of its input and of its state."""
    r, z = torch.sigmoid(mine[0] + theirs[0]), torch.sigmoid(mine[1] + theirs[1])
    n = torch.tanh(mine[2] + r * theirs[2])
    return (1 - z) * n + z * h


class Tensors:
    """Parameters as tensors in a dict; operators and slices."""

    def __init__(self, layers: Layers, arrays: dict[str, dict[str, np.ndarray]], rate: float):
        self.rate = rate
        self.named = {
            name: {key: torch.tensor(array, requires_grad=True) for key, array in layer.items()}
            for name, layer in arrays.items()
        }

    def linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        p = self.named[name]
        return x @ p["weight"].t() + p["bias"]

    def look_up(self, name: str, index: Any) -> torch.Tensor:
        return self.named[name]["weight"][index]

    def conv(self, name: str, x: torch.Tensor) -> torch.Tensor:
        p = self.named[name]
        return F.conv2d(x, p["weight"], p["bias"], padding=1)

    def parts(self, x: torch.Tensor, count: int) -> Sequence[torch.Tensor]:
        width = x.shape[1] // count
        return [x[:, k * width : (k + 1) * width] for k in range(count)]

    def lstm(self, name: str, x: torch.Tensor, state: State | None) -> State:
        p = self.named[name]
        width = p["weight_hh"].shape[1]
        h, c = state or (torch.zeros(len(x), width), torch.zeros(len(x), width))
        gates = x @ p["weight_ih"].t() + p["bias_ih"] + h @ p["weight_hh"].t() + p["bias_hh"]
        return lstm(self.parts(gates, 4), c)

    def gru(self, name: str, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        p = self.named[name]
        mine = x @ p["weight_ih"].t() + p["bias_ih"]
        theirs = h @ p["weight_hh"].t() + p["bias_hh"]
        return gru(self.parts(mine, 3), self.parts(theirs, 3), h)

    def train(self, loss: torch.Tensor) -> None:
        loss.backward()
        with torch.no_grad():
            for layer in self.named.values():
                for p in layer.values():
                    if p.grad is not None:
                        p -= self.rate * p.grad
                        p.grad = None


class Modules(nn.Module):
    """PyTorch's layers, and its optimiser."""

    def __init__(self, layers: Layers, arrays: dict[str, dict[str, np.ndarray]], rate: float):
        super().__init__()
        self.layers = nn.ModuleDict(
            {name: self.layer(*of, arrays[name]) for name, of in layers.items()}
        )
        self.optimizer = torch.optim.SGD(self.parameters(), lr=rate)

    def layer(self, kind: str, a: int, b: int, arrays: dict[str, np.ndarray]) -> nn.Module:
        if kind == "conv":
            made: nn.Module = nn.Conv2d(a, b, 3, padding=1)
        else:
            classes: dict[str, Any] = {
                "embedding": nn.Embedding,
                "linear": nn.Linear,
                "lstm": nn.LSTMCell,
                "gru": nn.GRUCell,
            }
            made = classes[kind](a, b)
        made.load_state_dict({key: torch.from_numpy(array) for key, array in arrays.items()})
        return made

    def linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return self.layers[name](x)

    def conv(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return self.layers[name](x)

    def look_up(self, name: str, index: Any) -> torch.Tensor:
        layer = self.layers[name]
        return layer.weight[index] if isinstance(index, int) else layer(index)

    def parts(self, x: torch.Tensor, count: int) -> Sequence[torch.Tensor]:
        return x.chunk(count, dim=1)

    def lstm(self, name: str, x: torch.Tensor, state: State | None) -> State:
        return self.layers[name](x, state)

    def gru(self, name: str, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return self.layers[name](x, h)

    def train(self, loss: Any = True) -> Any:
        if isinstance(loss, bool):
            return super().train(loss)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return self


class Own(nn.Module):
    """A layer that somebody has written: parameters, and functions in `forward`."""

    def __init__(self, kind: str, arrays: dict[str, np.ndarray]) -> None:
        super().__init__()
        self.kind = kind
        for key, array in arrays.items():
            setattr(self, key, nn.Parameter(torch.from_numpy(array.copy())))

    def forward(self, x: Any, state: Any = None) -> Any:
        return getattr(self, f"as_{self.kind}")(x, state)

    def as_embedding(self, index: Any, _: Any) -> torch.Tensor:
        return self.weight[index] if isinstance(index, int) else F.embedding(index, self.weight)

    def as_linear(self, x: torch.Tensor, _: Any) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)

    def as_conv(self, x: torch.Tensor, _: Any) -> torch.Tensor:
        return F.conv2d(x, self.weight, self.bias, padding=1)

    def as_lstm(self, x: torch.Tensor, state: State | None) -> State:
        width = self.weight_hh.shape[1]
        if state is None:
            state = x.new_zeros(x.size(0), width), x.new_zeros(x.size(0), width)
        h, c = state
        gates = F.linear(x, self.weight_ih, self.bias_ih)
        gates = torch.addmm(self.bias_hh, h, self.weight_hh.t()) + gates
        return lstm(gates.split(width, dim=1), c)

    def as_gru(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        mine = torch.addmm(self.bias_ih, x, self.weight_ih.t())
        theirs = torch.addmm(self.bias_hh, h, self.weight_hh.t())
        return gru(mine.split(h.size(1), 1), theirs.split(h.size(1), 1), h)


class Cells(Modules):
    """The user's own layers, and PyTorch's optimiser."""

    def layer(self, kind: str, a: int, b: int, arrays: dict[str, np.ndarray]) -> nn.Module:
        return Own(kind, arrays)

    def look_up(self, name: str, index: Any) -> torch.Tensor:
        return self.layers[name](index)

    def parts(self, x: torch.Tensor, count: int) -> Sequence[torch.Tensor]:
        return x.split(x.size(1) // count, dim=1)


HELD: dict[str, Any] = {"tensors": Tensors, "modules": Modules, "cells": Cells}
