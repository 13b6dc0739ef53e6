"""The class of exported programs, at the second address that PyTorch has for it."""

from wend.export._program import ExportedProgram

__all__ = ["ExportedProgram"]
