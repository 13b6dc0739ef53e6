"""Complex numbers: time of chains of ops over PyTorch's, one thread, processor time.

    python benchmarks/complex_loops.py [elements ...]

Each line is the least of seven rounds, of both libraries in turn.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import wend

CHAINS: dict[str, Callable[[Any, Any], Any]] = {
    "(x * y + x) * y - y": lambda x, y: (x * y + x) * y - y,
    "(x * y).sum()": lambda x, y: (x * y).sum(),
    "x / y": lambda x, y: x / y,
    "x.exp()": lambda x, y: x.exp(),
    "x.abs() * 2": lambda x, y: x.abs() * 2,
    "(x * y.conj()).real.sum()": lambda x, y: (x * y.conj()).real.sum(),
}


def least(run: Callable[[], Any], rounds: int, turns: int) -> float:
    """Seconds of processor time of a turn."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(turns):
            run()
        found.append((time.process_time() - start) / turns)
    return min(found)


def main(sizes: list[int]) -> None:
    """Print a line per dtype, size and chain."""
    torch.set_num_threads(1)
    wend.set_num_threads(1)
    rng = np.random.default_rng(0)
    for dtype in (np.complex64, np.complex128):
        for size in sizes:
            a = (rng.normal(size=size) + 1j * rng.normal(size=size)).astype(dtype)
            for name, chain in CHAINS.items():
                times = []
                for library in (wend, torch):
                    x, y = library.from_numpy(a), library.from_numpy(a[::-1].copy())

                    def run(x: Any = x, y: Any = y, chain: Any = chain) -> None:
                        chain(x, y).numpy()

                    turns = max(1, 200_000 // size)
                    least(run, 8, turns)
                    time.sleep(0.5)  # a compiler in the background ends meanwhile
                    times.append(least(run, 7, turns))
                mine, theirs = (t * 1e6 for t in times)
                print(
                    f"{np.dtype(dtype)} {size:>8} {name:28} {mine:9.1f} us, PyTorch "
                    f"{theirs:9.1f} us, ratio {mine / theirs:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main([int(n) for n in sys.argv[1:]] or [1_000, 1_000_000])
