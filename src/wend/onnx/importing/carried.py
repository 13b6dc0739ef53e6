"""Ops on element types that Wend lacks: run on the carriers, with results of the schema's types."""

from __future__ import annotations

from typing import Any

from wend._engine.base.errors import NotImplementedInWend
from wend.onnx.importing.protos import schema_of
from wend.onnx.importing.registry import Handler, OpNode
from wend.onnx.importing.types import Carried, plain, with_element

_WRAPPED = {4: 16, 12: 32, 21: 4, 25: 2}  # unsigned types with a wider carrier: number of bits


def aware(handler: Any) -> Handler:
    """Mark a handler that takes `Carried` values itself."""
    handler.aware = True
    return handler


def call_with_carried(node: OpNode, arguments: list[Any]) -> Any:
    """The results of a node some of whose inputs have element types that Wend lacks."""
    handler = node.handler
    if getattr(handler, "aware", False):
        return handler(node, *arguments)
    schema = schema_of(node.op_type, node.domain, node.version)
    if schema is None:
        raise NotImplementedInWend(f"onnx: {node} on element types that Wend lacks")
    elements: dict[str, int] = {}
    for index, value in enumerate(arguments):
        if isinstance(value, Carried):
            formal = schema.inputs[min(index, len(schema.inputs) - 1)]
            elements[formal.type_str] = value.element
    result = handler(node, *[plain(value) for value in arguments])
    results = result if isinstance(result, tuple) else (result,)
    typed = []
    for index, value in enumerate(results):
        formal = schema.outputs[min(index, len(schema.outputs) - 1)]
        element = elements.get(formal.type_str)
        typed.append(value if element is None else settled(value, element))
    return tuple(typed)


def settled(value: Any, element: int) -> Any:
    """A result computed on carriers, taken back into the range of the type."""
    if isinstance(value, list):
        return [settled(one, element) for one in value]
    bits = _WRAPPED.get(element)
    if bits is not None:
        value = value & ((1 << bits) - 1)
    return with_element(value, element)
