"""Random graphs of loops, and what a schedule makes of them, compared with the unscheduled graph.

    python tests/compiler/loop_graphs.py --graphs 2000 --seed 1

A program of a seed draws elementwise ops, folds, scatters, views, lookups and products over leaves
of a few shapes, often with its gradient. What each pass makes of its path is run by `interpreter`,
and each of the values that the program keeps has to be that of the nodes' reference rules. Three
sizes are tried with the same code, of which only the first was met when it was made.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from interpreter import Machine  # noqa: E402

import wend as torch  # noqa: E402
from tries import own_trie  # noqa: E402
from wend._engine.base import config  # noqa: E402
from wend._engine.compiler.pipeline import Watch, compile_path  # noqa: E402
from wend._engine.compiler.stages import finished  # noqa: E402
from wend._engine.core import _hot, _types  # noqa: E402
from wend._engine.runtime import flush  # noqa: E402
from wend._engine.runtime.numpy_executor.runners import runner_of  # noqa: E402

#: How far two orders of sums may be apart, by bytes of a float.
TOLERANCE = {4: 2e-4, 8: 1e-9}


class Visit(NamedTuple):
    """A flush: its plan, the nodes at the first visit, needed values, and arrays of leaves."""

    plan: Any
    path: Any
    needed: frozenset[int]
    types: list[Any]
    args: list[Any]
    leaves: dict[int, Any]


class Program:
    """A random program over leaves of shapes (n, m), (m,), (n, 1), (n, m, k) and an index."""

    def __init__(self, seed: int, count: int = 14) -> None:
        self.seed, self.count = seed, count
        rng = np.random.default_rng(seed)
        self.backward = bool(rng.random() < 0.5)
        self.alike = bool(rng.random() < 0.3)  # two extents agree, which proves nothing

    def leaves(self, turn: int) -> tuple[list[Any], Any]:
        """Return the leaves of a visit, and an index into rows."""
        rng = np.random.default_rng((self.seed, turn))
        n, m, k = (int(x) for x in rng.integers(2, 6, 3))
        n = m if self.alike else n
        shapes = [(n, m), (m,), (n, 1), (n, m, k), (n, m)]
        leaves = [torch.tensor(rng.uniform(-1, 1, shape)) for shape in shapes]
        return leaves, torch.tensor(rng.integers(0, n, m))

    def run(self, turn: int) -> list[Any]:
        """Record the program; returns what it keeps."""
        rng = np.random.default_rng((self.seed, 99))
        leaves, index = self.leaves(turn)
        if self.backward:
            for leaf in leaves:
                leaf.requires_grad_()
        draw = Draw(rng, leaves, index)
        for _ in range(self.count):
            draw.step()
        made = draw.values[len(leaves) :]
        kept = [made[-1], *(made[int(rng.integers(len(made)))] for _ in range(3))]
        if self.backward:
            loss = sum((v * v).mean() for v in kept)
            found = torch.autograd.grad(loss, leaves, allow_unused=True)
            kept = [*kept[:1], *(g for g in found if g is not None)]
        return kept


class Draw:
    """Draws ops over the values so far. All values stay small; no choice hangs by a rounding."""

    def __init__(self, rng: Any, leaves: list[Any], index: Any) -> None:
        self.rng, self.values, self.index = rng, list(leaves), index
        self.table, self.wide, self.rows = leaves[0], leaves[3], leaves[0].shape[0]

    def any(self, rank: int = 0) -> Any:
        """Return a value of at least this rank, a late one rather than an early one."""
        fit = [v for v in self.values if v.dim() >= rank and v.is_floating_point()]
        return fit[-1 - min(int(self.rng.exponential(3)), len(fit) - 1)]

    def dim(self, x: Any) -> int:
        return int(self.rng.integers(x.dim()))

    def alike(self, x: Any) -> Any:
        """Return a value that broadcasts to x: one of its shape, a fold of it, or a number."""
        same = [v for v in self.values if v.shape == x.shape and v.is_floating_point()]
        if self.rng.random() < 0.6:
            return same[int(self.rng.integers(len(same)))]
        if x.dim() and self.rng.random() < 0.7:
            return x.mean(self.dim(x), keepdim=True)
        return float(self.rng.uniform(0.5, 1.5))

    def step(self) -> None:
        names = [name for name in vars(Draw) if name.startswith("op_")]
        made = getattr(self, names[int(self.rng.integers(len(names)))])()
        if made.dim() <= 4:
            self.values.append(made)

    def op_map(self) -> Any:
        x, kind = self.any(), int(self.rng.integers(6))
        functions = (
            torch.tanh, torch.sigmoid, lambda x: x * 0.5, lambda x: 1 - x,
            lambda x: torch.exp(torch.tanh(x)), lambda x: (x * x + 1).reciprocal(),
        )  # fmt: skip
        return functions[kind](x)

    def op_pair(self) -> Any:
        x = self.any()
        y, kind = self.alike(x), int(self.rng.integers(4))
        if kind == 3:
            return torch.where(self.table.sum() > -1e6, x, x + y)
        return (x + y, x - y, x * y)[kind]

    def op_grow(self) -> Any:
        """Repeat a value along a dim that it does not have, beside a leaf; fold it as well."""
        fit = [v for v in self.values if v.shape == self.table.shape and v.is_floating_point()]
        x = fit[-1 - min(int(self.rng.exponential(2)), len(fit) - 1)]
        x = torch.tanh(x) if self.rng.random() < 0.5 else x
        self.values.append(x.sum(self.dim(x)))
        return x.unsqueeze(-1) * self.wide

    def op_cast(self) -> Any:
        x = self.any()
        return (x.float() * 0.5).double() + x

    def op_fold(self) -> Any:
        x, kind = self.any(1), int(self.rng.integers(4))
        dims: Any = self.dim(x) if self.rng.random() < 0.7 else tuple(range(x.dim()))[-2:]
        keep = bool(self.rng.random() < 0.5)
        if kind == 0:
            return x.amax(dims, keepdim=keep)
        return x.mean(dims, keepdim=keep) if kind == 1 else torch.tanh(x.sum(dims, keepdim=keep))

    def op_extreme(self) -> Any:
        """Return greatest elements, times their places; of a leaf, where no two are equal."""
        found, place = self.wide.max(self.dim(self.wide), keepdim=bool(self.rng.random() < 0.5))
        return found * torch.tanh(place)

    def op_total(self) -> Any:
        return torch.tanh(self.any().sum())

    def op_rows(self) -> Any:
        x, kind = self.any(1), int(self.rng.integers(3))
        d = self.dim(x)
        if kind == 0:
            return torch.softmax(x, d)
        if kind == 1:
            return torch.logsumexp(x, d)
        return (x - x.mean(d, keepdim=True)) * ((x * x).mean(d, keepdim=True) + 1).rsqrt()

    def op_turn(self) -> Any:
        x = self.any(2)
        return x.transpose(self.dim(x), self.dim(x))

    def op_flip(self) -> Any:
        x = self.any(1)
        return x.flip(self.dim(x)) if self.rng.random() < 0.5 else x.roll(1, self.dim(x))

    def op_flat(self) -> Any:
        x = self.any(1)
        return x.reshape(-1) if self.rng.random() < 0.5 else x.reshape(*x.shape, 1)

    def op_part(self) -> Any:
        x = self.any(1)
        d = self.dim(x)
        if x.shape[d] < 2:
            return x * 2
        return x.narrow(d, 1, x.shape[d] - 1) if self.rng.random() < 0.6 else x.select(d, 0)

    def op_pad(self) -> Any:
        x = self.any(1)
        return torch.nn.functional.pad(x, (1, 1))

    def op_join(self) -> Any:
        x = self.any(1)
        return torch.cat([x, torch.tanh(x)], self.dim(x))

    def op_lookup(self) -> Any:
        tables = [v for v in self.values if v.dim() and v.shape[0] == self.rows]
        return tables[int(self.rng.integers(len(tables)))].index_select(0, self.index)

    def op_gather(self) -> Any:
        tables = [v for v in self.values if v.dim() == 2 and v.shape == self.table.shape]
        x = tables[int(self.rng.integers(len(tables)))]
        return x.gather(0, self.index.expand(self.rows, -1))

    def op_scatter(self) -> Any:
        sources = [v for v in self.values if v.dim() == 2 and v.shape == self.table.shape]
        x = sources[int(self.rng.integers(len(sources)))]
        zero = torch.zeros_like(x) if self.rng.random() < 0.5 else x * 0.5
        if self.rng.random() < 0.5:
            return zero.scatter_add(0, self.index.expand(self.rows, -1), x)
        return zero.t().index_add(1, self.index, x.t().expand(-1, self.rows)[:, :1] * torch.ones(
            (1, self.index.shape[0]), dtype=x.dtype)) * 0.5  # fmt: skip

    def op_scan(self) -> Any:
        x = self.any(1)
        return torch.tanh(x.cumsum(self.dim(x)))

    def op_product(self) -> Any:
        x = self.any(2)
        y = x if self.rng.random() < 0.6 else torch.tanh(x)
        return torch.tanh(x @ y.transpose(-1, -2) + 0.1)


def visits(program: Program, turns: int = 3) -> list[Visit]:
    """Record a program at several sizes; returns the last flush of each, run by the reference."""
    found = []
    for turn in range(turns):
        seen: list[Visit] = []
        real = _hot.slot("execute")

        def spy(batch: Any, live: Any, seen: Any = seen, real: Any = real) -> None:
            plan = flush.find_plan(batch, live)
            leaves = {
                i: np.array(v.buffer) for i, v in enumerate(batch.values) if v.buffer is not None
            }
            types = [v.type for v in batch.values]
            needed = plan.wanted | plan.saved
            seen.append(Visit(plan, plan.path, needed, types, list(batch.args), leaves))
            real(batch, live)

        torch.synchronize()
        _hot.set_slot("execute", spy)
        try:
            kept = program.run(turn)
            torch.synchronize()
        finally:
            _hot.set_slot("execute", real)
        del kept
        found.append(seen[-1])
    return found


def expected(path: Any, visit: Visit) -> dict[int, Any]:
    """Return all values of a path by the reference rules of its nodes."""
    env = dict(visit.leaves)
    with np.errstate(all="ignore"):
        for node in path.nodes[: path.n_nodes]:
            numbers = [_types.evaluate(e, visit.types, visit.args) for e in node.args]
            made = runner_of(node.program)([env[i] for i in node.inputs], numbers)
            results = [made] if node.prim.result_wrap() is None else list(made)
            env.update(zip(node.outputs, map(np.asarray, results), strict=True))
    return env


def check(seed: int, watch: Watch | None = None, count: int = 14, run: bool = True) -> int:
    """Raise AssertionError unless the schedule of a program computes its values; returns runs.

    watch: called after each pass of the compiler
    run: whether to run the schedule
    """
    runs = 0
    with own_trie(), config.override(compile=False, wait=True, verify=False):
        found = visits(Program(seed, count), 3 if run else 1)
    first = found[0]
    values: list[Any] = []

    def keep(done: Any, value: Any) -> None:
        if done.name != "inline":
            values.append(value)
        if watch is not None:
            watch(done, value)

    code = finished(compile_path(first.path, first.needed, keep))
    for turn, visit in enumerate(found if run else ()):
        if visit.plan is not first.plan:
            continue  # other sizes have led to another path
        wanted = expected(first.path, visit)
        tried = [(code, 1), (code, 3)] if turn == 0 else [(code, 2)]
        if turn == 0:  # the value of each pass by itself
            tried += [(value, 2) for value in values[:-1]]
        for value, lanes in tried:
            machine = Machine(value, visit.types, visit.args, lanes, donate=lanes != 3)
            if not Machine(code, visit.types, visit.args, lanes, True).fits():
                continue
            what = f"seed {seed}, visit {turn}, {lanes} lanes, {type(value).__name__}"
            for i, array in machine.run(visit.leaves).items():
                compare(array, wanted[i], f"{what}: %{i}")
            runs += value is code
    return runs


def compare(found: Any, wanted: Any, what: str) -> None:
    """Raise AssertionError unless two arrays are nearly the same."""
    assert found.shape == wanted.shape and found.dtype == wanted.dtype, what
    if found.size == 0:
        return
    if found.dtype.kind != "f":
        assert np.array_equal(found, wanted), what
        return
    limit = 1e-6 * max(1.0, float(np.abs(wanted).max()))
    assert np.abs(found.astype(np.float64) - wanted).max() <= limit, what


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ops", type=int, default=14)
    options = parser.parse_args()
    failed, runs = [], 0
    for number in range(options.graphs):
        seed = options.seed * 1_000_000 + number
        try:
            runs += check(seed, count=options.ops)
        except AssertionError as fault:
            failed.append(seed)
            print(f"seed {seed}: {fault}", flush=True)
    print(f"{options.graphs} graphs, {runs} runs, {len(failed)} wrong: {failed[:20]}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
