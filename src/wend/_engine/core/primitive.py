"""Primitives and composites: one op, one class, all of its rules.

See CONTRIBUTING.md, 'How to add an op'.  A class that derives from `Primitive` and is not marked
abstract is registered under its public name; the object that users call (`wend.tanh`,
`Tensor.tanh`) is made here, and calls the core without a Python frame in between.
"""

from __future__ import annotations

import inspect
import re
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Protocol, Self, TypeVar

from wend._engine.base.devices import device
from wend._engine.base.dtypes import DEFAULT_LISTENERS, INT
from wend._engine.base.errors import ArgumentTypeError
from wend._engine.core import _hot
from wend._engine.core._hot import OpFunction, Tensor
from wend._engine.core._types import PrimitiveBase, Program, TensorType
from wend._engine.core.kinds import params_of
from wend._engine.core.op_facts import (
    FIELDS,
    OpBatching,
    OpFacts,
    OpSchedule,
    TorchCall,
    combine,
    in_records,
)
from wend._engine.core.signature import (
    Binder,
    OverloadBinder,
    Param,
    exact_key,
    parse_signature,
    python_signature,
)
from wend._engine.core.symbolic import Guards, SymInt, expr_of, hint_of
from wend._engine.core.types import Number, Spec

R = TypeVar("R", covariant=True)

#: Primitive classes by public name.
REGISTRY: dict[str, type[Primitive]] = {}


class PublicOp(Protocol[R]):
    """The public function of an op, as rules call it."""

    primitive: type[Primitive]
    __name__: str
    binder: Any
    general: Callable[..., Any] | None

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        """A tensor; a tuple of tensors of an op with several results."""


class _Ops:
    """Every op by name: `ops.tanh(x)`.  For rules, which may use ops of any family."""

    def __getattr__(self, name: str) -> PublicOp[Tensor]:
        raise AttributeError(f"no op is called {name!r}")


ops: _Ops = _Ops()


def _no_gradient(self: object, *unused: object) -> tuple[None, ...]:
    """Marks an op as not differentiable."""
    return ()


NO_GRADIENT: Callable[..., Any] = _no_gradient


class Sample:
    """Arguments of a public call, for the tests that come from the registry."""

    __slots__ = ("args", "kwargs")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs

    def __repr__(self) -> str:
        parts = [repr(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.kwargs.items()]
        return f"Sample({', '.join(parts)})"


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


class _Params:
    """The parsed signature of an op class, parsed when first needed (imports stay quick)."""

    def __get__(self, instance: object, owner: type[Primitive]) -> tuple[Param, ...]:
        body = None if owner.signature else vars(owner).get("body")
        params = parse_signature(owner.signature) if body is None else params_of(body.__func__)
        owner.params = params
        return params


class Rules(PrimitiveBase):
    """The rules that an op may leave out; None: the op has no such rule."""

    vjp: Callable[..., Any] | None = NO_GRADIENT  # (g, y, *params): the gradients by the operands
    emit: Any = None  # (builder, *params): instructions for an element, of elementwise ops
    batch: Any = None  # (batched, size, *params): the op over a leading axis
    by_rows: Callable[..., Any] | None = None
    # (x, v): the base of a view with the view's elements replaced
    put: Callable[..., Any] | None = None
    strides: Callable[..., Any] | None = None
    # (*params): the result of NumPy arrays; None: a composite's body
    reference: Callable[..., Any] | None = None
    reference_inplace: Callable[..., Any] | None = None
    #: (g, *params): the op as nodes of an ONNX graph, see `ops/onnx_builder.py`. A composite
    #: without a rule is written by its body; a rule that returns NotImplemented asks for the body.
    onnx: Callable[..., Any] | None = None
    #: (n, *params): the nodes that PyTorch makes of the op, if more or fewer than one
    grad_nodes: Callable[..., Any] | None = None


class Primitive(Rules):
    """Base of all ops.  Records of facts, and rules, are members of the class; see CONTRIBUTING.md.

    A class states what differs from the class's bases: `facts`, `torch`, `batching` and `schedule`
    are inherited field by field (`core/op_facts.py`), all else as in any class.
    """

    name: ClassVar[str] = ""
    abstract: ClassVar[bool] = True
    signature: ClassVar[str] = "input"
    params: ClassVar[Any] = _Params()
    facts: ClassVar[OpFacts] = OpFacts()
    torch: ClassVar[TorchCall] = TorchCall()
    batching: ClassVar[OpBatching] = OpBatching()
    schedule: ClassVar[OpSchedule] = OpSchedule()
    result: ClassVar[Any] = None
    n_outputs: ClassVar[int] = 1
    function: ClassVar[Any] = None
    #: The accelerator on which an op without operands makes the results; None: see `place_of`.
    makes_at: device | None = None
    _interned: ClassVar[dict[Any, Any]]

    def __init_subclass__(cls, abstract: bool = False, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls.abstract = abstract
        cls.params = _Params()
        combine(cls)
        if abstract:
            return
        if "name" not in cls.__dict__:
            cls.name = _snake(cls.__name__)
        if cls.name in REGISTRY:
            raise TypeError(f"two ops are called {cls.name!r}")
        cls._interned = {}
        if not cls.torch.grad_name:
            base = "".join(part.capitalize() for part in cls.name.split("_"))
            cls.torch = cls.torch.but(grad_name=f"{base}Backward0")
        REGISTRY[cls.name] = cls
        cls.function = make_function(cls.name, Binder(cls.name, cls), cls)
        setattr(ops, cls.name, cls.function)
        public = cls.function
        if cls.torch.numbers_inside:
            public = make_function(cls.name, Binder(cls.name, cls, tensors_only=True), cls)
        publish(public, cls.torch.functions, cls.torch.methods)
        for operator in cls.torch.operators:
            _hot.set_operator(operator, cls.function)
        _publish_inplace(cls)

    def __init__(self, attrs: dict[str, Any], form: tuple[Any, ...]) -> None:
        for key, value in attrs.items():
            setattr(self, key, value)
        self.attrs = attrs
        cls = type(self)
        self.setup(form, cls.facts.view, issubclass(cls, Composite), cls.vjp is not NO_GRADIENT)
        self.check_strides = cls.facts.checks_strides
        self.check_held = cls.checked is not Primitive.checked
        self.check_numbers = cls.checked_numbers is not Primitive.checked_numbers
        self.pick_rows = cls.batching.picks_rows
        self.joins_held = cls.joined is not Primitive.joined

    @classmethod
    def intern(cls, attrs: dict[str, Any], form: tuple[Any, ...]) -> Self:
        """The single instance with these attributes and this form of operands."""
        key = (form, tuple((k, exact_key(v)) for k, v in attrs.items()))
        primitive = cls._interned.get(key)
        if primitive is None:
            primitive = cls._interned[key] = cls(attrs, form)
        return primitive

    @classmethod
    def of(cls, form: tuple[Any, ...] = ("T",), **attrs: object) -> Self:
        """The interned instance, attributes by name, defaults for those left out."""
        full = {p.name: attrs.get(p.name, p.default) for p in cls.params if p.is_attr}
        return cls.intern(full, form)

    @classmethod
    def named(cls, grad_name: str, form: tuple[Any, ...], **attrs: object) -> Self:
        """The op with another name for the graph node: the same op in all but this."""
        full = {p.name: attrs.get(p.name, p.default) for p in cls.params if p.is_attr}
        key = (grad_name, form, *full.items())
        primitive = cls._interned.get(key)
        if primitive is None:
            primitive = cls._interned[key] = cls(full, form)
            # PyTorch cuts such views off together, by one node.
            call = cls.torch.but(grad_name=grad_name, cuts=cls.facts.view)
            primitive.torch = call  # type: ignore[misc]
        return primitive

    def at(self, place: device) -> Self:
        """This op, which has no operands, with results on an accelerator."""
        key = (place, self.form, *self.attrs.items())
        primitive = self._interned.get(key)
        if primitive is None:
            primitive = self._interned[key] = type(self)(self.attrs, self.form)
            primitive.makes_at = place
        return primitive

    def place_of(self, types: Any) -> device:
        """Device of the results: an accelerator if an operand lies there, else the CPU."""
        return self.makes_at or super().place_of(types)  # type: ignore[no-any-return]

    # -- the type rule ----------------------------------------------------------------------

    def infer(self, *params: Any) -> Any:
        """Spec, or tuple of Spec, of the result."""
        raise NotImplementedError(f"{self.name}: no type rule")

    def trace_rule(self, types: list[Any], args: list[Any]) -> Program:
        """Run the type rule once on symbolic extents; keep guards and result extents."""
        guards = Guards()
        specs = [symbolic_spec(i, t, guards) for i, t in enumerate(types)]
        params = self.arrange(specs, self._symbolic_args(args, guards))
        result = self.infer(*params)
        outs = result if isinstance(result, (tuple, list)) else (result,)
        return make_program(self, types, outs, guards)

    def _symbolic_args(self, args: list[Any], guards: Guards) -> list[Any]:
        out: list[Any] = []
        for k, (is_size, value) in enumerate(zip(self.size_mask, args, strict=True)):
            if is_size:
                value = hint_of(value)
                out.append(SymInt((1, k), value, guards))
            else:
                out.append(Number(self.categories[k]))
        return out

    def joined(self, arrays: list[Any]) -> object:
        """The result of many arrays of equal shape and dtype, if the op does no more than join
        them.

        None if the rule has to say why the arrays do not fit.
        """
        return None

    def adds_rows(self) -> bool:
        """Whether rows of the first operand are added up by the second, of whatever shape."""
        return False

    def joins_rows(self) -> bool:
        """Whether the result is the operands' elements, tensor after tensor."""
        return False

    @classmethod
    def result_wrap(cls) -> Any:
        """The function from the list of results to the public result; None for a tensor alone."""
        if cls.result is None:
            return None if cls.n_outputs == 1 else tuple
        if isinstance(cls.result, tuple):
            name = cls.torch.label or cls.name
            known = RETURN_TYPES.get(name)
            if known is None or known._fields != cls.result:
                known = return_type(name, cls.result)
            return known._make
        return cls.result

    def checked(self, *arrays: Any) -> None:
        """Raise IndexOutOfRange for values that can be seen to be out of range."""

    def checked_numbers(self, *params: Any) -> None:
        """Raise the user's error for run-time numbers out of range, while the call is recorded.

        params: as of a rule, with None for each tensor
        """

    def __repr__(self) -> str:
        attrs = ", ".join(f"{k}={v!r}" for k, v in self.attrs.items())
        return f"{self.name}({attrs})" if attrs else self.name


#: The named tuples of results made so far, by name.
RETURN_TYPES: dict[str, Any] = {}


def return_type(name: str, fields: tuple[str, ...]) -> Any:
    """A namedtuple for results of an op, printed as PyTorch prints such."""
    make: Callable[..., Any] = namedtuple
    tuple_type = RETURN_TYPES[name] = make(name, fields)

    def __repr__(self: tuple[object, ...]) -> str:
        items = [f"{field}={value!r}" for field, value in zip(fields, self, strict=True)]
        return f"torch.return_types.{name}(\n" + ",\n".join(items) + ")"

    tuple_type.__repr__ = __repr__
    return tuple_type


def symbolic_spec(operand: int, type_: TensorType, guards: Guards) -> Spec:
    """The Spec of an operand whose extents are the symbols (DIM, operand, axis)."""
    shape = [SymInt((0, operand, a), hint_of(n), guards) for a, n in enumerate(type_.shape)]
    return Spec(shape, type_.dtype)


def make_program(
    prim: Primitive, types: list[Any], outs: Iterable[Spec | TensorType], guards: Guards
) -> Program:
    """The pattern of a run of a rule: guards and the extents of the results."""
    rows = tuple([(tuple([expr_of(n) for n in out.shape]), out.dtype) for out in outs])
    tests = tuple([(*compared, outcome) for compared, outcome in guards.items.items()])
    return Program(prim, tests, rows)


class Composite(Primitive, abstract=True):
    """An op defined by a Python function over tensors; all rules follow from the body."""

    body: ClassVar[Callable[..., Any]]
    tracer: ClassVar[Any] = None  # set by core.symtrace

    def call_body(self, tensors: list[Any], args: list[Any]) -> Any:
        """Run the body on tensors (symbolic ones, as a rule)."""
        rest = iter(self.arrange(tensors, args))
        values = [self.attrs[p.name] if p.is_attr else next(rest) for p in self.params]
        if self.signature:
            return type(self).body(*values)
        cut = sum(not p.keyword_only for p in self.params)
        named = {p.name: value for p, value in zip(self.params[cut:], values[cut:], strict=True)}
        return type(self).body(*values[:cut], **named)

    def trace_rule(self, types: list[Any], args: list[Any]) -> Program:
        """Trace the body symbolically; the graph is kept on the program."""
        program: Program = Composite.tracer(self, types, args)
        return program


def composite(
    signature: str = "",
    *,
    name: str | None = None,
    functions: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    inplace: bool | tuple[str, ...] = False,
    grad_name: str = "",
    result: Any = None,
    samples: Callable[..., Iterator[Sample]] | None = None,
    **facts: object,
) -> Callable[[Callable[..., R]], PublicOp[R]]:
    """Make an op of a function over tensors.  Returns the op's public callable.

    signature: the parameters as text; if empty, those of the function with their kinds
    facts: fields of `TorchCall`, `OpFacts`, `OpBatching` and `OpSchedule`, and rules of the op
    """
    call = {"functions": functions, "methods": methods, "inplace": inplace, "grad_name": grad_name}
    records = in_records({key: value for key, value in call.items() if value} | facts)
    rules = {key: rule for key, rule in facts.items() if key not in FIELDS}

    def make(body: Callable[..., R]) -> PublicOp[R]:
        public = name or body.__name__
        members: dict[str, Any] = {
            "__doc__": body.__doc__,
            "__module__": body.__module__,
            "name": public,
            "signature": signature,
            "result": result,
            "body": staticmethod(body),
            "vjp": None,  # from the body
            **records,
            **rules,
        }
        if samples is not None:
            members["samples"] = lambda self, rng: samples(rng)
        title = "".join(part.capitalize() for part in public.split("_"))
        metaclass: type[type] = type(Composite)
        cls: type[Any] = metaclass(title, (Composite,), members)
        function: PublicOp[R] = cls.function
        return function

    return make


def make_function(
    name: str, binder: Binder | OverloadBinder, cls: type[Primitive], inplace: bool = False
) -> OpFunction:
    """The C-level callable behind the public name `name`."""
    function = OpFunction(name, binder, inplace)
    function.__doc__ = cls.__doc__
    function.primitive = cls
    return function


def signature_of(function: OpFunction) -> inspect.Signature:
    """The signature that inspect.signature shows for an op."""
    binder = function.binder
    if isinstance(binder, OverloadBinder):
        binder = binder.binders[0]
    return python_signature(binder.params)


_hot.set_slot("signature", signature_of)


def overload(
    name: str,
    *alternatives: type[Primitive] | OpFunction | PublicOp[Any],
    functions: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    inplace: bool = False,
    doc: str | None = None,
) -> OpFunction:
    """A public name for several ops: the first op whose signature fits the call is taken.

    Alternatives are Primitive classes or op callables.
    """
    classes = [a if isinstance(a, type) else a.primitive for a in alternatives]
    binders = [Binder(name, c, tensors_only=c.torch.numbers_inside) for c in classes]
    function = make_function(name, OverloadBinder(name, binders), classes[0])
    if doc is not None:
        function.__doc__ = doc
    function.overloads = tuple(classes)
    setattr(ops, name, function)
    publish(function, functions, methods)
    if inplace:
        twin = make_function(name + "_", OverloadBinder(name + "_", binders), classes[0], True)
        publish(twin, (), (name + "_",))
    return function


#: Functions that `wend` exports, by name; filled as families are imported.
PUBLIC: dict[str, Any] = {}


def publish(
    function: Callable[..., Any], functions: tuple[str, ...], methods: tuple[str, ...]
) -> None:
    """Bind an op under all public function and method names."""
    for public in functions:
        if public in PUBLIC:
            raise TypeError(f"two ops are published as {public!r}")
        PUBLIC[public] = function
    for method in methods:
        setattr(Tensor, method, function)


def _publish_inplace(cls: type[Primitive]) -> None:
    call = cls.torch
    if not call.inplace:
        return
    names = (
        call.inplace if isinstance(call.inplace, tuple) else tuple(f"{m}_" for m in call.methods)
    )
    for method in names:
        twin = make_function(method, Binder(method, cls), cls, True)
        if cls.facts.view:
            twin.general = _becoming(method.rstrip("_"))
        setattr(Tensor, method, twin)
        if method.rstrip("_") in call.functions:
            PUBLIC.setdefault(method, twin)
        if method == names[0]:
            for operator in call.operators:
                if f"__i{operator[2:]}" in _hot.OPERATORS:
                    _hot.set_operator(f"__i{operator[2:]}", twin)


def _becoming(method: str) -> Callable[[tuple[Any, ...], dict[str, Any]], object]:
    """How a view op works in place: nothing is written, the operand becomes the view."""

    def becoming(positional: tuple[Any, ...], keywords: dict[str, Any]) -> object:
        view = getattr(Tensor, method)(*positional, **keywords)
        return _hot.slot("become_view")(positional[0], view, f"{method}_")

    return becoming


def check_dtypes(name: str, supports: frozenset[str], specs: tuple[Any, ...]) -> None:
    """Raise ArgumentTypeError if an operand's dtype category is not supported by the op."""
    words = ("bool", "int", "float", "complex")
    for spec in specs:
        if words[spec.dtype.category] not in supports:
            raise ArgumentTypeError(f"{name}: not implemented for {spec.dtype}")


DEFAULT_LISTENERS.append(_hot.new_epoch)


def check_held(prim: Primitive, tensors: list[Any], args: list[Any] | None) -> None:
    """Let an op look at the indices that are computed already (slot of the core).

    The primitive's `checked` gets the first operand's type, the arrays of held integer operands and
    None for further operands. It raises the user's error while the line is recorded.
    """
    first, *others = [_hot.value_of(t) for t in tensors]
    held = [v.buffer if v.type.dtype.category == INT else None for v in others]
    prim.checked(*prim.arrange([first.type, *held], args or []))


_hot.set_slot("check_held", check_held)


def check_numbers(prim: Primitive, n: int, args: list[Any] | None) -> None:
    """Let an op of n operands look at the numbers of a call (slot of the core)."""
    prim.checked_numbers(*prim.arrange([None] * n, args or []))


_hot.set_slot("check_numbers", check_numbers)
