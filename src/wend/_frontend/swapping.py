"""`torch.utils.swap_tensors`: two tensors change places, for all references to them."""

from __future__ import annotations

import copyreg
import sys
import weakref
from typing import Any

from wend._engine.base.errors import GraphError
from wend._engine.core import _hot
from wend._engine.core._hot import Leaf, Tensor
from wend._frontend.aliasing.rebinding import note_rebinding
from wend._frontend.aliasing.versions import UNCOUNTED
from wend._frontend.interop.exchange import user_attributes

__all__ = ["swap_tensors"]

_FIELDS = ("value", "alias", "_layout", "_grad", "version")


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange class, attributes, data, history and gradient of two tensors.

    Raises GraphError if weak references or views refer to either.  A backward pass that would give
    a gradient to either, by a graph made before, raises GraphError.
    """
    for name, t in (("t1", t1), ("t2", t2)):
        if _is_weakly_referred(t):
            raise GraphError(f"Cannot swap {name} because it has weakref associated with it")
    slots = _slots(t1)
    if slots != _slots(t2):
        raise GraphError("Cannot swap t1 and t2 if they have different slots")
    if t1 is t2:
        return
    for name, t in (("t1", t1), ("t2", t2)):
        _hot.refreshed(t)
        if t._views or t._moved:
            raise GraphError(
                f"Expected use_count of {name} to be 1 or 2 with an AccumulateGrad node: views of "
                "it are in use. Make sure you are not holding references to the tensor in other "
                "places"
            )
    trace = _hot.current_trace()
    for t in (t1, t2):
        note_rebinding(trace, t, t.value)
    leaves = _leaf_for(t2, t1), _leaf_for(t1, t2)
    _hot.exchange_classes(t1, t2)
    first, second = _attributes(t1), _attributes(t2)
    t1.__dict__.update(second)
    t2.__dict__.update(first)
    for field in (*_FIELDS, *slots):
        one, other = getattr(t1, field, None), getattr(t2, field, None)
        setattr(t1, field, other)
        setattr(t2, field, one)
    t2.leaf, t1.leaf = leaves


def _slots(t: Tensor) -> set[str]:
    return set(copyreg._slotnames(type(t)))  # type: ignore[attr-defined]


#: References to a leaf's weak reference here: the leaf, a list, a local, the call's argument.
_OWN_REFERENCES = 4


def _is_weakly_referred(t: Tensor) -> bool:
    """Whether anything but the identity of the tensor refers to the tensor weakly."""
    references = weakref.getweakrefs(t)
    leaf = t.leaf or _hot.own_attribute(t, _RETIRED)
    if leaf is None or not references:
        return bool(references)
    own = leaf.ref
    return len(references) > 1 or sys.getrefcount(own) > _OWN_REFERENCES


_RETIRED = "_retired_leaf"


def _leaf_for(taker: Tensor, t: Tensor) -> Leaf | None:
    """The identity of a leaf for the tensor in its place; graphs with the old identity refuse."""
    leaf = t.leaf
    if leaf is None:
        return None
    successor = Leaf(taker)
    successor.requires_grad = leaf.requires_grad
    successor.hooks, successor.post_hooks, successor.node = leaf.hooks, leaf.post_hooks, leaf.node
    leaf.hooks, leaf.post_hooks, leaf.node = {0: _refuse}, None, None
    leaf.ref = _nobody
    return successor


def _nobody() -> None:
    """Whom the old identity of a leaf stands for."""


def _refuse(g: object) -> None:
    raise GraphError(
        "Trying to execute AccumulateGrad node that was poisoned by swap_tensors: this can happen "
        "when you try to run backward on a tensor that was swapped."
    )


def _attributes(t: Tensor) -> dict[str, Any]:
    """The user's attributes of a tensor, and the difference of its counts of writes: taken away."""
    names = [*user_attributes(t), *(n for n in (UNCOUNTED,) if n in t.__dict__)]
    t.__dict__.pop(_RETIRED, None)
    return {name: t.__dict__.pop(name) for name in names}
