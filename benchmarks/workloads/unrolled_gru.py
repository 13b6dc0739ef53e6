"""A GRU cell called in a loop over 60 steps: width 64, batch 8, a loss at each step, Adam."""

from __future__ import annotations

import torch
from common import alone
from torch import nn

STEPS, WIDTH, BATCH = 60, 64, 8


class UnrolledGru(nn.Module):
    """(inputs (60, 8, 64)) -> mean square of all states."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(WIDTH, WIDTH)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(BATCH, WIDTH)
        loss = torch.zeros(())
        for x in inputs:
            h = self.cell(x, h)
            loss = loss + h.pow(2).mean()
        return loss / STEPS


class UnrolledGruWorkload:
    """The same inputs each step."""

    steps = 20
    warm_up = 40

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = UnrolledGru()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.inputs = torch.randn(STEPS, BATCH, WIDTH)

    def weights(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def step(self) -> float:
        loss = self.model(self.inputs)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    alone(UnrolledGruWorkload())
