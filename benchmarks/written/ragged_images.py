"""32 images of 32 sizes, 24 to 86 pixels, through a small convolutional net, one by one."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F

from written.held import Layers
from written.program import Program

COUNT, CLASSES, LARGEST = 32, 10, 86


class RaggedImages(Program):
    """Images in one array, each in the corner of its place -> the sum of squares of the scores."""

    LAYERS: ClassVar[Layers] = {
        "conv1": ("conv", 3, 16),
        "conv2": ("conv", 16, 32),
        "conv3": ("conv", 32, 64),
        "output": ("linear", 64, CLASSES),
    }

    def batch(self, rng: np.random.Generator) -> Any:
        pixels = rng.random((COUNT, 3, LARGEST, LARGEST), dtype=np.float32) - np.float32(0.5)
        return pixels, rng.permutation(np.arange(24, 24 + 2 * COUNT, 2))

    def loss(self, batch: Any) -> torch.Tensor:
        pixels, sizes = batch
        with torch.no_grad():
            scores = torch.cat(self.each(self.scores, self.rows(pixels), sizes.tolist()))
        return scores.square().sum()

    def scores(self, image: torch.Tensor, size: int) -> torch.Tensor:
        x = image[:, :, :size, :size]
        for name in ("conv1", "conv2"):
            x = F.max_pool2d(torch.relu(self.held.conv(name, x)), 2)
        x = torch.relu(self.held.conv("conv3", x))
        return self.held.linear("output", x.mean(dim=(2, 3)))

    def step(self, batch: Any) -> float:
        """Infer; nothing is trained."""
        return self.loss(batch).item()
