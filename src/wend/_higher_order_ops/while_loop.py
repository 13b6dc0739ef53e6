"""torch.while_loop: a function again and again, as long as a tensor says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._engine.base import tree
from wend._engine.base.dtypes import bool_
from wend._engine.base.errors import ValueRefused
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.core.symbolic import SymInt
from wend._frontend.static.errors import UncapturedHigherOrderOpError
from wend._higher_order_ops._types import check_same, is_recorded, leaf_kinds

__all__ = ["carried_on", "while_loop"]


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any
) -> Any:
    """The last of carried = body_fn(*carried), called while cond_fn(*carried) is true.

    carried_inputs: a tuple of trees of tensors and ints     cond_fn: gives a bool, or a 0-d tensor
    of bools     body_fn: gives a tuple like carried_inputs

    Gradients of any order flow through all turns; PyTorch has none for carried ints.  In an
    explored graph the loop stays a loop, carried ints become its numbers.

    Raises UncapturedHigherOrderOpError (a RuntimeError) where body_fn returns another structure,
    dtype or shape.
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise ValueRefused("while_loop: Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)):
        raise ValueRefused(
            "while_loop: carried_inputs must be a tuple or list, got "
            f"{type(carried_inputs).__name__}"
        )
    carried = tree.map(_first, carried_inputs)
    # No name keeps a tensor of the last turn: an explored graph compares the frames of two turns.
    while _goes_on(cond_fn(*carried)):
        carried = carried_on("while_loop", body_fn(*carried), carried)
    return carried


def _first(x: Any) -> Any:
    """A carried value before the first turn: in-place ops of the body must not write to x."""
    if isinstance(x, Tensor):
        return ops.clone(x)
    if not isinstance(x, (int, SymInt)):
        raise ValueRefused(
            "while_loop: Expect carried_inputs to be a tuple of possibly nested dict/list/tuple "
            f"that only consists of tensor or int leaves, but got a {type(x).__name__}."
        )
    run = _hot.current_trace().symbolic
    if type(x) is not bool and getattr(run, "keeps_loops", False):
        return run.counter(x)  # type: ignore[union-attr]
    return x


def _goes_on(answer: Any) -> bool:
    """Whether there is a further turn."""
    if isinstance(answer, bool):
        return answer
    if not isinstance(answer, Tensor) or answer.dim() or answer.dtype is not bool_:
        got = f"{answer.dtype} tensor" if isinstance(answer, Tensor) else type(answer).__name__
        shape = f" of shape {tuple(answer.shape)}" if isinstance(answer, Tensor) else ""
        raise UncapturedHigherOrderOpError(
            "while_loop: cond_fn must return a boolean scalar tensor or a boolean but got a "
            f"{got}{shape}"
        )
    return bool(answer)


def carried_on(name: str, new: Any, old: Any) -> Any:
    """The values for the next turn, `new`, where they are like those of the last, `old`.

    Raises UncapturedHigherOrderOpError.
    """
    if type(new) is not type(old) and {type(new), type(old)} == {list, tuple}:
        new = type(old)(new)
    if is_recorded():
        check_same(name, "the new values", _plain(new), "those before the turn", _plain(old))
        return new
    check_same(name, "the new values", leaf_kinds(new), "those before the turn", leaf_kinds(old))
    for k, (a, b) in enumerate(zip(tree.leaves(new), tree.leaves(old), strict=True)):
        if isinstance(a, Tensor) and a.shape != b.shape:
            raise UncapturedHigherOrderOpError(
                f"{name}: the new values and those before the turn must have the same shapes: leaf "
                f"{k} is of shape {tuple(a.shape)} against {tuple(b.shape)}"
            )
    return new


def _plain(values: Any) -> Any:
    """Kinds where numbers that stand for ints count as ints."""
    structure, kinds = leaf_kinds(values)
    return structure, tuple([int if _is_int(k) else k for k in kinds])


def _is_int(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, (int, SymInt)) and kind is not bool
