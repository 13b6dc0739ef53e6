"""Markers and switches of PyTorch's tracer: no effect here, each for the reason it says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wend._dynamo._compiled import innermost
from wend._engine.base.errors import ValueRefused
from wend._frontend.static.compiling import BACKENDS, DEBUG_BACKENDS, exploring
from wend._frontend.static.errors import InvalidBackend, NotCallable

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "disable",
    "disallow_in_graph",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "list_backends",
    "lookup_backend",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "nonstrict_trace",
    "optimize",
    "optimize_assert",
    "register_backend",
    "reset",
    "run",
    "set_stance",
    "substitute_in_graph",
]

STANCES = (
    "default",
    "eager_on_recompile",
    "fail_on_recompile",
    "force_eager",
    "aot_eager_then_compile",
)


def is_compiling() -> bool:
    """Whether a function is being explored for a static graph, in this thread; else False.

    A compiled function runs as Python, so the answer is False while the program runs.
    """
    return exploring()


# -- sizes ------------------------------------------------------------------------------------


def mark_dynamic(
    t: Any,
    index: int | list[Any] | tuple[Any, ...],
    *,
    hint_override: int | None = None,
    min: int | None = None,
    max: int | None = None,
    specialize_on: list[Any] | None = None,
) -> None:
    """Nothing: all sizes may differ from call to call anyway, none is ever compiled in."""


def maybe_mark_dynamic(t: Any, index: int | list[Any] | tuple[Any, ...]) -> None:
    """Nothing: all sizes may differ from call to call anyway."""


def mark_static(t: Any, index: int | list[Any] | tuple[Any, ...] | None = None) -> None:
    """Nothing: a size that never differs costs no more than a constant would."""


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Nothing: no captured graph depends on the memory that a tensor lies in."""


# -- functions --------------------------------------------------------------------------------


def disable(
    fn: Any = None, recursive: bool = True, *, reason: str | None = None, wrapping: bool = True
) -> Any:
    """The function before `torch.compile`; without a function, a decorator.

    All functions run as Python, so there is nothing to switch off.
    """
    if fn is None:
        return innermost
    if not callable(fn):
        raise NotCallable(f"disable: takes a function or module, and got {fn!r}")
    return innermost(fn)


run = innermost


def allow_in_graph(fn: Any) -> Any:
    """The function, or the list of functions: graphs hold ops, and functions are looked through."""
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(f) for f in fn]
    if not callable(fn):
        raise NotCallable("allow_in_graph expects a callable")
    return fn


def disallow_in_graph(fn: Any) -> Any:
    """The function: there is no list of functions that graphs may hold."""
    return fn


forbid_in_graph = disallow_in_graph


def nonstrict_trace(traceable_fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function: exploring runs all of Python, and never interprets bytecode."""
    return traceable_fn


def assume_constant_result(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function: a result that is no tensor is a constant of an explored graph anyway."""
    return fn


def substitute_in_graph(
    original_fn: Callable[..., Any],
    *,
    can_constant_fold_through: bool = False,
    skip_signature_check: bool = False,
    is_embedded_type: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that leaves the function: the original runs, as exploring runs all of Python."""
    return disallow_in_graph


def graph_break(msg: str = "") -> None:
    """Nothing: the recorder computes where a value is needed, without breaks of graphs."""


def optimize(*args: Any, **kwargs: Any) -> Any:
    """A decorator that gives the function back: see `torch.compile`."""
    return disallow_in_graph


def optimize_assert(*args: Any, **kwargs: Any) -> Any:
    """A decorator that gives the function back; `torch.compile(fullgraph=True)` verifies graphs."""
    return disallow_in_graph


# -- the compiler -----------------------------------------------------------------------------


def reset() -> None:
    """Nothing: compiled paths hold for all sizes and settings; `wend.debug` can forget them."""


class set_stance:
    """Nothing: programs run as they do, with machine code once it is ready.

    Works as a function, a decorator and a context manager.  Raises ValueRefused (a RuntimeError)
    for stances that do not exist.
    """

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: str | Callable[..., Any] | None = None,
    ) -> None:
        if stance not in STANCES:
            raise ValueRefused(f"set_stance: {stance!r} is none of {', '.join(STANCES)}")
        self.stance = stance

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        return None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """Names that `torch.compile` accepts as backend; none of them is called.

    exclude_tags: with 'debug' or 'experimental' only the names that PyTorch's users are to choose
    from
    """
    hides = bool(set(exclude_tags or ()) & {"debug", "experimental"})
    return sorted(BACKENDS) if hides else sorted({**BACKENDS, **DEBUG_BACKENDS})


def register_backend(
    compiler_fn: Callable[..., Any] | None = None,
    name: str | None = None,
    tags: Sequence[str] = (),
) -> Any:
    """Register a name for `torch.compile(backend=...)`; the function is not called.

    Without a function, a decorator.
    """
    if compiler_fn is None:
        return lambda function: register_backend(function, name, tags)
    if not callable(compiler_fn):
        raise NotCallable(f"register_backend: takes a function, and got {compiler_fn!r}")
    table = DEBUG_BACKENDS if set(tags) & {"debug", "experimental"} else BACKENDS
    table[name or compiler_fn.__name__] = compiler_fn
    return compiler_fn


def lookup_backend(compiler_fn: str | Callable[..., Any]) -> Callable[..., Any]:
    """The registered function of a name; for PyTorch's own names a function that gives its argument
    back.

    Raises InvalidBackend.
    """
    if not isinstance(compiler_fn, str):
        return compiler_fn
    table = {**BACKENDS, **DEBUG_BACKENDS}
    if compiler_fn not in table:
        raise InvalidBackend(
            f"Invalid backend: {compiler_fn!r}, see `torch._dynamo.list_backends()` for available "
            "backends."
        )
    return table[compiler_fn] or _as_it_is


def _as_it_is(function: Any, *args: Any, **kwargs: Any) -> Any:
    return function
