"""The tagger of `bilstm_tagger`, with a look-up a word that has a sparse gradient."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from bilstm_tagger import BilstmTaggerWorkload, Tagger
from common import alone


class SparseTagger(Tagger):
    """words (n,) -> scores (n, 12); each word is looked up by itself."""

    sparse = True

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        table = self.embedding.weight
        numbers = range(len(words))
        inputs = [F.embedding(words[i : i + 1], table, sparse=self.sparse) for i in numbers]
        left = self.read(self.forwards, inputs, numbers)
        right = self.read(self.backwards, inputs, reversed(numbers))
        return self.output(torch.cat([torch.cat(left), torch.cat(right[::-1])], dim=1))


class BilstmTaggerSparseWorkload(BilstmTaggerWorkload):
    """A fresh batch of sentences each step."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.model = SparseTagger()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)


if __name__ == "__main__":
    alone(BilstmTaggerSparseWorkload())
