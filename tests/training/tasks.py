"""The kinds of training of the matrix: a model, its batches, and what is minimised with them.

A model is written once, for a library `t` (Wend or PyTorch). Noise comes with the batch, as the two
libraries draw different numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Batch = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One kind of training.

    make: the model of a library      draw: a batch of some size, floats as float64
    phases: methods of the model that give a loss, and where the names of those parameters begin
            that an optimiser of its own changes by it
    """

    make: Callable[[Any], Any]
    draw: Callable[[np.random.Generator, int], Batch]
    phases: Sequence[tuple[str, str]] = (("loss", ""),)


def initial(shape: Sequence[int], name: str, rng: np.random.Generator) -> np.ndarray:
    """A parameter's first value: no two alike, none zero, sums of about 1."""
    drawn = rng.normal(size=tuple(shape))
    if len(shape) < 2:
        return (1.0 if name.endswith("weight") else 0.0) + 0.1 * drawn
    return drawn * (0.8 / np.sqrt(np.prod(shape[1:])))


def fill(t: Any, model: Any, dtype: str, seed: int) -> Any:
    """Give a model a dtype, and parameters that depend on their names and the seed alone."""
    model = model.to(getattr(t, dtype))
    rng = np.random.default_rng(seed)
    with t.no_grad():
        for name, parameter in model.named_parameters():
            value = initial(tuple(parameter.shape), name, rng)
            parameter.copy_(t.tensor(value.astype(dtype)))
    return model


def tensors(batch: Batch, dtype: str, source: Callable[[str, np.ndarray], Any]) -> Batch:
    """A batch with tensors for arrays, made by `source`; what is no array stays."""
    made = {}
    for name, value in batch.items():
        if isinstance(value, np.ndarray):
            value = source(name, value.astype(dtype if value.dtype.kind == "f" else value.dtype))
        made[name] = value
    return made
