"""W4 with one tree a step: what lies side by side within one example."""

from __future__ import annotations

from common import alone
from w4 import W4


class W4ONE(W4):
    """A fresh tree each step."""

    steps = 40
    warm_up = 80
    trees = 1


if __name__ == "__main__":
    alone(W4ONE())
