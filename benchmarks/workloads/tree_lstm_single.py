"""`tree_lstm` with one tree a step: what lies side by side within one example."""

from __future__ import annotations

from common import alone
from tree_lstm import TreeLstmWorkload


class TreeLstmSingleWorkload(TreeLstmWorkload):
    """A fresh tree each step."""

    steps = 40
    warm_up = 80
    trees = 1


if __name__ == "__main__":
    alone(TreeLstmSingleWorkload())
