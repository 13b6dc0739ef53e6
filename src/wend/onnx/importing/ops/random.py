"""Random tensors, drawn from Wend's generator: `wend.manual_seed` decides the numbers."""

from __future__ import annotations

from typing import Any

import wend
from wend._engine.core._hot import Tensor
from wend.onnx.importing.registry import OpNode, op
from wend.onnx.importing.types import dtype_of


def _wanted(node: OpNode, like: Any) -> tuple[Any, Any]:
    shape = tuple(node.get("shape", ())) if like is None else tuple(like.shape)
    element = node.get("dtype") or (1 if like is None else 0)
    return shape, dtype_of(element) if element else like.dtype


@op("RandomNormal", "RandomNormalLike")
def random_normal(node: OpNode, like: Tensor | None = None) -> Tensor:
    """Normal numbers."""
    shape, dtype = _wanted(node, like)
    return (wend.randn(shape) * node.get("scale", 1.0) + node.get("mean", 0.0)).to(dtype)


@op("RandomUniform", "RandomUniformLike")
def random_uniform(node: OpNode, like: Tensor | None = None) -> Tensor:
    """Numbers that are equally likely between two bounds."""
    shape, dtype = _wanted(node, like)
    low, high = node.get("low", 0.0), node.get("high", 1.0)
    return (wend.rand(shape) * (high - low) + low).to(dtype)


@op("Bernoulli")
def bernoulli(node: OpNode, x: Tensor) -> Tensor:
    """1 with the given probabilities, else 0."""
    dtype = dtype_of(node.get("dtype")) if node.get("dtype") else x.dtype
    return (wend.rand(x.shape).to(x.dtype) < x).to(dtype)


@op("Multinomial")
def multinomial(node: OpNode, x: Tensor) -> Tensor:
    """Classes drawn by the logarithms of probabilities."""
    drawn = wend.multinomial(wend.softmax(x, -1), node.get("sample_size", 1), replacement=True)
    return drawn.to(dtype_of(node.get("dtype", 6)))
