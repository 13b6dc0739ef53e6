"""A small ResNet, batch 1, every image of another size (64 to 160 pixels), inference."""

from __future__ import annotations

import numpy as np
import torch
from common import alone
from resnet import ResNet

SMALLEST, LARGEST = 64, 160


class ResnetInferenceWorkload:
    """Images cut out of one; no size comes twice in 9 409 steps."""

    steps = 12
    warm_up = 12

    def __init__(self) -> None:
        rng = np.random.default_rng(6)
        torch.manual_seed(0)
        self.model = ResNet().eval()
        self.image = torch.from_numpy(rng.normal(size=(1, 3, LARGEST, LARGEST)).astype(np.float32))
        self.sizes = rng.permutation((LARGEST - SMALLEST + 1) ** 2)
        self.count = 0

    def weights(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def step(self) -> float:
        size = int(self.sizes[self.count % len(self.sizes)])
        height, width = (SMALLEST + n for n in divmod(size, LARGEST - SMALLEST + 1))
        self.count += 1
        with torch.no_grad():
            scores = self.model(self.image[:, :, :height, :width].contiguous())
            return scores.square().sum().item()


if __name__ == "__main__":
    alone(ResnetInferenceWorkload())
