"""A binary TreeLSTM over 25 random trees of 5 to 40 words a batch; h 150, e 300, SGD."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from common import alone
from torch import nn

HIDDEN, EMBEDDING, WORDS, CLASSES, TREES = 150, 300, 2000, 5, 25

Tree = int | tuple[Any, Any]  # the number of a word in its sentence, or two trees


def random_tree(rng: np.random.Generator, first: int, words: int) -> Tree:
    """Return a random binary tree over so many words of a sentence."""
    if words == 1:
        return first
    left = int(rng.integers(1, words))
    return random_tree(rng, first, left), random_tree(rng, first + left, words - left)


class TreeLSTM(nn.Module):
    """(tree, words (n,)) -> scores (1, 5), by recursion: one call a node."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, EMBEDDING)
        self.leaf = nn.Linear(EMBEDDING, 3 * HIDDEN)
        self.inner = nn.Linear(2 * HIDDEN, 5 * HIDDEN)
        self.output = nn.Linear(HIDDEN, CLASSES)

    def forward(self, tree: Tree, words: torch.Tensor) -> torch.Tensor:
        return self.output(self.state(tree, self.embedding(words))[0])

    def state(self, tree: Tree, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the (h, c) of a tree, each (1, 150)."""
        if isinstance(tree, int):
            gates = self.leaf(inputs[tree : tree + 1])
            i, o, u = gates.chunk(3, dim=1)
            c = torch.sigmoid(i) * torch.tanh(u)
        else:
            (h1, c1), (h2, c2) = self.state(tree[0], inputs), self.state(tree[1], inputs)
            gates = self.inner(torch.cat([h1, h2], dim=1))
            i, o, u, f1, f2 = gates.chunk(5, dim=1)
            c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(f1) * c1 + torch.sigmoid(f2) * c2
        return torch.sigmoid(o) * torch.tanh(c), c


class TreeLstmWorkload:
    """A fresh batch of trees each step."""

    steps = 3
    warm_up = 6
    trees = TREES

    def __init__(self) -> None:
        self.rng = np.random.default_rng(4)
        torch.manual_seed(0)
        self.model = TreeLSTM()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)

    def weights(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def batch(self) -> tuple[list[Tree], list[np.ndarray], np.ndarray]:
        """Return the next trees, the words of each, and their classes."""
        lengths = self.rng.integers(5, 41, self.trees)
        trees = [random_tree(self.rng, 0, int(n)) for n in lengths]
        words = [self.rng.integers(0, WORDS, n) for n in lengths]
        return trees, words, self.rng.integers(0, CLASSES, self.trees)

    def step(self) -> float:
        trees, arrays, classes = self.batch()
        words, target = [torch.from_numpy(w) for w in arrays], torch.from_numpy(classes)
        loss = F.cross_entropy(torch.cat(list(map(self.model, trees, words))), target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    alone(TreeLstmWorkload())
