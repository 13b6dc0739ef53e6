"""torch._dynamo.explain: whether a function has a static graph, and the reason if not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wend._dynamo._compiled import innermost
from wend._engine.transforms.exploring.program import Apply
from wend._engine.transforms.exploring.recording import ExploreError
from wend._engine.transforms.exploring.text import lines
from wend._frontend.static.explored import explored

__all__ = ["ExplainOutput", "explain"]


@dataclass
class ExplainOutput:
    """The findings of exploring a function.

    graphs: texts of the explored graph; none where there is no static graph
    break_reasons: the errors that say why     ops_per_graph: names of ops
    """

    graphs: list[str] = field(default_factory=list)
    graph_count: int = 0
    graph_break_count: int = 0
    break_reasons: list[Any] = field(default_factory=list)
    op_count: int = 0
    ops_per_graph: list[list[Any]] = field(default_factory=list)
    out_guards: list[Any] = field(default_factory=list)
    compile_times: str | None = None

    def __str__(self) -> str:
        text = [
            f"Graph Count: {self.graph_count}",
            f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}",
            "Break Reasons:",
            *[f"  {reason}" for reason in self.break_reasons],
            "Ops per Graph:",
            *[f"  {', '.join(ops)}" for ops in self.ops_per_graph],
        ]
        return "\n".join(text)


def explain(f: Callable[..., Any], *extra_args: Any, **extra_kwargs: Any) -> Any:
    """explain(f)(*args, **kwargs): an ExplainOutput of the explored graph of f for these arguments.

    Branches and loops are part of the graph.  Without a static graph, the reason is that of
    `torch.compile(fullgraph=True)`.
    """
    inner = innermost(f)

    def explained(*args: Any, **kwargs: Any) -> ExplainOutput:
        try:
            program = explored(inner, args, kwargs)
        except ExploreError as error:
            # The function has no static graph, and the error is the reason that is reported.
            return ExplainOutput(graph_break_count=1, break_reasons=[error])
        names = [
            x.prim.name for _, _, s in program.stretches() for x in s.items if type(x) is Apply
        ]
        text = "\n".join(lines(program))
        return ExplainOutput([text], 1, op_count=len(names), ops_per_graph=[names])

    return explained(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else explained
