"""Pinned memory: a mark on tensors. Accelerators read the processor's memory as it is."""

from __future__ import annotations

import weakref
from typing import Any

from wend._engine.base.devices import accelerator_kind
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops

#: By their ids, the tensors that are pinned, not counting views of these.
_PINNED: dict[int, weakref.ref[Tensor]] = {}


def _root(tensor: Tensor) -> Tensor:
    alias = tensor.alias
    return tensor if alias is None or alias.base is None else alias.base


def is_in_pinned(tensor: Tensor) -> bool:
    """Whether a tensor is pinned, or a view of a tensor that is."""
    return bool(_PINNED) and id(_root(tensor)) in _PINNED


def pinned(tensor: Tensor) -> Tensor:
    """A copy that is pinned."""
    return marked(ops.clone(tensor))


def marked(tensor: Tensor) -> Tensor:
    """The tensor itself, pinned from now on."""
    root = _root(tensor)
    key = id(root)
    _PINNED[key] = weakref.ref(root, lambda _: _PINNED.pop(key, None))
    return tensor


def marked_all(batch: Any) -> Any:
    """A batch of a loader, its tensors pinned if an accelerator is there: also those in containers.

    Objects with a method `pin_memory` pin themselves.
    """
    return batch if accelerator_kind() is None else _marked(batch)


def _marked(batch: Any) -> Any:
    if isinstance(batch, Tensor):
        return marked(batch) if batch.is_cpu else batch
    if isinstance(batch, (str, bytes)):
        return batch
    if isinstance(batch, dict):
        return type(batch)({key: _marked(value) for key, value in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_make"):
        return batch._make(_marked(value) for value in batch)
    if isinstance(batch, (list, tuple)):
        return type(batch)(_marked(value) for value in batch)
    return batch.pin_memory() if hasattr(batch, "pin_memory") else batch
