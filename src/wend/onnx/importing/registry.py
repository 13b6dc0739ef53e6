"""The table of ONNX ops: which Python function runs which op, from which opset on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Handler = Callable[..., Any]


class OpNode(Protocol):
    """A node as a handler sees the node; `graph.Node` says more."""

    op_type: str
    domain: str
    version: int
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]

    @property
    def handler(self) -> Handler:
        """The function that runs the node."""

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or the default."""

    def wants(self, index: int) -> bool:
        """Whether the output is used."""


#: (domain, op): the versions of the opset from which a handler applies, ascending.
HANDLERS: dict[tuple[str, str], list[tuple[int, Handler]]] = {}
#: The handlers of ops on strings, which are no tensors: Python runs these on lists.
TEXT_HANDLERS: dict[tuple[str, str], Handler] = {}
#: Handlers that run subgraphs, and take the scope of values as second argument.
SCOPED: set[Handler] = set()


def op(
    *names: str, since: int = 1, domain: str = "", scoped: bool = False, on_text: bool = False
) -> Callable[..., Any]:
    """Register a function as the handler of ONNX ops, from version `since` of the opset on.

    The function gets the node and the inputs in ONNX's order, None for an absent input. The result
    is a value, or a tuple with a value per output.
    """

    def register(function: Handler) -> Handler:
        for name in names:
            if on_text:
                TEXT_HANDLERS[domain, name] = function
                continue
            versions = HANDLERS.setdefault((domain, name), [])
            versions.append((since, function))
            versions.sort(key=lambda pair: pair[0])
        if scoped:
            SCOPED.add(function)
        return function

    return register


def find_handler(domain: str, name: str, version: int) -> Handler | None:
    """The newest handler that is no newer than the opset's version, or None."""
    handler = TEXT_HANDLERS.get((domain, name)) if version else None
    for since, function in HANDLERS.get((domain, name), ()):
        if since <= version:
            handler = function
    return handler
