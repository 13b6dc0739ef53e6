"""torch.jit: programs that can be printed and saved as static graphs, control flow included."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from wend._frontend.platform import itself as _itself
from wend._frontend.platform import jit_marker as _marker
from wend.jit._script import (
    Attribute,
    CompilationUnit,
    ScriptFunction,
    ScriptModule,
    TracerWarning,
    export_opnames,
    freeze,
    load,
    optimize_for_inference,
    save,
    script,
    trace,
)

__all__ = [
    "Attribute",
    "CompilationUnit",
    "Error",
    "Final",
    "Future",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "TracerWarning",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "export_opnames",
    "fork",
    "freeze",
    "fuser",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

RecursiveScriptModule = ScriptModule
Error = RuntimeError
script_method = interface = _itself
ignore = unused = _marker


def export(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The method, marked: a saved module has it beside `forward`."""
    fn._jit_export = True  # type: ignore[attr-defined]
    return fn


def is_scripting() -> bool:
    """False: the code runs as Python."""
    return False


def is_tracing() -> bool:
    """False: the code runs as Python."""
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value; the type is for readers."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type; containers are looked at as Python does."""
    import builtins
    import typing

    origin = typing.get_origin(target_type)
    return builtins.isinstance(obj, target_type if origin is None else origin)


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function: traces keep branches."""
    return fn


def trace_module(mod: Any, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
    """As `trace`, with example arguments by the name of a method; that of `forward` counts."""
    return trace(mod, inputs["forward"], **options)


class Future:
    """The result of a call of `fork`, which is there at once."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def wait(self) -> Any:
        """The result."""
        return self._value

    value = wait

    def done(self) -> bool:
        """True."""
        return True

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """The result of callback(self)."""
        return Future(callback(self))


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Call a function; `wait` gives the result. The ops are recorded, and run when needed."""
    return Future(func(*args, **kwargs))


def wait(future: Future) -> Any:
    """The result of a call of `fork`."""
    return future.wait()


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """Nothing changes inside the block: Wend has a single compiler."""
    yield


optimized_execution = functools.wraps(fuser)(fuser)


class strict_fusion:
    """Nothing changes inside the block: fused ops are seen in `wend.debug.explain().passes()`."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        return None


def enable_onednn_fusion(enabled: bool) -> None:
    """Nothing: kernels are Wend's own, and oneDNN is not called."""


def onednn_fusion_enabled() -> bool:
    """False: oneDNN is not called."""
    return False


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """The former strategy, which is empty: no size is ever compiled in."""
    return []


# Names that libraries ask for below the public ones.
_script_if_tracing = script_if_tracing
_overload = _overload_method = _itself
_isinstance = isinstance
