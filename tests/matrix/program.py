"""Runs a case of the matrix by Wend, counted, and by PyTorch; without PyTorch, by the reference.

`forked.py` gives each case a process of its own.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "guard"))

import counting

import wend
from matrix.cases import Case, parsed
from matrix.layers import Sizes
from training.apart import distance
from training.tasks import fill
from tries import own_trie
from wend._engine.base import config

#: Steps of a case, and those before the counted ones.
STEPS, BEFORE = 30, 10
#: Batches that come back.
BATCHES = 3
#: Processor time of a case.
SECONDS = 25
#: Greatest difference from PyTorch, relative to the largest number of a tensor. See
#: `training.compare`.
TOLERANCE = 1e-4

HAS_TORCH = importlib.util.find_spec("torch") is not None


def batches_of(case: Case) -> list[list[np.ndarray]]:
    """The arrays of each step."""
    rng = np.random.default_rng(5)
    shortest = max(1, int(case.length) // 2)

    def draw(length: int) -> list[np.ndarray]:
        return case.kind.draw(rng, Sizes(length, int(case.batch), int(case.width)))

    if case.order == "fixed":
        return [draw(int(case.length)) for _ in range(STEPS)]
    if case.order == "varying":
        return [draw(int(n)) for n in rng.integers(shortest, int(case.length) + 1, STEPS)]
    lengths = rng.permutation(np.arange(shortest, int(case.length) + 1))[:BATCHES]
    kept = [draw(int(n)) for n in lengths]
    turns = range(STEPS // BATCHES)
    if case.order == "repeated":
        return [kept[k] for _ in turns for k in range(BATCHES)]
    return [kept[k] for _ in turns for k in rng.permutation(BATCHES)]


def optimizers_of(t: Any, net: Any, mode: str) -> list[Any]:
    """AdamW's epsilon is far above rounding: gradients that are 0 are not turned into steps."""
    own = list(net["layer"].parameters())
    rest = [p for name, p in net.named_parameters() if not name.startswith("layer.")]
    if mode == "sgd":
        return [t.optim.SGD(own + rest, lr=0.1)]
    if not getattr(net["layer"], "sparse", False):
        return [t.optim.AdamW(own + rest, lr=2e-3, eps=1e-3)]
    sparse = t.optim.SparseAdam(own, lr=2e-3, eps=1e-3)
    return [sparse, t.optim.AdamW(rest, lr=2e-3, eps=1e-3)]


def run(t: Any, case: Case, after_step: Any = None) -> dict[str, Any]:
    """Run all steps; returns losses, and the scores of the last step or the trained parameters."""
    kind = case.kind
    net = fill(t, kind.make(t, case.sizes), "float32", seed=3)
    training = case.mode != "inference"
    net.train(training)
    optimizers = optimizers_of(t, net, case.mode) if training else []
    losses = []
    for k, arrays in enumerate(batches_of(case)):
        *given, classes = map(t.from_numpy, arrays)
        with t.set_grad_enabled(training):
            scores = kind.scores(t, net, *given)
            loss = t.nn.functional.cross_entropy(scores, classes)
        for optimizer in optimizers:
            optimizer.zero_grad()
        if training:
            loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
        if after_step is not None:
            after_step(k + 1)
    found = {"losses": np.array(losses), "scores": scores.detach().numpy()}
    return found | {name: p.detach().numpy() for name, p in net.state_dict().items()}


def apart(ours: dict[str, Any], theirs: dict[str, Any]) -> tuple[float, str]:
    """The greatest difference, and where it is."""
    assert ours.keys() == theirs.keys()
    return max((distance(ours[name], theirs[name])[0], name) for name in theirs)


def counts_of(name: str) -> dict[str, Any]:
    """The counts after the tenth step, those of all steps, and how far PyTorch is away."""
    case = parsed(name)
    counting.install()
    wend.synchronize()
    built, at = counting.paths(), {}

    def after_step(k: int) -> None:
        if k in (BEFORE, STEPS):
            wend.synchronize()
            at[k] = counting.snapshot()

    ours = run(wend, case, after_step)
    start, end = at[BEFORE], at[STEPS]
    found: dict[str, Any] = {
        "reference": end["reference"] - start["reference"],
        "kernels": end["kernels"] - start["kernels"],
        "flushes": end["flushes"] - start["flushes"],
        "planning": end["planning"],
        "planned": end["planned"],
        "modules": end["modules"],
        "paths": counting.paths() - built,
        "memory": counting.MOST["memory"],
    }
    found["apart"], found["where"] = apart(ours, judged(case))
    return found


def judged(case: Case) -> dict[str, Any]:
    """The case's right results."""
    if HAS_TORCH:
        import torch

        torch.set_num_threads(1)
        return run(torch, case)
    with config.override(compile=False, autobatch=False), own_trie():
        return run(wend, case)


if HAS_TORCH:  # before processes are forked, once for all
    import torch  # noqa: F401
