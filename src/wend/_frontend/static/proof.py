"""Compares an explored graph with the function, at several sizes.

A loop that asks for values may have no end for the inputs of a comparison. The graph runs first,
for so many turns at most. Then the function, which takes the same turns, has an end, too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base import random_state, tree
from wend._engine.core import _hot, _types
from wend._engine.core._hot import Tensor
from wend._engine.core.symbolic import EQ
from wend._engine.transforms.exploring.attributes import Attributes, objects_of
from wend._engine.transforms.exploring.program import StaticGraph
from wend._engine.transforms.exploring.running import NoEnd, SizesDiffer, run

__all__ = ["Refused", "close", "disagreement", "first_difference", "run_to_the_end"]

FURTHER = (1, 3)  # how much longer the dims are in the further comparisons
MOST_TURNS = 10_000  # of loops, and other questions for values, in a comparison


class Refused(Exception):
    """The function does not take these sizes, or the guards do not."""


def disagreement(
    program: StaticGraph, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> str | None:
    """A difference between a program and the function, as text; None if there is none.

    Compared are the sizes given and those of `resizings`.  Sizes that the function refuses, or the
    guards, say nothing.
    """
    leaves, structure = tree.flatten((tuple(args), dict(kwargs)))
    captured = {c.id: c.tensor for c in program.captured}
    attributes = Attributes(objects_of(function, leaves))

    def compared(example: list[Any]) -> str | None:
        return _compare(program, function, structure, example, captured)

    try:
        return compared(leaves) or first_difference(program, leaves, FURTHER, compared)
    except Refused:  # the function raises an error for the example, and so does the graph
        return None  # the function raises an error for the example
    finally:
        attributes.restore()


def run_to_the_end(program: StaticGraph, tensors: list[Any], captured: dict[int, Tensor]) -> Any:
    """The result of a program. Raises Refused, and warns, where a loop does not come to an end."""
    try:
        return run(program, tensors, captured, most=MOST_TURNS)
    except NoEnd as endless:
        if not endless.asks_values:  # loops over sizes end: the graph is at fault
            raise
        sizes = [tuple(x.shape) for x in tensors]
        warnings.warn(
            f"{program.name}: the loop at {endless.site} has not ended after {MOST_TURNS} turns, "
            f"for inputs of the shapes {sizes} made from the example. The graph is not compared "
            "with the function for these inputs; example inputs for which the loop ends soon "
            "make the comparison possible",
            UserWarning,
            stacklevel=2,
        )
        raise Refused from endless


def first_difference(
    program: StaticGraph,
    leaves: list[Any],
    further: Sequence[int | None],
    compared: Callable[[list[Any]], str | None],
) -> str | None:
    """The first difference at further sizes, as text; None if there is none.

    further: how much longer the dims are to be; None for size 1
    compared: a difference at the sizes of the leaves, or None; raises Refused
    """
    for more in further:
        for k, example in enumerate(resizings(program, leaves, more)):
            try:
                difference = compared(example)
            except Refused:  # the function or a guard excludes these sizes; further sizes are tried
                continue
            if difference is not None:
                return difference
            if k == 0:
                break  # all dims at once
    return None


def resizings(program: StaticGraph, leaves: list[Any], more: int | None) -> Iterator[list[Any]]:
    """The leaves of the arguments with tensors of other sizes; the elements are repeated.

    First all dims that may differ are longer; then the dims of each length; then those of each
    length and axis.

    more: how much longer; None for size 1
    """
    place = {
        i: k for k, i in enumerate(x for x in range(len(leaves)) if x not in program.constants)
    }
    free = {
        (i, axis): leaves[i].shape[axis]
        for i, k in place.items()
        for axis in free_dims(program, program.inputs[k])
        if leaves[i].shape[axis]
    }
    lengths = dict.fromkeys(free.values())
    chosen = [set(free)]
    if len(lengths) > 1:
        chosen += [{d for d in free if free[d] == n} for n in lengths]
    for n in lengths:
        axes = dict.fromkeys(axis for (_, axis), m in free.items() if m == n)
        if len(axes) > 1:
            chosen += [{d for d in free if free[d] == n and d[1] == axis} for axis in axes]
    for dims in chosen:
        if dims:
            yield [
                resized(x, {axis for j, axis in dims if j == i}, more) if i in place else x
                for i, x in enumerate(leaves)
            ]


def free_dims(program: StaticGraph, number: int) -> list[int]:
    """The axes of an input that guards do not fix."""
    guards = program.guards.items()
    fixed = {a for (op, a, b), (holds, _) in guards if op == EQ and holds and type(b) is int}
    extents = program.info[number].extents or ()
    return [axis for axis, e in enumerate(extents) if type(e) is tuple and e not in fixed]


def resized(x: Tensor, axes: set[int], more: int | None) -> Tensor:
    """x with longer dims, or of size 1 for None; the elements are repeated."""
    array = np.asarray(_hot.ensure(_hot.refreshed(x)))
    for axis in axes:
        n = array.shape[axis]
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
    example: list[Any],
    captured: dict[int, Tensor],
) -> str | None:
    state = random_state.current().get_state()
    buffers = [(t, t.value) for t in captured.values()]
    actual: list[Any] = []
    fault: Exception | None = None
    try:
        tensors = [_copy(x) for x in example if isinstance(x, Tensor)]
        result = run_to_the_end(program, tensors, captured)
        actual = [_array(x) for x in tree.leaves(result)]
    except SizesDiffer as error:
        raise Refused from error
    except Refused:
        raise
    except Exception as error:  # the function may refuse these sizes, too, which says nothing
        fault = error
    finally:
        _restore(buffers)
        random_state.current().set_state(state)
    try:
        args, kwargs = tree.unflatten(structure, [_copy(x) for x in example])
        try:
            wanted = function(*args, **kwargs)
            expected = [_array(x) for x in tree.leaves(wanted)]
        except Exception as error:
            raise Refused from error
    finally:
        _restore(buffers)
    if fault is not None:
        return f"{type(fault).__name__}: {fault}"
    sizes = [tuple(x.shape) for x in example if isinstance(x, Tensor)]
    for k, (a, b) in enumerate(zip(actual, expected, strict=True)):
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


def _array(x: object) -> Any:
    return np.asarray(_hot.ensure(_hot.refreshed(x))) if isinstance(x, Tensor) else x


def _copy(x: object) -> Any:
    """A separate handle: the function may write to an argument."""
    if not isinstance(x, Tensor):
        return x
    value = _hot.refreshed(x)
    handle: Tensor = _hot.wrap(_hot.held(value.type, np.array(_hot.ensure(value))))
    return handle
