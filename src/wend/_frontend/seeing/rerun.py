"""Runs an `OpGraph` again, with edits."""

from __future__ import annotations

from typing import Any

from wend._engine.base.errors import ArgumentError, GraphError
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._frontend.seeing.op_graph import Edit, OpGraph, OpNode

__all__ = ["run"]


def run(graph: OpGraph, values: dict[str | int, Any]) -> list[Any]:
    """See `OpGraph.run`."""
    given = _given(graph, values)
    needed = _needed(graph)
    results: dict[tuple[int, int], Any] = {}
    for node in graph.nodes:
        if node.id not in needed:
            continue
        edit = graph.edits.get(node.id)
        if node.is_leaf:
            tensor = given.get(node.id)
            found = [graph.leaves[node.id] if tensor is None else tensor]
        else:
            found = _found(graph, node, edit, results)
        if edit is not None and edit.kind == "probe" and edit.function is not None:
            edit.function(found[0])
        for n, tensor in enumerate(found):
            results[node.id, n] = tensor
    places = graph.places or [0] * len(graph.outputs)
    return [results[key] for key in zip(graph.outputs, places, strict=True)]


def _found(
    graph: OpGraph, node: OpNode, edit: Edit | None, results: dict[tuple[int, int], Any]
) -> list[Any]:
    """The results of an op, or of the edit in place of the op."""
    call = graph.calls.get(node.id)
    if call is None:
        raise GraphError(
            f"run: %{node.id} ({node.op}) belongs to the {node.phase} pass, and an output depends "
            "on it: only forward ops are run again"
        )
    if edit is not None and edit.kind == "drop":
        return [results[call.operands[edit.operand]]]
    operands = [results[key] for key in call.operands]
    if edit is None or edit.kind == "probe" or edit.function is None:
        found = _hot.record_list(call.prim, operands, list(call.args))
        return list(found) if isinstance(found, (tuple, list)) else [found]
    made = edit.function(*operands)
    if not isinstance(made, Tensor):
        raise GraphError(
            f"run: the function in place of %{node.id} ({node.op} at {node.place}) returned "
            f"{type(made).__name__}, not a tensor"
        )
    shape, dtype = tuple(made.shape), str(made.dtype).split(".")[-1]
    if (shape, dtype) != (node.shape, node.dtype):
        raise GraphError(
            f"run: the function in place of %{node.id} ({node.op} at {node.place}) returned "
            f"{dtype}[{', '.join(map(str, shape))}], where {node.type_text} is needed"
        )
    return [made]


def _needed(graph: OpGraph) -> set[int]:
    """Ids of the nodes that outputs and probes depend on, after the edits."""
    stack = [*graph.outputs, *(i for i, edit in graph.edits.items() if edit.kind == "probe")]
    seen: set[int] = set()
    while stack:
        i = stack.pop()
        if i in seen:
            continue
        seen.add(i)
        edit, call = graph.edits.get(i), graph.calls.get(i)
        if edit is not None and edit.kind == "drop" and call is not None:
            stack.append(call.operands[edit.operand][0])
        else:
            stack.extend(graph.nodes[i].inputs)
    return seen


def _given(graph: OpGraph, values: dict[str | int, Any]) -> dict[int, Any]:
    """The tensors in place of leaves, by id."""
    found = {}
    by_name = {node.name: node for node in graph.nodes if node.is_leaf and node.name}
    for key, tensor in values.items():
        node = by_name.get(key) if isinstance(key, str) else None
        if isinstance(key, int) and 0 <= key < len(graph.nodes) and graph.nodes[key].is_leaf:
            node = graph.nodes[key]
        if node is None:
            known = ", ".join(by_name) or "none has a name"
            raise ArgumentError(f"run: there is no leaf {key!r}; the named leaves: {known}")
        shape, dtype = tuple(tensor.shape), str(tensor.dtype).split(".")[-1]
        if (shape, dtype) != (node.shape, node.dtype):
            raise ArgumentError(
                f"run: {key!r} is {node.type_text}, got {dtype}[{', '.join(map(str, shape))}]: "
                "the graph is that of these sizes"
            )
        found[node.id] = tensor
    return found
