"""Runs a graph node by node; subclasses change or watch the calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend.fx.graph import Graph
from wend.fx.node import Argument, Node, map_arg
from wend.nn.modules.module import Module

__all__ = ["Interpreter", "bound_arguments"]

NO_GRAPH = (
    "torch.fx.Interpreter: takes a GraphModule of torch.fx.symbolic_trace, or a graph; got {}. "
    "The graph of torch.export has branches and loops, which a list of nodes cannot have: call its "
    ".module()"
)


def bound_arguments(graph: Graph, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """A value per placeholder, from the arguments of a call.  Raises ArgumentTypeError."""
    waiting, named = list(args), dict(kwargs)
    values: list[Any] = []
    for node in graph.find_nodes(op="placeholder"):
        name = str(node.target)
        if name.startswith("**"):
            values.append(named)
            named = {}
        elif name.startswith("*"):
            values.append(tuple(waiting))
            waiting = []
        elif waiting:
            values.append(waiting.pop(0))
        elif name in named:
            values.append(named.pop(name))
        elif node.args:
            values.append(node.args[0])
        else:
            raise ArgumentTypeError(f"forward() missing 1 required argument: '{name}'")
    if waiting or named:
        extra = ", ".join(map(repr, [*waiting[:1], *named]))
        raise ArgumentTypeError(f"forward() got arguments that it does not take: {extra}")
    return values


class Interpreter:
    """Runs a graph.  `run_node` is called for each node, and calls the method named by `node.op`.

    module: has the submodules and tensors     garbage_collect_values: whether results go after the
    last use     graph: another graph than that of the module
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        own_graph = graph if graph is not None else getattr(module, "graph", None)
        if not isinstance(own_graph, Graph):
            raise ArgumentTypeError(NO_GRAPH.format(f"a {type(module).__name__}"))
        self.module = module
        self.graph = own_graph
        self.submodules = dict(module.named_modules())
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.args_iter: Iterator[Any] = iter(())
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            last: dict[Node, Node] = {}
            for node in own_graph.nodes:
                last.update(dict.fromkeys(node.all_input_nodes, node))
            for used, user in last.items():
                self.user_to_last_uses.setdefault(user, []).append(used)

    def run(
        self,
        *args: object,
        initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """The graph's result for a value per placeholder.

        initial_env: results of nodes that are not run
        """
        self.env = {} if initial_env is None else dict(initial_env)
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    error.add_note(f"While executing {node.format_node()}")
                raise
            for used in self.user_to_last_uses.get(node, ()):
                del self.env[used]
            if node.op == "output":
                return self.env[node]
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """As `run`, with the arguments in a list, which is emptied."""
        args = list(args_list)
        args_list.clear()
        return self.run(*args)

    def run_node(self, n: Node) -> Any:
        """The result of a node, by the method named by the op."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        self._concrete = n.meta.get("concrete", _ANY)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The next argument."""
        if target.startswith("*") and not target.startswith("**"):
            value: Any = next(self.args_iter, ())
        else:
            value = next(self.args_iter, _ANY)
        if value is _ANY:
            if not args:
                raise ArgumentError(f"torch.fx: no value is given for the argument {target!r}")
            value = args[0]
        wanted = self._concrete
        if wanted is not _ANY and not (value is wanted or value == wanted):
            raise ArgumentError(
                f"torch.fx: {target} has been specialized to have value {wanted!r} in "
                f"concrete_args, but got {value!r}"
            )
        return value

    def get_attr(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A tensor of the module."""
        return self.fetch_attr(target)

    def call_function(
        self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A function's result."""
        return target(*args, **kwargs)

    def call_method(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a method of args[0]."""
        owner, *rest = args
        return getattr(owner, target)(*rest, **kwargs)

    def call_module(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A submodule's result."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of the graph."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """A tensor or submodule of the module."""
        value: Any = self.module
        for name in target.split("."):
            value = getattr(value, name)
        return value

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a node, with results in place of nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """Arguments with results in place of nodes."""
        return map_arg(args, self.env.__getitem__)


class _Any:
    """No value."""


_ANY: Any = _Any()
