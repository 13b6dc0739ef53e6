"""Explored graphs of functions and modules, compared with the results of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wend._engine.transforms.exploring.explorer import LEVELS, Free, explore
from wend._engine.transforms.exploring.program import StaticGraph
from wend._engine.transforms.exploring.recording import ExploreError
from wend._frontend.static.proof import disagreement

__all__ = ["explored", "names_of"]


def names_of(function: Any) -> dict[int, tuple[str, str]]:
    """By id(), the name and kind of the tensors of a module; of a method, those of the object."""
    module = getattr(function, "__self__", function)
    names: dict[int, tuple[str, str]] = {}
    if hasattr(module, "named_parameters"):
        for name, tensor in module.named_parameters():
            names[id(tensor)] = (name, "parameter")
        for name, tensor in module.named_buffers():
            names[id(tensor)] = (name, "buffer")
    return names


def explored(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    *,
    free: Free | None = None,
    name: str = "",
) -> StaticGraph:
    """The explored graph of function(*args, **kwargs), compared with the function at three sizes.

    free: per tensor among the arguments and axis, the extent while exploring, or None for a
    constant; by default all extents but those of 0 and 1 may differ from call to call

    Raises ExploreError where the function has no static graph, and the errors of the function.
    """
    kwargs = kwargs or {}
    refused: ExploreError | None = None
    for level in range(len(LEVELS)):
        try:
            program = explore(
                function,
                args,
                kwargs,
                free=free,
                name=name,
                names=names_of(function),
                level=level,
            )
        except ExploreError as error:
            # The function is explored again, with loops over extents unrolled; else the first error
            # is raised.
            refused = refused or error  # a loop over a size may be the reason
            continue
        why = disagreement(program, function, args, kwargs)
        if why is None:
            return program
        refused = refused or ExploreError(
            f"explore: the graph of {program.name} does not compute what the function computes: "
            f"{why}. The function depends on Python state that exploring does not see"
        )
    assert refused is not None
    raise refused
