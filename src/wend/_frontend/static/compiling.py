"""Settings of torch.compile, and the check that a function has a static graph.

Wend compiles every path that comes back, asked or not.  So no setting changes a result or a speed;
only `fullgraph=True` says something about the program, and is verified.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._engine.base import tree
from wend._engine.base.errors import ValueRefused
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.transforms.exploring.recording import ExploreError
from wend._frontend.static.errors import InvalidBackend, Unsupported
from wend._frontend.static.explored import explored

__all__ = [
    "BACKENDS",
    "DEBUG_BACKENDS",
    "MODES",
    "Settings",
    "StaticCheck",
    "exploring",
]

MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
#: Names of compilers that programs may ask for, with registered functions, which are not called.
BACKENDS: dict[str, Any] = dict.fromkeys(("cudagraphs", "inductor", "openxla", "tvm"))
DEBUG_BACKENDS: dict[str, Any] = dict.fromkeys(
    (
        "aot_eager",
        "aot_eager_decomp_partition",
        "aot_eager_default_partitioner",
        "aot_ts",
        "eager",
        "eager_debug",
        "eager_noexcept",
        "invoke_subgraph",
        "openxla_eval",
        "pre_dispatch_eager",
        "ts",
    )
)


def exploring() -> bool:
    """Whether the thread is exploring a function, for a static graph."""
    return hasattr(_hot.current_trace().symbolic, "explores")


class Settings:
    """The arguments of `torch.compile`, checked.

    Raises ValueRefused (a RuntimeError), InvalidBackend.
    """

    def __init__(
        self,
        fullgraph: bool = False,
        dynamic: bool | None = None,
        backend: str | Callable[..., Any] | None = None,
        mode: str | None = None,
        options: dict[str, Any] | None = None,
        name: str | None = None,
        disable: bool = False,
        recompile_limit: int | None = None,
        isolate_recompiles: bool = False,
        shapes_spec: object = None,
    ) -> None:
        if mode is not None and options is not None:
            raise ValueRefused(
                "Either mode or options can be specified, but both can't be specified at the same "
                "time."
            )
        if mode is not None and mode not in MODES and backend in (None, "inductor"):
            raise ValueRefused(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
        if options is not None and not isinstance(options, dict):
            raise ValueRefused(
                f"torch.compile: options is a dict from names to values, not {options!r}"
            )
        if dynamic is not None and not isinstance(dynamic, bool):
            raise ValueRefused(f"torch.compile: dynamic is a bool or None, not {dynamic!r}")
        if isinstance(backend, str) and backend not in BACKENDS and backend not in DEBUG_BACKENDS:
            raise InvalidBackend(
                f"Invalid backend: {backend!r}, see `torch._dynamo.list_backends()` for available "
                "backends."
            )
        self.fullgraph = bool(fullgraph)
        self.disable = bool(disable)


class StaticCheck:
    """Verifies that a function has a static graph, once for each kind of arguments.

    The kind: structure, dtypes, ranks, which sizes are 0 or 1, and the arguments that are no
    tensors.  All sizes above 1 count as equal.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.seen: set[Any] = set()
        self.running = False  # the function itself is called to compare

    def __reduce__(self) -> tuple[Any, ...]:
        return StaticCheck, (self.function,)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise Unsupported where the function has no static graph for these arguments."""
        trace = _hot.current_trace()
        if self.running or trace.symbolic is not None or trace.fiber is not None:
            return
        kind = self._kind(args, kwargs)
        if kind in self.seen:
            return
        self.running = True
        try:
            explored(self.function, args, kwargs)
        except ExploreError as error:
            text = str(error.args[0]).removeprefix("explore: ")
            site: Any = error.site
            raise Unsupported(f"torch.compile(fullgraph=True): {text}", site) from None
        finally:
            self.running = False
        self.seen.add(kind)

    def _kind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        leaves, structure = tree.flatten((args, kwargs))
        owner = getattr(self.function, "__self__", self.function)
        return structure, getattr(owner, "training", None), tuple(map(_kind_of, leaves))


def _kind_of(x: object) -> Any:
    if isinstance(x, Tensor):
        sizes = tuple([n if n < 2 else 2 for n in x.shape])
        return x.dtype, sizes, bool(x.requires_grad)
    try:
        hash(x)
    except TypeError:  # an argument that has no hash counts by its class among kinds of arguments
        return type(x)
    return type(x), x
