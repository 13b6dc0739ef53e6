"""Models that are one function of their inputs."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from training.tasks import Batch, Task

WORDS = 7


def _points(rng: np.random.Generator, size: int) -> Batch:
    return {
        "x": rng.normal(size=(size, 5)),
        "y": rng.integers(0, 3, size),
        "kept": rng.integers(0, 2, (size, 6)) * 2.0,
    }


def _mlp(t: Any) -> Any:
    nn, functional = t.nn, t.nn.functional

    class MLP(nn.Module):  # type: ignore[misc]
        """Two layers; dropout by a mask that is given."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(5, 6), nn.Linear(6, 3)

        def loss(self, x: Any, y: Any, kept: Any) -> Any:
            hidden = t.tanh(self.first(x)) * kept
            return functional.cross_entropy(self.second(hidden), y)

    return MLP()


def _images(rng: np.random.Generator, size: int) -> Batch:
    side = 4 + size % 4
    return {"x": rng.normal(size=(size, 2, side, side)), "y": rng.integers(0, 3, size)}


def _cnn(t: Any) -> Any:
    nn, functional = t.nn, t.nn.functional

    class CNN(nn.Module):  # type: ignore[misc]
        """Two convolutions with batch norm and a residual; no bias that the norm takes away."""

        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(2, 3, 3, padding=1, bias=False)
            self.norm1 = nn.BatchNorm2d(3)
            self.conv2 = nn.Conv2d(3, 3, 3, padding=1, bias=False)
            self.norm2 = nn.BatchNorm2d(3, momentum=None)
            self.out = nn.Linear(3, 3)

        def loss(self, x: Any, y: Any) -> Any:
            x = functional.silu(self.norm1(self.conv1(x)))
            x = x + functional.softplus(self.norm2(self.conv2(x)))
            x = functional.max_pool2d(x, 2).mean((2, 3))
            return functional.cross_entropy(self.out(x), y)

    return CNN()


def _padded(rng: np.random.Generator, size: int) -> Batch:
    words = rng.integers(0, WORDS, (3, size))
    lengths = np.minimum(size, np.array([size, 2, 1 + size // 2]))
    return {"words": words, "padding": np.arange(size)[None, :] >= lengths[:, None]}


def _transformer(t: Any) -> Any:
    nn, functional = t.nn, t.nn.functional

    class Transformer(nn.Module):  # type: ignore[misc]
        """Two causal layers over padded words, with a penalty on all weights.

        The loss does not depend on the keys' biases: without the penalty their gradients are
        rounding, which some optimisers make steps of.
        """

        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, 4)
            layer = nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.out = nn.Linear(4, WORDS)

        def loss(self, words: Any, padding: Any) -> Any:
            n = words.shape[1]
            later = t.ones(n, n, dtype=t.bool).triu(1)
            h = self.layers(self.words(words), mask=later, src_key_padding_mask=padding)
            wanted = words.roll(-1, 1).masked_fill(padding, -100)
            found = functional.cross_entropy(self.out(h).flatten(0, 1), wanted.flatten())
            return found + 0.01 * sum(p.pow(2).sum() for p in self.parameters())

    return Transformer()


def _words(rng: np.random.Generator, size: int) -> Batch:
    return {"words": rng.integers(0, WORDS, size + 1)}


def _tied(t: Any) -> Any:
    nn, functional = t.nn, t.nn.functional

    class Tied(nn.Module):  # type: ignore[misc]
        """Predicts words; the first and the last layer have one weight."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.mix = nn.Embedding(WORDS, 4), nn.Linear(4, 4)
            self.out = nn.Linear(4, WORDS)
            self.out.weight = self.words.weight

        def loss(self, words: Any) -> Any:
            h = t.tanh(self.mix(self.words(words[:-1])))
            return functional.cross_entropy(self.out(h), words[1:])

    return Tied()


def _ema(t: Any) -> Any:
    nn, functional = t.nn, t.nn.functional

    class Averaged(nn.Module):  # type: ignore[misc]
        """A model that learns from labels and from the moving average of itself."""

        def __init__(self) -> None:
            super().__init__()
            self.model = nn.Sequential(
                nn.Linear(5, 6, bias=False), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3)
            )
            self.average = copy.deepcopy(self.model).requires_grad_(False)

        def loss(self, x: Any, y: Any, kept: Any) -> Any:
            found, average = self.model(x), self.average(x).detach()
            return functional.cross_entropy(found, y) + functional.mse_loss(found, average)

        def after_step(self, step: int) -> None:
            with t.no_grad():
                pairs = zip(self.average.parameters(), self.model.parameters(), strict=True)
                for k, (mean, new) in enumerate(pairs):
                    if k % 2:
                        mean.lerp_(new, 0.2)
                    else:
                        mean.mul_(0.8).add_(new, alpha=0.2)
                for mean, new in zip(self.average.buffers(), self.model.buffers(), strict=True):
                    mean.copy_(new)

    return Averaged()


def _lora(t: Any) -> Any:
    nn, functional = t.nn, t.nn.functional

    class Adapted(nn.Linear):  # type: ignore[misc]
        """A frozen layer and a product of two narrow matrices that is learnt."""

        def __init__(self, n: int, m: int) -> None:
            super().__init__(n, m)
            self.weight.requires_grad_(False)
            self.bias.requires_grad_(False)
            self.down, self.up = nn.Linear(n, 2, bias=False), nn.Linear(2, m, bias=False)

        def forward(self, x: Any) -> Any:
            return super().forward(x) + 0.5 * self.up(self.down(x))

    class LoRA(nn.Module):  # type: ignore[misc]
        """Two adapted layers between layers of which one is frozen."""

        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(5, 6).requires_grad_(False)
            self.middle, self.last = Adapted(6, 6), Adapted(6, 3)

        def loss(self, x: Any, y: Any, kept: Any) -> Any:
            h = functional.gelu(self.first(x)) * kept
            return functional.cross_entropy(self.last(t.tanh(self.middle(h))), y)

    return LoRA()


def _thawing(t: Any) -> Any:
    nn, functional = t.nn, t.nn.functional

    class Thawing(nn.Module):  # type: ignore[misc]
        """Layers that are frozen for some steps, while the optimiser has all of them."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(5, 6), nn.Linear(6, 6)
            self.out = nn.Linear(6, 3)

        def loss(self, x: Any, y: Any, kept: Any) -> Any:
            h = t.tanh(self.second(t.sigmoid(self.first(x)) * kept))
            return functional.cross_entropy(self.out(h), y)

        def after_step(self, step: int) -> None:
            self.first.requires_grad_(step % 4 < 2)
            self.second.bias.requires_grad_(step % 3 != 1)

    return Thawing()


TASKS = {
    "mlp": Task(_mlp, _points),
    "cnn": Task(_cnn, _images),
    "transformer": Task(_transformer, _padded),
    "tied": Task(_tied, _words),
    "ema": Task(_ema, _points, (("loss", "model."),)),
    "lora": Task(_lora, _points),
    "thawing": Task(_thawing, _points),
}
