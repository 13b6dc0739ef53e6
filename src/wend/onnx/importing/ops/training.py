"""ONNX's preview of training: optimisers, and gradients of values in the same graph."""

from __future__ import annotations

from typing import Any

import wend
from wend._engine.core._hot import Tensor
from wend.onnx.importing.graph import Scope
from wend.onnx.importing.registry import OpNode, op

DOMAIN = "ai.onnx.preview.training"


def _groups(node: OpNode, values: tuple[Any, ...], kinds: int) -> list[tuple[Tensor, ...]]:
    """A tuple per trained tensor: value, gradient, states."""
    n = len(values) // kinds
    return list(zip(*(values[i * n : (i + 1) * n] for i in range(kinds))))


def _flat(rows: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(value for column in zip(*rows) for value in column)


@op("Adagrad", domain=DOMAIN)
def adagrad(node: OpNode, rate: Tensor, step: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
    """Steps divided by the root of the sum of all squared gradients."""
    rows = []
    r = rate / (1 + step.to(rate.dtype) * node.get("decay_factor", 0.0))
    for x, g, h in _groups(node, values, 3):
        g = g + node.get("norm_coefficient", 0.0) * x
        h = h + g * g
        rows.append((x - r * g / (wend.sqrt(h) + node.get("epsilon", 1e-6)), h))
    return _flat(rows)


@op("Adam", domain=DOMAIN)
def adam(node: OpNode, rate: Tensor, step: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
    """Steps by running means of gradients and of squares."""
    alpha, beta = node.get("alpha", 0.9), node.get("beta", 0.999)
    rows = []
    for x, g, v, h in _groups(node, values, 4):
        g = g + node.get("norm_coefficient", 0.0) * x
        v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
        t = step.to(x.dtype)
        corrected = rate * wend.sqrt(1 - beta**t) / (1 - alpha**t)
        r = wend.where(step > 0, corrected, rate)
        x = x - r * v / (wend.sqrt(h) + node.get("epsilon", 1e-6))
        rows.append(((1 - node.get("norm_coefficient_post", 0.0)) * x, v, h))
    return _flat(rows)


@op("Momentum", domain=DOMAIN)
def momentum(node: OpNode, rate: Tensor, step: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
    """Steps by a running sum of gradients, Nesterov's too."""
    alpha, rows = node.get("alpha"), []
    for x, g, v in _groups(node, values, 3):
        g = g + node.get("norm_coefficient", 0.0) * x
        beta = wend.where(step > 0, wend.tensor(node.get("beta")), wend.tensor(1.0)).to(x.dtype)
        v = alpha * v + beta * g
        way = g + alpha * v if node.get("mode") == "nesterov" else v
        rows.append((x - rate * way, v))
    return _flat(rows)


@op("Gradient", domain=DOMAIN, scoped=True)
def gradient(node: OpNode, scope: Scope, *values: Tensor) -> tuple[Tensor, ...]:
    """The derivatives of a value of the graph by earlier values."""
    y = scope.find(node.get("y"))
    xs = [scope.find(name) for name in node.get("xs")]
    gradients = wend.autograd.grad(y, xs, wend.ones_like(y), create_graph=True, allow_unused=True)
    return tuple(wend.zeros_like(x) if g is None else g for g, x in zip(gradients, xs))
