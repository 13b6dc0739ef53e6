"""torch._higher_order_ops.map: a function of each slice of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._engine.base import tree
from wend._engine.base.errors import ValueRefused
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._higher_order_ops.scan import slices_of

__all__ = ["map"]


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """The results f(x, *args), stacked, for each slice x of xs along dim 0.

    xs: a tree of tensors     f: gives trees of tensors of equal shapes

    Gradients of any order flow.  In an explored graph the loop stays a loop.
    """
    leaves, structure = tree.flatten(xs)
    if not leaves or any(not isinstance(x, Tensor) for x in leaves):
        raise ValueRefused("map: xs must be a tree of tensors, with at least one")
    slices = slices_of("map", leaves, 0, False)
    firsts, form = tree.flatten(f(tree.unflatten(structure, [x[0] for x in slices]), *args))
    columns = [[y] for y in firsts]
    del firsts
    for i in range(1, slices[0].shape[0]):
        _add(columns, f(tree.unflatten(structure, [x[i] for x in slices]), *args))
    return tree.unflatten(form, [ops.stack(column) for column in columns])


def _add(columns: list[list[Tensor]], ys: Any) -> None:
    for column, y in zip(columns, tree.leaves(ys), strict=True):
        column.append(y)
