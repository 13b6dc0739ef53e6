"""Nodes of a file compared with the schemas of their ops, before any handler runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wend._engine.base.errors import FormatError
from wend.onnx.importing.protos import schema_of

if TYPE_CHECKING:
    from onnx import NodeProto

__all__ = ["check_node"]


def check_node(proto: NodeProto, domain: str, version: int) -> None:
    """Raise FormatError for a node with other inputs, outputs or attributes than the op has.

    Ops without a schema are left to their handlers.
    """
    schema = schema_of(proto.op_type, domain, version)
    if schema is None:
        return
    where = f"onnx.load: node {proto.name or list(proto.output)!r}, {proto.op_type}:"
    for what, names, least, most in (
        ("inputs", proto.input, schema.min_input, schema.max_input),
        ("outputs", proto.output, schema.min_output, schema.max_output),
    ):
        if not least <= len(names) <= most:
            raise FormatError(f"{where} {len(names)} {what}, and the op has {least} to {most}")
    for name, told in zip(proto.input, schema.inputs, strict=False):
        if not name and told.option == told.option.Single:
            raise FormatError(f"{where} the input {told.name!r} is left out, and must be there")
    attributes = {attribute.name: attribute for attribute in proto.attribute}
    if len(attributes) != len(proto.attribute):
        raise FormatError(f"{where} an attribute is given twice")
    for name, wanted in schema.attributes.items():
        attribute = attributes.get(name)
        if attribute is None:
            if wanted.required:
                raise FormatError(f"{where} the attribute {name!r} is missing")
        elif attribute.type != int(wanted.type.value):
            raise FormatError(f"{where} the attribute {name!r} is of another type than the op's")
