"""Stops of a backward pass to call users' code: tensor hooks, node hooks, functions with a
backward.

In anomaly mode the pass also stops to look at each op's gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._engine.base.errors import GraphError
from wend._engine.core import _hot
from wend._engine.core.primitive import ops
from wend._engine.transforms.hooks import (
    Extra,
    NodeHooks,
    UserCode,
    run_node_hooks,
    run_tensor_hooks,
)
from wend._engine.transforms.pass_context import WalkContext

Seeds = dict[int, Any]
Pairs = list[tuple[int, Any]]


class TensorStop:
    """Hooks of a value: called when the gradient is complete."""

    rank = 0

    def __init__(self, at: int, i: int, extra: Extra | None) -> None:
        self.at = at
        self.i = i
        self.extra = extra

    def visit(self, walk: WalkContext, seeds: Seeds) -> int:
        """Call the hooks; returns the position from which the walk goes on."""
        i = self.i
        if i in seeds and self.extra is not None and self.extra.hooks:
            seeds[i] = run_tensor_hooks(self.extra.hooks, walk.explicit(i, seeds[i]))
        return self.at


class NodeStop:
    """An op with hooks of the node, or a user-defined function, or any op in anomaly mode."""

    rank = 1

    def __init__(
        self,
        low: int,
        at: int,
        outputs: tuple[int, ...],
        node: NodeHooks | None,
        function: UserCode | None,
    ) -> None:
        self.low = low
        self.at = at
        self.outputs = outputs
        self.node = node
        self.function = function

    def visit(self, walk: WalkContext, seeds: Seeds) -> int:
        """Pass the op; returns the position from which the walk goes on."""
        gradients = [walk.explicit(o, seeds.pop(o)) if o in seeds else None for o in self.outputs]
        if all(g is None for g in gradients):
            return self.low
        if self.node is not None and self.node.before:
            gradients = list(run_node_hooks(self.node.before, tuple(gradients)))
        walk.follow()
        pairs = self._through(walk, gradients)
        if self.node is not None and self.node.after:
            pairs = self._after(walk, pairs, gradients)
        if walk.owner.anomaly:
            check_for_nan(walk, self.low, pairs, gradients)
        for t, g in pairs:
            walk.deliver(t, g, seeds, self.low)
        return self.low

    def _through(self, walk: WalkContext, gradients: list[Any]) -> Pairs:
        if self.function is not None:
            return self._call(walk, gradients)
        mine = {o: g for o, g in zip(self.outputs, gradients) if g is not None}
        order = tuple(sorted(mine))
        return walk.step(order, mine, self.at, self.low)

    def _call(self, walk: WalkContext, gradients: list[Any]) -> Pairs:
        """Let the user's function turn gradients of the results into gradients of the inputs."""
        assert self.function is not None
        for o, g in zip(self.outputs, gradients):
            if g is not None:
                for sink in walk.kept.get(o, ()):
                    sink(g)
        inputs = walk.path.nodes[self.low].inputs[: self.function.n_inputs]
        grads = self.function.backward(
            gradients, lambda k, data: walk.tensor_of(self.outputs[k], data)
        )
        if not walk.owner.retain:
            self.function.free()
        walk.follow()
        active = walk.survey.active
        return [(i, g) for i, g in zip(inputs, grads) if g is not None and i in active]

    def _after(self, walk: WalkContext, pairs: Pairs, gradients: list[Any]) -> Pairs:
        """Run hooks that see, and may replace, the gradients that the op hands to inputs."""
        assert self.node is not None
        sums: dict[int, Any] = {}
        for t, g in pairs:
            sums[t] = g if t not in sums else sums[t] + g
        operands = self._operands(walk)
        grads = tuple(sums.pop(i, None) for i in operands)
        grads = run_node_hooks(self.node.after, grads, tuple(gradients))
        walk.follow()
        rest = list(sums.items())
        return [(i, g) for i, g in zip(operands, grads) if g is not None] + rest

    def _operands(self, walk: WalkContext) -> list[int]:
        path = walk.path
        node_outputs = {o for node in path.nodes[self.low : self.at] for o in node.outputs}
        out: list[int] = []
        for node in path.nodes[self.low : self.at]:
            inputs = node.inputs
            if self.function is not None:
                inputs = inputs[: self.function.n_inputs]
            out += [i for i in inputs if i not in node_outputs and i not in out]
        return sorted(out, key=lambda i: (i < 0, abs(i)))


def stops_of(walk: WalkContext) -> list[Any]:
    """Where the walk must stop, latest first."""
    stops: list[Any] = []
    path = walk.path
    producer = path.producer
    taken: set[int] = set()
    extras: dict[int, Extra] = walk.extras()
    hooked: bool = walk.owner.hooks
    for i, extra in list(extras.items()):
        k = producer.get(i)
        if k is None:
            continue
        low, at, outputs = walk.state_range(k)
        if extra.hooks and hooked:
            stops.append(TensorStop(at, i, extra))
        node = extra.node if hooked else None
        if (node or extra.function is not None) and low not in taken:
            taken.add(low)
            stops.append(NodeStop(low, at, outputs, node, extra.function))
    if walk.owner.anomaly:
        k = len(path.nodes)
        while k > 0:
            low, at, outputs = walk.state_range(k - 1)
            if low not in taken:
                stops.append(NodeStop(low, at, outputs, None, None))
            k = low
    stops.sort(key=lambda stop: (-stop.at, stop.rank))
    return stops


# -- anomaly mode ---------------------------------------------------------------------------


#: Tells of (label, array) rows as text, a line for each; the front end's, set by anomaly mode.
describe: list[Callable[[list[tuple[str, Any]]], str]] = []


def check_for_nan(walk: Any, low: int, pairs: Pairs, gradients: list[Any]) -> None:
    """Raise GraphError, with the line of the forward op, if a gradient is NaN.

    gradients: the gradients of the op's results
    """
    for k, (i, g) in enumerate(reversed(pairs)):
        value = _hot.value_of(ops.any(ops.isnan(g)))
        if not bool(_hot.ensure(value)):
            continue
        name, site = _hot.slot("node_of")(walk.segment, low)
        text = f"Function '{name}' returned nan values in its {k}th output."
        if describe:
            rows = [
                (f"gradient of result {j}", _hot.ensure(_hot.value_of(g)))
                for j, g in enumerate(gradients)
                if g is not None
            ]
            saved = walk.segment.saved or {}
            for j, at in enumerate(walk.path.nodes[low].inputs):
                if at in saved and saved[at][1] is not None:
                    rows.append((f"operand {j}", saved[at][1]))
            text += describe[0](rows)
        error = GraphError(text)
        error.site = site
        del i
        raise error
