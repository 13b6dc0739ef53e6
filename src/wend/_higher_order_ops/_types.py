"""Types of results of branches and loop bodies, and errors where these do not fit together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wend._engine.base import tree
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.transforms.exploring.explorer import explore
from wend._engine.transforms.exploring.program import Give
from wend._engine.transforms.exploring.recording import ExploreError
from wend._frontend.static.errors import UncapturedHigherOrderOpError

__all__ = ["check_same", "code_of", "is_recorded", "kind_of", "leaf_kinds", "static_kinds"]

Kinds = tuple[tree.Structure, tuple[Any, ...]]


def is_recorded() -> bool:
    """Whether something else than the trace of the thread records: an exploration, vmap, a rule."""
    return _hot.current_trace().symbolic is not None


def kind_of(x: Any) -> Any:
    """(dtype, rank) of a tensor; the class of another leaf."""
    return (x.dtype, x.dim()) if isinstance(x, Tensor) else type(x)


def leaf_kinds(result: Any) -> Kinds:
    """Structure and kinds of leaves."""
    leaves, structure = tree.flatten(result)
    return structure, tuple([kind_of(x) for x in leaves])


def static_kinds(function: Callable[..., Any], operands: Sequence[Any]) -> Kinds | None:
    """`leaf_kinds` of the result of a function that is not to be run: types alone are recorded.

    None where these do not follow from the types of the operands.  Raises the function's errors.
    """
    try:
        program = explore(function, operands)
    except ExploreError:
        # The branch not taken has no static graph, so that its types are not known; only the taken
        # branch runs.
        return None
    for _, _, stretch in program.stretches():
        if isinstance(stretch.end, Give):
            kinds: list[Any] = []
            for kind, x in stretch.end.leaves:
                if kind == "constant":
                    kinds.append(type(x))
                elif kind == "number":
                    kinds.append(None)
                else:
                    info = program.info[x]
                    kinds.append((info.dtype, len(info.extents or ())))
            return stretch.end.structure, tuple(kinds)
    return None


def code_of(function: Any) -> Any:
    """A key for a function: its code, which functions made anew by a line share."""
    while not hasattr(function, "__code__"):
        inner = getattr(function, "__func__", getattr(function, "func", None))
        if inner is None:
            return type(function)
        function = inner
    return function.__code__


def _text(kind: Any) -> str:
    if isinstance(kind, tuple):
        return f"a tensor of {kind[0]} with {kind[1]} dims"
    return f"{kind.__name__}" if isinstance(kind, type) else "a number"


def check_same(name: str, what: str, kinds: Kinds, where: str, wanted: Kinds) -> None:
    """Raise UncapturedHigherOrderOpError where results are not of the wanted kinds."""
    if kinds[0] != wanted[0]:
        raise UncapturedHigherOrderOpError(
            f"{name}: {what} and {where} must have the same structure: {kinds[0]} against "
            f"{wanted[0]} (* stands for a leaf)"
        )
    for k, (a, b) in enumerate(zip(kinds[1], wanted[1], strict=True)):
        if a != b and a is not None and b is not None:
            raise UncapturedHigherOrderOpError(
                f"{name}: {what} and {where} must have the same types: leaf {k} is {_text(a)} "
                f"against {_text(b)}"
            )
