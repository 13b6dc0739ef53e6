"""wend.autograd.graph: hooks over several tensors, on saved tensors, and on a pass as a whole."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from wend._engine.base.errors import ArgumentError, ArgumentTypeError, GraphError
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.transforms.grad import current_pass
from wend._frontend.autograd.function import pop_saved_hooks, push_saved_hooks, saved_hooks
from wend._frontend.autograd.nodes import GradientEdge, Node, get_gradient_edge, register_hook
from wend._frontend.removable import RemovableHandle

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "region_activation_memory_budget",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
]


# -- several tensors ------------------------------------------------------------------------


class _MultiHandle(RemovableHandle):
    """Removes the hooks of all the tensors."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor],
    fn: Callable[[Sequence[Tensor | None]], None] | Callable[[Tensor], None],
    *,
    mode: str = "all",
) -> RemovableHandle:
    """Call `fn` once per backward pass, when the gradients of several tensors are known.

    mode "all": fn(gradients), with None for tensors that get none in that pass
    mode "any": fn(gradient) with the first that is known
    """
    if mode not in ("all", "any"):
        raise ArgumentError(f"register_multi_grad_hook: mode must be 'all' or 'any', not {mode!r}")
    watch = _All(len(tensors), fn) if mode == "all" else _Any(fn)
    return _MultiHandle(
        [register_hook(t, lambda g, k=k: watch.receive(k, g)) for k, t in enumerate(tensors)]
    )


class _All:
    def __init__(self, count: int, fn: Any) -> None:
        self.count = count
        self.fn = fn

    def receive(self, k: int, g: Tensor) -> None:
        """A gradient is known."""
        owner = current_pass()
        row = owner.watches.get(self)
        if row is None:
            row = owner.watches[self] = [None] * self.count
            owner.at_end.append(lambda: self.finish(row))
        elif not row:
            return  # the hook has been called
        row[k] = g
        if all(g is not None for g in row):
            self.finish(row)

    def finish(self, row: list[Any]) -> None:
        """Call the hook, unless that has been done."""
        if row:
            grads = row.copy()
            row.clear()
            self.fn(grads)


class _Any:
    def __init__(self, fn: Any) -> None:
        self.fn = fn

    def receive(self, k: int, g: Tensor) -> None:
        """The first gradient of a pass is handed on."""
        watches = current_pass().watches
        if self not in watches:
            watches[self] = True
            self.fn(g)


# -- saved tensors ----------------------------------------------------------------------

_DISABLED: list[str] = []


class saved_tensors_hooks:
    """Inside, `pack_hook(t)` is called on tensors that a Function saves, `unpack_hook` on reading.

    This concerns `save_for_backward` of user-defined functions.  Values that built-in ops need in
    the backward pass are not saved singly: the plan of a path decides which values are kept and
    which are computed anew. No hook is called for these.
    """

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        if _DISABLED:
            raise GraphError(_DISABLED[-1])
        push_saved_hooks((self.pack_hook, self.unpack_hook))

    def __exit__(self, *args: object) -> None:
        pop_saved_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Everything is on the CPU already: nothing is moved."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda t: t, lambda t: t)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside the block, entering `saved_tensors_hooks` raises GraphError with this message."""
    if saved_hooks() is not None:
        raise GraphError(error_message)
    _DISABLED.append(error_message)
    try:
        yield
    finally:
        _DISABLED.pop()


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[None]:
    """Always allowed: gradients are those of the values as used."""
    yield


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Count an in-place change of the tensor, or of each of several."""
    for t in [tensor] if isinstance(tensor, Tensor) else tensor:
        if not isinstance(t, Tensor):
            raise ArgumentTypeError(f"increment_version: expected a Tensor, got {type(t).__name__}")
        _hot.bump(t)


def region_activation_memory_budget(budget: float) -> Any:
    """Raises: PyTorch's budget of a region that `torch.compile` traces, and so of no program here.

    budget: from 0 to 1, of the memory that the region's activations take
    `wend.set_memory_budget` limits the memory of whole programs. Raises ArgumentTypeError and
    ArgumentError for other budgets, else GraphError, as PyTorch does outside of such regions.
    """
    if isinstance(budget, bool) or not isinstance(budget, (int, float)):
        raise ArgumentTypeError(
            f"region_activation_memory_budget: expects a float, got {type(budget).__name__}"
        )
    if not 0.0 <= budget <= 1.0:
        raise ArgumentError(f"region_activation_memory_budget: must be in [0, 1], got {budget}")
    raise GraphError(
        "region_activation_memory_budget: can only be used where torch.compile traces a region; "
        "programs are recorded here, and wend.set_memory_budget limits their memory"
    )


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Nothing: no stream is captured."""


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Nothing: there is a single stream."""
