"""A small ResNet, training: batch 8, images of 64, 96, 128 and 160 pixels, SGD.

Gradients of the first step agree with PyTorch's to 5e-14 in float64. In float32 a few of the ReLUs
meet numbers so near 0 that rounding decides, and training amplifies it: PyTorch's own losses in
float32 are up to 3e-5 from those in float64 over the first four steps and 1.2e-2 over ten, Wend's
2e-4 and 2.7e-2.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from common import alone
from resnet import CLASSES, ResNet

BATCH, SIZES = 8, (64, 96, 128, 160)


class ResnetTrainingWorkload:
    """One batch of each size, over and over."""

    steps = 4
    warm_up = 16  # the first ones are cut differently for each size: three visits of each

    def __init__(self) -> None:
        rng = np.random.default_rng(60)
        torch.manual_seed(0)
        self.model = ResNet()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.batches = [
            (
                torch.from_numpy(rng.normal(size=(BATCH, 3, n, n)).astype(np.float32)),
                torch.from_numpy(rng.integers(0, CLASSES, BATCH)),
            )
            for n in SIZES
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
    alone(ResnetTrainingWorkload())
