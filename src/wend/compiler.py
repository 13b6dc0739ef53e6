"""torch.compiler: questions to and switches of the compiler, most of which change nothing."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from wend._dynamo import (
    allow_in_graph,
    assume_constant_result,
    compile,  # noqa: A004
    disable,
    is_compiling,
    list_backends,
    reset,
    set_stance,
    substitute_in_graph,
)
from wend._engine.transforms.exploring.recording import ExploreError
from wend._frontend.static.compiling import Settings

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "config",
    "cudagraph_mark_step_begin",
    "disable",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "keep_portable_guards_unsafe",
    "keep_tensor_guards_unsafe",
    "list_backends",
    "load_cache_artifacts",
    "nested_compile_region",
    "reset",
    "save_cache_artifacts",
    "set_default_backend",
    "set_enable_guard_collectives",
    "set_stance",
    "skip_all_guards_unsafe",
    "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_globals_unsafe",
    "skip_guard_on_inbuilt_nn_modules_unsafe",
    "substitute_in_graph",
    "wrap_numpy",
]

#: Asks the finders for modules that lay here once: see `former_names`.
__path__: list[str] = []

#: Settings that may be read and set, and change nothing.
config = SimpleNamespace(
    cache_key_tag="",
    dynamic_shapes=True,
    dynamic_sources="",
    force_disable_caches=False,
    job_id=None,
)
_default_backend: list[Any] = ["inductor"]

is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """Whether a function is being explored, as `torch.export` does; else False."""
    return is_compiling()


def cudagraph_mark_step_begin() -> None:
    """Nothing: there are no captured graphs of a device whose memory a step would take over."""


def set_default_backend(backend: str | Callable[..., Any] | None) -> None:
    """Note the name that `get_default_backend` gives; no backend is called.

    Raises InvalidBackend.
    """
    Settings(backend=backend)
    _default_backend[0] = "inductor" if backend is None else backend


def get_default_backend() -> str | Callable[..., Any]:
    """The backend of `set_default_backend`; 'inductor' at first."""
    return _default_backend[0]  # type: ignore[no-any-return]


def set_enable_guard_collectives(enabled: bool) -> bool:
    """False, the former value: there are no guards that processes would have to agree on."""
    return False


def save_cache_artifacts() -> None:
    """None: machine code lies in Wend's own cache, see `WEND_CACHE`."""


def load_cache_artifacts(serialized_artifacts: bytes) -> None:
    """None: machine code lies in Wend's own cache."""


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function on NumPy arrays as a function on tensors, whose values it needs.

    Raises ExploreError in an explored graph: it would freeze the values.
    """
    import functools

    from wend._engine.base import tree
    from wend._engine.core._hot import Tensor
    from wend._frontend.creation import as_tensor

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            raise ExploreError("explore: a function of NumPy's reads values; use tensor ops")

        def lower(x: Any) -> Any:
            return x.detach().numpy() if isinstance(x, Tensor) else x

        result = fn(*tree.map(lower, args), **tree.map(lower, kwargs))
        return tree.map(lambda x: as_tensor(x) if hasattr(x, "__array__") else x, result)

    return wrapped


def nested_compile_region(
    fn: Any = None, *, options: Any = None, max_reuse_entries: int = 8, reuse_hash_fn: Any = None
) -> Any:
    """The function, or a decorator: parts that come back are compiled once anyway."""
    return (lambda function: function) if fn is None else fn


def keep_portable_guards_unsafe(guard_entries: Any) -> list[bool]:
    """False for each: Wend's guards are comparisons of sizes, and none can be left out."""
    return [False] * len(guard_entries)


def keep_tensor_guards_unsafe(guard_entries: Any, keep_parameters: bool = False) -> list[bool]:
    """False for each: as `keep_portable_guards_unsafe`."""
    return [False] * len(guard_entries)


skip_guard_on_inbuilt_nn_modules_unsafe = keep_portable_guards_unsafe
skip_guard_on_all_nn_modules_unsafe = keep_portable_guards_unsafe
skip_guard_on_globals_unsafe = keep_portable_guards_unsafe
skip_all_guards_unsafe = keep_portable_guards_unsafe
