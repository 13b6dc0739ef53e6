"""torch.fx.node: a call in a graph, which other calls refer to."""

from __future__ import annotations

import builtins
import importlib
from collections.abc import Callable
from typing import Any, NoReturn

from wend._engine.base.errors import NotImplementedInWend
from wend.nn.modules.module import Module

__all__ = [
    "Argument",
    "Node",
    "Target",
    "has_side_effect",
    "map_aggregate",
    "map_arg",
    "refuse_edit",
    "replace_pattern",
    "target_text",
]

Target = Callable[..., Any] | str
Argument = Any
OPS = ("placeholder", "get_attr", "call_function", "call_module", "call_method", "output")


def refuse_edit(name: str) -> NoReturn:
    """Raise NotImplementedInWend for a call that would edit a graph."""
    raise NotImplementedInWend(
        f"torch.fx: {name}: a graph is a read-only view of the program. Change the module's code, "
        "build a new Graph (create_node, node_copy), or override a method of torch.fx.Transformer"
    )


def map_aggregate(a: Argument, fn: Callable[[Any], Any]) -> Argument:
    """a with fn(leaf) in place of each leaf of tuples, lists, dicts and slices."""
    if isinstance(a, tuple):
        inner = [map_aggregate(x, fn) for x in a]
        return type(a)(*inner) if hasattr(a, "_fields") else tuple(inner)
    if isinstance(a, list):
        return [map_aggregate(x, fn) for x in a]
    if isinstance(a, dict):
        return {key: map_aggregate(x, fn) for key, x in a.items()}
    if isinstance(a, slice):
        return slice(*[map_aggregate(x, fn) for x in (a.start, a.stop, a.step)])
    return fn(a)


def map_arg(a: Argument, fn: Callable[[Node], Any]) -> Argument:
    """a with fn(node) in place of each node."""
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def target_text(target: object) -> str:
    """The name of a target, as a program would write it."""
    if isinstance(target, str):
        return target
    name = str(getattr(target, "__qualname__", "") or getattr(target, "__name__", repr(target)))
    module = str(getattr(target, "__module__", "") or "")
    if module == "builtins" or getattr(builtins, name, None) is target:
        return name
    if module in ("_operator", "operator"):
        return f"operator.{name}"
    if module.split(".")[0] == __name__.split(".")[0]:
        return f"torch.{_home(target, name)}"
    return f"{module}.{name}" if module else name


def _home(target: object, name: str) -> str:
    """Where a function of Wend's is found below the package."""
    import sys

    package = __name__.split(".")[0]
    plain = str(getattr(target, "__name__", name))
    for path in ("", "nn.functional", "linalg", "special"):
        module = sys.modules.get(f"{package}.{path}".rstrip("."))
        if module is not None and vars(module).get(plain) is target:
            return f"{path}.{plain}".lstrip(".")
    return plain


class Node:
    """A call in a graph.

    op: 'placeholder', 'get_attr', 'call_function', 'call_module', 'call_method' or 'output'
    target: the argument's name, a path of an attribute or module, a function, or a method's name
    args, kwargs: trees of constants and of the nodes whose results are used
    users: the nodes that use the result     meta: facts, such as `ShapeProp` notes
    """

    def __init__(
        self,
        graph: Any,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any = None,
    ) -> None:
        if op not in OPS:
            raise ValueError(f"torch.fx.Node: op is one of {', '.join(OPS)}, not {op!r}")
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self._args = args
        self._kwargs = kwargs
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        map_arg((args, kwargs), lambda n: self._input_nodes.setdefault(n))
        for n in self._input_nodes:
            n.users.setdefault(self)

    @property
    def args(self) -> tuple[Argument, ...]:
        """The positional arguments."""
        return self._args

    @args.setter
    def args(self, value: object) -> None:
        refuse_edit("Node.args = ...")

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The arguments by keyword."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, value: object) -> None:
        refuse_edit("Node.kwargs = ...")

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes whose results are used, each once."""
        return list(self._input_nodes)

    @property
    def prev(self) -> Node:
        """The node before; of the first node, the last."""
        return self.graph._beside(self, -1)

    @property
    def next(self) -> Node:
        """The node behind; of the last node, the first."""
        return self.graph._beside(self, 1)

    @property
    def stack_trace(self) -> str | None:
        """The user's line."""
        return self.meta.get("stack_trace")

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node must stay although nobody uses the result."""
        if self.op in ("placeholder", "output"):
            return True
        name = self.target if self.op == "call_method" else ""
        return isinstance(name, str) and name.endswith("_") and not name.endswith("__")

    def normalized_arguments(
        self,
        root: Module,
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """(args, kwargs) with the defaults of arguments left out; None if these cannot be told.

        root: the module with the submodules     normalize_to_only_use_kwargs: all by keyword
        """
        schemas = importlib.import_module("wend.fx.operator_schemas")
        only = normalize_to_only_use_kwargs
        if self.op == "call_function":
            return schemas.normalize_function(
                self.target, self.args, self.kwargs, arg_types, kwarg_types, only
            )
        if self.op == "call_module":
            return schemas.normalize_module(root, self.target, self.args, self.kwargs, only)
        return None

    def format_node(self, *args: object, **kwargs: object) -> str:
        """The node as a line of text."""
        kind = "" if self.type is None else f" : {getattr(self.type, '__name__', self.type)}"
        if self.op == "output":
            return f"return {_text(self.args[0])}"
        head = f"%{self.name}{kind} : [num_users={len(self.users)}] = {self.op}"
        head += f"[target={target_text(self.target)}]"
        if self.op == "placeholder":
            return head + (f"(default={self.args[0]!r})" if self.args else "")
        if self.op == "get_attr":
            return head
        return f"{head}(args = {_text(self.args, '%')}, kwargs = {_text(self.kwargs, '%')})"

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> NoReturn:
        raise TypeError("torch.fx: a Node belongs to its Graph: copy or pickle the graph")

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        """Raises NotImplementedInWend: graphs are read-only."""
        refuse_edit("Node's edits (replace_all_uses_with, update_arg, append ...)")

    replace_all_uses_with = replace_input_with = update_arg = update_kwarg = insert_arg = _refuse
    append = prepend = _refuse


def _text(a: Argument, sign: str = "") -> str:
    """Arguments as text, nodes by name."""
    if isinstance(a, Node):
        return sign + a.name
    if isinstance(a, tuple) and not hasattr(a, "_fields"):
        inside = ", ".join(_text(x, sign) for x in a)
        return f"({inside},)" if len(a) == 1 else f"({inside})"
    if isinstance(a, list):
        return f"[{', '.join(_text(x, sign) for x in a)}]"
    if isinstance(a, dict):
        pairs = [(k if sign else repr(k), v) for k, v in a.items()]
        return "{" + ", ".join(f"{k}: {_text(v, sign)}" for k, v in pairs) + "}"
    if isinstance(a, slice):
        return f"slice({', '.join(_text(x, sign) for x in (a.start, a.stop, a.step))})"
    if callable(a):
        return target_text(a)
    return repr(a)


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function: no node is ever removed, whether it has effects or not."""
    return fn


def replace_pattern(gm: object, pattern: object, replacement: object) -> NoReturn:
    """Raises NotImplementedInWend: graphs are read-only."""
    refuse_edit("replace_pattern")
