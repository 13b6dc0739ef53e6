"""torch.export: functions and modules as static graphs, with control flow; sessions of these."""

from wend.export._dims import Dim
from wend.export._program import ExportedProgram, export
from wend.export._saving import load, save
from wend.export._session import Session, load_session, session

__all__ = ["Dim", "ExportedProgram", "Session", "export", "load", "load_session", "save", "session"]
