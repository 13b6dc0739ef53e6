"""Later: as NEVER, but that each loss is read before its backward pass."""

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
        return found


if __name__ == "__main__":
    alone(LATER())
