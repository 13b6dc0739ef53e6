"""torch._higher_order_ops.associative_scan: all prefixes of an associative operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._engine.base import tree
from wend._engine.base.errors import ArgumentError, ValueRefused
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.core.symbolic import SymInt
from wend._higher_order_ops._types import check_same, leaf_kinds
from wend._higher_order_ops.scan import slices_of
from wend._higher_order_ops.while_loop import carried_on
from wend.func.mapping import vmap

__all__ = ["associative_scan"]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """y[0] = x[0], y[i] = combine_fn(y[i - 1], x[i]) along a dim, in about 2 log2(n) rounds.

    combine_fn: associative, takes and gives trees like xs, without the dim
    combine_mode: 'pointwise' or 'generic', which are the same here; PyTorch takes 'pointwise' for
    tensors on a GPU alone

    Gradients of any order flow.  In an explored graph it is a loop over the dim.

    Raises ArgumentError (a ValueError) for arguments that do not fit.
    """
    leaves, structure = tree.flatten(xs)
    if not callable(combine_fn):
        raise ArgumentError(f"associative_scan: Combine_fn must be a callable, got {combine_fn!r}")
    if type(dim) is not int:
        raise ArgumentError(f"associative_scan: Dim must be an int, but got {type(dim)}")
    if type(reverse) is not bool:
        raise ValueRefused(f"associative_scan: Reverse must be a bool, but got {type(reverse)}")
    if combine_mode not in ("pointwise", "generic"):
        raise ArgumentError(
            "associative_scan: Combine_mode must either 'pointwise' or 'generic', but got "
            f"{combine_mode!r}"
        )
    if not leaves or any(not isinstance(x, Tensor) for x in leaves):
        raise ArgumentError("associative_scan: Expected at least 1 xs leaf, and tensors alone")
    slices = slices_of("associative_scan", leaves, dim, reverse)
    if isinstance(slices[0].shape[0], SymInt):
        prefixes = _in_a_row(combine_fn, structure, slices)
    else:
        mapped = vmap(combine_fn)

        def combine(a: list[Tensor], b: list[Tensor]) -> list[Tensor]:
            result = mapped(tree.unflatten(structure, a), tree.unflatten(structure, b))
            wanted = leaf_kinds(tree.unflatten(structure, a))
            check_same(
                "associative_scan", "the result of combine_fn", leaf_kinds(result), "xs", wanted
            )
            return tree.leaves(result)

        prefixes = _prefixes(combine, slices)
    if reverse:
        prefixes = [ops.flip(y, (0,)) for y in prefixes]
    return tree.unflatten(structure, [ops.movedim(y, 0, dim) if dim else y for y in prefixes])


def _in_a_row(combine_fn: Any, structure: tree.Structure, xs: list[Tensor]) -> list[Tensor]:
    """The prefixes in a row: for sizes that are not known yet."""
    carry = tree.unflatten(structure, [x[0] for x in xs])
    columns = [[x[0]] for x in xs]
    for i in range(1, xs[0].shape[0]):
        new = combine_fn(carry, tree.unflatten(structure, [x[i] for x in xs]))
        carry = carried_on("associative_scan", new, carry)
        del new  # an explored graph compares the frames of two turns
        for column, leaf in zip(columns, tree.leaves(carry), strict=True):
            column.append(ops.clone(leaf))  # no list holds the carry itself
    return [ops.stack(column) for column in columns]


def _prefixes(
    combine: Callable[[list[Tensor], list[Tensor]], list[Tensor]], xs: list[Tensor]
) -> list[Tensor]:
    """All prefixes along dim 0: those of pairs are every second; a further round has the rest."""
    n = xs[0].shape[0]
    if n < 2:
        return xs
    odd = _prefixes(combine, combine([x[: n - 1 : 2] for x in xs], [x[1::2] for x in xs]))
    even = [x[:1] for x in xs]
    if n > 2:
        before = odd if n % 2 else [y[:-1] for y in odd]
        later = combine(before, [x[2::2] for x in xs])
        even = [ops.cat([a, b]) for a, b in zip(even, later, strict=True)]
    return [_alternating(a, b) for a, b in zip(even, odd, strict=True)]


def _alternating(a: Tensor, b: Tensor) -> Tensor:
    """a[0], b[0], a[1], b[1] ...: a is as long as b, or longer by an item."""
    n = b.shape[0]
    both = ops.flatten(ops.stack([a[:n], b], 1), 0, 1)
    return both if a.shape[0] == n else ops.cat([both, a[n:]])
