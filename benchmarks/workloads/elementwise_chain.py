"""40 elementwise ops on 8 x 8, forward and backward."""

from __future__ import annotations

import numpy as np
import torch
from common import alone


class ElementwiseChainWorkload:
    """Ten rounds of multiply, add, tanh, subtract; the gradient of the sum."""

    steps = 1000
    warm_up = 20

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.x, self.y = (
            torch.from_numpy(rng.normal(size=(8, 8)).astype(np.float32)).requires_grad_()
            for _ in range(2)
        )

    def weights(self) -> dict[str, torch.Tensor]:
        return {"x": self.x, "y": self.y}

    def compute(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = x
        for _ in range(10):
            h = h * y
            h = h + x
            h = torch.tanh(h)
            h = h - y
        return h.sum()

    def step(self) -> float:
        self.x.grad = self.y.grad = None
        loss = self.compute(self.x, self.y)
        loss.backward()
        return loss.item()


if __name__ == "__main__":
    alone(ElementwiseChainWorkload())
