"""A loop of about 2 000 steps of 20 ops on 4 x 16, another length each time, SGD."""

from __future__ import annotations

import random

import torch
from common import alone

ROWS, WIDTH, SHORTEST, LONGEST = 4, 16, 2000, 2200


def cell(h: torch.Tensor, x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the next state, (4, 16), of a state, an input of this shape, and two weights."""
    z = torch.sigmoid(h @ a + x)
    h = z * torch.tanh(h @ b + x) + (1 - z) * h
    s = torch.relu(h) * 0.5 + h * 0.5
    h = s - s.mean() * 0.1
    return h / (1 + h * h)


class LoopOfNewLengthsWorkload:
    """A length is drawn for each step."""

    steps = 4
    warm_up = 4

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.inputs = torch.randn(LONGEST, ROWS, WIDTH)
        self.a = (torch.randn(WIDTH, WIDTH) * 0.2).requires_grad_()
        self.b = (torch.randn(WIDTH, WIDTH) * 0.2).requires_grad_()
        self.optimizer = torch.optim.SGD([self.a, self.b], lr=0.01)
        self.draws = random.Random(0)

    def weights(self) -> dict[str, torch.Tensor]:
        return {"a": self.a, "b": self.b}

    def length(self) -> int:
        """Return the number of steps of the loop."""
        return self.draws.randrange(SHORTEST, LONGEST)

    def step(self) -> float:
        h = torch.zeros(ROWS, WIDTH)
        for k in range(self.length()):
            h = cell(h, self.inputs[k], self.a, self.b)
        loss = h.pow(2).sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    alone(LoopOfNewLengthsWorkload())
