"""A doubly recurrent net (Alvarez-Melis and Jaakkola, 2017) generates 16 trees top-down; width 64.

Whether a node has children, and whether a sibling follows, are decided by what it computes.
"""

from __future__ import annotations

import numpy as np
import torch
from common import alone, for_all
from torch import nn

WIDTH, LABELS, TREES, DEEP, WIDE = 64, 30, 16, 5, 4


class DoublyRecurrent(nn.Module):
    """root (1, 64) -> sum of squares of all label scores."""

    def __init__(self) -> None:
        super().__init__()
        self.labels = nn.Embedding(LABELS, WIDTH)
        self.down = nn.GRUCell(WIDTH, WIDTH)
        self.along = nn.GRUCell(WIDTH, WIDTH)
        self.join = nn.Linear(2 * WIDTH, WIDTH)
        self.decide = nn.Linear(WIDTH, 2)
        self.output = nn.Linear(WIDTH, LABELS)

    def forward(self, root: torch.Tensor) -> torch.Tensor:
        return torch.cat(self.children(root, 0)).square().sum()

    def children(self, parent: torch.Tensor, depth: int) -> list[torch.Tensor]:
        """The scores of the nodes under one, first child first."""
        found = []
        sibling = torch.zeros_like(parent)
        for _ in range(WIDE):
            state = torch.tanh(self.join(torch.cat([parent, sibling], dim=1)))
            scores = self.output(state)
            deeper, further = self.decide(state)[0].tolist()
            label = self.labels(scores.argmax(dim=1))
            found.append(scores)
            if deeper > 0 and depth < DEEP:
                found += self.children(self.down(label, parent), depth + 1)
            if further < 0:
                break
            sibling = self.along(label, sibling)
        return found


class DoublyRecurrentWorkload:
    """Fresh roots each step."""

    steps = 2
    warm_up = 40  # `batched` tries both of its ways on the first; plans come until about here

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)
        torch.manual_seed(0)
        self.model = DoublyRecurrent()

    def weights(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def step(self) -> float:
        roots = torch.from_numpy(self.rng.normal(size=(TREES, 1, WIDTH)).astype(np.float32))
        with torch.no_grad():
            return torch.stack(for_all(self.model, list(roots))).sum().item()


if __name__ == "__main__":
    alone(DoublyRecurrentWorkload())
