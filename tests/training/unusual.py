"""Models whose gradients take unusual ways: second derivatives, recomputing, hooks, averages."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from training.tasks import Batch, Task

WORDS = 7


def _pairs(rng: np.random.Generator, size: int) -> Batch:
    real, made = rng.normal(size=(size, 4)), rng.normal(size=(size, 4))
    return {"real": real, "made": made, "share": rng.random((size, 1))}


def _penalty(t: Any) -> Any:
    nn = t.nn
    parametrizations = importlib.import_module(f"{t.__name__}.nn.utils.parametrizations")

    class Critic(nn.Module):  # type: ignore[misc]
        """A critic whose slope is held near 1 by a penalty on its own gradient."""

        def __init__(self) -> None:
            super().__init__()
            first = parametrizations.weight_norm(nn.Linear(4, 5))
            self.critic = nn.Sequential(first, nn.Tanh(), nn.Linear(5, 1))

        def loss(self, real: Any, made: Any, share: Any) -> Any:
            with t.enable_grad():
                between = (share * real + (1 - share) * made).requires_grad_()
                (slope,) = t.autograd.grad(self.critic(between).sum(), between, create_graph=True)
                penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
                return self.critic(made).mean() - self.critic(real).mean() + penalty

    return Critic()


def _sentences(rng: np.random.Generator, size: int) -> Batch:
    words = rng.integers(0, WORDS, (2, size))
    return {"words": words, "y": rng.integers(0, 3, 2)}


def _bound(parameter: Any) -> None:
    parameter.grad.clamp_(-0.2, 0.2)


def _recomputed(t: Any) -> Any:
    nn, functional = t.nn, t.nn.functional
    checkpoint = importlib.import_module(f"{t.__name__}.utils.checkpoint").checkpoint

    class Recomputed(nn.Module):  # type: ignore[misc]
        """A block that backward computes again, words of bounded norms, and hooks."""

        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, 4, padding_idx=0, max_norm=0.8)
            self.block = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 4))
            self.norm, self.out = nn.LayerNorm(4), nn.Linear(4, 3)
            self.block[0].weight.register_hook(lambda grad: 0.5 * grad)
            self.out.bias.register_post_accumulate_grad_hook(_bound)

        def loss(self, words: Any, y: Any) -> Any:
            h = self.words(words)
            h = h + checkpoint(self.block, self.norm(h), use_reentrant=False)
            return functional.cross_entropy(self.out(h.amax(1)), y)

    return Recomputed()


def _points(rng: np.random.Generator, size: int) -> Batch:
    return {"x": rng.normal(size=(size, 5)), "y": rng.normal(size=(size, 2))}


def _averaged(t: Any) -> Any:
    nn, functional = t.nn, t.nn.functional

    class Averaged(nn.Module):  # type: ignore[misc]
        """A model with a running average of weights and buffers, which some steps write back."""

        def __init__(self) -> None:
            super().__init__()
            norm = nn.InstanceNorm1d(4, affine=True, track_running_stats=True)
            first = nn.Linear(5, 4, bias=False)  # the norm would take a bias away
            self.model = nn.Sequential(first, norm, nn.PReLU(), nn.Linear(4, 2))
            self.average = t.optim.swa_utils.AveragedModel(self.model, use_buffers=True)

        def loss(self, x: Any, y: Any) -> Any:
            h = self.model[0](x).t().unsqueeze(0)
            h = self.model[2](self.model[1](h)).squeeze(0).t()
            return functional.huber_loss(self.model[3](h), y)

        def after_step(self, step: int) -> None:
            self.average.update_parameters(self.model)
            if step % 5 == 3:
                self.model.load_state_dict(self.average.module.state_dict())

    return Averaged()


TASKS = {
    "penalty": Task(_penalty, _pairs),
    "recomputed": Task(_recomputed, _sentences),
    "averaged": Task(_averaged, _points, (("loss", "model."),)),
}
