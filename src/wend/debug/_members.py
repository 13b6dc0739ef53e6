"""Parameters and buffers of models with their dotted names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from wend.nn.modules.module import Module

__all__ = ["Member", "members"]


class Member(NamedTuple):
    """A parameter or buffer.

    name: dotted, from the model     module: dotted path of the owner, or the model's class
    kind: "parameters" or "buffers"
    """

    name: str
    module: str
    kind: str
    tensor: Any


def members(model: Module, prefix: str = "") -> Iterator[Member]:
    """The parameters and buffers of a model, by module.  prefix: of all names"""
    for path, part in model.named_modules(prefix=prefix):
        module = path or type(model).__name__
        for kind, group in (
            ("parameters", part.named_parameters(recurse=False)),
            ("buffers", part.named_buffers(recurse=False)),
        ):
            for name, tensor in group:
                yield Member(f"{path}.{name}" if path else name, module, kind, tensor)
