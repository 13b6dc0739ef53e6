"""Unread: as NEVER, each loss read before its backward pass, whose gradients nobody reads."""

from __future__ import annotations

from common import alone
from never import NEVER


class UNREAD(NEVER):
    """What the backward pass gives is dropped before the next step; its steps must be, too."""

    def step(self) -> float:
        self.x.grad = self.y.grad = None
        loss = self.compute(self.x, self.y)
        found = loss.item()
        loss.backward()
        return found


if __name__ == "__main__":
    alone(UNREAD())
