"""utils.checkpoint: trade memory for computing a part of the forward pass twice.

Ops recorded inside of a checkpoint are marked. The backward pass keeps only the inputs of a marked
block, and computes the rest anew, by the same ops and random offsets. The user's function is called
once.
"""

from __future__ import annotations

import contextlib
import enum
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.core import _hot, _types
from wend._engine.core._hot import Tensor
from wend._frontend.autograd.grad_modes import no_grad

__all__ = [
    "CheckpointError",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]


class CheckpointError(RuntimeError):
    """Kept for programs that catch it; PyTorch's reasons to raise it cannot occur here."""


class CheckpointPolicy(enum.Enum):
    """Answers of `create_selective_checkpoint_contexts` policies; taken as advice."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4  # on the CPU, to offload is to save
    PREFER_CPU_OFFLOAD = 5


class DefaultDeviceType:
    """The device whose random state is kept: there is a single device."""

    _default = "cpu"

    @staticmethod
    def set_device_type(device: str = "cpu") -> None:
        """Set the default device type."""
        DefaultDeviceType._default = device

    @staticmethod
    def get_device_type() -> str:
        """The default device type."""
        return DefaultDeviceType._default


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def create_selective_checkpoint_contexts(
    policy_fn_or_list: object, allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """Two contexts that do nothing: saved values inside of a block are not chosen op by op."""
    return noop_context_fn()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Nothing: only values that the backward pass needs are ever computed anew."""
    yield


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Nothing: the recorded ops are computed anew, and cannot differ."""
    yield


_BLOCKS: dict[int, list[int]] = {}  # by trace: [serial, blocks begun since the trace began]


def _next_block(trace: _hot.Trace) -> int:
    """A number for a block that no other block of the pending trace has."""
    entry = _BLOCKS.get(id(trace))
    if entry is None or entry[0] != trace.serial:
        if len(_BLOCKS) > 256:
            _BLOCKS.clear()
        entry = _BLOCKS[id(trace)] = [trace.serial, 0]
    entry[1] += 1
    return entry[1]


@contextlib.contextmanager
def recomputed() -> Iterator[None]:
    """Ops recorded inside are computed anew in the backward pass instead of being kept."""
    trace = _hot.current_trace()
    before = trace.mode
    if before.recompute == 0:
        block = _next_block(trace)
        trace.mode = _types.intern_mode(*(*before.key[:6], block))
    try:
        yield
    finally:
        trace.mode = _types.intern_mode(*(*trace.mode.key[:6], before.recompute))


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """function(*args, **kwargs), with only the inputs kept for the backward pass.

    use_reentrant: True warns, and gives no gradients, if no tensor among args requires grad
    context_fn: returns two context managers; the first is entered around the function. The second
    is for a second call of the function, which does not happen
    preserve_rng_state (in kwargs): accepted; random numbers are the same in both computations
    """
    kwargs.pop("preserve_rng_state", True)
    if use_reentrant is None:
        use_reentrant = False
    if use_reentrant and (context_fn is not noop_context_fn or debug):
        raise ArgumentError(
            "checkpoint: context_fn and debug can be given with use_reentrant=False only"
        )
    if use_reentrant and kwargs:
        raise ArgumentError(f"checkpoint: unexpected keyword arguments: {','.join(kwargs)}")
    if determinism_check not in ("default", "none"):
        raise ArgumentError(
            "checkpoint: determinism_check should be 'default' or 'none', "
            f"got {determinism_check!r}"
        )
    if use_reentrant and not any(isinstance(a, Tensor) and a.requires_grad for a in args):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None",
            stacklevel=2,
        )
        with no_grad():
            return function(*args)
    outer, _ = context_fn()
    with outer, recomputed():
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Iterable[Callable[..., Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Run a Sequential, or a list of functions, in `segments` parts, each a checkpoint.

    The last part is no checkpoint, as its values are needed at once.
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        names = ",".join(kwargs)
        raise ArgumentError(f"checkpoint_sequential: unexpected keyword arguments: {names}")
    del preserve
    chain: Sequence[Any] = (
        list(functions.children()) if hasattr(functions, "children") else list(functions)
    )
    if not isinstance(segments, int) or segments < 1:
        raise ArgumentTypeError(
            f"checkpoint_sequential: segments must be a positive int, got {segments!r}"
        )
    size = max(len(chain) // segments, 1)
    start = 0
    while start + size < len(chain) and start // size < segments - 1:
        part = chain[start : start + size]
        input = checkpoint(_run(part), input, use_reentrant=use_reentrant)
        start += size
    return _run(chain[start:])(input)


def _run(functions: Sequence[Any]) -> Callable[[Any], Any]:
    def forward(value: Any) -> Any:
        for function in functions:
            value = function(value)
        return value

    return forward
