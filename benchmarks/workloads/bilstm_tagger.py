"""A BiLSTM tagger, 16 sentences of 5 to 50 words; h 64, e 128, one cell call per word."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
import torch.nn.functional as F
from common import alone
from torch import nn

HIDDEN, EMBEDDING, WORDS, TAGS, SENTENCES = 64, 128, 2000, 12, 16


class Tagger(nn.Module):
    """words (n,) -> scores (n, 12)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, EMBEDDING)
        self.forwards = nn.LSTMCell(EMBEDDING, HIDDEN)
        self.backwards = nn.LSTMCell(EMBEDDING, HIDDEN)
        self.output = nn.Linear(2 * HIDDEN, TAGS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        inputs = self.embedding(words).unsqueeze(1)
        left = self.read(self.forwards, inputs, range(len(words)))
        right = self.read(self.backwards, inputs, reversed(range(len(words))))
        return self.output(torch.cat([torch.cat(left), torch.cat(right[::-1])], dim=1))

    def read(
        self, cell: nn.LSTMCell, inputs: torch.Tensor, order: Iterable[int]
    ) -> list[torch.Tensor]:
        """Call the cell once a word; return its states."""
        state, states = None, []
        for i in order:
            state = cell(inputs[i], state)
            states.append(state[0])
        return states


class BilstmTaggerWorkload:
    """A fresh batch of sentences each step."""

    steps = 3
    warm_up = 6

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)
        torch.manual_seed(0)
        self.model = Tagger()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def weights(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def batch(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the words of the next sentences, and their tags."""
        lengths = self.rng.integers(5, 51, SENTENCES)
        return [
            (words, words % TAGS) for words in (self.rng.integers(0, WORDS, n) for n in lengths)
        ]

    def step(self) -> float:
        words, tags = (list(map(torch.from_numpy, arrays)) for arrays in zip(*self.batch()))
        loss = F.cross_entropy(torch.cat(list(map(self.model, words))), torch.cat(tags))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    alone(BilstmTaggerWorkload())
