"""32 images of 32 sizes, 24 to 86 pixels, through a small convolutional net, one by one."""

from __future__ import annotations

import numpy as np
import torch
from common import alone
from torch import nn

COUNT, CLASSES = 32, 10


class Net(nn.Sequential):
    """x (1, 3, h, w) -> scores (1, 10)."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, CLASSES),
        )


class IMAGES:
    """Fresh pixels each step, and the sizes in another order."""

    steps = 3
    warm_up = 6

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)
        torch.manual_seed(0)
        self.model = Net()

    def weights(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def step(self) -> float:
        sizes = self.rng.permutation(np.arange(24, 24 + 2 * COUNT, 2))
        pixels = [self.rng.normal(size=(1, 3, n, n)).astype(np.float32) for n in sizes]
        with torch.no_grad():
            scores = torch.cat([self.model(torch.from_numpy(x)) for x in pixels])
        return scores.square().sum().item()


if __name__ == "__main__":
    alone(IMAGES())
