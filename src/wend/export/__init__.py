"""torch.export: functions and modules as static graphs, control flow included."""

from wend.export._dims import Dim
from wend.export._program import ExportedProgram, export
from wend.export._saving import load, save

__all__ = ["Dim", "ExportedProgram", "export", "load", "save"]
