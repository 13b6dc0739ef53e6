"""32 images of 32 sizes, 24 to 86 pixels, through a small convolutional net, one by one."""

from __future__ import annotations

import numpy as np
import torch
from common import alone
from torch import nn

COUNT, CLASSES, IMAGES_OF_A_SIZE = 32, 10, 4


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


class RaggedImagesWorkload:
    """The sizes in another order each step, with one of a few images of each size."""

    steps = 3
    warm_up = 6

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)
        torch.manual_seed(0)
        self.model = Net()
        # Drawing as many numbers takes as long as half a step.
        self.pixels = {
            n: self.rng.normal(size=(IMAGES_OF_A_SIZE, 1, 3, n, n)).astype(np.float32)
            for n in range(24, 24 + 2 * COUNT, 2)
        }

    def weights(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def step(self) -> float:
        which = self.rng.integers(0, IMAGES_OF_A_SIZE, COUNT)
        pixels = [
            self.pixels[n][k]
            for n, k in zip(self.rng.permutation(list(self.pixels)), which, strict=True)
        ]
        with torch.no_grad():
            scores = torch.cat([self.model(torch.from_numpy(x)) for x in pixels])
        return scores.square().sum().item()


if __name__ == "__main__":
    alone(RaggedImagesWorkload())
