"""Off the trie: what is pending is sorted into groups of one structure, and run group by group.

A group holds the ops of one pattern, with operands of the same shapes and the same parameters, at
the same depth.  Its members do not depend on one another, so that one batched op (by the
primitive's batching rule) computes them all.  The nodes of a backward pass are nodes like any
others: they meet in groups of their own.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from wend.base.errors import ExecutionError
from wend.core import _hot
from wend.core.graph import PathGraph
from wend.runtime.reference import ReferencePlan, _Step, make_runner
from wend.transforms.batch import batched_rule

#: Below this many members, calling the ops one by one is quicker than gathering operands.
SMALLEST_GROUP = 4
#: Operands larger than this (bytes) are not copied together.
LARGEST_OPERAND = 1 << 18


class GroupedPlan(ReferencePlan):
    """One flush of structure that does not come back: run once, group by group."""

    def __init__(self, path: PathGraph, wanted: frozenset[int], roots: frozenset[int]) -> None:
        super().__init__(path, wanted, roots)
        self.parameters = {i for i, _ in path.leaves}

    def compute(self, env: list[Any], types: list[Any], args: list[Any]) -> None:
        """Run level by level; within a level, group by group."""
        for level in self.levels():
            groups: dict[Any, list[_Step]] = {}
            for step in level:
                key = self.key(step, env)
                if key is None:
                    step.call(env, types, args)
                else:
                    groups.setdefault(key, []).append(step)
            for group in groups.values():
                if len(group) < SMALLEST_GROUP:
                    for step in group:
                        step.call(env, types, args)
                else:
                    self.run_group(group, env, types, args)

    def compute_verified(self, env: list[Any], types: list[Any], args: list[Any]) -> None:
        """Run by groups and one by one; raise ExecutionError at the first op that differs."""
        alone = list(env)
        self.compute(env, types, args)
        for step in self.steps:  # in another order now
            step.frees = ()
        super().compute_verified(alone, types, args)
        for step in self.steps:
            for i in step.outputs:
                if i in self.wanted and not _agree(np.asarray(env[i]), np.asarray(alone[i])):
                    raise ExecutionError(
                        f"{step.node.prim.name}: differs between its group and the op by itself; "
                        "this is a defect of Wend"
                    )

    def levels(self) -> list[list[_Step]]:
        """Steps by depth: a step is deeper than all that it depends on."""
        depth: dict[int, int] = {}
        levels: list[list[_Step]] = []
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

    def let_write(self, levels: list[list[_Step]]) -> None:
        """Let steps that write in place have their operand, where they are the last to use it."""
        needed = set(self.wanted | self.saved)
        for level in reversed(levels):
            users = Counter(i for step in level for i in set(step.inputs))
            for step in level:
                if step.donates and users[step.inputs[0]] == 1 and step.inputs[0] not in needed:
                    step.frees = (step.inputs[0],)
            needed.update(users)

    def key(self, step: _Step, env: list[Any]) -> Any:
        """What members of a group have in common; None for what is better run alone."""
        prim = step.node.prim
        if prim.is_view or prim.batch is None or not step.inputs:
            return None
        parts: list[Any] = [step.node.program]
        large = False
        for i in step.inputs:
            array = env[i]
            if i in self.parameters:
                parts.append(i)
            else:
                large = large or array.nbytes > LARGEST_OPERAND
                parts.append(array.shape)
        if large:
            return None
        if step.args:
            parts.append(step.args if _constant(step.args) else id(step))
        return tuple(parts)

    def run_group(
        self, group: list[_Step], env: list[Any], types: list[Any], args: list[Any]
    ) -> None:
        """Gather, run the batched op, hand out the rows."""
        first = group[0]
        flags = []
        arrays = []
        for k, i in enumerate(first.inputs):
            shared = all(step.inputs[k] == i for step in group)
            flags.append(not shared)
            arrays.append(env[i] if shared else np.stack([env[step.inputs[k]] for step in group]))
        if True not in flags:  # the same op on the same operands, recorded several times
            first.call(env, types, args)
            for step in group[1:]:
                for o, source in zip(step.outputs, first.outputs, strict=True):
                    env[o] = env[source]
            return
        values = [_hot.evaluate(e, types, args) for e in first.args]
        program = first.node.program
        lifted = [
            _hot.intern_type(array.shape, type_.dtype, type_.device)
            for array, type_ in zip(arrays, program.sample_types, strict=True)
        ]
        graph = batched_rule(program.prim, tuple(flags), lifted, values)
        results = run_graph(graph, arrays, lifted, values)
        for k, result in enumerate(results):
            for row, step in enumerate(group):
                env[step.outputs[k]] = result[row, ...]

    def finish(self, batch: Any, env: list[Any]) -> None:
        """As the reference; rows that outlive the flush do not keep their whole group alive."""
        for i in self.wanted:
            row = env[i]
            if type(row) is np.ndarray and row.base is not None and i not in self.saved:
                env[i] = row.copy()
        super().finish(batch, env)


def _agree(a: Any, b: Any) -> bool:
    """Equal up to the rounding of sums in another order."""
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    scale = float(np.max(np.abs(b[np.isfinite(b)]), initial=1.0))
    return bool(np.allclose(a, b, rtol=1e-3, atol=1e-3 * scale, equal_nan=True))


def _constant(args: Any) -> bool:
    return all(type(e) is not tuple for e in args)


def run_graph(graph: Any, arrays: list[Any], types: list[Any], values: list[Any]) -> list[Any]:
    """Run a body on arrays with the reference rules."""
    env: dict[int, Any] = dict(enumerate(arrays))
    for node in graph.nodes:
        program = node.program
        if program.runner is None:
            program.runner = make_runner(program)
        numbers = [_hot.evaluate(e, types, values) for e in node.args]
        result = program.runner([env[i] for i in node.inputs], numbers)
        if node.prim.result_wrap() is None:
            env[node.outputs[0]] = result
        else:
            for o, item in zip(node.outputs, result, strict=True):
                env[o] = item
    return [env[i] for i in graph.outputs]
