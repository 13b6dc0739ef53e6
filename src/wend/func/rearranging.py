"""torch.func.rearrange: dims of a tensor moved, split and joined as a pattern says."""

from __future__ import annotations

import re
from typing import Any

from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops

__all__ = ["rearrange"]

Dims = list[list[str]]  # for each dim the names of its axes: none of a dim of size 1
_REST = "..."  # a dim each for all further dims
_JOINED = "(...)"  # all further dims among the axes of a single dim
_TOKEN = re.compile(r"\s*(\.\.\.|[()]|\w+)")


def rearrange(
    tensor: Tensor | list[Tensor] | tuple[Tensor, ...], pattern: str, **axes_lengths: int
) -> Tensor:
    """`tensor` with dims as in a pattern: rearrange(x, "b (h k) -> h (b k)", k=3).

    tensor: a tensor, or several of a shape, which are stacked first
    pattern: names of the dims before and behind `->`. Names in parentheses are a single dim, `...`
    stands for all further dims, and 1 for a dim of size 1.
    axes_lengths: sizes of axes that the shape does not tell
    Raises ArgumentError for a pattern that is none or does not fit.
    After einops (Rogozhnikov, 2022).
    """
    if isinstance(tensor, (list, tuple)):
        tensor = ops.stack(list(tensor), 0)
    if not isinstance(tensor, Tensor):
        raise ArgumentTypeError(
            f"rearrange: expected a Tensor or a list of these, not {type(tensor).__name__}"
        )
    left, right = _sides(pattern, axes_lengths)
    left, rest = _spread(pattern, left, tensor.dim())
    right = [[name for word in dim for name in _named(word, rest)] for dim in _opened(right, rest)]
    sizes = _sizes(pattern, left, tensor.shape, axes_lengths)
    order = [name for dim in left for name in dim]
    split = ops.reshape(tensor, tuple(sizes[name] for name in order))
    moved = ops.permute(split, tuple(order.index(name) for dim in right for name in dim))
    return ops.reshape(moved, tuple(_product(dim, sizes) for dim in right))  # type: ignore[no-any-return]


# -- the pattern ----------------------------------------------------------------------------


def _fault(pattern: str, fault: str) -> ArgumentError:
    return ArgumentError(f"rearrange: pattern {pattern!r}: {fault}")


def _sides(pattern: str, lengths: dict[str, int]) -> tuple[Dims, Dims]:
    """The dims of both sides, `...` not yet spread. Raises ArgumentError."""
    texts = pattern.split("->")
    if len(texts) != 2:
        raise _fault(pattern, "a single '->' separates dims before and after")
    left, right = (_parsed(pattern, text) for text in texts)
    before, after = (_names(side) for side in (left, right))
    if any(_JOINED in dim for dim in left):
        raise _fault(pattern, "'...' in parentheses must not stand before the '->'")
    if _REST in after and _REST not in before:
        raise _fault(pattern, "'...' stands behind the '->' only")
    alone = set(before) ^ set(after)
    if alone:
        raise _fault(pattern, f"{', '.join(sorted(alone))} must stand on both sides")
    if not set(lengths) <= set(before):
        unknown = ", ".join(sorted(set(lengths) - set(before)))
        raise _fault(pattern, f"a length of {unknown} is given, which the pattern lacks")
    for name, length in lengths.items():
        if isinstance(length, bool) or not isinstance(length, int):
            raise ArgumentTypeError(f"rearrange: the length of {name} must be an int")
    return left, right


def _parsed(pattern: str, text: str) -> Dims:
    """The dims of a side. Raises ArgumentError."""
    dims: Dims = []
    inside = False
    at, text = 0, text.rstrip()
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise _fault(pattern, f"{text[at:].strip()!r} is neither a name nor '...'")
        at, word = token.end(), token[1]
        if word in "()":
            if inside == (word == "("):
                raise _fault(pattern, "parentheses must match, and contain no others")
            inside = not inside
            if inside:
                dims.append([])
        elif word == "1":
            dims += [] if inside else [[]]
        else:
            _check_name(pattern, word, _names(dims))
            if inside:
                dims[-1].append(_JOINED if word == _REST else word)
            else:
                dims.append([word])
    if inside:
        raise _fault(pattern, "parentheses must match, and contain no others")
    return dims


def _names(dims: Dims) -> list[str]:
    """The names on a side, `...` among them."""
    return [_REST if name == _JOINED else name for dim in dims for name in dim]


def _check_name(pattern: str, word: str, names: list[str]) -> None:
    """Raises ArgumentError for a word that names no axis, or that stood before."""
    if word in names:
        raise _fault(pattern, f"{word} stands twice on a side")
    if word.isdigit():
        raise _fault(pattern, f"an axis without a name is of size 1, not {word}")
    if word != _REST and (not word.isidentifier() or word[0] == "_" or word[-1] == "_"):
        raise _fault(pattern, f"{word!r} is no name of an axis; these have no '_' at an end")


# -- the shape ------------------------------------------------------------------------------


def _spread(pattern: str, left: Dims, rank: int) -> tuple[Dims, list[str]]:
    """The dims before the `->` with names in place of `...`, and these names."""
    known = len(left) - ([_REST] in left)
    if rank < known or (rank > known and [_REST] not in left):
        raise _fault(pattern, f"has {known} dims, and the tensor {rank}")
    rest = [f"{_REST}{k}" for k in range(rank - known)]
    return _opened(left, rest), rest


def _opened(dims: Dims, rest: list[str]) -> Dims:
    """Dims, of which `...` alone stands for several."""
    return [d for dim in dims for d in ([[name] for name in rest] if dim == [_REST] else [dim])]


def _named(word: str, rest: list[str]) -> list[str]:
    return rest if word == _JOINED else [word]


def _sizes(pattern: str, left: Dims, shape: Any, lengths: dict[str, int]) -> dict[str, Any]:
    """The size of each axis. Raises ArgumentError where the shape does not fit."""
    sizes: dict[str, Any] = {}
    for dim, extent in zip(left, shape, strict=True):
        unknown = [name for name in dim if name not in lengths]
        known = _product([name for name in dim if name in lengths], lengths)
        if len(unknown) > 1:
            raise _fault(pattern, f"the lengths of {', '.join(unknown)} cannot be told; give more")
        if (not unknown and known != extent) or (unknown and (not known or extent % known != 0)):
            raise _fault(pattern, f"a dim of size {extent} is not made of parts of {known}")
        sizes |= {name: lengths[name] for name in dim if name in lengths}
        sizes |= dict.fromkeys(unknown, extent // known)
    return sizes


def _product(names: list[str], sizes: dict[str, Any]) -> Any:
    result: Any = 1
    for name in names:
        result = result * sizes[name]
    return result
