"""A lattice LSTM (Zhang and Yang, 2018): characters, and words that may lie over them; width 64.

16 sentences of 10 to 40 characters; a word over every third character or so.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from common import alone
from torch import nn

WIDTH, CHARACTERS, WORDS, TAGS, SENTENCES = 64, 500, 1000, 8, 16


class Lattice(nn.Module):
    """characters (n,), words [(first, last, word)] -> scores (n, 8)."""

    def __init__(self) -> None:
        super().__init__()
        self.characters = nn.Embedding(CHARACTERS, WIDTH)
        self.words = nn.Embedding(WORDS, WIDTH)
        self.cell = nn.Linear(2 * WIDTH, 4 * WIDTH)
        self.word_cell = nn.Linear(2 * WIDTH, 3 * WIDTH)
        self.link = nn.Linear(2 * WIDTH, WIDTH)
        self.output = nn.Linear(WIDTH, TAGS)
        self.register_buffer("nothing", torch.zeros(1, WIDTH), persistent=False)

    def forward(self, characters: torch.Tensor, words: list[tuple[int, int, int]]) -> torch.Tensor:
        inputs = self.characters(characters).unsqueeze(1)
        over = self.words(torch.tensor([word for _, _, word in words])).unsqueeze(1)
        arriving: dict[int, list[torch.Tensor]] = {}
        h = c = self.nothing
        states = []
        for i in range(len(characters)):
            gates = self.cell(torch.cat([inputs[i], h], dim=1))
            enter, keep, out, new = gates.chunk(4, dim=1)
            new = torch.tanh(new)
            if i in arriving:  # words that end here take the place of the last cell
                cells = torch.cat([new, *arriving[i]])
                links = [self.link(torch.cat([inputs[i], w], dim=1)) for w in arriving[i]]
                weights = torch.sigmoid(torch.cat([enter, *links])).softmax(dim=0)
                c = (weights * cells).sum(dim=0, keepdim=True)
            else:
                c = torch.sigmoid(enter) * new + torch.sigmoid(keep) * c
            h = torch.sigmoid(out) * torch.tanh(c)
            states.append(h)
            for k, (first, last, _) in enumerate(words):
                if first == i:
                    enter, keep, new = self.word_cell(torch.cat([over[k], h], dim=1)).chunk(3, 1)
                    word = torch.sigmoid(enter) * torch.tanh(new) + torch.sigmoid(keep) * c
                    arriving.setdefault(last, []).append(word)
        return self.output(torch.cat(states))


class LatticeLstmWorkload:
    """A fresh batch of sentences each step."""

    steps = 2
    warm_up = 6

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)
        torch.manual_seed(0)
        self.model = Lattice()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def weights(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def sentence(self) -> tuple[torch.Tensor, list[tuple[int, int, int]]]:
        """Characters, and the words over them."""
        n = int(self.rng.integers(10, 41))
        words = []
        for first in self.rng.integers(0, n - 4, 1 + n // 3):
            last = int(first + self.rng.integers(1, 4))
            words.append((int(first), last, int(self.rng.integers(WORDS))))
        return torch.from_numpy(self.rng.integers(0, CHARACTERS, n)), words

    def step(self) -> float:
        sentences = [self.sentence() for _ in range(SENTENCES)]
        tags = torch.cat([characters % TAGS for characters, _ in sentences])
        loss = F.cross_entropy(torch.cat([self.model(*sentence) for sentence in sentences]), tags)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    alone(LatticeLstmWorkload())
