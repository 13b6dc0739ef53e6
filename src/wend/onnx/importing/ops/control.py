"""If, Loop and Scan: Python's control flow over the values of the running program."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import wend
from wend._engine.core._hot import Tensor
from wend.onnx.importing.graph import Graph, Scope
from wend.onnx.importing.ops.support import number
from wend.onnx.importing.registry import OpNode, op
from wend.onnx.importing.sizes import is_exploring, known_of, remember
from wend.onnx.importing.types import Carried, Expected, dtype_of, element_of, plain, with_element


@op("If", scoped=True)
def branch(node: OpNode, scope: Scope, condition: Tensor) -> tuple[Any, ...]:
    """The outputs of either of two graphs; the condition decides which runs."""
    graph = node.get("then_branch" if number(condition) else "else_branch")
    return tuple(graph.within(scope))


@op("Loop", scoped=True)
def loop(
    node: OpNode,
    scope: Scope,
    limit: Tensor | None = None,
    go_on: Tensor | None = None,
    *carried: Tensor | Carried,
) -> tuple[Any, ...]:
    """A graph again and again: for a number of times, while a condition holds, or both."""
    body = node.get("body")
    most = None if limit is None else number(limit)
    held = go_on
    read = None  # the condition that was read last: a body may hand on the same tensor
    state = list(carried)
    rows: list[list[Any]] = [[] for _ in body.outputs[1 + len(carried) :]]
    for turn in _turns(most):
        if held is not None and held is not read:
            if not number(held):
                break
            read = held
        condition = remember(wend.tensor(True), [True]) if held is None else held
        held, *results = body.within(scope, turn, condition, *state)
        held = None if known_of(held) == [True] else held
        state = results[: len(state)]
        for row, value in zip(rows, results[len(state) :]):
            row.append(value)
    kinds = body.kinds[1 + len(carried) :]
    return (*state, *[stacked(row, 0, kind) for row, kind in zip(rows, kinds)])


def _turns(most: int | None) -> Iterator[Any]:
    """The numbers of the turns, as tensors; without an end where there is no limit."""
    if most is None and is_exploring():  # Python must not count: its state would never come back
        number = wend.tensor(0, dtype=wend.int64)
        while True:
            yield number
            number = number + 1
    for count in itertools.count() if most is None else range(most):
        yield remember(wend.tensor(count, dtype=wend.int64), [count])


def stacked(row: list[Any], axis: int, kind: Expected) -> Tensor | Carried:
    """Values of all iterations along a new axis; of none an empty tensor of the declared type."""
    if row or is_exploring():  # a graph has a single way for any number of values
        values = wend.stack([plain(value) for value in row], axis)
        return with_element(values, element_of(row[0]))
    sizes = list(kind.sizes or ())
    sizes.insert(axis % (len(sizes) + 1), 0)
    return with_element(wend.zeros(sizes, dtype=dtype_of(kind.element or 1)), kind.element or 1)


@op("Scan", since=9, scoped=True)
def scan(node: OpNode, scope: Scope, *inputs: Tensor) -> tuple[Any, ...]:
    """A graph over slices of sequences, with a state from slice to slice."""
    sequences = node.get("num_scan_inputs")
    axes = node.get("scan_input_axes", (0,) * sequences)
    backward = node.get("scan_input_directions", (0,) * sequences)
    state, scanned = list(inputs[:-sequences]), inputs[len(inputs) - sequences :]
    outputs = len(node.get("body").outputs) - len(state)
    kinds = node.get("body").kinds[len(state) :]
    out_axes = node.get("scan_output_axes", (0,) * outputs)
    out_backward = node.get("scan_output_directions", (0,) * outputs)
    slices = [
        list(x.unbind(axis))[:: -1 if back else 1] for x, axis, back in zip(scanned, axes, backward)
    ]
    state, rows = _steps(node.get("body"), scope, state, slices)
    results = [
        stacked(row[:: -1 if back else 1], axis, kind)
        for row, axis, back, kind in zip(rows, out_axes, out_backward, kinds)
    ]
    return (*state, *results)


def _steps(body: Graph, scope: Scope, state: list[Any], slices: list[Any]) -> tuple[list[Any], Any]:
    """The last state, and the values of all steps, of a graph over slices."""
    rows: list[list[Any]] = [[] for _ in body.outputs[len(state) :]]
    for parts in zip(*slices):
        results = body.within(scope, *state, *parts)
        state = results[: len(state)]
        for row, value in zip(rows, results[len(state) :]):
            row.append(value)
    return state, rows


@op("Scan", since=8, scoped=True)
def scan_of_batches(
    node: OpNode, scope: Scope, lengths: Tensor | None, *inputs: Tensor
) -> tuple[Tensor, ...]:
    """Scan of opset 8: over each sequence of a batch; the batch is dim 0, time dim 1."""
    sequences, body = node.get("num_scan_inputs"), node.get("body")
    backward = node.get("directions", (0,) * sequences)
    first, scanned = inputs[: len(inputs) - sequences], inputs[len(inputs) - sequences :]
    states, outputs = [], []
    for i in range(scanned[0].shape[0]):
        length = scanned[0].shape[1] if lengths is None else int(lengths[i])
        slices = [
            list(x[i].unbind(0))[:length][:: -1 if back else 1]
            for x, back in zip(scanned, backward)
        ]
        state, rows = _steps(body, scope, [x[i] for x in first], slices)
        states.append(state)
        kinds = body.kinds[len(state) :]
        outputs.append([stacked(row, 0, kind) for row, kind in zip(rows, kinds)])
    return tuple(wend.stack(column) for column in (*zip(*states), *zip(*outputs)))
