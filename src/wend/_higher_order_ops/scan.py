"""torch._higher_order_ops.scan: a loop over the slices of tensors, with a carried state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._engine.base import tree
from wend._engine.base.errors import ValueRefused
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.static.errors import UncapturedHigherOrderOpError
from wend._higher_order_ops.while_loop import carried_on

__all__ = ["scan", "slices_of"]


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """(last carry, stacked ys) of carry, y = combine_fn(carry, x), for each slice x of xs.

    init, xs: trees of tensors     dim: which the slices are taken along, and the ys stacked along
    reverse: whether the last slice comes first; the ys keep the places of their slices

    Gradients of any order flow.  In an explored graph the loop stays a loop, for all sizes.

    Raises UncapturedHigherOrderOpError (a RuntimeError) where the carry changes its structure,
    dtype or shape, ValueRefused for other arguments that do not fit.
    """
    leaves, structure = tree.flatten(xs)
    if not leaves:
        return init, []
    if not callable(combine_fn):
        raise ValueRefused(f"scan: Combine_fn must be a callable, but got {combine_fn!r}")
    if type(dim) is not int:
        raise ValueRefused(f"scan: Dim must be an int, but got {type(dim)}")
    if type(reverse) is not bool:
        raise ValueRefused(f"scan: Reverse must be a bool, but got {type(reverse)}")
    if not tree.leaves(init):
        raise ValueRefused("scan: scan() operator requires init leaves.")
    if any(not isinstance(x, Tensor) for x in (*tree.leaves(init), *leaves)):
        raise ValueRefused("scan: All init and xs leaves must be a Tensor")
    slices = slices_of("scan", leaves, dim, reverse)
    carry, ys = _step(combine_fn, init, tree.unflatten(structure, [x[0] for x in slices]))
    firsts, form = tree.flatten(ys)
    if any(not isinstance(y, Tensor) for y in firsts):
        raise UncapturedHigherOrderOpError("scan: combine_fn must give tensors as second result")
    columns = [[y] for y in firsts]
    del ys, firsts
    for i in range(1, slices[0].shape[0]):
        carry = _turn(combine_fn, carry, tree.unflatten(structure, [x[i] for x in slices]), columns)
    stacked = [ops.stack(column) for column in columns]
    if reverse:
        stacked = [ops.flip(y, (0,)) for y in stacked]
    if dim:
        stacked = [ops.movedim(y, 0, dim) if dim < y.dim() else y for y in stacked]
    return carry, tree.unflatten(form, stacked)


def _turn(combine_fn: Any, carry: Any, x: Any, columns: list[list[Tensor]]) -> Any:
    """The next carry; the second results go to the columns."""
    carry, y = _step(combine_fn, carry, x)
    for column, leaf in zip(columns, tree.leaves(y), strict=True):
        column.append(leaf)
    return carry


def _step(combine_fn: Any, carry: Any, x: Any) -> tuple[Any, Any]:
    """(next carry, y)."""
    result = combine_fn(carry, x)
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise UncapturedHigherOrderOpError(
            "scan: combine_fn must return a pair, of the next carry and of a slice of the result"
        )
    return carried_on("scan", result[0], carry), result[1]


def slices_of(name: str, leaves: list[Tensor], dim: int, reverse: bool) -> list[Tensor]:
    """The tensors with the dim that is looped over in front.  Raises ValueRefused."""
    wrong = any(not -x.dim() <= dim < x.dim() or x.shape[dim] == 0 for x in leaves)
    if wrong:
        raise ValueRefused(
            f"{name}: All xs leaves must at least have 'dim' number of dimensions and scan "
            "dimension > 0"
        )
    if any(x.shape[dim] != leaves[0].shape[dim] for x in leaves[1:]):
        raise ValueRefused(f"{name}: all xs leaves must have the same size in dim {dim}")
    moved = [ops.movedim(x, dim, 0) if dim else x for x in leaves]
    return [ops.flip(x, (0,)) for x in moved] if reverse else moved
