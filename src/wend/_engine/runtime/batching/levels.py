"""Level by level: pending ops off the trie are sorted into groups, and run group by group.

A group holds ops at the same depth that run the same program, on operands of the same shapes and
the same parameters.  The members of a group are independent, so that a single batched op (by the
primitive's batching rule) computes all of these.  The nodes of a backward pass are nodes like all
the rest, and form groups of their own.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from wend._engine.base.collecting import CollectionPaused
from wend._engine.base.devices import CPU
from wend._engine.base.errors import DefectError
from wend._engine.core import _types
from wend._engine.core._hot import FlushJob
from wend._engine.core.body import Body
from wend._engine.core.graph import PathGraph
from wend._engine.core.primitive import Primitive
from wend._engine.runtime.batching.noted import note, why_op_by_op
from wend._engine.runtime.numpy_executor.plan import ReferencePlan
from wend._engine.runtime.numpy_executor.runners import NodeRun, graph_runner
from wend._engine.transforms import whole as _whole  # noqa: F401  (makes the nodes that are bodies)
from wend._engine.transforms.batch import batch_graph, batched_rule

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: With fewer members, calling ops (or bodies) one by one is quicker than gathering operands.
SMALLEST_GROUP = 4
SMALLEST_GROUP_OF_BODIES = 2
#: Larger operands (bytes) are not copied to lie side by side.
LARGEST_OPERAND = 1 << 18


class GroupedPlan(ReferencePlan):
    """The plan of a flush whose structure does not come back: run once, group by group."""

    def prepare(self, path: PathGraph) -> None:
        """Find the steps to run and the values that are read."""
        super().prepare(path)
        self.parameters = {i for i, _ in path.leaves}
        self.sizes: list[Any] = []  # a row for each group (`report.Noted`)
        self.grouped: list[Any] = []  # the steps of each group
        self.read = {i for step in self.steps for i in step.inputs} | self.wanted | self.saved

    def run(self, batch: FlushJob) -> None:
        """Compute the flush, and note the groups for the report."""
        super().run(batch)
        why = why_op_by_op(batch.states)
        owners = partial(owners_of, self.grouped)
        note(batch.states, batch.sites, self.sizes, why, owners, self.steps)

    def compute(self, env: list[Any], types: list[Any], args: list[Any]) -> None:
        """Run level by level; within a level, group by group."""
        with CollectionPaused():
            self.compute_levels(env, types, args)

    def compute_levels(self, env: list[Any], types: list[Any], args: list[Any]) -> None:
        """Run all levels in order, without pausing garbage collection."""
        evaluate = _types.evaluate

        def alone(step: NodeRun, numbers: list[Any]) -> None:
            if step.frees:  # the step may write in place
                step.call(env, types, args)
            else:
                step.run([env[i] for i in step.inputs], numbers, env)

        for level in self.levels():
            groups: dict[Any, list[Any]] = {}
            for step in level:
                exprs = step.args
                numbers = [evaluate(e, types, args) for e in exprs] if exprs else []
                key = self.key(step, env, numbers)
                if key is None:
                    alone(step, numbers)
                elif key in groups:
                    groups[key].append(step)
                else:
                    groups[key] = [numbers, step]
            for numbers, *group in groups.values():
                first = group[0]
                at = max(first.outputs)  # numbers < 0 are temporaries of composites
                if at >= 0:
                    self.sizes.append((first.node.prim.name, len(group), 0, False, at))
                    self.grouped.append(group)
                body = isinstance(group[0].node.prim, Body)
                if len(group) < (SMALLEST_GROUP_OF_BODIES if body else SMALLEST_GROUP):
                    for step in group:
                        alone(step, numbers)
                else:
                    self.run_group(group, env, numbers)

    def compute_verified(self, env: list[Any], types: list[Any], args: list[Any]) -> None:
        """Run by groups and one by one; raise DefectError at the first op that differs."""
        alone = list(env)
        self.compute(env, types, args)
        for step in self.steps:  # the order is different now: writing in place is not safe
            step.frees = ()
        super().compute_verified(alone, types, args)
        for step in self.steps:
            for i in step.outputs:
                if i in self.wanted and not _agree(np.asarray(env[i]), np.asarray(alone[i])):
                    raise DefectError(
                        f"{step.node.prim.name}: differs between its group and the op by itself; "
                        "this is a defect of Wend"
                    )

    def levels(self) -> list[list[NodeRun]]:
        """Return the steps by depth: a step is deeper than all steps that it depends on."""
        depth: dict[int, int] = {}
        levels: list[list[NodeRun]] = []
        for step in self.steps:
            step.frees = ()
            at = 0
            for i in step.inputs:
                d = depth.get(i, -1) + 1
                if d > at:
                    at = d
            for o in step.outputs:
                depth[o] = at
            while len(levels) <= at:
                levels.append([])
            levels[at].append(step)
        if any(step.donates for step in self.steps):
            self.let_write(levels)
        return levels

    def let_write(self, levels: list[list[NodeRun]]) -> None:
        """Let a step write in place into its operand, if no other step uses the operand later."""
        needed = set(self.wanted | self.saved)
        for level in reversed(levels):
            users = Counter(i for step in level for i in set(step.inputs))
            for step in level:
                if step.donates and users[step.inputs[0]] == 1 and step.inputs[0] not in needed:
                    step.frees = (step.inputs[0],)
            needed.update(users)

    def key(self, step: NodeRun, env: list[Any], numbers: list[Any]) -> tuple[Any, ...] | None:
        """Return the key that members of a group share; None if the step is better run alone."""
        prim = step.node.prim
        if prim.is_view or not step.inputs or not batches(prim):
            return None
        parts: list[Any] = [step.node.program]
        parameters = self.parameters
        for i in step.inputs:
            if i in parameters:
                parts.append(i)
            else:
                array = env[i]
                if array.nbytes > LARGEST_OPERAND:
                    return None
                parts.append(array.shape)
        if numbers:
            # 0.0 == -0.0, so that the text of a zero stands for the number.
            parts.append(tuple([x if x or type(x) is int else repr(x) for x in numbers]))
        return tuple(parts)

    def run_group(self, group: list[NodeRun], env: list[Any], numbers: list[Any]) -> None:
        """Gather the operands, run the batched op, and hand out the rows."""
        first = group[0]
        flags = []
        arrays = []
        for k, i in enumerate(first.inputs):
            ids = [step.inputs[k] for step in group]
            shared = i in self.parameters or ids.count(i) == len(ids)
            flags.append(not shared)
            arrays.append(env[i] if shared else np.stack([env[j] for j in ids]))
        program = first.node.program
        if True not in flags:  # the same op on the same operands, recorded several times
            first.run(arrays, numbers, env)
            for step in group[1:]:
                for o, source in zip(step.outputs, first.outputs, strict=True):
                    env[o] = env[source]
            return
        # An operand without dims may lie on the CPU beside others on an accelerator: not its rows.
        place = self.place or CPU
        lifted = [
            _types.intern_type(array.shape, type_.dtype, place)
            for array, type_ in zip(arrays, program.sample_types, strict=True)
        ]
        prim = program.prim
        if isinstance(prim, Body):
            graph = batch_graph(prim.graph, tuple(flags), lifted, numbers).graph
        else:
            graph = batched_rule(prim, tuple(flags), lifted, numbers)
        results = graph_runner(graph)(arrays, lifted, numbers)
        for k, result in enumerate(results):
            for row, step in enumerate(group):
                o = step.outputs[k]
                if o in self.read:
                    env[o] = result[row, ...]

    def finish(self, batch: FlushJob, env: list[Any]) -> None:
        """Copy rows that outlive the flush, so that their whole group is not kept alive."""
        for i in self.wanted:
            row = env[i]
            if type(row) is np.ndarray and row.base is not None and i not in self.saved:
                env[i] = row.copy()
        super().finish(batch, env)


def owners_of(groups: list[list[NodeRun]]) -> dict[int, int]:
    """Return by value the number of the group that makes the value."""
    steps = ((k, step) for k, group in enumerate(groups) for step in group)
    return {o: k for k, step in steps for o in step.outputs}


def _agree(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Whether two arrays have the same dtype and are equal up to the rounding of reordered sums."""
    if a.dtype != b.dtype:
        return False
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    scale = float(np.max(np.abs(b[np.isfinite(b)]), initial=1.0))
    return bool(np.allclose(a, b, rtol=1e-3, atol=1e-3 * scale, equal_nan=True))


def batches(prim: Primitive) -> bool:
    """Whether many ops of a primitive can be run together."""
    return prim.batches if isinstance(prim, Body) else prim.batch is not None
