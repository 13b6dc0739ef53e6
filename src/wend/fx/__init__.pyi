# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"
from wend._engine.base.lazy_modules import load_when_named as load_when_named
from wend.fx import graph as graph
from wend.fx import graph_module as graph_module
from wend.fx import immutable_collections as immutable_collections
from wend.fx import interpreter as interpreter
from wend.fx import node as node
from wend.fx import operator_schemas as operator_schemas
from wend.fx import passes as passes
from wend.fx import proxy as proxy
from wend.fx._symbolic_trace import PH as PH
from wend.fx._symbolic_trace import Tracer as Tracer
from wend.fx._symbolic_trace import symbolic_trace as symbolic_trace
from wend.fx._symbolic_trace import wrap as wrap
from wend.fx.graph import Graph as Graph
from wend.fx.graph_module import GraphModule as GraphModule
from wend.fx.interpreter import Interpreter as Interpreter
from wend.fx.interpreter import Transformer as Transformer
from wend.fx.node import Node as Node
from wend.fx.node import has_side_effect as has_side_effect
from wend.fx.node import map_arg as map_arg
from wend.fx.node import replace_pattern as replace_pattern
from wend.fx.proxy import Proxy as Proxy
from wend.fx.proxy import TraceError as TraceError
