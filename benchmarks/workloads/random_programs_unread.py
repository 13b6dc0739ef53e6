"""As `random_programs`; each loss is read before its backward pass, and no gradient is."""

from __future__ import annotations

from common import alone
from random_programs import RandomProgramsWorkload


class RandomProgramsUnreadWorkload(RandomProgramsWorkload):
    """What the backward pass gives is dropped before the next step; its steps must be, too."""

    def step(self) -> float:
        self.x.grad = self.y.grad = None
        loss = self.compute(self.x, self.y)
        found = loss.item()
        loss.backward()
        return found


if __name__ == "__main__":
    alone(RandomProgramsUnreadWorkload())
