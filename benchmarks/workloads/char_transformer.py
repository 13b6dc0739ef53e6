"""A character transformer, 4 layers, width 128, 4 heads, 64 characters, batch 12, Adam."""

from __future__ import annotations

import ast as text_module
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from common import alone
from torch import nn

LAYERS, WIDTH, HEADS, LENGTH, BATCH = 4, 128, 4, 64, 12


class Layer(nn.Module):
    """Attention to what came before, and two linear layers: (n, t, 128) -> the same."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mix, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.widen, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        n, t, _ = x.shape
        q, k, v = (
            part.view(n, t, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.mix(self.norm1(x)).split(WIDTH, dim=2)
        )
        scores = (q @ k.transpose(2, 3)) / math.sqrt(WIDTH // HEADS)
        scores = scores.masked_fill(mask, float("-inf"))
        mixed = (torch.softmax(scores, dim=3) @ v).transpose(1, 2).reshape(n, t, WIDTH)
        x = x + self.project(mixed)
        return x + self.narrow(F.gelu(self.widen(self.norm2(x))))


class Transformer(nn.Module):
    """characters (n, t) -> scores (n, t, characters)."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, WIDTH)
        self.position = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.output = nn.Linear(WIDTH, characters)
        future = torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), diagonal=1)
        self.register_buffer("future", future)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.embedding(x) + self.position
        for layer in self.layers:
            h = layer(h, self.future)
        return self.output(self.norm(h))


class CharTransformerWorkload:
    """Windows into the source of one of Python's own modules."""

    steps = 6
    warm_up = 10

    def __init__(self) -> None:
        self.rng = np.random.default_rng(7)
        source = Path(text_module.__file__).read_text(encoding="utf-8")
        characters = sorted(set(source))
        self.text = np.array([characters.index(c) for c in source])
        torch.manual_seed(0)
        self.model = Transformer(len(characters))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=3e-4)

    def weights(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def step(self) -> float:
        starts = self.rng.integers(0, len(self.text) - LENGTH - 1, BATCH)
        x = torch.from_numpy(np.stack([self.text[s : s + LENGTH] for s in starts]))
        y = torch.from_numpy(np.stack([self.text[s + 1 : s + LENGTH + 1] for s in starts]))
        scores = self.model(x)
        loss = F.cross_entropy(scores.view(-1, scores.size(-1)), y.view(-1))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    alone(CharTransformerWorkload())
