"""torch.fx.symbolic_trace: a function's calls as a graph, found by calling it with proxies.

Why proxies, and not the explored graph of `torch.export`: programs call symbolic_trace without
example inputs, and look for `nn` modules and functions of `torch` by name.  An explored graph needs
types, has Wend's primitives, and branches.  So this traces the calls that the program writes, and a
question about a value raises TraceError, which names the line.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from wend._engine.base.errors import ArgumentError, NotImplementedInWend
from wend._engine.core._hot import Tensor
from wend._engine.core.provenance import current_site
from wend.fx import proxy
from wend.fx.graph import Graph
from wend.fx.graph_module import GraphModule
from wend.fx.node import Argument, Node, Target, map_aggregate
from wend.fx.proxy import REMEDY, Proxy, TraceError
from wend.nn.modules.container import Sequential
from wend.nn.modules.module import Module
from wend.nn.parameter import Parameter

__all__ = ["PH", "GraphAppendingTracer", "Tracer", "symbolic_trace", "wrap"]


class _Placeholder:
    """Marks the parts of concrete_args that stay arguments."""

    def __repr__(self) -> str:
        return "PH"


PH = _Placeholder()
_PACKAGE = __name__.split(".")[0]
#: Modules whose functions are recorded by name, whichever types they would ask for.
_FUNCTIONS = ("", ".nn.functional", ".linalg", ".special", ".fft")
#: Functions that answer for a proxy, as for any object.
_ASKED_OF_PROXIES = frozenset(("is_tensor", "typename"))
#: (globals of a module, name) that `wrap` has noted.
_wrapped: list[tuple[dict[str, Any], str]] = []


def wrap(fn_or_name: str | Callable[..., Any]) -> Any:
    """Record calls of a function by name, without tracing the function.

    fn_or_name: the name of a global or builtin of the calling module, or a function of the module;
    as a decorator it leaves the function
    """
    if isinstance(fn_or_name, str):
        _wrapped.append((sys._getframe(1).f_globals, fn_or_name))
    else:
        _wrapped.append((fn_or_name.__globals__, fn_or_name.__name__))
    return fn_or_name


class Tracer:
    """Makes the graph of a module or function.  Subclasses decide which modules are leaves."""

    record_stack_traces = True

    def __init__(
        self,
        autowrap_modules: tuple[types.ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._modules = autowrap_modules
        self._functions = autowrap_functions
        self.graph = Graph()
        self.root: Module = Module()
        self._paths: dict[int, str] = {}
        self._tensors: dict[int, str] = {}
        self._function: Any = None  # that is traced
        self._stack: dict[str, Any] = {}  # modules that are being called: path, class

    # -- to be overridden ---------------------------------------------------------------------

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a module is a node of its own: those of `torch.nn`, but for Sequential."""
        home = type(m).__module__
        return home.startswith((f"{_PACKAGE}.nn", "torch.nn")) and not isinstance(m, Sequential)

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The result of a module's call while tracing: a node for a leaf, else forward's result."""
        path = self.path_of_module(m)
        before = self._stack
        self._stack = {**before, path: (path, type(m))}
        try:
            if not self.is_leaf_module(m, path):
                return forward(*args, **kwargs)
            return self.create_proxy("call_module", path, args, kwargs)
        finally:
            self._stack = before

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: object = None,
    ) -> Node:
        """A new node of the graph."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if self.record_stack_traces and kind.startswith("call"):
            node.meta["stack_trace"] = str(current_site())
        if self._stack:
            node.meta["nn_module_stack"] = dict(self._stack)
        return node

    def proxy(self, node: Node) -> Proxy:
        """The proxy of a node."""
        return Proxy(node, self)

    def to_bool(self, obj: Proxy) -> bool:
        """The answer where a proxy is a condition."""
        raise TraceError(
            "torch.fx: symbolically traced variables cannot be used as inputs to control flow. "
            + REMEDY
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """The items where a proxy is looped over."""
        raise TraceError(
            "torch.fx: Proxy object cannot be iterated: its length is not known while tracing. "
            + REMEDY
        )

    def keys(self, obj: Proxy) -> Iterable[str]:
        """The keys where a proxy follows `**`."""
        raise TraceError(f"torch.fx: the keys of a Proxy are not known while tracing. {REMEDY}")

    # -- making nodes -------------------------------------------------------------------------

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: object = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """The proxy of a new node."""
        node_args, node_kwargs = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, node_args, node_kwargs, name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Argument) -> Argument:
        """An argument as nodes hold it: nodes for proxies, and for tensors of the module."""
        return map_aggregate(a, self._leaf)

    def _leaf(self, x: Argument) -> Argument:
        if isinstance(x, Proxy):
            return x.node
        if isinstance(x, Tensor):
            return self.create_node("get_attr", self._path_of_tensor(x), (), {})
        if isinstance(x, Module):
            raise NotImplementedInWend("torch.fx: a module is no argument of a node")
        return x

    def _path_of_tensor(self, x: Tensor) -> str:
        path = self._tensors.get(id(x))
        if path is None:
            number = sum(name.startswith("_tensor_constant") for name in vars(self.root))
            path = self._tensors[id(x)] = f"_tensor_constant{number}"
            object.__setattr__(self.root, path, x)
        return path

    def path_of_module(self, mod: Module) -> str:
        """The path of a submodule.  Raises NotImplementedInWend for a module from elsewhere."""
        path = self._paths.get(id(mod))
        if path is None:
            raise NotImplementedInWend(
                f"torch.fx: the {type(mod).__name__} that is called is no submodule of the traced "
                "module: assign it to an attribute in __init__"
            )
        return path

    # -- the whole ----------------------------------------------------------------------------

    def trace(
        self,
        root: Module | Callable[..., Any],
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> Graph:
        """The graph of a module's forward, or of a function.  `self.root` has the tensors.

        concrete_args: values of arguments, by name, that are constants of the graph
        """
        if isinstance(root, Module):
            self.root, function, bound = root, type(root).forward, (root,)
        else:
            self.root, function, bound = Module(), root, ()
        self.graph = Graph(tracer_cls=type(self))
        self._function = function
        self._paths = {id(m): path for path, m in self.root.named_modules()}
        tensors = [*self.root.named_parameters(), *self.root.named_buffers()]
        self._tensors = {id(x): path for path, x in tensors}
        self._note_constants()
        function, args = self.create_args_for_root(function, bool(bound), concrete_args)
        with self._patched():
            result = function(*args)
        self.create_node("output", "output", (self.create_arg(result),), {})
        return self.graph

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Callable[..., Any], list[Any]]:
        """(a function, its arguments): a proxy with a placeholder for each parameter.

        is_module: whether the first parameter is the traced module
        concrete_args: see `trace`; a tuple has a value for each parameter
        Raises ArgumentError for a tuple of another length.
        """
        if isinstance(concrete_args, tuple):
            names = list(inspect.signature(root_fn).parameters)[is_module:]
            if len(names) != len(concrete_args):
                raise ArgumentError(
                    f"Tracing expected {len(names)} arguments but got {len(concrete_args)} "
                    "concrete arguments"
                )
            concrete_args = dict(zip(names, concrete_args, strict=True))
        args, kwargs = self._arguments(root_fn, int(is_module), concrete_args or {})
        function = _without_stars(root_fn)
        if kwargs:
            function = functools.partial(function, **kwargs)
        return function, [self.root, *args] if is_module else args

    def get_fresh_qualname(self, prefix: str) -> str:
        """The prefix with the first number from 0 that no attribute of the traced module has."""
        return next(n for k in itertools.count() if not hasattr(self.root, n := f"{prefix}{k}"))

    def _note_constants(self) -> None:
        """Tensors that are plain attributes of modules."""
        for path, module in self.root.named_modules():
            for name, x in vars(module).items():
                if isinstance(x, Tensor) and not isinstance(x, Parameter):
                    self._tensors.setdefault(id(x), f"{path}.{name}".lstrip("."))

    def _arguments(
        self, function: Callable[..., Any], skipped: int, concrete: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Proxies for the arguments of a function, each with a placeholder."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        parameters = list(inspect.signature(function).parameters.values())[skipped:]
        for p in parameters:
            star = _STARS.get(p.kind, "")
            default = () if p.default is p.empty else (p.default,)
            node = self.create_node("placeholder", star + p.name, default, {}, name=p.name)
            argument = concrete.get(p.name, PH)
            value = self._filled(argument, self.proxy(node))
            if not _has_placeholder(argument):
                node.meta["concrete"] = argument
            if star or p.kind is not p.KEYWORD_ONLY:
                args.append(value)
            else:
                kwargs[p.name] = value
        return args, kwargs

    def _filled(self, argument: Argument, proxy: Any) -> Any:
        """A concrete argument, with parts of the proxy where PH stands."""
        if argument is PH:
            return proxy
        if not _has_placeholder(argument):
            return argument
        if isinstance(argument, dict):
            return {key: self._filled(x, proxy[key]) for key, x in argument.items()}
        return type(argument)([self._filled(x, proxy[i]) for i, x in enumerate(argument)])

    @contextmanager
    def _patched(self) -> Iterator[None]:
        """Inside the block modules and functions are recorded by name."""
        before: list[tuple[dict[str, Any], str, Any]] = []
        for space, name in self._recorded():
            original = space.get(name, _MISSING)
            real = getattr(sys.modules["builtins"], name) if original is _MISSING else original
            before.append((space, name, original))
            space[name] = self._recording(real)
        tracer = self
        plain: Callable[..., Any] = Module.__call__

        def call(module: Module, *args: object, **kwargs: object) -> Any:
            def forward(*args: object, **kwargs: object) -> Any:
                return plain(module, *args, **kwargs)

            return tracer.call_module(module, forward, args, kwargs)

        outer = vars(Module).get("__call__")  # of a trace around this
        Module.__call__ = call  # type: ignore[method-assign]
        try:
            yield
        finally:
            if outer is None:
                del Module.__call__
            else:
                Module.__call__ = outer  # type: ignore[method-assign]
            for space, name, original in reversed(before):
                if original is _MISSING:
                    del space[name]
                else:
                    space[name] = original

    def _recorded(self) -> Iterator[tuple[dict[str, Any], str]]:
        """The places of functions that are recorded by name."""
        spaces = [sys.modules.get(_PACKAGE + path) for path in _FUNCTIONS]
        known = set()
        for module in [*spaces, *self._modules]:
            for name, value in list(vars(module).items()) if module is not None else ():
                if name.startswith("_") or name in _ASKED_OF_PROXIES:
                    continue
                if callable(value) and not isinstance(value, type):
                    known.add(id(value))
                    yield vars(module), name
        for space in self._users_globals():
            for name, value in list(space.items()):
                if id(value) in known:  # from torch.nn.functional import dropout
                    yield space, name
        yield from _wrapped
        for function in self._functions:
            yield function.__globals__, function.__name__

    def _users_globals(self) -> Iterator[dict[str, Any]]:
        """The globals of the code that is traced."""
        functions = [self._function]
        for path, m in self.root.named_modules():
            if m is self.root or not self.is_leaf_module(m, path):
                functions.append(type(m).forward)
        seen = {id(vars(m)) for p in _FUNCTIONS if (m := sys.modules.get(_PACKAGE + p)) is not None}
        for function in functions:
            space = getattr(inspect.unwrap(function), "__globals__", None)
            if space is not None and id(space) not in seen:
                seen.add(id(space))
                yield space

    def _recording(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*args: object, **kwargs: object) -> Any:
            proxies: list[Any] = []
            map_aggregate(
                (args, kwargs), lambda x: proxies.append(x) if isinstance(x, Proxy) else None
            )
            if not proxies:
                return real(*args, **kwargs)
            return proxies[0].tracer.create_proxy("call_function", real, args, kwargs)

        return functools.update_wrapper(recorded, real, updated=())


_MISSING = object()


_STARS: dict[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


def _without_stars(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose `*args` and `**kwargs` are given as two plain arguments.

    Their lengths are not known while tracing: the function gets a proxy for each.
    """
    code: Any = getattr(function, "__code__", None)
    stars = (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS)
    count = sum(bool(code.co_flags & flag) for flag in stars) if code is not None else 0
    if not count or code.co_kwonlyargcount:
        return function
    plain = code.replace(
        co_flags=code.co_flags & ~stars[0] & ~stars[1], co_argcount=code.co_argcount + count
    )
    plain_function = types.FunctionType(
        plain, function.__globals__, function.__name__, None, function.__closure__
    )
    plain_function.__defaults__ = None
    return plain_function


def _has_placeholder(argument: object) -> bool:
    placeholders: list[Any] = []
    map_aggregate(argument, lambda x: placeholders.append(x) if x is PH else None)
    return bool(placeholders)


class GraphAppendingTracer(Tracer):
    """Appends the calls of proxies to a graph."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph


Proxy._tracer_of_graph = GraphAppendingTracer
#: PyTorch's place of the name; the module of proxies does not know tracers.
vars(proxy)["GraphAppendingTracer"] = GraphAppendingTracer


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """The calls of a module or function as a GraphModule, which computes the same.

    concrete_args: values of arguments by name, which are constants of the graph; calls with others
    raise ArgumentError.  PH stands for parts that stay arguments

    Raises TraceError (a ValueError) where the function asks for a value, with the line and the
    remedy.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", "traced")
    return GraphModule(tracer.root, graph, name)
