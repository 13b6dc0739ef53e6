"""A data-dependent ``if``, and a data-dependent number of turns (2 to 7); batch 16, SGD."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from common import alone
from torch import nn

WIDTH, BATCH = 64, 16


class Branching(nn.Module):
    """Each turn takes one of two layers, by the sign of a sum: (n, 64) -> (n, 64)."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2 + int(x.abs().sum().item() * 10) % 6):
            x = torch.tanh(self.left(x)) if x.sum() > 0 else torch.tanh(self.right(x))
        return self.output(x)


class BranchingWorkload:
    """The same 32 batches, over and over."""

    steps = 500
    warm_up = 40

    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        torch.manual_seed(0)
        self.model = Branching()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.batches = [
            torch.from_numpy(rng.normal(size=(2, BATCH, WIDTH)).astype(np.float32))
            for _ in range(32)
        ]
        self.count = 0

    def weights(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def step(self) -> float:
        x, target = self.batches[self.count % len(self.batches)]
        self.count += 1
        loss = F.mse_loss(self.model(x), target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    alone(BranchingWorkload())
