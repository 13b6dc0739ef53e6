"""torch.cond: either of two functions, as a tensor says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wend._engine.base import tree
from wend._engine.base.errors import ValueRefused
from wend._engine.base.tracebacks import short_errors
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._higher_order_ops._types import (
    check_same,
    code_of,
    is_recorded,
    leaf_kinds,
    static_kinds,
)

__all__ = ["cond"]

MOST_KNOWN = 1024

#: Keys of branches that were found to fit together.
_fitting: set[Any] = set()


@short_errors
def cond(
    pred: bool | int | float | Tensor,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: tuple[Any, ...] | list[Any] = (),
) -> Any:
    """true_fn(*operands) if pred, else false_fn(*operands).

    pred: a number, or a tensor of one element     operands: trees of tensors

    The branch that is not taken is recorded once per kind of operands, without data: its results
    must have the structure, dtypes and ranks of the other's.  A number as pred takes its branch
    unchecked.  In an explored graph (`torch.export`, `torch.onnx.export`) a tensor as pred makes
    a branch.  Under vmap, where pred differs from example to example, each takes its own.
    PyTorch refuses branches that return an operand itself, or that are not captured whole: these
    work here.

    Raises UncapturedHigherOrderOpError (a RuntimeError) where the branches do not fit together.
    """
    if not isinstance(pred, (bool, int, float)):
        _check(pred, true_fn, false_fn, operands)
    # No call in between: an explored graph remembers the frames at the question.
    if pred:
        result = true_fn(*operands)
        taken, other = true_fn, false_fn
    else:
        result = false_fn(*operands)
        taken, other = false_fn, true_fn
    if isinstance(pred, Tensor) and not is_recorded() and _hot.current_trace().fiber is None:
        _check_other(taken, other, operands, result)
    return result


def _check(pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> None:
    """Raise ValueRefused for arguments of wrong types."""
    if not isinstance(pred, Tensor):
        raise ValueRefused(f"cond: Expected pred to be bool or tensor, but got {pred!r}.")
    if pred.numel() != 1:
        raise ValueRefused(
            "cond: Expected pred to be bool or single-element tensor, but got a tensor of shape "
            f"{tuple(pred.shape)}."
        )
    if not callable(true_fn) or not callable(false_fn):
        raise ValueRefused("cond: Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)) or not all(
        isinstance(x, Tensor) for x in tree.leaves(operands)
    ):
        raise ValueRefused(
            "cond: Expect operands to be a tuple of possibly nested dict/list/tuple that only "
            f"consists of tensor leaves, but got {operands!r}."
        )


def _check_other(
    taken: Callable[..., Any], other: Callable[..., Any], operands: Sequence[Any], result: Any
) -> None:
    """Compare a result with the types of the other branch, once per kind of operands."""
    kinds = leaf_kinds(result)
    key = (code_of(taken), code_of(other), leaf_kinds(operands), kinds)
    if key in _fitting:
        return
    wanted = static_kinds(other, operands)
    if wanted is not None:
        check_same("cond", "the result of a branch", kinds, "the result of the other", wanted)
    if len(_fitting) >= MOST_KNOWN:
        _fitting.clear()
    _fitting.add(key)
