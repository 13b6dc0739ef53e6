"""As `random_programs`; each loss is read before its backward pass, a gradient after it."""

from __future__ import annotations

from common import alone
from random_programs import RandomProgramsWorkload


class RandomProgramsReadWorkload(RandomProgramsWorkload):
    """What is computed by then has to be kept for a pass that may come."""

    def step(self) -> float:
        self.x.grad = self.y.grad = None
        loss = self.compute(self.x, self.y)
        found = loss.item()
        loss.backward()
        gradient = self.y.grad if self.x.grad is None else self.x.grad
        self.size = gradient.abs().sum().item()  # as somebody does who clips it
        return found


if __name__ == "__main__":
    alone(RandomProgramsReadWorkload())
