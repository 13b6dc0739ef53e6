"""The type rules of a program from a file, run once before the program: results are as told."""

from __future__ import annotations

from typing import Any

from wend._engine.base.devices import CPU
from wend._engine.core import _types
from wend._engine.core.symbolic import evaluate
from wend._engine.transforms.exploring.program import (
    Apply,
    Compute,
    Draw,
    Info,
    StaticGraph,
    Stretch,
)
from wend.export._strict import damaged

__all__ = ["check_rules"]

Types = dict[int, Any]


class _Shapes:
    """The shapes of tensors by id, as expressions read them."""

    __slots__ = ("types",)

    def __init__(self, types: Types) -> None:
        self.types = types

    def __getitem__(self, i: int) -> tuple[Any, ...]:
        return self.types[i].shape


def check_rules(graph: StaticGraph) -> None:
    """Raise FormatError unless each op has a type, and results of the dtypes and ranks told.

    The sizes are those while exploring.
    """
    told: Types = {}
    numbers: dict[int, Any] = {}
    for i, info in graph.info.items():
        if info.extents is None:
            numbers[i] = info.hint[0] if info.hint else 2
        else:
            told[i] = _types.intern_type(info.hint, info.dtype, CPU)
    for _, _, stretch in graph.stretches():
        _check_stretch(stretch, told, numbers, graph.info)


def _check_stretch(
    stretch: Stretch, told: Types, numbers: dict[int, Any], info: dict[int, Info]
) -> None:
    types, known = told.copy(), numbers.copy()
    for item in stretch.items:
        try:
            if isinstance(item, Compute):
                known[item.output] = evaluate(item.expr, _Shapes(types), known)
            elif isinstance(item, Draw):
                evaluate(item.count, _Shapes(types), known)
        except (ArithmeticError, ValueError):  # the program's own error, at these sizes
            continue
        if isinstance(item, Apply):
            result_types = _results(item, types, told, known)
            if len(result_types) != len(item.outputs):
                raise damaged(
                    f"{item.prim.name} has {len(result_types)} results, "
                    f"and {len(item.outputs)} are told"
                )
            for i, type_ in zip(item.outputs, result_types, strict=True):
                if type_.dtype is not info[i].dtype or len(type_.shape) != len(info[i].hint):
                    raise damaged(
                        f"%{i}, a result of {item.prim.name}, is {type_}, and another type is told"
                    )
                types[i] = type_


def _results(item: Apply, types: Types, told: Types, numbers: dict[int, Any]) -> list[Any]:
    """The types of an op's results.

    Sizes while exploring may be those of a later turn of a loop: where the types do not fit that
    came of the ops before, those told by the file may.
    """
    fault: Exception | None = None
    for candidate in (types, told):
        try:
            args = [evaluate(e, _Shapes(candidate), numbers) for e in item.args]
            return list(item.prim.typed([candidate[i] for i in item.inputs], args)[1])
        except Exception as error:  # a rule raises many kinds for operands that do not fit
            fault = fault or error
    text = str(fault).partition("\n")[0][:200]
    raise damaged(f"{item.prim.name} refuses what it gets: {text}") from fault
