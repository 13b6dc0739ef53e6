"""Shapes: `Size`, dims, strides, broadcasting. Extents may be symbolic where a function says so."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self, SupportsIndex, overload

from wend._engine.base.errors import ArgumentError, ArgumentTypeError, DimError, ShapeError

_INT64_MAX = 2**63 - 1


class Size(tuple[int, ...]):
    """A shape: a tuple of ints that stays a Size when sliced, added to or repeated.

    Size(iterable of ints). Raises ArgumentTypeError for other items, ArgumentError beyond 64 bits.
    Code with checked ints builds a Size with `tuple.__new__(Size, ints)`.
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[SupportsIndex] = (), /) -> Self:
        return tuple.__new__(cls, _checked_ints(sizes))

    def numel(self) -> int:
        """Product of the extents; 1 for no dims."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    __str__ = __repr__

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> int: ...
    @overload
    def __getitem__(self, index: slice, /) -> Size: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> int | Size:
        item = tuple.__getitem__(self, index)
        return tuple.__new__(Size, item) if isinstance(item, tuple) else item

    def __add__(self, other: Any, /) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented
        return tuple.__new__(Size, tuple.__add__(self, tuple(_checked_ints(other))))

    def __radd__(self, other: Any, /) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented
        return tuple.__new__(Size, tuple.__add__(tuple(_checked_ints(other)), self))

    def __mul__(self, times: SupportsIndex, /) -> Size:
        return tuple.__new__(Size, tuple.__mul__(self, times))

    def __rmul__(self, times: SupportsIndex, /) -> Size:
        return tuple.__new__(Size, tuple.__mul__(self, times))

    def __reduce__(self) -> tuple[type[Size], tuple[tuple[int, ...]]]:
        return Size, (tuple(self),)

    def __copy__(self) -> Size:
        return self

    def __deepcopy__(self, memo: object) -> Size:
        return self


def _checked_ints(sizes: Iterable[SupportsIndex]) -> Iterator[int]:
    for i, size in enumerate(sizes):
        if isinstance(size, int):
            number = int(size)
        elif getattr(size, "is_extent", False):  # of a function that is being explored
            yield size  # type: ignore[misc]
            continue
        else:
            try:
                number = int(operator.index(size))
            except TypeError:
                raise ArgumentTypeError(
                    f"Size: takes an iterable of ints, and item {i} is a {type(size).__name__}"
                ) from None
        if not -_INT64_MAX - 1 <= number <= _INT64_MAX:
            raise ArgumentError(f"Size: item {i} is {number}, which needs more than 64 bits")
        yield number


def int_of(value: Any) -> int:
    """An extent, a dim or a count as an int. Raises TypeError, for a bool too (as PyTorch does)."""
    if isinstance(value, bool):
        raise TypeError("a bool is no int here")
    if getattr(value, "is_extent", False):  # of a function that is being explored
        return value  # type: ignore[no-any-return]
    return operator.index(value)


def normalize_dim(dim: int, rank: int, op: str = "dim") -> int:
    """dim counted from 0. A 0-d tensor counts as having a single dim.

    op: the public name of the op, for the message
    Raises DimError for a dim out of range, ArgumentTypeError for a dim that is no int.
    """
    bound = rank or 1
    if type(dim) is not int:
        try:
            dim = int_of(dim)
        except TypeError:
            raise ArgumentTypeError(
                f"{op}: a dim must be an int, not {type(dim).__name__}"
            ) from None
    if -bound <= dim < bound:
        return dim if dim >= 0 else dim + bound
    of = "a 0-d tensor" if rank == 0 else f"a tensor of {rank} dim{'s' * (rank > 1)}"
    raise DimError(
        f"{op}: Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], "
        f"but got {dim}), for {of}"
    )


def normalize_dims(dims: int | Sequence[int] | None, rank: int, op: str = "dim") -> tuple[int, ...]:
    """dims counted from 0, in the given order; None means all.

    Raises DimError, and ShapeError if a dim appears twice.
    """
    if dims is None:
        return tuple(range(rank))
    if isinstance(dims, int):
        return (normalize_dim(dims, rank, op),)
    normal = tuple(normalize_dim(dim, rank, op) for dim in dims)
    if len(set(normal)) != len(normal):
        twice = next(dim for i, dim in enumerate(normal) if dim in normal[:i])
        raise ShapeError(f"{op}: dim {twice} appears multiple times in the list of dims {dims}")
    return normal


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a dense row-major tensor; an empty dim counts as 1 (PyTorch)."""
    strides = [1] * len(shape)
    step = 1
    for i in range(len(shape) - 1, -1, -1):
        strides[i] = step
        step *= max(shape[i], 1)
    return tuple(strides)


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether these strides (in elements) are dense and row-major; of size-1 dims any stride is."""
    if 0 in shape:
        return True
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


def numel(shape: Iterable[int]) -> int:
    """Number of elements of a shape."""
    return math.prod(shape)


def broadcast(op: str, *shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that all shapes broadcast to. Raises ShapeError naming the first bad dim.

    Extents may be symbolic: equality is asked before 'is this 1', as equality assumes least.
    """
    result: tuple[int, ...] = ()
    for shape in shapes:
        rank = max(len(result), len(shape))
        a = (1,) * (rank - len(result)) + tuple(result)
        b = (1,) * (rank - len(shape)) + tuple(shape)
        # A dim that a shape lacks takes the extent of the longer shape: nothing is asked of the
        # dim.
        missing = rank - min(len(result), len(shape))
        longer = a if len(result) == rank else b
        result = longer[:missing] + tuple(
            _broadcast_extent(op, shapes, a[i], b[i], i - rank) for i in range(missing, rank)
        )
    return result


def _broadcast_extent(op: str, shapes: Sequence[Sequence[int]], a: int, b: int, dim: int) -> int:
    # A guard is recorded for each question: ask the question that assumes least first.
    if a == b:
        return a
    if a == 1:
        return b
    if b == 1:
        return a
    texts = [str(tuple(shape)) for shape in shapes]
    listed = ", ".join(texts[:-1]) + f" and {texts[-1]}"
    raise ShapeError(
        f"{op}: shapes {listed} do not broadcast: dim {dim} has sizes {a} and {b} "
        f"({unequal(a, b, dim, max(map(len, shapes)))})"
    )


def unequal(a: object, b: object, dim: int, rank: int) -> str:
    """PyTorch's words for extents that do not broadcast.  dim: counted from the end"""
    return (
        f"The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton "
        f"dimension {dim + rank}"
    )
