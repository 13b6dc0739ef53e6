"""Parameters of which each rank keeps rows: gathered for a call, their gradients shared out.

A call of the outermost module gathers the parameters of all units below, in the same order in all
ranks. The paths of the ranks may therefore differ. After a backward pass, an OR over the ranks
tells which parameters have a gradient in any of them; zeros stand for the gradient elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import wend
from wend._engine.base.errors import GraphError
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._frontend.autograd.grad_modes import is_grad_enabled
from wend._frontend.autograd.watching import watch
from wend.distributed._reduction import RedOpType, Reduction
from wend.distributed._replicas.buckets import flags_of, words_of
from wend.distributed._replicas.reducer import assign, state_of
from wend.distributed._sharding.ranks import Ranks
from wend.distributed._sharding.shards import (
    Shard,
    array_of,
    mark,
    mark_gradient,
    rows_of,
    tensor_of,
)
from wend.distributed.fsdp._policies import MixedPrecisionPolicy

__all__ = ["Sharded", "Unit"]


@contextmanager
def undivided() -> Iterator[None]:
    """Context: a call of `wend.batched` does not let the next call run."""
    fiber = _hot.current_trace().fiber
    if fiber is None:
        yield
        return
    before, fiber.last = fiber.last, True
    try:
        yield
    finally:
        fiber.last = before


class Sharded:
    """A parameter that the ranks share.

    places: (module, name) of each place in modules   own: this rank's rows
    leaf: the whole, while gathered   seen: the content of `own` that the whole was made of
    """

    def __init__(self, parameter: Tensor, places: list[tuple[Any, str]], ranks: Ranks) -> None:
        self.shape = tuple(parameter.shape)
        self.places = places
        self.row = int(np.prod(self.shape[1:], dtype=np.int64))
        self.most = -(-self.shape[0] // ranks.size)
        self.begin, self.end = rows_of(self.shape[0], ranks.size, ranks.rank)
        self.shard = Shard(self.shape, self.begin, ranks)
        if parameter.is_meta:
            rows = parameter.detach()[self.begin : self.end]
        else:
            rows = tensor_of(array_of(parameter.detach())[self.begin : self.end].copy())
        own = wend.nn.parameter.Parameter(rows, requires_grad=parameter.requires_grad)
        self.own = mark(own, self.shard)
        self.leaf: Any = None
        self.seen: Any = None
        self.put(self.own)

    def put(self, parameter: Tensor) -> None:
        """Let the modules have this parameter."""
        for module, name in self.places:
            module._parameters[name] = parameter

    def put_whole(self) -> None:
        """Let the modules have the whole, which is trained if the rows are."""
        if self.leaf.requires_grad != self.own.requires_grad:
            self.leaf.requires_grad_(self.own.requires_grad)
        self.put(self.leaf)

    def adopt(self) -> None:
        """Take over rows that the program has put into the module, as `to_empty` does.

        Raises GraphError (a RuntimeError) for another shape, and for rows without memory.
        """
        module, name = self.places[0]
        rows = module._parameters.get(name)
        if rows is not self.own and rows is not self.leaf:
            shape = (self.end - self.begin, *self.shape[1:])
            if rows is None or tuple(rows.shape) != shape:
                new_shape = None if rows is None else tuple(rows.shape)
                raise GraphError(
                    f"fully_shard: the parameter {name!r} was replaced by one of shape "
                    f"{new_shape}; the rows of this rank have shape {shape}"
                )
            self.own = mark(rows, self.shard)
            self.seen = None
            self.put(rows)
        if self.own.is_meta:
            raise GraphError(
                f"fully_shard: the parameter {name!r} is on the meta device; call "
                "`to_empty(device='cpu')` and initialise the model before the first call"
            )

    @property
    def padded(self) -> int:
        """The elements of each rank, with those beyond the end."""
        return int(self.most * self.row)


class Unit:
    """The parameters of modules that are gathered together.

    modules: these modules   below: the units of a root, itself last
    """

    def __init__(
        self,
        modules: list[Any],
        ranks: Ranks,
        policy: MixedPrecisionPolicy,
        parameters: list[Sharded],
    ) -> None:
        self.modules, self.ranks = modules, ranks
        self.policy, self.parameters = policy, parameters
        self.root: Unit | None = None
        self.below: list[Unit] = []
        self.depth = 0
        self.armed = False  # whether gradients may come for the gathered parameters
        self.passing = False  # whether a backward pass has begun
        self.held = False  # whether the program has asked for wholes: see `unshard`
        self.sync = True  # whether passes share gradients out
        self.frees = True  # whether passes end with the rows alone
        self.last = True  # whether no further pass goes through the same calls
        self.divisor = float(ranks.size)
        watch(self)

    # -- calls ------------------------------------------------------------------------------

    def become_root(self, below: list[Unit]) -> None:
        """Be the unit by whose calls those below are gathered."""
        self.below = below
        for unit in below:
            unit.root = self

    def enter(self) -> None:
        """Begin a call of the unit's module; within a backward pass, a call is recomputed."""
        root = self.root
        assert root is not None
        if root.depth == 0 and not (root.passing and root.armed):
            if self is not root:
                raise GraphError(
                    "fully_shard: a module was called outside of the module around it that was "
                    "called first; call the outer module, which all ranks do alike"
                )
            with undivided():
                self.prepare()
                for p in self.all():
                    p.put_whole()
        root.depth += 1

    def leave(self) -> None:
        """End a call; behind the outermost, modules have the ranks' rows again."""
        root = self.root
        assert root is not None
        root.depth -= 1
        if root.depth == 0 and not (root.passing and root.armed):
            root.put_rows()
            if not root.armed:
                root.release()

    def all(self) -> list[Sharded]:
        """The parameters of all units."""
        return [p for unit in self.below for p in unit.parameters]

    def put_rows(self) -> None:
        """Let the modules have this rank's rows, but for wholes that the program has asked for."""
        for unit in self.below:
            if not unit.held:
                for p in unit.parameters:
                    p.put(p.own)

    def prepare(self) -> None:
        """Gather all parameters, unless those of a call without backward pass are as they were."""
        every = self.all()
        for p in every:
            p.adopt()
        stale = True
        if self.armed:
            changed = any(p.leaf is None or state_of(p.own) is not p.seen for p in every)
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
                whole = np.empty(p.shape, dtype)
                flat = whole.reshape(-1)
                for rank, sent in enumerate(rows):
                    part = flat[rank * p.padded : (rank + 1) * p.padded]
                    part[:] = sent[begin : begin + part.size]
                begin += p.padded
                self.give(p, whole)

    def give(self, p: Sharded, array: np.ndarray) -> None:
        """Let an array be the whole of a parameter, with the gradient that a whole has so far.

        array: owns its memory, and nobody else changes it
        """
        p.seen, before = state_of(p.own), p.leaf
        p.leaf = wend.nn.parameter.Parameter(tensor_of(array), requires_grad=p.own.requires_grad)
        if before is not None:
            p.leaf._grad = before._grad

    def by_dtype(self) -> dict[Any, list[Sharded]]:
        """The parameters by the type in which these are gathered."""
        groups: dict[Any, list[Sharded]] = {}
        for p in self.parameters:
            cast = self.policy.param_dtype if p.own.is_floating_point() else None
            groups.setdefault((cast or p.own.dtype).numpy, []).append(p)
        return groups

    def release(self) -> None:
        """Forget the wholes of all units, but for those that the program has asked for."""
        self.armed = False
        for unit in self.below:
            if not unit.held:
                for p in unit.parameters:
                    p.leaf = p.seen = None

    def unshard(self) -> None:
        """Gather this unit's parameters, and keep the wholes in the modules."""
        for p in self.parameters:
            p.adopt()
        self.gather()
        self.held = True
        for p in self.parameters:
            p.put_whole()

    def reshard(self) -> None:
        """Let the modules have rows again."""
        self.held = False
        for p in self.parameters:
            p.put(p.own)
        if self.root is None or not self.root.armed:
            for p in self.parameters:
                p.leaf = p.seen = None

    # -- gradients --------------------------------------------------------------------------

    def begin_pass(self) -> None:
        """Let the modules have the wholes: a pass may call these again. See `PassWatcher`."""
        self.passing = True
        if self.root is self and self.armed:
            for p in self.all():
                p.put_whole()

    def cancel_pass(self) -> None:
        """Let the modules have rows again: see `PassWatcher`."""
        self.passing = False
        if self.root is self and self.depth == 0:
            self.put_rows()

    def end_pass(self, kept: bool) -> None:
        """Share the gradients of a pass out: see `PassWatcher`."""
        self.cancel_pass()
        if self.root is self and self.armed and self.depth == 0:
            self.share_gradients(kept)

    def share_gradients(self, kept: bool) -> None:
        """Let each rank have its rows of the mean gradients, where any rank has a gradient."""
        units = [unit for unit in self.below if unit.sync]
        every = [p for unit in units for p in unit.parameters]
        if not every:
            return
        present = self.any_rank(np.array([p.leaf.grad is not None for p in every], bool))
        if not present.any():
            return
        flags = dict(zip(map(id, every), present.tolist(), strict=True))
        for unit in units:
            for dtype, group in unit.by_dtype().items():
                some = [p for p in group if flags[id(p)]]
                if some:
                    unit.reduce(dtype, some)
        for p in every:
            p.leaf._grad = None
        shared = all(u.sync and u.frees and u.last for u in self.below)
        if shared and not kept:
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
            g = p.leaf._grad
            if g is not None:
                array = array_of(g.to_dense() if g.is_sparse else g)
                whole = padded(array, size * p.padded, wire).reshape(size, p.padded)
                flat[:, begin : begin + p.padded] = whole
            begin += p.padded
        out = self.scattered(flat.reshape(-1), count, wire)
        begin = 0
        for p in some:
            add_gradient(p, out[begin : begin + (p.end - p.begin) * p.row])
            begin += p.padded

    def scattered(self, flat: np.ndarray, count: int, wire: np.dtype) -> np.ndarray:
        """This rank's part of the mean over all ranks; half precision is summed in float32."""
        size, channel = self.ranks.size, self.ranks.channel
        if channel is None:
            return flat if self.divisor == 1.0 else (flat / self.divisor).astype(wire)
        kind = RedOpType.PREMUL_SUM
        rule = Reduction(kind, "sum", 1.0 / self.divisor, wire.itemsize == 2, False)
        out = np.empty(count, wire)
        signature = ("gradients of shards", str(wire), f"[{flat.size}]")
        channel.run(signature, lambda line: rule.reduce_scatter(line, flat, out, [count] * size))
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
    mark_gradient(p.own)
