"""Early exit: 32 examples, up to 12 layers of width 128; a sure answer is the last layer's."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from common import for_all

from written.held import Layers
from written.program import Program

WIDTH, LAYERS, CLASSES, EXAMPLES = 128, 12, 10, 32


class EarlyExit(Program):
    """Examples -> the loss of the layer that is sure enough, or of the last one."""

    RATE = 1e-3
    LAYERS: ClassVar[Layers] = {f"layer{k}": ("linear", WIDTH, WIDTH) for k in range(LAYERS)} | {
        f"head{k}": ("linear", WIDTH, CLASSES) for k in range(LAYERS)
    }

    def batch(self, rng: np.random.Generator) -> Any:
        x = rng.normal(size=(EXAMPLES, WIDTH)).astype(np.float32) * np.float32(0.5)
        return x, rng.integers(0, CLASSES, EXAMPLES)

    def loss(self, batch: Any) -> torch.Tensor:
        one = self.recursive if self.hand.loops == "recursion" else self.one
        losses = for_all(one, *(list(self.rows(array)) for array in batch))
        return torch.stack(losses).mean()

    def layer(self, k: int, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, bool]:
        """Return the next x, its scores, and whether they are sure enough."""
        x = x + torch.relu(self.held.linear(f"layer{k}", x))
        scores = self.held.linear(f"head{k}", x)
        return x, scores, bool(scores.softmax(dim=1).max() > 0.25)

    def one(self, x: torch.Tensor, answer: torch.Tensor) -> torch.Tensor:
        for k in range(LAYERS):
            x, scores, sure = self.layer(k, x)
            if sure:
                break
        return F.cross_entropy(scores, answer)

    def recursive(self, x: torch.Tensor, answer: torch.Tensor, k: int = 0) -> torch.Tensor:
        x, scores, sure = self.layer(k, x)
        if sure or k + 1 == LAYERS:
            return F.cross_entropy(scores, answer)
        return self.recursive(x, answer, k + 1)
