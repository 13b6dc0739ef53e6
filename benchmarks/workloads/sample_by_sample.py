"""An MLP 64-64-64-64 called for each of 32 examples, the losses added up, Adam."""

from __future__ import annotations

import torch
from common import alone
from torch import nn

EXAMPLES, ROWS, WIDTH = 32, 8, 64


class SampleBySampleWorkload:
    """A list of calls of one small net; the data comes back each step."""

    steps = 20
    warm_up = 40

    def __init__(self) -> None:
        torch.manual_seed(0)
        layers = [nn.Linear(WIDTH, WIDTH) for _ in range(3)]
        self.model = nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.inputs = torch.randn(EXAMPLES, ROWS, WIDTH)

    def weights(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def step(self) -> float:
        loss = torch.zeros(())
        for x in self.inputs:
            loss = loss + (self.model(x) - x).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    alone(SampleBySampleWorkload())
