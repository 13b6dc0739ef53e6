"""Compares an explored graph with the function, at several sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from wend.base import random_state, tree
from wend.core import _hot, _types
from wend.core._hot import Tensor
from wend.transforms.exploring.program import StaticGraph
from wend.transforms.exploring.running import SizesDiffer, run

__all__ = ["at_sizes", "close", "disagreement", "resized"]

FURTHER = (1, 3)  # how much longer the dims are in the further comparisons


def disagreement(
    program: StaticGraph, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> str | None:
    """A difference between a program and the function, as text; None if there is none.

    The sizes are those of `at_sizes`.  Sizes that the function refuses, or the guards, say nothing.
    """
    leaves, structure = tree.flatten((tuple(args), dict(kwargs)))
    captured = {c.id: c.tensor for c in program.captured}
    for given in at_sizes(program, leaves):
        found = _compare(program, function, structure, given, captured)
        if found is not None:
            return found
    return None


def at_sizes(program: StaticGraph, leaves: list[Any]) -> Iterator[list[Any]]:
    """The leaves of the arguments, with tensors of the given sizes and of further sizes.

    The elements are repeated.  Dims of equal length grow together.
    """
    yield leaves
    place: dict[int, int] = {}
    for i in range(len(leaves)):
        if i not in program.constants:
            place[i] = program.inputs[len(place)]
    for more in FURTHER:
        given = [
            resized(x, program, place[i], more) if i in place else x for i, x in enumerate(leaves)
        ]
        if all(a is b for a, b in zip(given, leaves, strict=True)):
            return
        yield given


def resized(x: Tensor, program: StaticGraph, number: int, more: int | None) -> Tensor:
    """x with dims that are longer, or of size 1 for None, where these are symbols."""
    extents = program.info[number].extents or ()
    array = np.asarray(_hot.ensure(_hot.refreshed(x)))
    for axis, e in enumerate(extents):
        n = array.shape[axis]
        if type(e) is tuple and n:
            wanted = 1 if more is None else n + more
            array = np.take(array, np.arange(wanted) % n, axis=axis)
    if array.shape == tuple(x.shape):
        return x
    type_ = _hot.refreshed(x).type
    fresh = _types.intern_type(array.shape, type_.dtype, type_.device)
    handle: Tensor = _hot.wrap(_hot.held(fresh, np.ascontiguousarray(array)))
    return handle


def _compare(
    program: StaticGraph,
    function: Callable[..., Any],
    structure: Any,
    given: list[Any],
    captured: dict[int, Tensor],
) -> str | None:
    state = random_state.current().get_state()
    buffers = [(t, t.value) for t in captured.values()]
    try:
        args, kwargs = tree.unflatten(structure, [_copy(x) for x in given])
        try:
            wanted = function(*args, **kwargs)
            expected = [_array(x) for x in tree.leaves(wanted)]
        except Exception:
            return None  # the function refuses these sizes
    finally:
        _restore(buffers)
        after = random_state.current().get_state()
        random_state.current().set_state(state)
    try:
        tensors = [_copy(x) for x in given if isinstance(x, Tensor)]
        result = run(program, tensors, captured)
        found = [_array(x) for x in tree.leaves(result)]
    except SizesDiffer:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        _restore(buffers)
        random_state.current().set_state(after)
    sizes = [tuple(x.shape) for x in given if isinstance(x, Tensor)]
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        if isinstance(b, np.ndarray) != isinstance(a, np.ndarray):
            return f"result {k} is a {type(a).__name__}, and not a {type(b).__name__}"
        if not isinstance(b, np.ndarray):
            if a != b and not (a != a and b != b):
                return f"result {k} is {a!r}, and not {b!r}"
        elif a.shape != b.shape or a.dtype != b.dtype:
            return f"result {k} has shape {a.shape}, and not {b.shape}, for sizes {sizes}"
        elif not close(a, b):
            return f"result {k} has other values, for sizes {sizes}"
    return None


def _restore(buffers: list[tuple[Tensor, Any]]) -> None:
    """Give tensors from outside the earlier values back."""
    for t, value in buffers:
        if t.value is not value:
            t.value = value


def close(a: Any, b: Any) -> bool:
    """Whether two arrays agree: bits of ints, floats to 1e-3, and 1e-4 of the largest."""
    if a.dtype.kind in "biu?":
        return bool((a == b).all())
    wide = np.result_type(a.dtype, np.float64) if a.dtype.kind != "c" else a.dtype
    a, b = a.astype(wide), b.astype(wide)
    scale = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0))
    return bool(np.allclose(a, b, rtol=1e-3, atol=1e-4 * max(scale, 1e-6), equal_nan=True))


def _array(x: Any) -> Any:
    return np.asarray(_hot.ensure(_hot.refreshed(x))) if isinstance(x, Tensor) else x


def _copy(x: Any) -> Any:
    """A separate handle: the function may write to an argument."""
    if not isinstance(x, Tensor):
        return x
    value = _hot.refreshed(x)
    handle: Tensor = _hot.wrap(_hot.held(value.type, np.array(_hot.ensure(value))))
    return handle
