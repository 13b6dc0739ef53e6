"""Later: as NEVER, but each loss is read before its backward pass, and the gradient after it."""

from __future__ import annotations

from common import alone
from never import NEVER


class LATER(NEVER):
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
    alone(LATER())
