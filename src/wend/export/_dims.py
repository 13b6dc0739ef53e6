"""Names for sizes that may differ from call to call: torch.export.Dim, and dynamic_shapes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from wend._engine.base import tree
from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.core._hot import Tensor

__all__ = ["Dim", "Hint", "dims", "free_extents", "named_dims"]


class Hint:
    """Dim.AUTO, Dim.DYNAMIC and Dim.STATIC."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Dim.{self.name}"


class Dim:
    """A name for a size that may differ from call to call: Dim("batch", min=1, max=64).

    Sizes with the same Dim are equal. `min` and `max` are bounds that calls are checked against.
    """

    AUTO = Hint("AUTO")
    DYNAMIC = Hint("DYNAMIC")
    STATIC = Hint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not name.isidentifier():
            raise ArgumentError(f"Dim: a name is an identifier, not {name!r}")
        if min is not None and max is not None and min > max:
            raise ArgumentError(f"Dim: max {max} is below min {min}")
        self.__name__ = name
        self.min: int = 0 if min is None else min
        self.max = max

    def __repr__(self) -> str:
        return f"Dim({self.__name__!r}, min={self.min}, max={self.max})"


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """A Dim for each name, all with the same bounds."""
    return tuple(Dim(name, min=min, max=max) for name in names)


def _per_tensor(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], shapes: Any
) -> list[tuple[Tensor, Any]]:
    """(tensor, entry of dynamic_shapes) for the tensors among the arguments, in order."""
    arguments = list(args)
    entries: list[Any]
    if isinstance(shapes, dict):
        target = getattr(function, "forward", function)
        try:
            names = list(inspect.signature(target).parameters)
        except (TypeError, ValueError):  # a callable without a signature has no names of arguments
            names = []
        known = dict(zip(names, arguments))
        unknown = set(shapes) - set(names) - set(kwargs)
        if unknown and names:
            raise ArgumentError(f"dynamic_shapes: no argument is called {sorted(unknown)[0]!r}")
        entries = [shapes.get(name) for name in known]
        entries += [None] * (len(arguments) - len(entries))
        entries += [shapes.get(name) for name in kwargs]
    else:
        entries = list(shapes)
        if len(entries) != len(arguments) + len(kwargs):
            raise ArgumentError(
                f"dynamic_shapes: {len(entries)} entries for "
                f"{len(arguments) + len(kwargs)} arguments"
            )
    pairs: list[tuple[Tensor, Any]] = []
    for x, entry in zip([*arguments, *kwargs.values()], entries, strict=True):
        _walk(x, entry, pairs)
    return pairs


def _walk(x: object, entry: Any, pairs: list[tuple[Tensor, Any]]) -> None:
    if isinstance(x, Tensor):
        pairs.append((x, entry))
    elif isinstance(x, dict):
        for key, part in x.items():
            _walk(part, None if entry is None else entry.get(key), pairs)
    elif isinstance(x, (list, tuple)):
        for k, part in enumerate(x):
            _walk(part, None if entry is None else entry[k], pairs)
    else:
        for leaf in tree.leaves(x):
            if isinstance(leaf, Tensor):
                pairs.append((leaf, None))


def _by_axis(x: Tensor, entry: Any) -> dict[int, Any]:
    if entry is None:
        return {}
    rows: Iterable[tuple[Any, Any]]
    if isinstance(entry, dict):
        rows = entry.items()
    elif isinstance(entry, (list, tuple)):
        rows = enumerate(entry)
    else:
        raise ArgumentTypeError(
            f"dynamic_shapes: an entry is a dict by axis or a tuple, not {type(entry).__name__}"
        )
    dims = {}
    for axis, dim in rows:
        if not isinstance(axis, int) or not -x.dim() <= axis < max(x.dim(), 1):
            raise ArgumentError(f"dynamic_shapes: axis {axis!r} of a tensor of {x.dim()} dims")
        dims[axis % x.dim()] = dim
    return dims


def free_extents(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], shapes: Any
) -> tuple[list[tuple[int | None, ...]], list[dict[int, Any]]]:
    """(per tensor and axis the extent while exploring, or None for a constant; the dims by axis).

    Extents of 0 and 1 that may differ are explored as 2, or as the smallest size of the Dim.
    """
    free, dims = [], []
    for x, entry in _per_tensor(function, args, kwargs, shapes):
        by_axis = {
            a: d for a, d in _by_axis(x, entry).items() if d is not None and d is not Dim.STATIC
        }
        row: list[int | None] = []
        for axis, n in enumerate(tuple(x.shape)):
            dim = by_axis.get(axis)
            if dim is None or isinstance(dim, int):
                by_axis.pop(axis, None)
                row.append(None)
            else:
                least = dim.min if isinstance(dim, Dim) else 0
                row.append(n if n > 1 else max(2, least))
        free.append(tuple(row))
        dims.append(by_axis)
    return free, dims


def named_dims(inputs: Sequence[int], dims: list[dict[int, Any]]) -> dict[tuple[int, int], str]:
    """Per (id of an input, axis) the name of the dim, where there is a name."""
    names = {}
    for number, by_axis in zip(inputs, dims, strict=True):
        for axis, dim in by_axis.items():
            if isinstance(dim, Dim):
                names[number, axis] = dim.__name__
            elif isinstance(dim, str):
                names[number, axis] = dim
    return names
