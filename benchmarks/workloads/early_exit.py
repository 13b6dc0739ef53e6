"""Early exit: 32 examples, up to 12 layers of width 128 each; a sure answer is the last layer's."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from common import alone, for_all
from torch import nn

WIDTH, LAYERS, CLASSES, EXAMPLES = 128, 12, 10, 32


class Exits(nn.Module):
    """x (1, 128), answer (1,) -> loss of the layer that is sure enough, or of the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.heads = nn.ModuleList(nn.Linear(WIDTH, CLASSES) for _ in range(LAYERS))

    def forward(self, x: torch.Tensor, answer: torch.Tensor) -> torch.Tensor:
        for layer, head in zip(self.layers, self.heads, strict=True):
            x = x + torch.relu(layer(x))
            scores = head(x)
            if scores.softmax(dim=1).max() > 0.25:
                break
        return F.cross_entropy(scores, answer)


class EarlyExitWorkload:
    """A fresh batch each step."""

    steps = 20
    warm_up = 40  # the optimiser takes a path per depth, and `batched` tries both of its ways

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)
        torch.manual_seed(0)
        self.model = Exits()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)

    def weights(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def step(self) -> float:
        x = torch.from_numpy(self.rng.normal(size=(EXAMPLES, 1, WIDTH)).astype(np.float32) * 0.5)
        answers = torch.from_numpy(self.rng.integers(0, CLASSES, (EXAMPLES, 1)))
        losses = for_all(self.model, list(x), list(answers))
        loss = torch.stack(losses).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    alone(EarlyExitWorkload())
