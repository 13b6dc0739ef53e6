"""MV-RNN (Socher and others, 2012): a vector and a matrix for each node; 16 trees, width 25."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from common import alone
from torch import nn

WIDTH, WORDS, CLASSES, TREES = 25, 500, 5, 16


class MatrixVector(nn.Module):
    """tree -> scores (5,): a leaf is a word's number, a node a pair."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors = nn.Embedding(WORDS, WIDTH)
        self.matrices = nn.Parameter(
            torch.eye(WIDTH).repeat(WORDS, 1, 1) + 0.01 * torch.randn(WORDS, WIDTH, WIDTH)
        )
        self.vector = nn.Linear(2 * WIDTH, WIDTH)
        self.matrix = nn.Parameter(0.1 * torch.randn(WIDTH, 2 * WIDTH))
        self.output = nn.Linear(WIDTH, CLASSES)

    def node(self, tree: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """The node's vector and matrix."""
        if not isinstance(tree, tuple):
            return self.vectors.weight[tree], self.matrices[tree]
        (a, left), (b, right) = self.node(tree[0]), self.node(tree[1])
        vector = torch.tanh(self.vector(torch.cat([right @ a, left @ b])))
        return vector, self.matrix @ torch.cat([left, right])

    def forward(self, tree: Any) -> torch.Tensor:
        return self.output(self.node(tree)[0])


class MatrixVectorRnnWorkload:
    """A fresh batch of trees each step."""

    steps = 3
    warm_up = 6

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)
        torch.manual_seed(0)
        self.model = MatrixVector()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def weights(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def tree(self, size: int) -> Any:
        """A random binary tree over so many words."""
        if size == 1:
            return int(self.rng.integers(WORDS))
        left = int(self.rng.integers(1, size))
        return self.tree(left), self.tree(size - left)

    def step(self) -> float:
        trees = [self.tree(int(n)) for n in self.rng.integers(3, 25, TREES)]
        answers = torch.from_numpy(self.rng.integers(0, CLASSES, TREES))
        loss = F.cross_entropy(torch.stack([self.model(tree) for tree in trees]), answers)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    alone(MatrixVectorRnnWorkload())
