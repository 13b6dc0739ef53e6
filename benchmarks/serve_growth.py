"""One side of ``growth.py``: random trees, all of them pending before a value is asked for."""

from __future__ import annotations

import gc
import random
import time
from typing import Any

import torch
from bench import serve

torch.set_num_threads(1)
torch.manual_seed(0)
WIDTH, LEAVES = 16, 32
words = torch.randn(LEAVES, WIDTH)
left, right = (torch.nn.Parameter(torch.randn(WIDTH, WIDTH) / 8) for _ in range(2))
rng = random.Random(0)


class Forest:
    """Random binary trees over rows of `words`: how many ops they have been so far."""

    def __init__(self) -> None:
        self.ops = 0

    def tree(self, n: int) -> torch.Tensor:
        """The state (1, 16) of a random tree of n leaves."""
        if n == 1:
            self.ops += 1
            i = rng.randrange(LEAVES)
            return words[i : i + 1]
        k = rng.randint(1, n - 1)
        a, b = self.tree(k), self.tree(n - k)
        self.ops += 4
        return torch.tanh(a @ left + b @ right)


def answer(ops: int) -> dict[str, Any]:
    """Record so many ops, then compute them and their gradients: processor seconds of each."""
    left.grad = right.grad = None
    gc.collect()
    forest, roots = Forest(), []
    start = time.process_time()
    while forest.ops < ops:
        roots.append(forest.tree(rng.randint(5, 40)))
    parts = [torch.cat(roots[i : i + 500]) for i in range(0, len(roots), 500)]
    loss = torch.cat(parts).square().mean()
    recorded = time.process_time()
    loss.backward()
    value = loss.item()
    end = time.process_time()
    del roots, parts, loss
    return {
        "ops": forest.ops,
        "recording": recorded - start,
        "computing": end - recorded,
        "freeing": time.process_time() - end,
        "loss": value,
    }


serve(answer)
