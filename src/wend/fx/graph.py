"""torch.fx.graph: the calls of a traced function, in order."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from wend._engine.base.errors import ArgumentError, ExecutionError
from wend._engine.core._hot import Tensor
from wend._engine.core.symbolic import SIGNS
from wend._frontend.seeing.tables import RULE, text_table
from wend.fx.node import (
    Argument,
    Node,
    Target,
    _text,
    map_aggregate,
    map_arg,
    refuse_edit,
    target_text,
)
from wend.nn.modules.module import Module

__all__ = ["Graph", "PythonCode"]

_UNARY = {"neg": "-", "pos": "+", "invert": "~"}


@dataclass
class PythonCode:
    """A graph as Python: the text of `forward`, and names that the text uses."""

    src: str
    globals: dict[str, Any]


class _Place:
    """Stands for a node in a pickle."""

    def __init__(self, name: str) -> None:
        self.name = name


class Graph:
    """Nodes in order.  New nodes go to the end; a node that is there stays unchanged.

    PyTorch's graphs are edited, and modules are generated from these.  This is a view of the
    program, for reading, interpreting, and building a further graph.
    """

    def __init__(
        self,
        owning_module: Module | None = None,
        tracer_cls: type | None = None,
        tracer_extras: object = None,
    ):
        self._owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._nodes: list[Node] = []
        self._position: dict[Node, int] = {}
        self._names: dict[str, int] = {}

    @property
    def owning_module(self) -> Any:
        """The GraphModule that computes the graph, the first if there are several."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: Any) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes in order."""
        return tuple(self._nodes)

    def _beside(self, node: Node, step: int) -> Node:
        return self._nodes[(self._position[node] + step) % len(self._nodes)]

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes with this op and, if given, this target."""
        return [n for n in self._nodes if n.op == op and (target is None or n.target == target)]

    def output_node(self) -> Node:
        """The output."""
        return next(n for n in reversed(self._nodes) if n.op == "output")

    # -- building -----------------------------------------------------------------------------

    def _fresh_name(self, wish: str) -> str:
        """A name that no node has, and that is no word of Python's."""
        wish = re.sub(r"[^0-9a-zA-Z_]+", "_", wish) or "_unnamed"
        wish = f"_{wish}" if wish[0].isdigit() else wish
        base, _, tail = wish.rpartition("_")
        count = self._names.get(wish)
        if count is None and not (keyword.iskeyword(wish) or hasattr(builtins, wish)):
            self._names[wish] = 0
            return wish
        if base and tail.isdigit() and count is None:
            self._names[wish] = 0
            return wish
        count = count or 0
        while True:
            count += 1
            name = f"{wish}_{count}"
            if name not in self._names:
                self._names[wish], self._names[name] = count, 0
                return name

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: object = None,
    ) -> Node:
        """A new node at the end.  name: a wish; nodes of equal wishes get numbers."""
        if name is None:
            name = target if isinstance(target, str) else getattr(target, "__name__", "call")
            name = "output" if op == "output" else name.replace(".", "_").strip("_") or "call"
        node = Node(self, self._fresh_name(name), op, target, args or (), kwargs or {}, type_expr)
        self._position[node] = len(self._nodes)
        self._nodes.append(node)
        return node

    def placeholder(self, name: str, type_expr: object = None, default_value: object = ...) -> Node:
        """An argument of the function."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: object = None) -> Node:
        """A parameter, buffer or constant of the module."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: object = None,
    ) -> Node:
        """A call of a submodule."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: object = None,
    ) -> Node:
        """A call of a method of args[0]."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: object = None,
        name: str | None = None,
    ) -> Node:
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def create_size_node(self, tensor_node: Node, dim: int) -> Node:
        """The extent of a dim of a node's result."""
        return self._fact(tensor_node, "size", (dim,))

    def create_stride_node(self, tensor_node: Node, dim: int) -> Node:
        """The stride of a dim of a node's result."""
        return self._fact(tensor_node, "stride", (dim,))

    def create_storage_offset_node(self, tensor_node: Node) -> Node:
        """The place of the first element of a node's result in its memory."""
        return self._fact(tensor_node, "storage_offset", ())

    def _fact(self, node: Node, method: str, args: tuple[int, ...]) -> Node:
        """A method of a tensor, with the answer noted where the tensor of the node is noted."""
        fact = self.call_method(method, (node, *args))
        for key in ("val", "example_value"):
            if isinstance(node.meta.get(key), Tensor):
                fact.meta[key] = getattr(node.meta[key], method)(*args)
        return fact

    def process_inputs(self, *args: Any) -> Any:
        """The arguments of a call as the graph takes them: as they are."""
        return args

    def process_outputs(self, out: Any) -> Any:
        """The graph's result as a call returns it: as it is."""
        return out

    def output(self, result: Argument, type_expr: object = None) -> Node:
        """The result of the function."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda n: n) -> Node:
        """A copy of a node of another graph.  arg_transform: from inputs to nodes of this graph."""
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        new_node = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        new_node.meta = dict(node.meta)
        return new_node

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Argument:
        """Copy all nodes of a graph but the output; the output's value in this graph.

        val_map: from nodes of g to nodes of this graph; filled
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                value = map_arg(node.args[0], lambda n: val_map[n])
                return (value, node) if return_output_node else value
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    # -- reading ------------------------------------------------------------------------------

    def lint(self) -> None:
        """Raise ArgumentError where a node uses a later node, or one of another graph."""
        seen: set[Node] = set()
        for node in self._nodes:
            for other in node.all_input_nodes:
                if other not in seen:
                    raise ArgumentError(f"torch.fx: {node} uses {other}, which is not before it")
            seen.add(node)

    def python_code(
        self, root_module: str = "self", verbose: bool = False, **options: object
    ) -> PythonCode:
        """The graph as the text of a function `forward`."""
        names: dict[str, Any] = {}
        body = []
        params = [root_module]
        for node in self._nodes:
            if node.op == "placeholder":
                default = f" = {node.args[0]!r}" if node.args else ""
                params.append(f"{node.target}{default}")
                if node.name != str(node.target).lstrip("*"):
                    body.append(f"{node.name} = {str(node.target).lstrip('*')}")
            else:
                body.append(_statement(node, root_module, names))
        lines = [f"def forward({', '.join(params)}):", *[f"    {line}" for line in body]]
        return PythonCode("\n".join(lines) + "\n", names)

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        rows: list[tuple[str, ...] | None] = [("opcode", "name", "target", "args", "kwargs"), RULE]
        for n in self._nodes:
            rows.append((n.op, n.name, target_text(n.target), _text(n.args), _text(n.kwargs)))
        print("\n".join(text_table(rows)))

    def __str__(self) -> str:
        return "\n".join(["graph():", *[f"    {n.format_node()}" for n in self._nodes]])

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        graph = Graph(tracer_cls=self._tracer_cls)
        nodes: dict[Node, Node] = {}
        for node in self._nodes:
            nodes[node] = graph.node_copy(node, lambda n: nodes[n])
        return graph

    def __reduce__(self) -> tuple[Any, ...]:
        rows = []
        for n in self._nodes:
            args, kwargs = map_arg((n.args, n.kwargs), lambda x: _Place(x.name))
            rows.append((n.op, n.name, n.target, args, kwargs, n.type))
        return _rebuilt, (rows,)

    # -- edits --------------------------------------------------------------------------------

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node that no other node uses.

        Raises ExecutionError (a RuntimeError) for a node in use, or of another graph.
        """
        if self._position.get(to_erase) is None:
            raise ExecutionError(f"torch.fx: {to_erase} is no node of this graph")
        if to_erase.users:
            raise ExecutionError(
                f"torch.fx: {to_erase} cannot be erased: {len(to_erase.users)} nodes use it "
                f"({', '.join(map(str, to_erase.users))})"
            )
        del self._nodes[self._position.pop(to_erase)]
        self._position = {node: k for k, node in enumerate(self._nodes)}
        for node in to_erase.all_input_nodes:
            node.users.pop(to_erase, None)

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        """Raises NotImplementedInWend: graphs are read-only."""
        refuse_edit("Graph's edits (inserting_before, eliminate_dead_code ...)")

    inserting_before = inserting_after = eliminate_dead_code = _refuse
    set_codegen = on_generate_code = _refuse


def _rebuilt(rows: list[Any]) -> Graph:
    """A graph from a pickle."""
    graph = Graph()
    nodes: dict[str, Node] = {}
    for op, name, target, args, kwargs, kind in rows:
        args, kwargs = map_aggregate(
            (args, kwargs), lambda x: nodes[x.name] if isinstance(x, _Place) else x
        )
        nodes[name] = graph.create_node(op, target, args, kwargs, name, kind)
    return graph


def _statement(node: Node, root: str, names: dict[str, Any]) -> str:
    """A node as a line of Python."""
    if node.op == "output":
        return f"return {_text(node.args[0])}"
    arguments = [_text(a) for a in node.args] + [
        f"{k} = {_text(v)}" for k, v in node.kwargs.items()
    ]
    target: Any = node.target
    if node.op == "get_attr":
        return f"{node.name} = {_path(root, target)}"
    if node.op == "call_module":
        return f"{node.name} = {_path(root, target)}({', '.join(arguments)})"
    if node.op == "call_method":
        return f"{node.name} = {arguments[0]}.{target}({', '.join(arguments[1:])})"
    text = target_text(target)
    short = text.removeprefix("operator.")
    if text.startswith("operator.") and short in SIGNS and len(arguments) == 2:
        return f"{node.name} = {arguments[0]} {SIGNS[short]} {arguments[1]}"
    if text.startswith("operator.") and short in _UNARY and len(arguments) == 1:
        return f"{node.name} = {_UNARY[short]}{arguments[0]}"
    if text == "operator.getitem":
        return f"{node.name} = {arguments[0]}[{arguments[1]}]"
    if target is getattr and len(node.args) == 2:
        return f"{node.name} = {arguments[0]}.{node.args[1]}"
    names[text] = target
    return f"{node.name} = {text}({', '.join(arguments)})"


def _path(root: str, target: str) -> str:
    """An attribute of an attribute of the module, as Python."""
    for part in target.split("."):
        root = f"{root}.{part}" if part.isidentifier() else f'getattr({root}, "{part}")'
    return root
