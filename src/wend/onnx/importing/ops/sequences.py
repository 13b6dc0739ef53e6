"""Sequences of tensors, as Python lists that no op changes in place."""

from __future__ import annotations

from typing import Any

import wend
from wend._engine.core._hot import Tensor
from wend.onnx.importing.carried import aware
from wend.onnx.importing.graph import Scope
from wend.onnx.importing.ops.support import ints, number
from wend.onnx.importing.registry import OpNode, op
from wend.onnx.importing.types import Carried


@op("SequenceEmpty")
def sequence_empty(node: OpNode) -> list[Tensor]:
    """A sequence of nothing."""
    return []


@aware
@op("SequenceConstruct")
def sequence_construct(node: OpNode, *values: Tensor | Carried) -> list[Tensor | Carried]:
    """The values as a sequence."""
    return list(values)


@aware
@op("SequenceInsert")
def sequence_insert(
    node: OpNode,
    values: list[Tensor | Carried],
    value: Tensor | Carried,
    place: Tensor | None = None,
) -> list[Tensor | Carried]:
    """A value before a place, or at the end."""
    at = len(values) if place is None else number(place)
    at = at + len(values) if at < 0 else at
    return [*values[:at], value, *values[at:]]


@op("SequenceErase")
def sequence_erase(node: OpNode, values: list[Tensor], place: Tensor | None = None) -> list[Tensor]:
    """All values without that at a place: the last, if no place is given."""
    at = len(values) - 1 if place is None else number(place) % len(values)
    return [*values[:at], *values[at + 1 :]]


@op("SequenceAt")
def sequence_at(node: OpNode, values: list[Tensor], place: Tensor) -> Tensor:
    """The value at a place, which counts from the end if negative."""
    return values[number(place)]


@op("SequenceLength")
def sequence_length(node: OpNode, values: list[Tensor]) -> Tensor:
    """The number of values."""
    return wend.tensor(len(values), dtype=wend.int64)


@op("SplitToSequence")
def split_to_sequence(node: OpNode, x: Tensor, sizes: Tensor | None = None) -> list[Tensor]:
    """Parts of a tensor: of size 1, of another size, or of given sizes."""
    axis = node.get("axis", 0)
    if sizes is None:
        parts = list(x.split(1, axis))
        return parts if node.get("keepdims", 1) else [part.squeeze(axis) for part in parts]
    return list(x.split(ints(sizes) if sizes.ndim else number(sizes), axis))


@op("SequenceMap", scoped=True)
def sequence_map(
    node: OpNode, scope: Scope, first: list[Tensor], *others: Tensor | list[Tensor]
) -> tuple[list[Any], ...]:
    """A graph for each value of a sequence, with the values of further sequences beside."""
    body = node.get("body")
    columns: list[list[Any]] = [[] for _ in body.outputs]
    for i, value in enumerate(first):
        beside = [other[i] if isinstance(other, list) else other for other in others]
        for column, result in zip(columns, body.within(scope, value, *beside)):
            column.append(result)
    return tuple(columns)
