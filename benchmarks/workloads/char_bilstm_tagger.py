"""`bilstm_tagger` with character LSTMs inside words: 8 sentences of 5 to 25 words.

A word is the last states of a forward and a backward LSTM over its characters (width 32), one cell
call per character; the tagger above is that of `bilstm_tagger`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
import torch.nn.functional as F
from common import alone
from torch import nn

HIDDEN, WIDTH, CHARACTERS, TAGS, SENTENCES = 64, 32, 60, 12, 8

Word = tuple[int, ...]


class Spelling(nn.Module):
    """words [(characters)] -> scores (n, 12)."""

    def __init__(self) -> None:
        super().__init__()
        self.characters = nn.Embedding(CHARACTERS, WIDTH)
        self.onwards = nn.LSTMCell(WIDTH, WIDTH)
        self.back = nn.LSTMCell(WIDTH, WIDTH)
        self.forwards = nn.LSTMCell(2 * WIDTH, HIDDEN)
        self.backwards = nn.LSTMCell(2 * WIDTH, HIDDEN)
        self.output = nn.Linear(2 * HIDDEN, TAGS)

    def forward(self, words: list[Word]) -> torch.Tensor:
        inputs = [self.spell(word) for word in words]
        left = self.read(self.forwards, inputs)
        right = self.read(self.backwards, reversed(inputs))
        return self.output(torch.cat([torch.cat(left), torch.cat(right[::-1])], dim=1))

    def spell(self, word: Word) -> torch.Tensor:
        """characters -> (1, 64)."""
        rows = self.characters(torch.tensor(word)).unsqueeze(1)
        onwards = self.read(self.onwards, [rows[i] for i in range(len(word))])
        back = self.read(self.back, [rows[i] for i in reversed(range(len(word)))])
        return torch.cat([onwards[-1], back[-1]], dim=1)

    def read(self, cell: nn.LSTMCell, inputs: Iterable[torch.Tensor]) -> list[torch.Tensor]:
        """Call the cell once an input; return its states."""
        state, states = None, []
        for x in inputs:
            state = cell(x, state)
            states.append(state[0])
        return states


class CharBilstmTaggerWorkload:
    """A fresh batch of sentences each step."""

    steps = 2
    warm_up = 6

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)
        torch.manual_seed(0)
        self.model = Spelling()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def weights(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def sentence(self) -> list[Word]:
        """Words, as numbers of their characters."""
        lengths = self.rng.integers(2, 10, int(self.rng.integers(5, 26)))
        return [tuple(map(int, self.rng.integers(0, CHARACTERS, n))) for n in lengths]

    def step(self) -> float:
        sentences = [self.sentence() for _ in range(SENTENCES)]
        tags = torch.tensor([sum(word) % TAGS for words in sentences for word in words])
        loss = F.cross_entropy(torch.cat(list(map(self.model, sentences))), tags)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    alone(CharBilstmTaggerWorkload())
