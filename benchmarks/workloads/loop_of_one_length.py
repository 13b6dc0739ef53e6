"""A loop of 100 steps of 20 ops on 4 x 16, the same length each time, SGD."""

from __future__ import annotations

from common import alone
from loop_of_new_lengths import LoopOfNewLengthsWorkload

STEPS = 100


class LoopOfOneLengthWorkload(LoopOfNewLengthsWorkload):
    """The path of ops comes back in each step."""

    steps = 40
    warm_up = 40

    def length(self) -> int:
        """Return the number of steps of the loop."""
        return STEPS


if __name__ == "__main__":
    alone(LoopOfOneLengthWorkload())
