"""Parameters of which each rank keeps rows: gathered for a call, their gradients shared out.

A call of the outermost module gathers the parameters of all units below, in the same order in all
ranks. The paths of the ranks may therefore differ. After a backward pass, an OR over the ranks
tells which parameters have a gradient in any of them; zeros stand for the gradient elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import wend
from wend.base.errors import GraphError
from wend.distributed._reduction import RedOpType, Reduction
from wend.distributed._replicas.buckets import flags_of, words_of
from wend.distributed._replicas.reducer import assign, state_of
from wend.distributed._sharding.ranks import Ranks
from wend.distributed._sharding.shards import Shard, array_of, mark, rows_of, tensor_of
from wend.frontend.autograd.grad_modes import is_grad_enabled, no_grad
from wend.frontend.autograd.watching import watch

__all__ = ["Sharded", "Unit"]


class Sharded:
    """A parameter that the ranks share.

    places: (module, name) of each place in modules   own: this rank's rows
    leaf: the whole, while gathered   seen: the content of `own` that the whole was made of
    """

    def __init__(self, parameter: Any, places: list[tuple[Any, str]], ranks: Ranks) -> None:
        self.shape = tuple(parameter.shape)
        self.places = places
        self.row = int(np.prod(self.shape[1:], dtype=np.int64))
        self.most = -(-self.shape[0] // ranks.size)
        self.begin, self.end = rows_of(self.shape[0], ranks.size, ranks.rank)
        rows = array_of(parameter.detach())[self.begin : self.end].copy()
        own = wend.nn.parameter.Parameter(tensor_of(rows), requires_grad=parameter.requires_grad)
        self.own = mark(own, Shard(self.shape, self.begin, ranks))
        self.leaf: Any = None
        self.seen: Any = None
        self.put(self.own)

    def put(self, parameter: Any) -> None:
        """Let the modules have this parameter."""
        for module, name in self.places:
            module._parameters[name] = parameter

    @property
    def padded(self) -> int:
        """The elements of each rank, with those beyond the end."""
        return int(self.most * self.row)


class Unit:
    """The parameters of a module that are gathered together.

    below: the units of a root, itself last
    """

    def __init__(self, ranks: Ranks, policy: Any, parameters: list[Sharded]) -> None:
        self.ranks, self.policy, self.parameters = ranks, policy, parameters
        self.root: Unit | None = None
        self.below: list[Unit] = []
        self.depth = 0
        self.armed = False  # whether gradients may come for the gathered parameters
        self.sync = True

    # -- calls ------------------------------------------------------------------------------

    def become_root(self, below: list[Unit]) -> None:
        """Be the unit by whose calls those below are gathered."""
        self.below = below
        for unit in below:
            unit.root = self
        watch(self)

    def enter(self) -> None:
        """Begin a call of the unit's module."""
        root = self.root
        assert root is not None
        if root.depth == 0:
            if self is not root:
                raise GraphError(
                    "fully_shard: a module was called outside of the module around it that was "
                    "called first; call the outer module, which all ranks do alike"
                )
            self.prepare()
        root.depth += 1
        for p in self.parameters:
            p.put(p.leaf)

    def leave(self) -> None:
        """End a call; behind the outermost, modules have the ranks' rows again."""
        root = self.root
        assert root is not None
        root.depth -= 1
        if root.depth == 0:
            for p in root.all():
                p.put(p.own)
            if not root.armed:
                root.release()

    def all(self) -> list[Sharded]:
        """The parameters of all units."""
        return [p for unit in self.below for p in unit.parameters]

    def prepare(self) -> None:
        """Gather all parameters, unless those of a call without backward pass are as they were."""
        stale = True
        if self.armed:
            changed = any(state_of(p.own) is not p.seen for p in self.all())
            stale = bool(self.ranks.add(float(changed), "max"))
        if stale:
            for unit in self.below:
                unit.gather()
        self.armed = self.armed or is_grad_enabled()

    def gather(self) -> None:
        """Make the wholes, by a call for each dtype."""
        size = self.ranks.size
        for dtype, group in self.by_dtype().items():
            parts = [padded(array_of(p.own.detach()), p.padded, dtype) for p in group]
            mine = np.concatenate(parts)
            rows = self.ranks.gather(mine, [mine.size] * size).reshape(size, mine.size)
            begin = 0
            for p in group:
                whole = rows[:, begin : begin + p.padded].reshape(size * p.most, *p.shape[1:])
                begin += p.padded
                self.give(p, np.ascontiguousarray(whole[: p.shape[0]]))

    def give(self, p: Sharded, array: np.ndarray) -> None:
        """Let an array be the whole of a parameter."""
        p.seen = state_of(p.own)
        if p.leaf is None:
            whole = tensor_of(array if array.base is None else array.copy())
            p.leaf = wend.nn.parameter.Parameter(whole, requires_grad=p.own.requires_grad)
        else:
            with no_grad():
                p.leaf.copy_(tensor_of(array.copy()))

    def by_dtype(self) -> dict[Any, list[Sharded]]:
        """The parameters by the type in which these are gathered."""
        found: dict[Any, list[Sharded]] = {}
        for p in self.parameters:
            cast = self.policy.param_dtype if p.own.is_floating_point() else None
            found.setdefault((cast or p.own.dtype).numpy, []).append(p)
        return found

    def release(self) -> None:
        """Forget the wholes of all units."""
        self.armed = False
        for p in self.all():
            p.leaf = p.seen = None

    # -- gradients --------------------------------------------------------------------------

    def begin_pass(self) -> None:
        """Nothing to remember: see `PassWatcher`."""

    def end_pass(self) -> None:
        """Share the gradients of a pass out: see `PassWatcher`."""
        if self.armed and self.sync and self.depth == 0:
            self.share_gradients()

    def share_gradients(self) -> None:
        """Let each rank have its rows of the mean gradients, where any rank has a gradient."""
        every = self.all()
        mine = np.array([p.leaf.grad is not None for p in every], bool)
        present = self.any_rank(mine)
        if not present.any():
            return
        flags = dict(zip(map(id, every), present.tolist(), strict=True))
        for unit in self.below:
            for dtype, group in unit.by_dtype().items():
                some = [p for p in group if flags[id(p)]]
                if some:
                    unit.reduce(dtype, some)
        self.release()

    def any_rank(self, flags: np.ndarray) -> np.ndarray:
        """The flags that are set in any rank."""
        channel = self.ranks.channel
        if channel is None:
            return flags
        words = words_of(flags)
        out = np.empty_like(words)
        signature = ("gradients of shards", f"{len(flags)} flags")
        channel.run(signature, lambda line: line.all_reduce(words, out, "bor"))
        return flags_of(out, len(flags))

    def reduce(self, dtype: Any, some: list[Sharded]) -> None:
        """Add the mean of all ranks' gradients to the gradients of this rank's rows."""
        size = self.ranks.size
        asked = self.policy.reduce_dtype
        wire = np.dtype(dtype) if asked is None else asked.numpy
        count = sum(p.padded for p in some)
        flat = np.zeros((size, count), wire)
        begin = 0
        for p in some:
            g = p.leaf.grad
            if g is not None:
                array = array_of(g.to_dense() if g.is_sparse else g)
                whole = padded(array, size * p.padded, wire).reshape(size, p.padded)
                flat[:, begin : begin + p.padded] = whole
            begin += p.padded
        out = flat.reshape(-1)
        if self.ranks.channel is not None:
            out = self.scattered(flat.reshape(-1), count, wire)
        begin = 0
        for p in some:
            add_gradient(p, out[begin : begin + (p.end - p.begin) * p.row])
            begin += p.padded

    def scattered(self, flat: np.ndarray, count: int, wire: np.dtype) -> np.ndarray:
        """This rank's part of the mean over all ranks; half precision is summed in float32."""
        size = self.ranks.size
        factor = 1.0 / size
        rule = Reduction(RedOpType.PREMUL_SUM, "sum", factor, wire.itemsize == 2, False)
        out = np.empty(count, wire)
        signature = ("gradients of shards", str(wire), f"[{flat.size}]")
        assert self.ranks.channel is not None
        self.ranks.channel.run(
            signature, lambda line: rule.reduce_scatter(line, flat, out, [count] * size)
        )
        return out


def padded(array: np.ndarray, count: int, dtype: Any) -> np.ndarray:
    """The elements as a flat array of so many, zeros at the end."""
    out = np.zeros(count, dtype)
    out[: array.size] = array.reshape(-1)
    return out


def add_gradient(p: Sharded, rows: np.ndarray) -> None:
    """Add to the gradient of this rank's rows."""
    total = rows.astype(p.own.dtype.numpy)
    have = p.own._grad
    if have is not None:
        total = total + array_of(have).reshape(-1)
    assign(p.own, np.ascontiguousarray(total))
