"""torch.export: functions and modules as static graphs, with control flow; sessions of these."""

from typing import TYPE_CHECKING, Any

from wend._engine.base.lazy_modules import load_when_named
from wend.export._dims import Dim, dims
from wend.export._examples import AdditionalInputs, ShapesCollection
from wend.export._program import (
    ExportedProgram,
    default_decompositions,
    draft_export,
    export,
)
from wend.export._saving import load, save
from wend.export._session import Session, load_session, session
from wend.export.graph_signature import ExportBackwardSignature, ExportGraphSignature

if TYPE_CHECKING:  # modules that are names of the package too
    from wend.export import dynamic_shapes as dynamic_shapes
    from wend.export import exported_program as exported_program
    from wend.export import graph_signature as graph_signature

__all__ = [
    "AdditionalInputs",
    "Dim",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "ExportedProgram",
    "Session",
    "ShapesCollection",
    "default_decompositions",
    "dims",
    "draft_export",
    "export",
    "load",
    "load_session",
    "register_dataclass",
    "save",
    "session",
]


def register_dataclass(cls: type[Any], *, serialized_type_name: str | None = None) -> None:
    """Let instances of a dataclass be arguments and results: their fields are the tensors."""
    from wend.utils import _pytree

    _pytree.register_dataclass(cls, serialized_type_name=serialized_type_name)


load_when_named(__name__, "dynamic_shapes exported_program")
