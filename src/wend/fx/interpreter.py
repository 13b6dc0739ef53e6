"""torch.fx.interpreter: runs a graph node by node, or builds a further graph so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend.fx._running import Interpreter
from wend.fx._symbolic_trace import GraphAppendingTracer
from wend.fx.graph import Graph
from wend.fx.graph_module import GraphModule
from wend.fx.node import Argument, map_aggregate
from wend.fx.proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


class Transformer(Interpreter):
    """Builds a further graph: each method's result is a proxy of that graph, or a constant."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.new_graph = Graph()
        self.tracer = GraphAppendingTracer(self.new_graph)
        self.tracer.root = module
        self.tracer._tensors = {
            id(x): path for path, x in [*module.named_parameters(), *module.named_buffers()]
        }

    def placeholder(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """An argument of the new graph."""
        return self.tracer.create_proxy("placeholder", target, args, kwargs)

    def get_attr(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """A tensor of the module, in the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_function(
        self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A function's call in the new graph."""
        if not self._has_proxy((args, kwargs)):
            return target(*args, **kwargs)
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A method's call in the new graph."""
        if not self._has_proxy((args, kwargs)):
            return super().call_method(target, args, kwargs)
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def call_module(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A submodule's call in the new graph."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def _has_proxy(self, a: Argument) -> bool:
        proxies: list[Any] = []
        map_aggregate(a, lambda x: proxies.append(x) if isinstance(x, Proxy) else None)
        return bool(proxies)

    def transform(self) -> GraphModule:
        """The new graph as a module, with the tensors and submodules of the old module."""
        self.extra_traceback = False
        result = self.run()
        self.new_graph.output(self.tracer.create_arg(result))
        old: Any = self.module
        return GraphModule(old, self.new_graph, old._class_name)
