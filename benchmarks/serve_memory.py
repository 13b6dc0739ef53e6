"""One side of ``memory.py``: a long loop, and how much memory the process holds along it."""

from __future__ import annotations

import gc
import os
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from bench import serve

sys.path.insert(0, str(Path(__file__).resolve().parent / "workloads"))

import common

torch.set_num_threads(1)


def resident() -> float:
    """Return the process's resident memory in MB (its peak, where the system tells only that)."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6
    scale = 1 if sys.platform == "darwin" else 1000
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 1e6


def unread() -> Iterator[None]:
    """A running value that is never read."""
    x, y = torch.zeros(8), torch.ones(8)
    while True:
        x = x * 0.5 + y
        yield


def unread_training() -> Iterator[None]:
    """A training step, of one size or another, whose loss nobody reads."""
    weight = torch.ones(4, 4, requires_grad=True)
    n = 0
    while True:
        n += 1
        x = torch.full((1 + n % 5, 4), 0.5)
        torch.tanh(x @ weight).mean().backward()
        with torch.no_grad():
            weight -= 0.01 * weight.grad
        weight.grad = None
        yield


def resized() -> Iterator[None]:
    """A training step whose sizes are never the same twice."""
    weight = torch.ones(1, requires_grad=True)
    n = 0
    while True:
        n += 1
        x = torch.full((1 + n % 47, 1 + n % 53, 1 + n % 43), 0.5)  # 107 113 before one returns
        loss = torch.tanh(x * weight).mean()
        loss.backward()
        loss.item()
        with torch.no_grad():
            weight -= 0.01 * weight.grad
        weight.grad = None
        yield


def restructured() -> Iterator[None]:
    """A training step whose ops come in an order that is never the same twice."""
    rng = random.Random(0)
    weight = torch.ones(4, 4, requires_grad=True)
    while True:
        x = weight
        for _ in range(12):
            turn = rng.randrange(5)
            if turn == 0:
                x = x * weight
            elif turn == 1:
                x = torch.tanh(x)
            elif turn == 2:
                x = x + 0.5
            elif turn == 3:
                x = x @ weight
            else:
                x = torch.sigmoid(x)
        loss = x.mean()
        loss.backward()
        loss.item()
        with torch.no_grad():
            weight -= 0.01 * weight.grad
        weight.grad = None
        yield


def parsed() -> Iterator[None]:
    """A training step over a tree that a stack makes, of one of 60 million shapes."""
    rng = random.Random(0)
    torch.manual_seed(0)
    cells = [torch.nn.Linear(16, 8) for _ in range(2)]
    head = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD([p for net in (*cells, head) for p in net.parameters()], lr=0.01)
    while True:
        waiting = list(torch.randn(rng.randint(4, 10), 1, 8))
        stack: list[Any] = []
        while waiting or len(stack) > 1:
            if len(stack) > 1 and (not waiting or rng.random() < 0.5):
                right, left = stack.pop(), stack.pop()
                cell = cells[rng.randrange(2)]
                stack.append(torch.tanh(cell(torch.cat([left, right], 1))))
            else:
                stack.append(waiting.pop())
        optimizer.zero_grad()
        loss = head(stack[0]).square().mean()
        loss.backward()
        optimizer.step()
        loss.item()
        yield


LOOPS: dict[str, Callable[[], Iterator[None]]] = {
    "reads no value": unread,
    "trains, reads no value": unread_training,
    "sizes always change": resized,
    "structure never repeats": restructured,
    "trees of new shapes": parsed,
}


def answer(loop: str, iterations: int, warm_up: int) -> dict[str, Any]:
    """Run a loop; return the memory after the warm-up, at the end, and the most in between.

    Also the milliseconds of a step in the first tenth and in the last.
    What makes code of a path takes memory once: it has come to rest when the warm-up ends.
    """
    step = LOOPS[loop]()
    for _ in range(4):
        for _ in range(warm_up):
            next(step)
        common.come_to_rest()
    gc.collect()
    start = most = resident()
    marks = [time.process_time()]
    for i in range(iterations):
        next(step)
        if i % 1000 == 999:
            most = max(most, resident())
            marks.append(time.process_time())
    gc.collect()
    turns = max(1, (len(marks) - 1) // 10)  # a tenth
    return {
        "start": start,
        "end": resident(),
        "most": most,
        "first": (marks[turns] - marks[0]) / turns if len(marks) > turns else None,
        "last": (marks[-1] - marks[-1 - turns]) / turns if len(marks) > turns else None,
    }


serve(answer)
