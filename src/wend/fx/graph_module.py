"""torch.fx.graph_module: a graph with its tensors and submodules, as a module."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NoReturn

from wend.fx._running import Interpreter, bound_arguments
from wend.fx.graph import Graph, PythonCode
from wend.fx.node import refuse_edit
from wend.nn.modules.module import Module
from wend.nn.parameter import Parameter

__all__ = ["GraphModule"]


class GraphModule(Module):
    """Computes a graph.  Parameters, buffers and submodules are those of the traced module.

    root: a module, or a dict from paths to modules and tensors     class_name: of the printed text
    """

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        super().__init__()
        self._class_name = class_name
        for node in graph.nodes:
            if node.op in ("call_module", "get_attr"):
                path = str(node.target)
                part = root[path] if isinstance(root, dict) else _at(root, path)
                self._put(path, part, root)
        if isinstance(root, Module):
            self.training = root.training
        self._graph = graph
        if graph.owning_module is None:
            graph.owning_module = self

    def _put(self, path: str, value: Any, root: Module | dict[str, Any]) -> None:
        """Have a module or tensor under the path that the root has."""
        *names, last = path.split(".")
        owner: Module = self
        for name in names:
            inner = owner._modules.get(name)
            if inner is None:
                inner = Module()
                owner.add_module(name, inner)
            owner = inner
        if isinstance(value, Module):
            owner.add_module(last, value)
        elif isinstance(value, Parameter):
            owner.register_parameter(last, value)
        elif isinstance(root, dict) or last in _at(root, ".".join(names))._buffers:
            owner.register_buffer(last, value)
        else:
            setattr(owner, last, value)

    @property
    def graph(self) -> Graph:
        """The calls in order."""
        return self._graph

    @graph.setter
    def graph(self, value: object) -> None:
        refuse_edit("GraphModule.graph = ...: make a new GraphModule")

    @property
    def code(self) -> str:
        """The graph as the text of `forward`."""
        return "\n" + self._graph.python_code("self").src

    def forward(self, *args: object, **kwargs: object) -> Any:
        """The result of the graph."""
        return Interpreter(self).run(*bound_arguments(self._graph, args, kwargs))

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        **options: object,
    ) -> str:
        """The text of a class with `forward`; also printed."""
        lines = self._graph.python_code("self").src.splitlines()
        body = "\n".join([f"    {line}" for line in lines])
        text = f"class {self._class_name}(torch.nn.Module):\n{body}\n"
        if print_output:
            print(text)
        return text

    def recompile(self) -> PythonCode:
        """The code of the graph, which cannot have changed."""
        return self._graph.python_code("self")

    def _get_name(self) -> str:
        return self._class_name

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        parts = {
            str(n.target): copy.deepcopy(_at(self, str(n.target)), memo)
            for n in self._graph.nodes
            if n.op in ("call_module", "get_attr")
        }
        module = GraphModule(parts, copy.deepcopy(self._graph, memo), self._class_name)
        module.train(self.training)
        return module

    def __reduce__(self) -> tuple[Any, ...]:
        targets = [str(n.target) for n in self._graph.nodes if n.op in ("call_module", "get_attr")]
        parts = {path: _at(self, path) for path in targets}
        return GraphModule, (parts, self._graph, self._class_name)

    def _no_edit(self, *args: object, **kwargs: object) -> NoReturn:
        """Raises NotImplementedInWend: graphs are read-only."""
        refuse_edit("GraphModule's edits (add_submodule, delete_submodule, to_folder ...)")

    add_submodule: Callable[..., Any] = _no_edit
    delete_submodule = delete_all_unused_submodules = to_folder = _no_edit


def _at(root: object, path: str) -> Any:
    """The attribute of an attribute of a module."""
    for name in path.split(".") if path else ():
        root = getattr(root, name)
    return root
