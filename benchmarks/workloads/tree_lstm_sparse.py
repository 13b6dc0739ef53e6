"""The TreeLSTM of `tree_lstm`, with a look-up a word that has a sparse gradient."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from common import alone
from tree_lstm import Tree, TreeLSTM, TreeLstmWorkload


class SparseTreeLSTM(TreeLSTM):
    """(tree, words (n,)) -> scores (1, 5); each word is looked up where its leaf is reached."""

    sparse = True

    def forward(self, tree: Tree, words: torch.Tensor) -> torch.Tensor:
        return self.output(self.state(tree, words)[0])

    def state(self, tree: Tree, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the (h, c) of a tree, each (1, 150); `inputs` are the numbers of the words."""
        if isinstance(tree, int):
            word = inputs[tree : tree + 1]
            rows = F.embedding(word, self.embedding.weight, sparse=self.sparse)
            i, o, u = self.leaf(rows).chunk(3, dim=1)
            c = torch.sigmoid(i) * torch.tanh(u)
            return torch.sigmoid(o) * torch.tanh(c), c
        return super().state(tree, inputs)


class TreeLstmSparseWorkload(TreeLstmWorkload):
    """A fresh batch of trees each step."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.model = SparseTreeLSTM()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)


if __name__ == "__main__":
    alone(TreeLstmSparseWorkload())
