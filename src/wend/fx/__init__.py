"""torch.fx: the calls of a module as a graph that can be read, interpreted and copied."""

from wend._engine.base.lazy_modules import load_when_named
from wend.fx import operator_schemas, passes
from wend.fx._symbolic_trace import PH, Tracer, symbolic_trace, wrap
from wend.fx.graph import Graph
from wend.fx.graph_module import GraphModule
from wend.fx.interpreter import Interpreter, Transformer
from wend.fx.node import Node, has_side_effect, map_arg, replace_pattern
from wend.fx.proxy import Proxy, TraceError

__all__ = [
    "PH",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "TraceError",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "operator_schemas",
    "passes",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]

load_when_named(__name__, "immutable_collections")
