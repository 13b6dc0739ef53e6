"""One side of ``recording.py``: times what a line of the program costs while it is recorded.

With Wend a line is recorded and computed later; what is timed ends before anything is computed.
With PyTorch the same line computes. Values are made and read outside of the timed part.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import random
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from bench import serve
from torch import nn

torch.set_num_threads(1)
LINES = 64  # of a timed part: fewer than any budget of pending work
clock = time.thread_time_ns  # what neighbours on a busy machine take is not counted

# What the twelve kinds of line are, given x and y (8, 8), m (8, 8) of bool, i an int.
KINDS = {
    "scalar operand": "x * 1.5",
    "two tensors": "x + y",
    "matmul": "x @ y",
    "x[:, i]": "x[:, i]",
    "sum(dim=...)": "x.sum(dim=1)",
    "cat": "torch.cat((x, y))",
    "reshape": "x.reshape(4, 16)",
    "in place": "z.add_(y)",
    "keyword arguments": "torch.clamp(x, min=-1.0, max=1.0)",
    "composite": "F.softmax(x, dim=1)",
    "where": "torch.where(m, x, y)",
    "cast": "x.to(torch.float64)",
}
# Those of them that say most about new sizes: one output extent, two, and one that is reduced.
RESIZED = ["scalar operand", "two tensors", "sum(dim=...)", "cat", "where"]


@functools.cache  # a program's lines stay the same lines, pass after pass
def unrolled(line: str, count: int = LINES) -> Callable[..., Any]:
    """Return a function of (x, y, z, m, i) that runs a line so many times and returns the last."""
    body = "\n".join(f"    r = {line}" for _ in range(count))
    space = {"torch": torch, "F": F}
    exec(f"def run(x, y, z, m, i):\n{body}\n    return r\n", space)
    run: Callable[..., Any] = space["run"]
    return run


def inputs(gradient: bool, *shape: int) -> tuple[Any, ...]:
    """Return (x, y, z, m, i), computed; x and y ask for a gradient or not."""
    x, y = (torch.rand(*(shape or (8, 8))).requires_grad_(gradient) for _ in range(2))
    z = torch.zeros(*(shape or (8, 8)))
    m = torch.ones(*(shape or (8, 8)), dtype=torch.bool)
    for value in (x, y, z, m):
        read(value)
    return x, y, z, m, 3


def read(value: torch.Tensor) -> None:
    """Have everything that is pending computed."""
    value.detach().sum().item()


def timed(part: Callable[[], Any], repeats: int, after: Callable[[Any], None] = read) -> float:
    """Return the median nanoseconds of a part; what it returns is read between the repeats."""
    times = []
    for _ in range(repeats):
        start = clock()
        result = part()
        times.append(clock() - start)
        after(result)
        del result
    return statistics.median(times)


def known(kind: str, gradient: bool, repeats: int) -> float:
    """Return the nanoseconds of a line on a path that was taken before."""
    run, given = unrolled(KINDS[kind]), inputs(gradient)
    timed(lambda: run(*given), 10)
    return timed(lambda: run(*given), repeats) / LINES


def fresh(used: list[bool], shape: tuple[int, ...]) -> list[Any]:
    """Return those of (x, y, z, m, i) that a line uses, computed, of a shape not seen before."""
    made = [
        (torch.ones(shape, dtype=torch.bool) if name == "m" else torch.rand(shape)) if use else None
        for name, use in zip("xyzmi", used, strict=True)
    ]
    for value in made:
        if value is not None:
            value.sum().item()
    return made


# Enough for all passes of all kinds; small, so that making them leaves something in the caches.
_shapes = itertools.product(range(2, 12), repeat=4)


def resized(kind: str, repeats: int) -> float:
    """Return the nanoseconds of a line whose operands have sizes never seen before.

    The program is at work: as many lines of a known size go before, not timed.
    """
    run, idle = unrolled(KINDS[kind], 1), unrolled("x", 1)
    used = [name in re.findall(r"\w+", KINDS[kind]) for name in "xyzmi"]
    times, usual = [], fresh(used, (8, 8, 8, 8))
    for _ in range(repeats):
        given = [fresh(used, next(_shapes)) for _ in range(LINES // 2)]
        before = [run(*usual) for _ in given]
        start = clock()
        kept = [run(*values) for values in given]
        between = clock()
        for values in given:
            idle(*values)
        times.append((2 * between - start - clock()) / len(given))
        for value in before + kept:
            value.sum().item()
        del value, before, kept  # freeing what was computed is no part of the next repeat
    return statistics.median(times)


OPS: list[Callable[..., Any]] = [
    torch.add, torch.mul, torch.sub, torch.maximum, torch.minimum, torch.matmul,
    lambda a, b: torch.tanh(a), lambda a, b: torch.exp(-b), lambda a, b: a.T, lambda a, b: a * 0.5,
]  # fmt: skip


_rng = random.Random(0)  # one for the whole process: a structure must not come in a later pass


def random_structure(count: int) -> list[tuple[Any, int, int]]:
    """Return (op, operand, operand) for so many ops, operands among the last eight values."""
    return [
        (_rng.choice(OPS), *(_rng.randrange(max(0, n - 6), n + 2) for _ in "ab"))
        for n in range(count)
    ]


SETTLING = 40  # programs after which it is known that nothing comes back


def never_repeating(repeats: int, backward: bool) -> float:
    """Return the nanoseconds an op of programs that are never the same, 200 ops each.

    So many programs go before that it is known, not timed.
    backward: time the recording of the gradients as well.
    """
    x, y, *_ = inputs(backward)
    times = []
    for _ in range(SETTLING + repeats):
        plan = random_structure(200)
        idle = [None, None]
        start = clock()
        for _, a, b in plan:
            nothing(idle[a % 2], idle[b % 2])
        between, spent = clock(), executing.spent
        values = [x, y]
        for op, a, b in plan:
            values.append(op(values[a], values[b]))
        loss = values[-1].sum() + values[-2].sum()
        if backward:
            loss.backward()
        took = clock() - between - (executing.spent - spent)
        times.append((took - (between - start)) / len(plan))
        read(loss)
        x.grad = y.grad = None
        del values, loss  # freeing what was computed is no part of the next repeat
    return statistics.median(times[SETTLING:])


def nothing(a: Any, b: Any) -> None:
    """Cost a call."""


def trees(repeats: int) -> dict[str, float]:
    """Return nanoseconds an op of a TreeLSTM's forward pass: what its lines cost, Python and all.

    With Wend also what it costs to sort what was recorded into groups, and both together.
    """
    sys.path.insert(0, str(Path(__file__).resolve().parent / "workloads"))
    tree_lstm: Any = importlib.import_module("tree_lstm")
    workload, found = tree_lstm.TreeLstmWorkload(), []
    for k in itertools.count():
        if len(found) == repeats:
            break
        given, arrays, classes = workload.batch()
        words, target = [torch.from_numpy(w) for w in arrays], torch.from_numpy(classes)
        n = sum(map(ops_of_tree, given)) + 2
        start = clock()
        loss = F.cross_entropy(torch.cat(list(map(workload.model, given, words))), target)
        lines = (clock() - start) / n
        if k >= 6 and not leaves_sorting():  # by then it is known that sentences do not come back
            found.append((lines, scheduling(loss) / n))
        loss.backward()
        workload.optimizer.zero_grad()
        read(loss)
    lines, sorting = (statistics.median(column) for column in zip(*found))
    return {"lines": lines, "sorting": sorting, "both": lines + sorting}


def ops_of_tree(tree: Any) -> int:
    """How many ops the TreeLSTM calls for a sentence, the embedding and the scores included."""

    def count(node: Any) -> int:
        return 9 if isinstance(node, int) else 15 + count(node[0]) + count(node[1])

    return 2 + count(tree)


def leaves_sorting() -> bool:
    """Whether the lines timed before were too new: Wend sorts nothing for some flushes then."""
    if "+wend" not in torch.__version__:
        return False
    return importlib.import_module("wend._engine.runtime.batching.signatures").BOOK.pause > 0


def scheduling(loss: Any) -> float:
    """Nanoseconds in which Wend sorts into groups what is pending; 0 for PyTorch."""
    if "+wend" not in torch.__version__:
        return 0.0
    hot, execution = map(
        importlib.import_module, ("wend._engine.core._hot", "wend._engine.runtime.batching.forward")
    )
    trace, at = hot.current_trace(), hot.value_of(loss).index
    batch = hot.FlushJob(trace.states, trace.values, trace.args, None, None, 0, [], None)
    start = clock()
    forward = execution.Forward(batch)
    forward.mark([at], [at])
    forward.sorter.order(forward.book.flushes // execution.TERM)
    return clock() - start


def new_path(repeats: int) -> float:
    """Return the nanoseconds an op of a 40-op program seen for the first time, with backward."""
    x, y, *_ = inputs(True)
    times = []
    for _ in range(repeats):
        plan = random_structure(40)
        start, spent = clock(), executing.spent
        values = [x, y]
        for op, a, b in plan:
            values.append(op(values[a], values[b]))
        (values[-1].sum() + values[-2].sum()).backward()
        times.append((clock() - start - (executing.spent - spent)) / len(plan))
        for value in (x, y):
            if value.grad is not None:
                read(value.grad)
        x.grad = y.grad = None
    return statistics.median(times)


# --- backward over 40 ops ------------------------------------------------------


def chain(x: Any, y: Any) -> Any:
    """Forty elementwise ops in a row."""
    for _ in range(10):
        x = torch.tanh(x * y + y) - y
    return x


def layers(x: Any, y: Any) -> Any:
    """Twenty products, each with an activation."""
    for _ in range(20):
        x = torch.relu(x @ y)
    return x


def rows(x: Any, y: Any) -> Any:
    """Rows taken out, changed, and put together again: 8 times (select, mul, add, exp), stack."""
    picked = [torch.exp(x[i] * y[i] + 1) for i in range(7)]
    return torch.stack(picked)


def reductions(x: Any, y: Any) -> Any:
    """Means and softmaxes: 10 times (mean, subtract, softmax, add)."""
    for _ in range(10):
        x = torch.softmax(x - x.mean(dim=1, keepdim=True), dim=1) + y
    return x


def mixed(x: Any, y: Any) -> Any:
    """Reshape, transpose, where, cat: 10 times four ops."""
    for _ in range(10):
        x = torch.where(y > 0.5, x.T.reshape(8, 8), y)
    return x


PROGRAMS = {p.__name__: p for p in (chain, layers, rows, reductions, mixed)}


class Executing:
    """Sums the time that Wend computes in, to tell a flush's own bookkeeping from its work.

    Also that of `backward()`, which computes what never repeats at once.
    """

    def __init__(self) -> None:
        self.spent = 0
        if "wend" not in torch.__version__:
            return
        from wend._engine.core import _hot
        from wend._engine.runtime import flush as plans

        def execute(batch: Any, live: list[int]) -> None:
            start = clock()
            if not plans.run_regions(batch, live):
                plans.forget(batch.states)
                self.spent += clock() - start
                return
            plan = plans.find_plan(batch, live)
            start = clock()
            plan.run(batch)
            self.spent += clock() - start

        _hot.set_slot("execute", execute)


executing = Executing()


def backward(program: str, repeats: int) -> dict[str, float]:
    """Return the nanoseconds of ``backward()`` on a known path, and of the flush after that.

    flush: from the read to its result; bookkeeping: of that, what is not a plan's execution.
    """
    x, y, *_ = inputs(True)
    found: dict[str, list[int]] = {"backward": [], "flush": [], "bookkeeping": []}
    for _ in range(repeats + 10):
        loss = PROGRAMS[program](x, y).sum()
        executing.spent = 0
        start = clock()
        loss.backward()
        between = clock()
        loss.item()
        flush = clock() - between
        found["backward"].append(between - start)
        found["flush"].append(flush)
        found["bookkeeping"].append(flush - executing.spent)
        x.grad = y.grad = None
    return {name: statistics.median(times[10:]) for name, times in found.items()}


class Identity(nn.Module):
    """Does nothing, so that a call costs the call."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))

    def forward(self, x: Any) -> Any:
        return x


def module(line: str, repeats: int) -> float:
    """Return the nanoseconds of a line about a module x."""
    run, idle, given = unrolled(line, 1000), unrolled("y", 1000), (Identity(), 1, 0, 0, 0)
    empty = timed(lambda: idle(*given), repeats, lambda result: None)
    return (timed(lambda: run(*given), repeats, lambda result: None) - empty) / 1000


def answer(do: str, **given: Any) -> Any:
    """Do one measurement."""
    return {
        "known": known,
        "resized": resized,
        "never_repeating": never_repeating,
        "trees": trees,
        "new_path": new_path,
        "backward": backward,
        "module": module,
    }[do](**given)


if __name__ == "__main__":
    serve(answer)
