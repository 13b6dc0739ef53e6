"""Runs an `OpGraph` again, with edits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._engine.base.errors import ArgumentError, GraphError
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._frontend.seeing.op_graph import Edit, OpGraph, OpNode, dtype_name, type_text

__all__ = ["fitting", "leaves_given", "needed_by", "run"]


def run(graph: OpGraph, values: dict[str | int, Any]) -> list[Any]:
    """See `OpGraph.run`."""
    leaf_tensors = leaves_given(graph, values, _fault)
    needed = needed_by(graph)
    results: dict[tuple[int, int], Any] = {}
    for node in graph.nodes:
        if node.id not in needed:
            continue
        edit = graph.edits.get(node.id)
        if node.is_leaf:
            tensor = leaf_tensors.get(node.id)
            outputs = [graph.leaves[node.id] if tensor is None else tensor]
        else:
            outputs = _found(graph, node, edit, results)
        if edit is not None and edit.kind == "probe" and edit.function is not None:
            edit.function(outputs[0])
        for n, tensor in enumerate(outputs):
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
        outputs = _hot.record_list(call.prim, operands, list(call.args))
        return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    who = f"the function in place of %{node.id} ({node.op} at {node.place}) returned"
    return [fitting(edit.function(*operands), who, lambda: node.shape, node.dtype)]


def fitting(tensor: Tensor, who: str, shape: Callable[[], tuple[int, ...]], dtype: str) -> Tensor:
    """The tensor in place of an op's result.  Raises GraphError if the tensor does not fit.

    who: the beginning of a sentence about the tensor     shape: called for a tensor alone
    """
    if not isinstance(tensor, Tensor):
        raise GraphError(f"run: {who} {type(tensor).__name__}, not a tensor")
    wanted, actual = type_text(dtype, shape()), text_of(tensor)
    if actual != wanted:
        raise GraphError(f"run: {who} {actual}, where {wanted} is needed")
    return tensor


def text_of(tensor: Tensor) -> str:
    """Dtype and shape of a tensor, as a node has these."""
    return type_text(dtype_name(tensor.dtype), tuple(tensor.shape))


def needed_by(graph: OpGraph) -> set[int]:
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


def leaves_given(
    graph: OpGraph, values: dict[str | int, Any], fault: Callable[[OpNode, Any], str]
) -> dict[int, Any]:
    """The tensors in place of leaves, by id.  Raises ArgumentError for no leaf, or a wrong tensor.

    fault: returns why a tensor does not fit a leaf, or ""
    """
    tensors = {}
    by_name = {node.name: node.id for node in graph if node.is_leaf and node.name}
    for key, tensor in values.items():
        i = by_name.get(key) if isinstance(key, str) else key
        if i is None or not 0 <= i < len(graph) or not graph[i].is_leaf:
            known = ", ".join(by_name) or "none has a name"
            raise ArgumentError(f"run: there is no leaf {key!r}; the named leaves: {known}")
        text = fault(graph[i], tensor)
        if text:
            raise ArgumentError(f"run: {key!r} {text}")
        tensors[i] = tensor
    return tensors


def _fault(node: OpNode, tensor: Tensor) -> str:
    """Why a tensor cannot stand in place of a leaf of a step."""
    text = text_of(tensor)
    if text == node.type_text:
        return ""
    return f"is {node.type_text}, got {text}: the graph is that of these sizes"
