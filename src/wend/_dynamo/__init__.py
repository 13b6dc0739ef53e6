"""torch._dynamo: names of PyTorch's tracer.

Wend runs all of Python and compiles the paths that come back.  So most of these names change
nothing; `explain` tells whether a function has a static graph.
"""

from wend._dynamo import config, exc
from wend._dynamo._compiled import OptimizedModule, compile  # noqa: A004
from wend._dynamo._explain import ExplainOutput, explain
from wend._dynamo._markers import (
    allow_in_graph,
    assume_constant_result,
    disable,
    disallow_in_graph,
    forbid_in_graph,
    graph_break,
    is_compiling,
    list_backends,
    lookup_backend,
    mark_dynamic,
    mark_static,
    mark_static_address,
    maybe_mark_dynamic,
    nonstrict_trace,
    optimize,
    optimize_assert,
    register_backend,
    reset,
    run,
    set_stance,
    substitute_in_graph,
)

__all__ = [
    "ExplainOutput",
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "config",
    "disable",
    "disallow_in_graph",
    "exc",
    "explain",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "list_backends",
    "lookup_backend",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "nonstrict_trace",
    "optimize",
    "optimize_assert",
    "register_backend",
    "reset",
    "run",
    "set_stance",
    "substitute_in_graph",
]
