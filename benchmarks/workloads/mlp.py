"""An MLP 784-256-256-10, batch 64, Adam."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from common import alone
from torch import nn


class MlpWorkload:
    """The same 16 batches of random images, over and over."""

    steps = 200
    warm_up = 20

    def __init__(self) -> None:
        rng = np.random.default_rng(2)
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
        )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.batches = [
            (
                torch.from_numpy(rng.random((64, 784), dtype=np.float32)),
                torch.from_numpy(rng.integers(0, 10, 64)),
            )
            for _ in range(16)
        ]
        self.count = 0

    def weights(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def step(self) -> float:
        x, y = self.batches[self.count % len(self.batches)]
        self.count += 1
        loss = F.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    alone(MlpWorkload())
