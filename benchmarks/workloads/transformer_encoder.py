"""A transformer encoder, 4 layers, width 256, batch 1, every length another, inference."""

from __future__ import annotations

import numpy as np
import torch
from common import alone
from torch import nn

LAYERS, WIDTH, HEADS, WORDS, SHORTEST, LONGEST = 4, 256, 4, 1000, 8, 256


class Encoder(nn.Module):
    """words (n, t) -> (n, t, 256)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.position = nn.Embedding(LONGEST, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, activation="gelu", batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        places = torch.arange(words.size(1))
        return self.layers(self.embedding(words) + self.position(places))


class TransformerEncoderWorkload:
    """Sentences of random words; all lengths from 8 to 256 before one comes again."""

    steps = 40
    warm_up = 40

    def __init__(self) -> None:
        rng = np.random.default_rng(8)
        torch.manual_seed(0)
        self.model = Encoder().eval()
        for weight in self.model.parameters():
            if weight.dim() > 1:  # all copies of a layer start alike, which says little
                nn.init.normal_(weight, std=0.05)
        self.words = torch.from_numpy(rng.integers(0, WORDS, (1, LONGEST)))
        self.lengths = rng.permutation(np.arange(SHORTEST, LONGEST + 1))
        self.count = 0

    def weights(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def step(self) -> float:
        length = int(self.lengths[self.count % len(self.lengths)])
        self.count += 1
        with torch.no_grad():
            return self.model(self.words[:, :length]).square().sum().item()


if __name__ == "__main__":
    alone(TransformerEncoderWorkload())
