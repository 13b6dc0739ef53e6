"""Ops on element types that Wend lacks: run on the carriers, with results of the schema's types."""

from __future__ import annotations

from typing import Any

from wend.base.errors import NotImplementedInWend
from wend.onnx.importing.types import CARRIED, ELEMENTS, Carried, element_of, plain, with_element

#: Ops that take and give values of all element types by themselves.
AWARE: set[Any] = set()
_WRAPPED = {4: 16, 12: 32, 21: 4, 25: 2}  # unsigned types whose carrier is wider: their bits


def aware(handler: Any) -> Any:
    """Mark a handler that takes `Carried` values itself."""
    AWARE.add(handler)
    return handler


def call_with_carried(node: Any, arguments: list[Any]) -> Any:
    """The results of a node some of whose inputs have element types that Wend lacks."""
    from wend.onnx.importing.graph import Body, TypedBody, schema_of

    handler = node.handler
    if handler in AWARE or isinstance(handler, Body | TypedBody):
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
    """A result computed on carriers, taken back into the range of its type."""
    if isinstance(value, list):
        return [settled(one, element) for one in value]
    bits = _WRAPPED.get(element)
    if bits is not None:
        value = value & ((1 << bits) - 1)
    return with_element(value, element)


def names_of(values: Any) -> str:
    """The element types of values, for messages."""
    return ", ".join(ELEMENTS[element_of(value)][0] for value in values)


__all__ = ["AWARE", "CARRIED", "aware", "call_with_carried", "names_of", "settled"]
