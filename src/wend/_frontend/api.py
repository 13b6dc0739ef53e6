"""The functions of `wend` itself that are not ops: switches, queries, synchronisation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wend._engine.base import config, dtypes, memory
from wend._engine.base.devices import DeviceLike, default_place, device, set_default_place
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ArgumentTypeError
from wend._engine.base.tracebacks import short_errors
from wend._engine.core import _hot, _siblings, _types
from wend._engine.core._hot import Tensor
from wend._engine.runtime.compiled import threads
from wend._frontend.interop.memory import is_array
from wend._frontend.typed import type_name

__all__ = [
    "are_deterministic_algorithms_enabled",
    "can_cast",
    "eager",
    "get_default_device",
    "get_default_dtype",
    "get_memory_budget",
    "get_num_threads",
    "is_complex",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_floating_point",
    "is_grad_enabled",
    "is_storage",
    "is_tensor",
    "numel",
    "promote_types",
    "result_type",
    "set_default_device",
    "set_default_dtype",
    "set_default_tensor_type",
    "set_memory_budget",
    "set_num_threads",
    "synchronize",
    "use_deterministic_algorithms",
]


def synchronize() -> None:
    """Compute everything that is pending in this thread and still wanted."""
    _hot.synchronize()


@contextmanager
def eager(enabled: bool = True) -> Iterator[None]:
    """Inside the block each op is computed at once: for bisecting, timing lines, `pdb`."""
    trace = _hot.current_trace()
    before = trace.eager
    trace.eager = enabled
    if enabled:
        _hot.synchronize()
    try:
        yield
    finally:
        trace.eager = before


def is_tensor(obj: object) -> bool:
    """Whether `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj: object) -> bool:
    """Whether `obj` is a storage object."""
    return type(obj).__name__.endswith("Storage")


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a floating-point dtype."""
    return input.dtype.is_floating_point


def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex."""
    return input.dtype.is_complex


def numel(input: Tensor) -> int:
    """Number of elements."""
    return input.numel()


def is_grad_enabled() -> bool:
    """Whether ops record gradients in this thread."""
    return bool(_hot.current_trace().mode.key[0])


def get_default_dtype() -> DType:
    """The dtype of floating-point results of Python numbers."""
    return dtypes.get_default_dtype()


def set_default_dtype(d: DType) -> None:
    """Make `d` (a floating-point dtype) the default dtype."""
    _hot.synchronize()  # pending ops were typed under the old dtype
    dtypes.set_default_dtype(d)
    _renew_modes()


def _renew_modes() -> None:
    """Let all traces see the present settings."""
    for trace in _siblings.traces():
        grad, inference, autocast, _, _, *rest = trace.mode.key
        trace.mode = _types.intern_mode(
            grad,
            inference,
            autocast,
            dtypes.get_default_dtype(),
            config.settings.deterministic,
            *rest,
        )


def set_default_tensor_type(t: object) -> None:
    """Old form of set_default_dtype: takes a typed constructor or the name of a constructor."""
    name = type_name("set_default_tensor_type", t)
    words = {"FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16"}
    word = words.get(name)
    if word is None:
        raise ArgumentTypeError(f"set_default_tensor_type: {name!r} is no floating-point type")
    set_default_dtype(dtypes.NAMES[word])


def get_default_device() -> device:
    """Where this thread makes new tensors: 'cpu', or 'meta' where that was asked for."""
    return default_place()


def set_default_device(device: DeviceLike) -> None:
    """Where this thread makes new tensors: 'cpu' or 'meta'; None for 'cpu'.

    Raises DeviceError for any other device.
    """
    set_default_place(device)


def promote_types(type1: DType, type2: DType) -> DType:
    """The smallest dtype that holds both."""
    return dtypes.promote_types(type1, type2)


def can_cast(from_: DType, to: DType) -> bool:
    """Whether an in-place op may cast so."""
    return dtypes.can_cast(from_, to)


def result_type(*operands: Any, **named: Any) -> DType:
    """result_type(tensor, other): the dtype of an arithmetic op on two tensors or numbers.

    named: as in PyTorch, `tensor` and `other`, `scalar` and `tensor`, or `scalar1` and `scalar2`
    """
    pair = (*operands, *named.values())
    if len(pair) != 2 or not named.keys() <= {"tensor", "other", "scalar", "scalar1", "scalar2"}:
        raise ArgumentTypeError(
            "result_type() takes two tensors or numbers, and not "
            f"{len(operands)} by position and {sorted(named)} by keyword"
        )
    rows = []
    for x in pair:
        if isinstance(x, Tensor):
            rows.append((x.dtype, x.dim() == 0, False))
        else:
            number = x.item() if type(x).__module__ == "numpy" and not is_array(x) else x
            rows.append((dtypes.of_python(type(number)), False, True))
    return dtypes.result_dtype(rows)


#: Whether `use_deterministic_algorithms` was last called with `warn_only`.
WARN_ONLY = [False]


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for results that are bit-equal from run to run."""
    WARN_ONLY[0] = bool(warn_only)
    config.settings.set(deterministic=bool(mode))
    _renew_modes()


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """False: there is a deterministic way for each op, and nothing to warn of."""
    return False


def are_deterministic_algorithms_enabled() -> bool:
    """Whether deterministic algorithms were asked for."""
    return config.settings.deterministic


@short_errors
def set_memory_budget(size: int | None) -> None:
    """Bound the bytes that a training step takes; None: no bound.

    The kept values of a backward pass may take a quarter of the budget. Beyond that, products that
    are larger than their operands are computed again as well. Paths planned before are not planned
    anew. The budget is a target, not a limit: values that cannot be computed again are kept.
    Raises ArgumentTypeError for anything but a positive int or None.
    """
    memory.set_budget(size)


def get_memory_budget() -> int | None:
    """The bound set by `set_memory_budget`."""
    return memory.budget()


def get_num_threads() -> int:
    """Threads that share the parts of a kernel."""
    return threads.threads()


def set_num_threads(number: int) -> None:
    """Set how many threads share the parts of a kernel, and how many NumPy's BLAS uses.

    Results of kernels do not depend on the number. Large products of the reference and of NumPy do,
    by rounding, except in deterministic mode, where NumPy's BLAS has one thread.
    """
    if type(number) is not int or number < 1:
        raise ArgumentTypeError(f"set_num_threads: expects a positive integer, got {number!r}")
    threads.set_threads(number)
    threads.bind_blas(number)
