"""One side of ``chains.py``: row-wise chains, elementwise chains and attention, both passes."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "workloads"))

import common
import numpy as np
import torch
import torch.nn.functional as F
from bench import serve
from written_attention import written

torch.set_num_threads(1)
ROWS, COLUMNS, MANY = 4096, 1024, 1 << 24
rng = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    """A tensor that requires grad."""
    return torch.from_numpy(rng.normal(size=shape).astype(np.float32)).requires_grad_()


def both(function: Callable[..., Any], *leaves: Any) -> Callable[[], float]:
    """Forward and backward of function(*leaves), against a fixed gradient."""
    with torch.no_grad():
        shape = tuple(function(*leaves).shape)
    g = torch.from_numpy(np.asarray(rng.normal(size=shape), np.float32))

    def run() -> float:
        grads = torch.autograd.grad(function(*leaves), leaves, g)
        return sum(float(x.reshape(-1)[0]) for x in grads)

    return run


def elementwise(function: Callable[..., Any]) -> Callable[[], float]:
    """A chain over many elements, forward only."""
    x, y = normal(MANY).detach(), normal(MANY).detach()

    def run() -> float:
        made = function(x, y)  # wanted as a whole: it is still there when its first element is read
        return float(made[0])

    return run


def attention(batch: int, heads: int, length: int, width: int, causal: bool) -> Any:
    """Scaled dot-product attention."""
    q, k, v = (normal(batch, heads, length, width) for _ in range(3))
    return both(lambda *x: F.scaled_dot_product_attention(*x, is_causal=causal), q, k, v)


def chain(name: str) -> Callable[[], float]:
    """The function that is measured."""
    if name.startswith("attention"):
        sizes = [int(n) for n in name.split()[1:5]]
        return attention(*sizes[:4], "causal" in name)
    if name.startswith("written"):
        way, *sizes = name.split()[1:]
        function, leaves = written(normal, way, [int(n) for n in sizes])
        return both(function, *leaves)
    if name in ELEMENTWISE:
        return elementwise(ELEMENTWISE[name])
    x, w, b = normal(ROWS, COLUMNS), normal(COLUMNS), normal(COLUMNS)
    image, weight, bias = normal(16, 64, 32, 128), normal(64), normal(64)
    target = torch.from_numpy(rng.integers(0, COLUMNS, ROWS))
    calls: dict[str, Callable[[], float]] = {
        "softmax": both(lambda x: torch.softmax(x, 1), x),
        "log_softmax": both(lambda x: torch.log_softmax(x, 1), x),
        "cross_entropy": both(lambda x: F.cross_entropy(x, target), x),
        "layer_norm": both(lambda *p: F.layer_norm(p[0], (COLUMNS,), *p[1:]), x, w, b),
        "rms_norm": both(lambda *p: F.rms_norm(p[0], (COLUMNS,), p[1]), x, w),
        "batch_norm": both(
            lambda *p: F.batch_norm(p[0], None, None, p[1], p[2], True), image, weight, bias
        ),
        "group_norm": both(lambda *p: F.group_norm(p[0], 8, *p[1:]), image, weight, bias),
        "column sums": both(lambda *p: p[0] + p[1], x, b),
        "max_pool 3 2 1": both(lambda x: F.max_pool2d(x, 3, 2, 1), image),
        "avg_pool 2": both(lambda x: F.avg_pool2d(x, 2), image),
        "unfold 3": both(lambda x: F.unfold(x, 3), image),
    }
    return calls[name]


ELEMENTWISE = {
    "x * 2 + 1": lambda x, y: x * 2 + 1,
    "tanh(x * y) + y": lambda x, y: torch.tanh(x * y) + y,
    "copy": lambda x, y: x.clone(),
}
known: dict[str, Callable[[], float]] = {}


def answer(name: str, turns: int) -> dict[str, Any]:
    """Milliseconds of a call, the best of some turns, and the process's most memory in MB."""
    if name not in known:
        known[name] = chain(name)
        for _ in range(5):
            known[name]()
            common.come_to_rest()
    times = []
    for _ in range(turns):
        start = time.process_time()
        found = known[name]()
        times.append(1000 * (time.process_time() - start))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return {"ms": min(times), "result": found, "most": most}


if __name__ == "__main__":
    serve(answer)
