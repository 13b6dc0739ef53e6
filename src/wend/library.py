"""torch.library: operators of a program's own, which are Python functions on tensors.

Functions are called unchanged. Descriptions of shapes (`register_fake`) are kept, not asked:
graphs are explored by running the functions.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from wend import ops as _ops
from wend._engine.base import tree
from wend._engine.base.dtypes import DType, float64
from wend._engine.base.errors import ArgumentError, GraphError, NotImplementedInWend
from wend._engine.base.tree import Structure
from wend._engine.core._hot import Tensor
from wend._frontend.autograd.backward import is_grad_enabled, no_grad
from wend._frontend.rare.schemas import infer_schema
from wend.amp.autocast_mode import autocast, is_autocast_available, is_autocast_enabled
from wend.autograd import Function
from wend.ops import OpOverload, OpOverloadPacket

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "get_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]

_defined: dict[str, CustomOpDef] = {}


class CustomOpDef:
    """An operator `namespace::name`: its functions, and the rules registered for these."""

    def __init__(self, name: str, mutates: bool = False, schema: str | None = None) -> None:
        self.namespace, separator, self._name = name.partition("::")
        if not separator or not self._name:
            raise ArgumentError(f"torch.library: {name!r} is no name like 'namespace::op'")
        self._qualname = name
        self._schema = schema
        self.mutates = mutates
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.fake: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.vmap: Callable[..., Any] | None = None
        self.autocast: dict[str, Any] = {}
        _defined[name] = self
        packet = _ops.namespace(self.namespace)._define(self._name, self)
        self._opoverload = packet.default

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = self.kernel()
        if self.autocast and is_autocast_enabled("cpu") and "cpu" in self.autocast:
            args, kwargs = tree.map(_as_type(self.autocast["cpu"]), (args, kwargs))
            with autocast("cpu", enabled=False):
                return self(*args, **kwargs)
        if kwargs or self.setup_context is not None:
            bound = inspect.signature(function).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        whole = "autograd" in self.kernels or "composite" in self.kernels
        leaves, structure = tree.flatten(args)
        needs = is_grad_enabled() and any(
            isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves
        )
        if whole:
            return function(*args, **kwargs)
        if self.mutates or not needs:
            with no_grad():
                return function(*args, **kwargs)
        return _WithRule.apply(self, function, structure, kwargs, *leaves)

    def kernel(self) -> Callable[..., Any]:
        """The function for the CPU. Raises NotImplementedInWend if there is none."""
        for kind in ("autograd", "cpu", "composite", "explicit"):
            if kind in self.kernels:
                return self.kernels[kind]
        raise NotImplementedInWend(f"torch.ops: {self._qualname} has no function for the CPU")

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Describe the results without computing."""
        self.fake = fn
        return fn

    def register_kernel(
        self, device_types: Any, func: Callable[..., Any] | None = None, /
    ) -> Callable[..., Any]:
        """Give the function for some devices."""

        def keep(fn: Callable[..., Any]) -> Callable[..., Any]:
            kinds = [device_types] if isinstance(device_types, str) else device_types
            if kinds is None or "cpu" in kinds:
                self.kernels["cpu"] = fn
            return fn

        return keep if func is None else keep(func)

    def register_autograd(
        self,
        backward: Callable[..., Any],
        /,
        *,
        setup_context: Callable[..., Any] | None = None,
    ) -> None:
        """Give the gradient: backward(ctx, *grads), with notes by setup_context."""
        self.backward = backward
        self.setup_context = setup_context

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Have floating-point arguments cast inside of autocast for the device.

        Raises ArgumentError for devices and types that PyTorch knows no autocast for.
        """
        if not isinstance(device_type, str) or not is_autocast_available(device_type):
            raise ArgumentError(f"Device type {device_type!r} does not support autocast.")
        if not isinstance(cast_inputs, DType):
            raise ArgumentError(f"register_autocast: {cast_inputs!r} is no dtype")
        self.autocast[device_type] = cast_inputs

    def register_vmap(self, func: Callable[..., Any] | None = None, /) -> Callable[..., Any]:
        """Give the rule for `torch.vmap`, which Wend does without."""

        def keep(fn: Callable[..., Any]) -> Callable[..., Any]:
            self.vmap = fn
            return fn

        return keep if func is None else keep(func)


class _WithRule(Function):
    """A call of an operator whose gradient is the rule that the program registered."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        op, function, structure, kwargs, *leaves = arguments
        args = tree.unflatten(structure, leaves)
        result = function(*args, **kwargs)
        ctx.op, ctx.structure = op, structure
        if op.setup_context is not None:
            keywords = {"keyword_only_inputs": kwargs} if kwargs else {}
            op.setup_context(ctx, args, result, **keywords)
        return tuple(result) if isinstance(result, list) else result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if ctx.op.backward is None:
            raise GraphError(
                f"torch.library: {ctx.op._qualname} has no gradient; give one by register_autograd"
            )
        gradients = ctx.op.backward(ctx, *grads)
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        return (None, None, None, None, *_spread(ctx.structure, gradients))


def _as_type(dtype: DType) -> Callable[[Any], Any]:
    """Casts tensors of floating-point types, but float64, to a type."""

    def cast(x: Any) -> Any:
        fits = isinstance(x, Tensor) and x.is_floating_point() and x.dtype is not float64
        return x.to(dtype) if fits else x

    return cast


def _spread(structure: Structure, grads: Any) -> list[Any]:
    """Gradients as a list with a place for each leaf; None stands for a whole subtree."""
    if structure.kind is None:
        return [grads]
    if grads is None:
        return [None] * structure.leaves
    parts = zip(structure.children, grads, strict=True)
    return [leaf for inner, grad in parts for leaf in _spread(inner, grad)]


def _named(op: Any) -> CustomOpDef:
    """The operator by name, packet or form.

    Rules may come for an operator that a library's binary would define, which was not loaded: such
    an operator has no function, and a call says so.
    """
    if isinstance(op, CustomOpDef):
        return op
    if isinstance(op, OpOverload):
        op = op.packet
    name = op._qualified_op_name if isinstance(op, OpOverloadPacket) else op
    name = name.partition(".")[0]
    return _defined.get(name) or CustomOpDef(name)


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: Any = None,
    schema: str | None = None,
    tags: Sequence[Any] | None = None,
) -> Any:
    """Make a function an operator; as a decorator if no function is given."""

    def make(function: Callable[..., Any]) -> CustomOpDef:
        op = CustomOpDef(name, bool(mutates_args), schema)
        op.register_kernel(device_types, function)
        return op

    return make if fn is None else make(fn)


def triton_op(name: str, fn: Any = None, /, *, mutates_args: Any, schema: Any = None) -> Any:
    """As `custom_op`, for functions that call Triton."""
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel: Any, /) -> Any:
    """The kernel itself."""
    return triton_kernel


def register_fake(
    op: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Any = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:
    """Describe the results of an operator without computing; also a decorator.

    allow_override: whether a description that is there may be replaced. Raises GraphError if not.
    """
    definition = _named(op)
    if definition.fake is not None and not allow_override:
        raise GraphError(
            f"register_fake: {definition._qualname} has a description; give allow_override=True"
        )
    return definition.register_fake if func is None else definition.register_fake(func)


def impl_abstract(
    qualname: Any, func: Callable[..., Any] | None = None, *, lib: Any = None, _stacklevel: int = 1
) -> Any:
    """The former name of `register_fake`."""
    return register_fake(qualname, func, lib=lib)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """Have floating-point arguments of an operator cast inside of autocast for a device.

    The operator then runs without autocast. Raises ArgumentError for unknown devices and types.
    """
    _named(op).register_autocast(device_type, cast_inputs)


def fallthrough_kernel() -> Any:
    """Stands in `Library.impl` for no function of the key: calls go on to the next key."""
    raise NotImplementedInWend("torch.library: fallthrough_kernel() should never be called.")


def get_kernel(op: Any, dispatch_key: str) -> Callable[..., Any]:
    """The function that an operator has for a dispatch key: "CPU", "Autograd" and the like.

    op: a name such as "mine::scale", or the operator. Functions of `aten` are Wend's own.
    Raises ArgumentError for other keys, GraphError if there is no such operator or function.
    """
    if not isinstance(op, (str, OpOverload)):
        raise ArgumentError(f"get_kernel({op}): got unexpected type for op: {type(op)}")
    if dispatch_key not in _KEYS:
        raise ArgumentError(f"get_kernel: {dispatch_key!r} is no dispatch key that Wend has")
    name = op if isinstance(op, str) else op.name()
    space, _, tail = name.partition("::")
    known = _defined.get(f"{space}::{tail.partition('.')[0]}")
    if known is not None:
        for kind in (_KEYS[dispatch_key], "explicit", "composite"):
            if kind in known.kernels:
                return known.kernels[kind]
        raise GraphError(f"get_kernel: {name} has no function for {dispatch_key}")
    packet = getattr(_ops.namespace(space), tail.partition(".")[0], None)
    if packet is None or packet._function is None:
        raise GraphError(f"get_kernel: there is no operator {name}")
    return packet._function  # type: ignore[no-any-return]


def register_kernel(
    op: Any, device_types: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None
) -> Any:
    """Give the function of an operator for some devices; also a decorator."""
    return _named(op).register_kernel(device_types, func)


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Any = None,
) -> None:
    """Give the gradient of an operator."""
    _named(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """Give the rule of an operator for `torch.vmap`, which Wend does without."""
    return _named(op).register_vmap(func)


_KEYS = {
    "": "explicit",
    "CPU": "cpu",
    "Autograd": "autograd",
    "AutogradCPU": "autograd",
    "CompositeImplicitAutograd": "composite",
    "CompositeExplicitAutograd": "explicit",
}


class Library:
    """Operators of a namespace, defined by schemas: `Library("mine", "DEF")`.

    kind: "DEF" or "FRAGMENT" to define operators, "IMPL" to give functions
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ArgumentError(f"torch.library.Library: kind is DEF, FRAGMENT or IMPL, not {kind}")
        self.ns = ns
        self.kind = kind
        self.dispatch_key = dispatch_key

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Sequence[Any] = ()) -> str:
        """Define the operator of a schema `name(Tensor x) -> Tensor`; returns the name."""
        name = schema.partition("(")[0].strip()
        CustomOpDef(f"{self.ns}::{name.partition('.')[0]}", "!" in schema, schema)
        return name

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = True,
    ) -> None:
        """Give the function of an operator for a dispatch key, of any device.

        with_keyset: whether the function's first argument is a set of keys; there are none: None
        allow_override: whether a function that is there may be replaced; GraphError if not
        """
        name = op_name
        if isinstance(op_name, str) and "::" not in op_name:
            name = f"{self.ns}::{op_name}"
        op = _named(name)
        key = dispatch_key or self.dispatch_key
        if key == "Meta":
            op.fake = fn
        if fn is fallthrough_kernel:
            op.kernels.pop(_KEYS.get(key, key), None)
            return
        if _KEYS.get(key, key) in op.kernels and not allow_override:
            raise GraphError(
                f"Library.impl: {op._qualname} has a function for {key or 'all devices'}; give "
                "allow_override=True"
            )
        op.kernels[_KEYS.get(key, key)] = functools.partial(fn, None) if with_keyset else fn


def define(qualname: str, schema: str, *, lib: Any = None, tags: Sequence[Any] = ()) -> None:
    """Define the operator `namespace::name` by the rest of its schema."""
    CustomOpDef(qualname, "!" in schema, schema)


def impl(
    qualname: str, types: Any, func: Callable[..., Any] | None = None, *, lib: Any = None
) -> Any:
    """Give the function of an operator for devices or dispatch keys; also a decorator."""

    def keep(fn: Callable[..., Any]) -> Callable[..., Any]:
        for kind in (types,) if isinstance(types, str) else types:
            op = _named(qualname)
            key = "explicit" if kind == "default" else _KEYS.get(kind, kind.lower())
            op.kernels[key] = fn
        return fn

    return keep if func is None else keep(func)


def get_ctx() -> Any:
    """Raises NotImplementedInWend: sizes that depend on values need no declaration."""
    raise NotImplementedInWend("torch.library.get_ctx: functions are called with real tensors")
