"""`wend.debug.why_no_gradient()`: the parameters that a step gives no gradient, with reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from wend._engine.base import tree
from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.core._hot import Tensor
from wend._frontend.seeing.op_graph import OpGraph, OpNode
from wend._frontend.seeing.tables import html_report, html_table
from wend.debug._graph_of import watch
from wend.nn.modules.module import Module

__all__ = ["NoGradient", "WhyNoGradient", "why_no_gradient"]


@dataclass
class NoGradient:
    """A parameter without a gradient.

    name: dotted path of the parameter
    kind: "frozen", "unused", "cut", "dead end", "no backward" or "zero"
    text: the reason     place: the user's line, or ""
    """

    name: str
    kind: str
    text: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"

    @property
    def reason(self) -> str:
        """Kind, text and place."""
        at = f"\n    at {self.place}" if self.place else ""
        return f"{self.kind}: {self.text}{at}"


@dataclass
class WhyNoGradient:
    """The parameters that a step gave no gradient, in the order of the model.

    reasons: the parameters, each with its reason     reached: names of all other parameters
    """

    reasons: list[NoGradient] = field(default_factory=list)
    reached: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether there is a parameter without a gradient."""
        return bool(self.reasons)

    def __iter__(self) -> Iterator[NoGradient]:
        return iter(self.reasons)

    def __len__(self) -> int:
        return len(self.reasons)

    def __str__(self) -> str:
        n, rest = len(self.reasons), len(self.reached)
        head = f"{n} of {n + rest} parameters get no gradient" + (":" if n else "")
        names: dict[str, list[str]] = {}
        for row in self.reasons:
            names.setdefault(row.reason, []).append(row.name)
        return "\n".join([head, *(f"  {', '.join(of)}: {why}" for why, of in names.items())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(x.name, x.kind, x.text, x.place) for x in self.reasons]
        table = html_table(("parameter", "kind", "reason", "line"), rows, right=())
        head = str(self).partition("\n")[0].rstrip(":")
        return html_report(head, table if rows else "")


def why_no_gradient(
    model: Module, step: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> WhyNoGradient:
    """Run a step, and say which parameters of a model it gives no gradient, and why.

    step: a function that computes a loss and calls `backward`; called once with the further
    arguments, with all effects

    - frozen: `requires_grad` is False
    - unused: no op of the step reads the parameter
    - cut: all ways to the loss end at ops without a gradient: `detach`, `argmax`, ops under
      `no_grad`
    - dead end: results are computed that no loss is made of
    - no backward: `backward` was not called, or not for the result
    - zero: the gradient is there, and 0 everywhere

    Raises ArgumentTypeError for other things than a module and a function; ArgumentError for a
    model without parameters.
    """
    if not isinstance(model, Module):
        raise ArgumentTypeError(
            f"why_no_gradient: expected a module first, got a {type(model).__name__}"
        )
    if not callable(step):
        raise ArgumentTypeError(f"why_no_gradient: expected step to be a function, got {step!r}")
    parameters = dict(model.named_parameters())
    if not parameters:
        raise ArgumentError(
            f"why_no_gradient: a {type(model).__name__} without parameters is given"
        )
    seen: dict[str, list[Tensor]] = {}
    hooks = [
        p.register_hook(_noting(seen.setdefault(name, [])))
        for name, p in parameters.items()
        if p.requires_grad
    ]
    frozen = {name for name, p in parameters.items() if not p.requires_grad}
    try:
        with watch("a step", model) as recording:
            result = step(*args, **kwargs)
            recording.results = [x for x in tree.leaves(result) if isinstance(x, Tensor)]
    finally:
        for hook in hooks:
            hook.remove()
    told = WhyNoGradient()
    ways = Ways(recording.graph)
    for name in parameters:
        gradients = seen.get(name, [])
        if name in frozen:
            told.reasons.append(NoGradient(name, "frozen", "requires_grad is False"))
        elif not gradients and not parameters[name].requires_grad:
            text = "requires_grad is False since the step"
            told.reasons.append(NoGradient(name, "frozen", text))
        elif not gradients:
            told.reasons.append(ways.reason(name))
        elif not any(bool(g.count_nonzero()) for g in gradients):
            text = "a gradient is computed, and all of its elements are 0"
            told.reasons.append(NoGradient(name, "zero", text, ways.first_line(name)))
        else:
            told.reached.append(name)
    return told


def _noting(seen: list[Tensor]) -> Callable[[Tensor], None]:
    def note(gradient: Tensor) -> None:
        seen.append(gradient.detach())

    return note


class Ways:
    """The ways that the values of parameters take through the forward pass."""

    def __init__(self, graph: OpGraph) -> None:
        self.graph = graph
        self.users: list[list[OpNode]] = [[] for _ in graph.nodes]
        for node in graph:
            for i in dict.fromkeys(node.inputs):
                self.users[i].append(node)
        self.any_backward = any(node.phase == "backward" for node in graph)

    def readers(self, name: str) -> list[OpNode]:
        """The forward ops that read a parameter."""
        return [
            user
            for leaf in self.graph.find("input", name=name)
            for user in self.users[leaf.id]
            if user.phase == "forward"
        ]

    def first_line(self, name: str) -> str:
        """The line of the first op that reads a parameter."""
        return next((node.place for node in self.readers(name)), "")

    def reason(self, name: str) -> NoGradient:
        """Why no gradient has reached a parameter that requires one."""
        first = self.readers(name)
        if not first:
            return self._unused(name)
        if not self.any_backward:
            text = "the step calls no backward"
            return NoGradient(name, "no backward", text, first[0].place)
        cuts, ends, met = [], [], set()
        stack = first[::-1]
        while stack:
            node = stack.pop()
            if node.id in met:
                continue
            met.add(node.id)
            cut = self._cut(node)
            if cut:
                cuts.append((node, cut))
                continue
            forward = [user for user in self.users[node.id] if user.phase == "forward"]
            if not forward:
                ends.append(node)
            stack += forward[::-1]
        if cuts:
            node, text = cuts[0]
            more = len(cuts) - 1
            others = f" (and {more} more such place{'s' * (more > 1)})" if more else ""
            return NoGradient(name, "cut", text + others, node.place)
        text = f"backward starts from no result that {ends[0].op} leads to"
        return NoGradient(name, "dead end", text, ends[0].place)

    def _unused(self, name: str) -> NoGradient:
        path = name.rpartition(".")[0]
        called = any(f"{other}.".startswith(f"{path}.") for other in self.graph.modules)
        if not path or called:
            text = "no op of the step reads the parameter, although its module is called"
        else:
            text = f"no op of the step reads the parameter: {path} is not called"
        return NoGradient(name, "unused", text)

    def _cut(self, node: OpNode) -> str:
        """Why no gradient passes a forward op, or ""."""
        call = self.graph.calls.get(node.id)
        if call is None:
            return ""
        if not call.mode.grad:
            return f"{node.op} is computed where gradients are off (no_grad, inference_mode)"
        if not (call.prim.is_differentiable or call.prim.is_composite):
            return f"{node.op} has no gradient"
        return ""
