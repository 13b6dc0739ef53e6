"""A mixture of 8 experts, 2 for each of 64 words of width 64, chosen by the data; SGD."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from common import alone
from torch import nn

WIDTH, EXPERTS, CHOSEN, WORDS = 64, 8, 2, 64


class Mixture(nn.Module):
    """x (64, 64) -> (64, 64): each expert computes the rows that have chosen it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
            for _ in range(EXPERTS)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.gate(x).softmax(dim=1).topk(CHOSEN, dim=1)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, places = torch.where(chosen == number)
            if rows.numel():
                y = y.index_add(0, rows, expert(x[rows]) * weights[rows, places].unsqueeze(1))
        return y


class MixtureOfExpertsWorkload:
    """A fresh batch each step: how many rows an expert gets changes."""

    steps = 20
    warm_up = 20

    def __init__(self) -> None:
        self.rng = np.random.default_rng(6)
        torch.manual_seed(0)
        self.model = Mixture()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)

    def weights(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def step(self) -> float:
        x, target = torch.from_numpy(self.rng.normal(size=(2, WORDS, WIDTH)).astype(np.float32))
        loss = F.mse_loss(self.model(x), target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    alone(MixtureOfExpertsWorkload())
