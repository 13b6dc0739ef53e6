"""torch.fx.proxy: stands for a value while a function is traced; each use becomes a node."""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, NoReturn

from wend._engine.base.errors import ArgumentError
from wend._engine.core.provenance import current_site
from wend.fx.node import Node, map_aggregate

__all__ = ["Attribute", "Proxy", "TraceError"]


def __getattr__(name: str) -> object:
    # The tracer is made of this module's classes; PyTorch has its name here.
    if name == "GraphAppendingTracer":
        return Proxy._tracer_of_graph
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


REMEDY = (
    "Give the argument in concrete_args, make the module a leaf (Tracer.is_leaf_module), or use "
    "torch.export.export with example inputs, which keeps branches and loops"
)


class TraceError(ArgumentError):
    """A function cannot be traced without values: the message names the user's line."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.site = current_site()


#: Ops that stand for operators, where a tensor is the left operand.
_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "matmul": operator.matmul,
    "pow": operator.pow,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


class Proxy:
    """A value that is not known.  Operators, functions, methods and attributes become nodes.

    A question about the value (`if`, `int`, a loop) raises TraceError.
    """

    _tracer_of_graph: Callable[[Any], Any]  # the tracer that appends to a graph

    def __init__(self, node: Node, tracer: Any = None) -> None:
        if tracer is None:
            tracer = type(self)._tracer_of_graph(node.graph)
        self.tracer = tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Attribute:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Attribute(self, name)

    def __call__(self, *args: object, **kwargs: object) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Proxy:
        tracer = _tracer_of((args, kwargs or {}))
        name = getattr(func, "__name__", "")
        if name in _OPERATORS and len(args) == 2 and not kwargs:
            func = _OPERATORS[name]
        return tracer.create_proxy("call_function", func, args, dict(kwargs or {}))

    def __iter__(self) -> Iterator[Any]:
        count = _unpacked(sys._getframe(1))
        if count is None:
            return self.tracer.iter(self)
        return iter([operator.getitem(self, i) for i in range(count)])  # type: ignore[call-overload]

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def keys(self) -> Iterable[str]:
        """Asked for by `**`: raises TraceError unless the tracer overrides `keys`."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise TraceError(
            "torch.fx: 'len' is not supported in symbolic tracing by default. If you want this "
            "call to be recorded, please call torch.fx.wrap('len') at module scope, or use "
            "x.shape[0]"
        )

    def _asked(self, *args: object) -> NoReturn:
        raise TraceError(f"torch.fx: the value of {self.node} is not known while tracing. {REMEDY}")

    __int__ = __float__ = __complex__ = __index__ = __contains__ = __array__ = _asked
    __hash__ = object.__hash__


class Attribute(Proxy):
    """An attribute of a proxy: a method to call, or a value, whose node is made when needed."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._made: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node of the value."""
        if self._made is None:
            proxy = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self._made = proxy.node
        return self._made

    def __call__(self, *args: object, **kwargs: object) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def _tracer_of(a: object) -> Any:
    """The tracer of the first proxy among arguments."""
    tracers: list[Any] = []
    map_aggregate(a, lambda x: tracers.append(x.tracer) if isinstance(x, Proxy) else None)
    return tracers[0]


def _unpacked(frame: FrameType) -> int | None:
    """How many names a line assigns to, where the frame is about to unpack a value."""
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti and instruction.opname == "UNPACK_SEQUENCE":
            return instruction.argval
    return None


def _through(function: Callable[..., Any], swaps: bool = False) -> Callable[..., Any]:
    def method(self: Proxy, *args: object) -> Proxy:
        operands = (*args, self) if swaps else (self, *args)
        return self.tracer.create_proxy("call_function", function, operands, {})

    return method


for _name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split():
    _function = getattr(operator, f"__{_name}__")
    setattr(Proxy, f"__{_name}__", _through(_function))
    setattr(Proxy, f"__r{_name}__", _through(_function, True))
for _name in "eq ne lt le gt ge neg pos invert abs getitem setitem".split():
    setattr(Proxy, f"__{_name}__", _through(getattr(operator, f"__{_name}__")))
