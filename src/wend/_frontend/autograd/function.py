"""autograd.Function: operations whose backward pass is the user's own Python."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from wend._engine.base.errors import ArgumentTypeError, GradientRefused, GraphError, ShapeError
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor, Value
from wend._engine.core._types import TensorType
from wend._engine.core.primitive import ops
from wend._engine.ops.placing import full_at
from wend._engine.transforms.grad import GradMode
from wend._engine.transforms.hooks import made_of_parts
from wend._frontend.aliasing.rebinding import check_writable, rebind
from wend._frontend.autograd import mapped_function

__all__ = ["Function", "FunctionCtx", "NestedIOFunction", "once_differentiable"]

SAVED_FREED = (
    "saved_tensors: trying to read saved tensors after they have been freed: the first backward() "
    "or grad() freed them. Give it retain_graph=True if you need to go backward again"
)


class FunctionCtx:
    """Notes of `forward` for `backward`: `ctx` in a user's function.  Any attribute may be set."""

    needs_input_grad: tuple[bool, ...] = ()
    materialize_grads = True
    _to_save: tuple[Any, ...] | None = None
    _saved: list[Any] | None = None
    _freed = False
    _dirty: tuple[Any, ...] = ()
    _plain: tuple[Any, ...] = ()
    _resolve: Callable[[int, Value], Any] | None = None

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs, results or further tensors for `saved_tensors` in `backward`."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise ArgumentTypeError(
                    f"save_for_backward can only save variables, but got {type(t).__name__}; "
                    "set other things as attributes of ctx"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """For forward-mode rules, which are not called here."""

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Tell which inputs `forward` has changed in place; all must be results."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which results have no gradient."""
        self._plain = tensors

    def mark_shared_storage(self, *pairs: object) -> None:
        """Nothing: shared data is known anyway."""

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros (the default) or None for results without gradient."""
        self.materialize_grads = bool(value)

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        """The saved tensors.  Raises GraphError after a backward pass that freed them."""
        if self._freed and self._saved is not None:
            raise GraphError(SAVED_FREED)
        saved: Any = (None if s is None else s.unpack(self) for s in self._saved or ())
        return tuple(saved)

    saved_variables = saved_tensors


class SavedTensor:
    """A tensor as it was when saved, with its gradient identity."""

    __slots__ = ("number", "packed", "reference", "sparse", "unpack_hook", "value")

    def __init__(self, handle: Tensor, number: int | None) -> None:
        self.sparse = handle if made_of_parts(handle) else None  # the parts have the identity
        self.number = number  # among the results, whose identity is looked up later
        self.value: Any = _hot.value_of(handle)
        self.reference = weakref.ref(handle) if number is None else None
        self.unpack_hook = None
        hooks = saved_hooks()
        if hooks is not None:
            pack, self.unpack_hook = hooks
            with GradMode(False):
                self.packed = pack(_identified(self.value) if number is None else handle.detach())
            if isinstance(self.packed, Tensor) and self.packed is handle:
                self.packed = handle.detach()
            self.value = None

    def unpack(self, ctx: FunctionCtx) -> Tensor | None:
        """The tensor: the very object that was saved, if unchanged since."""
        if self.sparse is not None:
            return self.sparse
        if self.unpack_hook is not None:
            return self.unpack_hook(self.packed)
        if self.number is not None:
            if ctx._resolve is None:
                return _hot.wrap(self.value)
            return ctx._resolve(self.number, self.value)
        handle = self.reference() if self.reference is not None else None
        if handle is not None and _hot.value_of(handle) is self.value:
            return handle
        return _identified(self.value)


def _identified(value: Any) -> Tensor:
    """A handle on a value with the value's own gradient identity."""
    handle: Tensor = _hot.wrap(value)
    handle.leaf = value.leaf
    return handle


# -- hooks on saved tensors ------------------------------------------------------------------

_SAVED_HOOKS: dict[int, list[Any]] = {}  # by thread


def saved_hooks() -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """The innermost (pack, unpack) of this thread, or None."""
    stack = _SAVED_HOOKS.get(_thread())
    return stack[-1] if stack else None


def push_saved_hooks(pair: Any) -> None:
    """Enter a block of `saved_tensors_hooks`."""
    _SAVED_HOOKS.setdefault(_thread(), []).append(pair)


def pop_saved_hooks() -> None:
    """Leave a block of `saved_tensors_hooks`."""
    stack = _SAVED_HOOKS[_thread()]
    stack.pop()
    if not stack:
        del _SAVED_HOOKS[_thread()]


def _thread() -> int:
    return id(_hot.current_trace())


# -- the record in the graph -----------------------------------------------------------------


class Record:
    """A call of a function, as the backward pass meets it (see transforms.hooks.UserCode)."""

    __slots__ = ("args", "ctx", "edges", "function", "n_inputs", "name", "outs", "slots", "sparse")

    def __init__(self, function: Any, ctx: FunctionCtx, args: tuple[Any, ...]) -> None:
        self.function = function
        self.ctx = ctx
        self.name = type(ctx).__name__
        # Per argument: the type of a tensor, and its place among the operands of the node.
        self.args = [_hot.value_of(a).type if isinstance(a, Tensor) else None for a in args]
        self.sparse = {k: a for k, a in enumerate(args) if made_of_parts(a)}
        self.slots: list[int | None] = []
        n = 0
        for need in ctx.needs_input_grad:
            self.slots.append(n if need else None)
            n += need
        self.n_inputs = n
        self.edges = [s for s, a in zip(self.slots, args, strict=True) if isinstance(a, Tensor)]
        self.outs: list[tuple[int | None, Any]] = []  # per result: (place in the node, type)

    def backward(self, gradients: list[Any], resolve: Callable[..., Any]) -> list[Any]:
        """Call the user's `backward`; returns a gradient, or None, per operand."""
        ctx = self.ctx
        grad_outputs: list[Any] = []
        for place, type_ in self.outs:
            g = None if place is None else gradients[place]
            if g is None and ctx.materialize_grads and type_ is not None:
                g = full_at(type_.device, tuple(type_.shape), 0.0, type_.dtype)
            grad_outputs.append(g)
        ctx._resolve = resolve
        try:
            result = _rule_of(self.function)(ctx, *grad_outputs)
        finally:
            ctx._resolve = None
        return self._checked(result)

    def _checked(self, result: object) -> list[Any]:
        grads = list(result) if isinstance(result, tuple) else [result]
        n = len(self.args)
        while len(grads) > n and grads[-1] is None:
            grads.pop()
        if len(grads) != n:
            raise GraphError(
                f"function {self.name} returned an incorrect number of gradients "
                f"(expected {n}, got {len(grads)})"
            )
        slot_grads: list[Any] = [None] * self.n_inputs
        for k, (g, type_, slot) in enumerate(zip(grads, self.args, self.slots, strict=True)):
            if g is None:
                continue
            if not isinstance(g, Tensor):
                raise GradientRefused(
                    f"function {self.name}: expected a Tensor or None as gradient {k}, "
                    f"got {type(g).__name__}"
                )
            if type_ is None:
                raise GraphError(
                    f"function {self.name} returned a gradient different from None at position "
                    f"{k}, but the corresponding forward input was not a Tensor"
                )
            if slot is not None:
                g = fitted(self.name, k, g, type_)
                slot_grads[slot] = self.sparse[k].gradient_of_source(g) if k in self.sparse else g
        return slot_grads

    def free(self) -> None:
        """Drop the saved tensors."""
        ctx = self.ctx
        ctx._freed = True
        if ctx._saved is not None:
            ctx._saved = []

    def attribute(self, anchor: Value, name: str) -> Any:
        """An attribute of ctx, for programs that look at it through `grad_fn`."""
        return getattr(self.ctx, name)


def fitted(name: str, k: int, g: Tensor, type_: TensorType) -> Tensor:
    """A gradient in the shape and dtype of the input.

    Raises ShapeError if shapes do not fit, GraphError for a complex gradient of a real input.
    """
    want = tuple(type_.shape)
    if g.dtype.is_complex and not type_.dtype.is_complex:
        raise GraphError(
            f"Function {name} returned an invalid gradient at index {k} - got {g.dtype}, and the "
            f"input has {type_.dtype}: return the real part"
        )
    if tuple(g.shape) != want:
        if not _broadcasts(want, tuple(g.shape)):
            raise ShapeError(
                f"Function {name} returned an invalid gradient at index {k} - got "
                f"{list(g.shape)} but expected shape compatible with {list(want)}"
            )
        lead = len(g.shape) - len(want)
        axes = [*range(lead), *(lead + i for i, n in enumerate(want) if n != g.shape[lead + i])]
        g = g.sum(tuple(axes), keepdim=True).reshape(want)
    return g if g.dtype is type_.dtype else ops.cast(g, type_.dtype)


def _broadcasts(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    if len(small) > len(large):
        return False
    pairs = zip(reversed(small), reversed(large))
    return all(a in (1, b) for a, b in pairs)


# -- calling ----------------------------------------------------------------------------------


class _FunctionMeta(type):
    """Gives each function a class of `ctx`, named as PyTorch names the node."""

    def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> None:
        super().__init__(name, bases, members)
        cls._backward_cls = type(name + "Backward", (FunctionCtx,), {"_forward_cls": cls})


R = TypeVar("R", covariant=True)


class _Forward(Protocol[R]):
    """A function whose `forward` has results of a type, which those of `apply` have too."""

    @property
    def forward(self) -> Callable[..., R]: ...


class Function(metaclass=_FunctionMeta):
    """Base of operations with user-defined `forward` and `backward`; call them by `apply`.

    forward(ctx, *args), or forward(*args) with setup_context(ctx, inputs, output)
    backward(ctx, *grads of the results) -> a gradient, or None, per argument
    """

    _backward_cls: Any
    generate_vmap_rule = False

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise GraphError(
            f"{type(self).__name__}: a Function is not instantiated; make forward and backward "
            f"static methods and call {type(self).__name__}.apply(...)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """To be defined by the user."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """To be defined by the user if `forward` takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: object) -> Any:
        """May be defined by the user: (results, out_dims) for whole batches of arguments."""
        raise NotImplementedError("vmap is not implemented.")

    @staticmethod
    def backward(*args: Any, **kwargs: Any) -> Any:
        """To be defined by the user."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    #: Another name of `backward`: a function defines either.
    vjp = backward

    if TYPE_CHECKING:

        @classmethod
        def apply(cls: type[_Forward[R]], *args: Any, **kwargs: Any) -> R:
            """Call the function; the results know `backward`."""

    else:

        @classmethod
        def apply(cls, *args: Any, **kwargs: Any) -> Any:
            """Call the function; the results know `backward`.

            Arguments by name become arguments by position. With `setup_context` so do defaults.
            """
            if kwargs or (
                cls.setup_context is not Function.setup_context
                and getattr(cls.forward, "__defaults__", None)
            ):
                args = _by_position(cls, args, kwargs)
            level = mapped_function.level_of(args)
            if level is not None and cls.vmap is not Function.vmap:
                if cls.generate_vmap_rule:
                    raise GraphError(
                        f"{cls.__name__}: it defines vmap and sets generate_vmap_rule: choose one"
                    )
                return mapped_function.by_rule(level, cls, args)
            ctx = cls._backward_cls()
            ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
            trace = _hot.current_trace()
            recording = trace.mode.grad and True in ctx.needs_input_grad
            if trace.mode.grad and hasattr(trace.symbolic, "warn_of_backward"):
                trace.symbolic.warn_of_backward(cls.__name__)
                recording = False
            record = Record(cls, ctx, args)
            before = [
                _identified(_hot.value_of(a.source if made_of_parts(a) else a))
                for a, need in zip(args, ctx.needs_input_grad, strict=True)
                if need
            ]
            with GradMode(False):
                if cls.setup_context is not Function.setup_context:
                    output = cls.forward(*args)
                    cls.setup_context(ctx, args, output)
                else:
                    output = cls.forward(ctx, *args)
            outputs = output if isinstance(output, tuple) else (output,)
            _check_dirty(ctx, outputs)
            wrapped = _Wrapping(cls, ctx, record, args).run(before, outputs, recording)
            return wrapped if isinstance(output, tuple) else wrapped[0]


def _rule_of(function: Any) -> Any:
    """The function's `backward` or `vjp`. Raises GraphError if both are defined."""
    if function.vjp is Function.vjp:
        return function.backward
    if function.backward is not Function.backward:
        raise GraphError(
            "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You "
            "should only implement one of them."
        )
    return function.vjp


def _by_position(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments of `forward` by position. Raises TypeError if they do not fit.

    `setup_context` gets defaults too: each argument of `forward` has a gradient, then.
    """
    sets_up = cls.setup_context is not Function.setup_context
    lead = () if sets_up else (None,)
    bound = inspect.signature(cls.forward).bind(*lead, *args, **kwargs)
    if sets_up:
        bound.apply_defaults()
    for name in bound.kwargs:
        if name in kwargs:
            raise ArgumentTypeError(
                f"{cls.__name__}.apply: the argument {name!r} has no place by position: give "
                "all arguments before it, and take no keyword-only ones"
            )
    return bound.args[len(lead) :]


def _check_dirty(ctx: FunctionCtx, outputs: tuple[Any, ...]) -> None:
    for t in ctx._dirty:
        if not any(t is out for out in outputs):
            raise GraphError(
                "mark_dirty: some elements marked as dirty during the forward method were not "
                "returned as output. The inputs that are modified inplace must all be outputs "
                "of the Function."
            )


class _Wrapping:
    """Puts a call into the graph and gives the results a gradient identity."""

    def __init__(self, cls: Any, ctx: FunctionCtx, record: Record, args: tuple[Any, ...]) -> None:
        self.cls = cls
        self.ctx = ctx
        self.record = record
        self.args = args

    def run(
        self, before: list[Tensor], outputs: tuple[Any, ...], recording: bool
    ) -> tuple[Any, ...]:
        """The results to hand to the user."""
        ctx, record = self.ctx, self.record
        raw: list[Tensor] = []
        for out in outputs:
            place = None
            if self._differentiable(out):
                place = len(raw)
                raw.append(out)
            type_ = _hot.value_of(out).type if isinstance(out, Tensor) else None
            record.outs.append((place, type_))
        if not recording or not raw:
            self._save(outputs, [None] * len(outputs))
            return tuple(self._plain(out) for out in outputs)
        for t in ctx._dirty:
            check_writable(t, f"{self.cls.__name__}.apply")
        self._save(outputs, [place for place, _ in record.outs])
        with GradMode(True):
            wrapped = [_hot.wrap(_hot.value_of(t)) for t in raw]
            results = mapped_function.put_into_graph(before, wrapped, record)
        return tuple(
            self._plain(out) if place is None else self._identify(out, results[place])
            for out, (place, _) in zip(outputs, record.outs, strict=True)
        )

    def _differentiable(self, out: Tensor) -> bool:
        if not isinstance(out, Tensor) or out.dtype.category < 2:
            return False
        return not any(out is t for t in self.ctx._plain)

    def _plain(self, out: Tensor) -> Tensor:
        """A result without gradient: inputs that are handed through become new tensors."""
        handed_through = isinstance(out, Tensor) and any(out is a for a in self.args)
        if handed_through and not any(out is t for t in self.ctx._dirty):
            return out.detach()
        return out

    def _identify(self, out: Tensor, result: Tensor) -> Tensor:
        if any(out is t for t in self.ctx._dirty):
            rebind(out, result.value)
            return out
        if type(out) is not Tensor and not any(out is a for a in self.args):
            out.value = result.value
            out.alias = None
            return out
        return result

    def _save(self, outputs: tuple[Any, ...], places: list[int | None]) -> None:
        ctx = self.ctx
        if ctx._to_save is None:
            return
        saved: list[Any] = []
        for t in ctx._to_save:
            number = next((p for o, p in zip(outputs, places) if o is t and p is not None), None)
            saved.append(None if t is None else SavedTensor(t, number))
        ctx._saved = saved
        ctx._to_save = None


# -- once_differentiable ----------------------------------------------------------------------


class _Refusal(Function):
    """The identity, whose gradient is an error."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        results = tuple(a.clone() if isinstance(a, Tensor) else a for a in args[1:])
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise GraphError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a `backward` that cannot be differentiated itself: doing so raises GraphError."""

    @functools.wraps(backward)
    def wrapper(ctx: FunctionCtx, *grads: object) -> Any:
        with GradMode(False):
            result = backward(ctx, *grads)
        if not _hot.current_trace().mode.grad:
            return result
        if not any(isinstance(g, Tensor) and g.requires_grad for g in grads):
            return result
        results = result if isinstance(result, tuple) else (result,)
        trigger = next(g for g in grads if isinstance(g, Tensor) and g.requires_grad)
        marked = _Refusal.apply(trigger, *results)
        return marked if isinstance(result, tuple) else marked[0]

    return wrapper


class NestedIOFunction(Function):
    """PyTorch's base for functions over nested arguments; here arguments stay flat."""
