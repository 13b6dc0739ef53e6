"""Attention with published masks and changes of scores, beside PyTorch's eager `flex_attention`.

python benchmarks/flex_attention.py
WEND_CPU=avx2 python benchmarks/flex_attention.py --length 2048

PyTorch's function has no backward pass on CPUs. So training is compared with the composition that
PyTorch's eager function runs, with gradients. One thread, processor time of a call in steady state,
all sides in one process, taking turns.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from bench import publish

BATCH, HEADS, WIDTH = 2, 8, 64
SIDES = ("wend", "torch")


def functions(torch: Any, tensor: Callable[[np.ndarray], Any], length: int) -> dict[str, Any]:
    """(change of scores, mask) by name, each None or a function."""
    rng = np.random.default_rng(0)
    document = tensor(np.sort(rng.integers(0, max(2, length // 256), size=length)))
    slopes = tensor((2.0 ** (-8 * np.arange(1, HEADS + 1) / HEADS)).astype(np.float32))

    def causal(b: Any, h: Any, q: Any, kv: Any) -> Any:
        return q >= kv

    def window(b: Any, h: Any, q: Any, kv: Any) -> Any:
        return (q >= kv) & (q - kv <= 256)

    def prefix(b: Any, h: Any, q: Any, kv: Any) -> Any:
        return (kv < 128) | (q >= kv)

    def documents(b: Any, h: Any, q: Any, kv: Any) -> Any:
        return (document[q] == document[kv]) & (q >= kv)

    def alibi(s: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
        return s + slopes[h] * (kv - q)

    def capped(s: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
        return 20 * torch.tanh(s / 20)

    return {
        "causal": (None, causal),
        "sliding window": (None, window),
        "prefix": (None, prefix),
        "documents": (None, documents),
        "alibi": (alibi, causal),
        "capped scores": (capped, causal),
    }


def composed(
    torch: Any, query: Any, key: Any, value: Any, score: Any, mask: Any, length: int
) -> Any:
    """The eager composition, which has gradients."""
    scores = query @ key.transpose(-1, -2) / math.sqrt(WIDTH)
    places = [
        torch.arange(n).reshape([-1 if d == e else 1 for e in range(4)])
        for d, n in enumerate(scores.shape)
    ]
    if score is not None:
        scores = score(scores, *places)
    if mask is not None:
        scores = scores.masked_fill(~mask(*places), -math.inf)
    return torch.softmax(scores, -1) @ value


def calls(torch: Any, name: str, length: int, training: bool) -> dict[str, Callable[[], Any]]:
    """A step of each kind of attention."""
    rng = np.random.default_rng(1)
    tensor = torch.tensor if name == "wend" else torch.from_numpy
    arrays = [rng.normal(size=(BATCH, HEADS, length, WIDTH)).astype(np.float32) for _ in range(3)]
    rows = [tensor(a).requires_grad_(training) for a in arrays]
    module = __import__(f"{torch.__name__}.nn.attention.flex_attention", fromlist=["x"])
    found: dict[str, Callable[[], Any]] = {}
    for kind, (score, mask) in functions(torch, tensor, length).items():
        block = None
        if mask is not None:
            block = module.create_block_mask(mask, None, None, length, length, device="cpu")

        def forward(score: Any = score, mask: Any = mask, block: Any = block) -> Any:
            if training and name == "torch":
                return composed(torch, *rows, score, mask, length)
            return module.flex_attention(*rows, score_mod=score, block_mask=block)

        def step(forward: Callable[[], Any] = forward) -> Any:
            y = forward()
            if not training:
                return y.detach().numpy()
            for x in rows:
                x.grad = None
            y.square().sum().backward()
            return np.stack([x.grad.numpy() for x in rows])

        found[kind] = step
    return found


def measure(length: int, training: bool, turns: int) -> list[dict[str, Any]]:
    """A row per kind: milliseconds of each side, and the greatest difference of results."""
    import torch

    import wend

    torch.set_num_threads(1)
    wend.set_num_threads(1)
    sides = {name: calls(m, name, length, training) for name, m in zip(SIDES, (wend, torch))}
    rows = []
    for kind in sides["wend"]:
        steps = [sides[name][kind] for name in SIDES]
        for _ in range(8):
            steps[0]()
        wend.synchronize()
        results = [step() for step in steps]
        times: list[list[float]] = [[], []]
        for _ in range(turns):
            for k, step in enumerate(steps):
                start = time.process_time()
                step()
                times[k].append(time.process_time() - start)
        ours, theirs = (1e3 * min(t) for t in times)
        rows.append(
            {
                "kind": kind,
                "length": length,
                "training": training,
                "wend ms": round(ours, 2),
                "torch ms": round(theirs, 2),
                "times faster": round(theirs / ours, 2),
                "difference": float(np.abs(results[0] - results[1]).max()),
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [
        row
        for training in (False, True)
        for row in measure(options.length, training, options.turns)
    ]
    publish("flex_attention", rows, list(rows[0]))


if __name__ == "__main__":
    main()
