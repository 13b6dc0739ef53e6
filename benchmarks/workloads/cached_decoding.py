"""Greedy decoding of 48 words: 2 layers of width 128, keys and values in a cache that grows."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from common import alone
from torch import nn

WIDTH, HEADS, LAYERS, WORDS, LENGTH = 128, 4, 2, 500, 48

Cache = list[tuple[torch.Tensor, torch.Tensor]]


class Layer(nn.Module):
    """The next word (1, 128) and the keys and values (1, 4, n, 32) of the words before."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.into, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(
        self, x: torch.Tensor, cache: tuple[torch.Tensor, torch.Tensor] | None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        q, k, v = self.into(self.first(x)).view(1, 3, HEADS, 1, -1).unbind(1)
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).reshape(1, WIDTH))
        return x + self.narrow(F.gelu(self.wide(self.second(x)))), (k, v)


class Decoder(nn.Module):
    """word (1,), caches of the layers -> scores (1, 500), longer caches."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.output = nn.Linear(WIDTH, WORDS)

    def forward(self, word: torch.Tensor, caches: Cache | None) -> tuple[torch.Tensor, Cache]:
        x, longer = self.embedding(word), []
        for k, layer in enumerate(self.layers):
            x, cache = layer(x, None if caches is None else caches[k])
            longer.append(cache)
        return self.output(x), longer


class CachedDecodingWorkload:
    """A step decodes 48 words from another first word; the sum of squares of the last scores."""

    steps = 2
    warm_up = 4

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = Decoder().eval()
        self.count = 0

    def weights(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def step(self) -> float:
        self.count += 1
        with torch.no_grad():
            word, caches = torch.tensor([self.count % WORDS]), None
            for _ in range(LENGTH):
                scores, caches = self.model(word, caches)
                word = scores.argmax(dim=1)
            return scores.square().sum().item()


if __name__ == "__main__":
    alone(CachedDecodingWorkload())
